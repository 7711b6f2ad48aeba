/*
 * Memory that grows: arrays, arenas, tables of numbers, and sets of digests.
 */
#ifndef COVSPLIT_COMMON_BASE_ARRAY_H
#define COVSPLIT_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"

/* ---- arrays ---- */

/* The owner of an array has three variables: a pointer to the items (NULL at first), the capacity
 * (0 at first), and the count. The owner frees the items.
 *
 * Makes room for `more` items after the first `count`. `array` is the address of the pointer to the
 * items; item_size is in bytes. False if out of memory; nothing has changed then. */
bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size);

/* The same for one more item; `items`, `capacity` and `count` are lvalues. A call only if there is
 * no room, since it is made for each item of hot loops. */
#define ARRAY_ROOM_FOR_ONE(items, capacity, count)                                                 \
    ((count) < (capacity) || array_make_room(&(items), &(capacity), (count), 1, sizeof(*(items))))

/* The number of items whose key is at most `key`: the last of these is the one that an address
 * falls into. Each item starts with its key, a uint64_t, and the items are in ascending order. */
size_t array_count_up_to(const void *items, size_t count, size_t item_size, uint64_t key);

/* Gives memory that was freed back to the system, after a step that needed much of it. */
void memory_trim(void);

/* ---- arenas ---- */

/* Memory that is freed at once: for what lives as long as one command, one file or one profile.
 *
 * An arena replaces the cleanup of each object by one arena_free of the owner. It remembers that
 * memory ran out: from then on every request yields NULL, so that a step makes all that it needs
 * and looks at `failed` once, before it uses any of it. Not for more than one thread at a time.
 *
 * Initialize to {0}; free with arena_free, after which it can be used again. */
struct arena {
    struct arena_block *newest;
    size_t used; /* bytes of the newest block */
    bool failed;
};

/* `size` bytes of zeros, aligned for any type, valid until arena_free; NULL if out of memory, now
 * or before. A size of 0 yields a pointer that is not NULL. */
void *arena_allocate(struct arena *arena, size_t size);

/* The same for an array, whose size may overflow. */
void *arena_array(struct arena *arena, size_t count, size_t item_size);

/* A copy of the bytes, followed by a NUL that their size does not count. */
void *arena_copy(struct arena *arena, struct bytes bytes);

/* A formatted text. */
char *arena_text(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void arena_free(struct arena *arena);

/* A random odd number for a table that hashes what files hold, so that a hostile one cannot contain
 * keys that all collide. */
uint64_t random_seed(void);

/* Where the key belongs in a table with this seed: all bits of the result depend on all of the key.
 * One multiplication leaves the low bits of what differs in the high ones alike, which a file may
 * choose. */
static inline uint64_t hash_of_key(uint64_t key, uint64_t seed)
{
    key *= seed;
    return __builtin_bswap64((key ^ key >> 32) * seed);
}

/* ---- tables of numbers ---- */

/* A hash table that gives numbers to 64-bit keys, which are mostly hashes themselves. A new key
 * gets the next number, or one that the caller chooses. Initialize to {0}, an empty table; free
 * with intern_table_free. */
struct intern_table {
    struct intern_entry *entries;
    size_t capacity;
    uint64_t seed;
    uint64_t count; /* of keys */
};

void intern_table_free(struct intern_table *table);

/* Makes room for `count` keys in all, so that adding them is faster. The count must be in
 * proportion to data that the caller has in memory already. False if out of memory. */
bool intern_table_reserve(struct intern_table *table, size_t count);

/* Sets *number to the key's number. A key without one is added, and its number is the count of keys
 * before. False if out of memory. */
bool intern_table_add(struct intern_table *table, uint64_t key, uint64_t *number);

/* Adds the key with this number, unless it has one already. False if out of memory. */
bool intern_table_put(struct intern_table *table, uint64_t key, uint64_t number);

/* False if the key has no number. Several threads may call this at the same time. */
bool intern_table_find(const struct intern_table *table, uint64_t key, uint64_t *number);

/* ---- sets of digests ---- */

/* 16 bytes each in one array, which is at most three quarters full. Initialize to {0}, an empty
 * set; free with digest_set_free. */
struct digest_set {
    struct digest *digests; /* all zeros: free */
    size_t capacity, count;
    uint64_t seed;
};

void digest_set_free(struct digest_set *set);

bool digest_set_has(const struct digest_set *set, const struct digest *digest);

/* False if out of memory. */
bool digest_set_add(struct digest_set *set, const struct digest *digest);

#endif
