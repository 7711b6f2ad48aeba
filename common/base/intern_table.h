/*
 * A hash table that gives numbers to 64-bit keys, which are mostly hashes themselves. A new key
 * gets the next number, or one that the caller chooses.
 */
#ifndef COVSPLIT_COMMON_BASE_INTERN_TABLE_H
#define COVSPLIT_COMMON_BASE_INTERN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Initialize to {0}, an empty table; free with intern_table_free. */
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

#endif
