/*
 * Numbers for keys: see number_table.h.
 *
 * Open places, at most half of them taken. Keys are hashes mostly; they are mixed once more, so
 * that other numbers do as well.
 */
#include "common/codec/number_table.h"

#include <stdlib.h>
#include <sys/random.h>

/* A hash of a few bytes is all that finding a key mostly takes. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_CAPACITY 1024

struct number_entry {
    uint64_t key;
    uint64_t number_and_one; /* 0: the place is free */
};

bool number_table_start(struct number_table *table)
{
    *table = (struct number_table){.capacity = FIRST_CAPACITY};
    if (getrandom(&table->seed, sizeof(table->seed), GRND_NONBLOCK) != sizeof(table->seed))
        table->seed = (uintptr_t)table;
    table->entries = calloc(FIRST_CAPACITY, sizeof(*table->entries));
    return table->entries != NULL;
}

void number_table_free(struct number_table *table)
{
    free(table->entries);
    *table = (struct number_table){0};
}

/* The entry of that key, or the free one where it belongs. */
static struct number_entry *place_of(const struct number_table *table, uint64_t key)
{
    size_t place = (size_t)XXH3_64bits_withSeed(&key, sizeof(key), table->seed);

    for (;; place++) {
        struct number_entry *entry = &table->entries[place & (table->capacity - 1)];

        if (entry->number_and_one == 0 || entry->key == key)
            return entry;
    }
}

static bool grow(struct number_table *table, size_t capacity)
{
    struct number_table larger = {.capacity = capacity, .count = table->count, .seed = table->seed};

    larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
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

bool number_table_reserve(struct number_table *table, size_t count)
{
    size_t capacity = table->capacity;

    while (capacity / 2 <= count)
        capacity *= 2;
    return capacity == table->capacity || grow(table, capacity);
}

bool number_table_get(struct number_table *table, uint64_t key, uint64_t *number)
{
    struct number_entry *entry;

    if (table->count * 2 >= table->capacity && !grow(table, table->capacity * 2))
        return false;
    entry = place_of(table, key);
    if (entry->number_and_one == 0)
        *entry = (struct number_entry){key, ++table->count};
    *number = entry->number_and_one - 1;
    return true;
}

bool number_table_find(const struct number_table *table, uint64_t key, uint64_t *number)
{
    const struct number_entry *entry = place_of(table, key);

    *number = entry->number_and_one - 1;
    return entry->number_and_one != 0;
}
