/*
 * Numbers for keys: see intern_table.h.
 *
 * Open addressing, at most half full. Keys are mixed with a seed, so that a hostile file cannot
 * contain keys that all collide; no result depends on the seed.
 */
#include "common/base/intern_table.h"

#include <stdlib.h>
#include <sys/random.h>

/* Inlined, since hashing a few bytes is most of the work of a lookup. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_CAPACITY 1024

struct intern_entry {
    uint64_t key;
    uint64_t number_and_one; /* the number plus one; 0: the entry is free */
};

void intern_table_free(struct intern_table *table)
{
    free(table->entries);
    *table = (struct intern_table){0};
}

/* The entry of the key, or the free entry where it belongs. */
static struct intern_entry *place_of(const struct intern_table *table, uint64_t key)
{
    size_t place = (size_t)XXH3_64bits_withSeed(&key, sizeof(key), table->seed);

    for (;; place++) {
        struct intern_entry *entry = &table->entries[place & (table->capacity - 1)];

        if (entry->number_and_one == 0 || entry->key == key)
            return entry;
    }
}

static bool grow(struct intern_table *table, size_t capacity)
{
    struct intern_table larger = {.capacity = capacity, .count = table->count, .seed = table->seed};

    if (larger.seed == 0 &&
        getrandom(&larger.seed, sizeof(larger.seed), GRND_NONBLOCK) != sizeof(larger.seed))
        larger.seed = (uintptr_t)table;
    larger.entries = calloc(capacity, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].number_and_one != 0)
            *place_of(&larger, table->entries[i].key) = table->entries[i];
    }
    free(table->entries);
    *table = larger;
    return true;
}

bool intern_table_reserve(struct intern_table *table, size_t count)
{
    size_t capacity = table->capacity == 0 ? FIRST_CAPACITY : table->capacity;

    while (capacity / 2 <= count)
        capacity *= 2;
    return capacity == table->capacity || grow(table, capacity);
}

/* The entry of a key, which may be free; NULL if out of memory. */
static struct intern_entry *entry_for(struct intern_table *table, uint64_t key)
{
    if (table->count * 2 >= table->capacity && !intern_table_reserve(table, table->count))
        return NULL;
    return place_of(table, key);
}

bool intern_table_add(struct intern_table *table, uint64_t key, uint64_t *number)
{
    struct intern_entry *entry = entry_for(table, key);

    if (entry == NULL)
        return false;
    if (entry->number_and_one == 0)
        *entry = (struct intern_entry){key, ++table->count};
    *number = entry->number_and_one - 1;
    return true;
}

bool intern_table_put(struct intern_table *table, uint64_t key, uint64_t number)
{
    struct intern_entry *entry = entry_for(table, key);

    if (entry == NULL)
        return false;
    if (entry->number_and_one == 0) {
        *entry = (struct intern_entry){key, number + 1};
        table->count++;
    }
    return true;
}

bool intern_table_find(const struct intern_table *table, uint64_t key, uint64_t *number)
{
    const struct intern_entry *entry;

    if (table->capacity == 0)
        return false;
    entry = place_of(table, key);
    *number = entry->number_and_one - 1;
    return entry->number_and_one != 0;
}
