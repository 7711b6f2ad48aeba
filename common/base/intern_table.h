/*
 * Numbers for keys of 64 bits, which are hashes mostly: the next number for each key that is new,
 * or one that the caller has for it.
 */
#ifndef COVSPLIT_COMMON_BASE_INTERN_TABLE_H
#define COVSPLIT_COMMON_BASE_INTERN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {0}, which holds nothing; freed with intern_table_free. */
struct intern_table {
    struct intern_entry *entries;
    size_t capacity;
    uint64_t seed;
    uint64_t count; /* of keys */
};

void intern_table_free(struct intern_table *table);

/* Makes room for so many keys in all, of which the caller has at least the bytes in memory: they
 * come faster then. False: no memory. */
bool intern_table_reserve(struct intern_table *table, size_t count);

/* *number = the key's; the count of keys where it has none, which is its number then. False: no
 * memory. */
bool intern_table_add(struct intern_table *table, uint64_t key, uint64_t *number);

/* Gives the key a number, unless it has one. False: no memory. */
bool intern_table_put(struct intern_table *table, uint64_t key, uint64_t number);

/* False where the key has no number. Several threads may look at the same time. */
bool intern_table_find(const struct intern_table *table, uint64_t key, uint64_t *number);

#endif
