/*
 * Memory that grows: see array.h.
 *
 * The tables use open addressing. Places depend on a seed, so that a hostile file cannot contain
 * keys that all collide; no result depends on the seed.
 */
#include "common/base/array.h"

#include <malloc.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Inlined, since hashing a few bytes is most of the work of a lookup. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_CAPACITY       64
#define FIRST_TABLE_CAPACITY 1024 /* a power of two, like all capacities of tables */

/* ---- arrays ---- */

bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size)
{
    size_t larger = *capacity == 0 ? FIRST_CAPACITY : *capacity;
    void *items;

    if (more <= *capacity - count)
        return true;
    while (larger - count < more) {
        if (larger > SIZE_MAX / item_size / 2)
            return false;
        larger *= 2;
    }
    /* memcpy, because the pointer can be of any type. */
    memcpy(&items, array, sizeof(items));
    items = realloc(items, larger * item_size);
    if (items == NULL)
        return false;
    memcpy(array, &items, sizeof(items));
    *capacity = larger;
    return true;
}

void memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

size_t array_count_up_to(const void *items, size_t count, size_t item_size, uint64_t key)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found;

        memcpy(&found, (const char *)items + middle * item_size, sizeof(found));
        if (found <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- arenas ---- */

/* Small objects share blocks; an object that would take more than a quarter of a block gets one of
 * its own, put behind the newest, so that little is wasted and the newest is still filled up. */

#define BLOCK_SIZE 65536

struct arena_block {
    struct arena_block *older;
    alignas(max_align_t) uint8_t bytes[];
};

static struct arena_block *add_block(struct arena *arena, size_t size)
{
    struct arena_block *block =
        size <= SIZE_MAX - sizeof(*block) ? calloc(1, sizeof(*block) + size) : NULL;

    arena->failed = block == NULL;
    return block;
}

void *arena_allocate(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->newest;
    void *object;

    if (arena->failed)
        return NULL;
    if (size > BLOCK_SIZE / 4) {
        block = add_block(arena, size);
        if (block == NULL)
            return NULL;
        if (arena->newest == NULL) {
            arena->newest = block;
            arena->used = BLOCK_SIZE; /* it has no room for others */
        } else {
            block->older = arena->newest->older;
            arena->newest->older = block;
        }
        return block->bytes;
    }
    if (block == NULL || size > BLOCK_SIZE - arena->used) {
        block = add_block(arena, BLOCK_SIZE);
        if (block == NULL)
            return NULL;
        block->older = arena->newest;
        arena->newest = block;
        arena->used = 0;
    }
    object = block->bytes + arena->used;
    /* Never beyond the block: its size is a multiple of the alignment. */
    arena->used += (size_t)align_up(size, alignof(max_align_t));
    return object;
}

void *arena_array(struct arena *arena, size_t count, size_t item_size)
{
    size_t size;

    return arena_allocate(arena, __builtin_mul_overflow(count, item_size, &size) ? SIZE_MAX : size);
}

void *arena_copy(struct arena *arena, struct bytes bytes)
{
    uint8_t *copy = arena_allocate(arena, bytes.size < SIZE_MAX ? bytes.size + 1 : SIZE_MAX);

    if (copy != NULL && bytes.size != 0)
        memcpy(copy, bytes.data, bytes.size);
    return copy;
}

char *arena_text(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = arena_allocate(arena, length < 0 ? SIZE_MAX : (size_t)length + 1);
    if (text == NULL)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void arena_free(struct arena *arena)
{
    struct arena_block *block = arena->newest;

    while (block != NULL) {
        struct arena_block *older = block->older;

        free(block);
        block = older;
    }
    *arena = (struct arena){0};
}

uint64_t random_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (uintptr_t)&seed; /* where the stack is */
    return seed | 1;
}

/* ---- tables of numbers ---- */

struct intern_entry {
    uint64_t key;
    uint64_t number_and_one; /* the number plus one; 0: the entry is free */
};

void intern_table_free(struct intern_table *table)
{
    free(table->entries);
    *table = (struct intern_table){0};
}

/* The entry of the key, or the free entry where it belongs. A table is at most half full. */
static struct intern_entry *entry_of(const struct intern_table *table, uint64_t key)
{
    size_t place = (size_t)hash_of_key(key, table->seed);

    for (;; place++) {
        struct intern_entry *entry = &table->entries[place & (table->capacity - 1)];

        if (entry->number_and_one == 0 || entry->key == key)
            return entry;
    }
}

static bool grow_table(struct intern_table *table, size_t capacity)
{
    struct intern_table larger = {.capacity = capacity,
                                  .count = table->count,
                                  .seed = table->seed != 0 ? table->seed : random_seed()};

    larger.entries = calloc(capacity, sizeof(*larger.entries));
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].number_and_one != 0)
            *entry_of(&larger, table->entries[i].key) = table->entries[i];
    }
    free(table->entries);
    *table = larger;
    return true;
}

bool intern_table_reserve(struct intern_table *table, size_t count)
{
    size_t capacity = table->capacity == 0 ? FIRST_TABLE_CAPACITY : table->capacity;

    while (capacity / 2 <= count)
        capacity *= 2;
    return capacity == table->capacity || grow_table(table, capacity);
}

/* The entry of a key, which may be free; NULL if out of memory. */
static struct intern_entry *entry_for(struct intern_table *table, uint64_t key)
{
    if (table->count * 2 >= table->capacity && !intern_table_reserve(table, table->count))
        return NULL;
    return entry_of(table, key);
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
    entry = entry_of(table, key);
    *number = entry->number_and_one - 1;
    return entry->number_and_one != 0;
}

/* ---- sets of digests ---- */

void digest_set_free(struct digest_set *set)
{
    free(set->digests);
    *set = (struct digest_set){0};
}

static bool is_free(const struct digest *digest)
{
    static const struct digest none;

    return digest_equal(digest, &none);
}

/* A digest of zeros would look like a free place, so another one stands for it. */
static struct digest as_kept(const struct digest *digest)
{
    struct digest kept = *digest;

    kept.bytes[0] |= is_free(digest);
    return kept;
}

/* The place of the digest, or the free place where it belongs. */
static struct digest *place_of(const struct digest_set *set, const struct digest *digest)
{
    size_t place = (size_t)XXH3_64bits_withSeed(digest, sizeof(*digest), set->seed);

    for (;; place++) {
        struct digest *found = &set->digests[place & (set->capacity - 1)];

        if (is_free(found) || digest_equal(found, digest))
            return found;
    }
}

static bool grow_set(struct digest_set *set)
{
    struct digest_set larger = {.count = set->count,
                                .seed = set->seed != 0 ? set->seed : random_seed()};

    larger.capacity = set->capacity == 0 ? FIRST_TABLE_CAPACITY : 2 * set->capacity;
    larger.digests = calloc(larger.capacity, sizeof(*larger.digests));
    if (larger.digests == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (!is_free(&set->digests[i]))
            *place_of(&larger, &set->digests[i]) = set->digests[i];
    }
    free(set->digests);
    *set = larger;
    return true;
}

bool digest_set_has(const struct digest_set *set, const struct digest *digest)
{
    struct digest kept = as_kept(digest);

    return set->count != 0 && !is_free(place_of(set, &kept));
}

bool digest_set_add(struct digest_set *set, const struct digest *digest)
{
    struct digest kept = as_kept(digest), *place;

    if (set->count >= set->capacity / 4 * 3 && !grow_set(set))
        return false;
    place = place_of(set, &kept);
    set->count += is_free(place);
    *place = kept;
    return true;
}
