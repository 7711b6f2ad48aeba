/*
 * Numbers for keys, in the order in which they come first.
 */
#ifndef COVSPLIT_COMMON_CODEC_NUMBER_TABLE_H
#define COVSPLIT_COMMON_CODEC_NUMBER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct number_table {
    struct number_entry *entries;
    size_t capacity;
    uint64_t seed;
    uint64_t count; /* keys that have a number: 0 to count - 1 */
};

/* False: no memory. Freed with number_table_free, also after a failure and when zeroed. */
bool number_table_start(struct number_table *table);
void number_table_free(struct number_table *table);

/* Makes room for so many keys in all, of which the caller has at least the bytes in memory: numbers
 * come faster then. False: no memory. */
bool number_table_reserve(struct number_table *table, size_t count);

/* *number = the key's; a new one where it has none. False: no memory. */
bool number_table_get(struct number_table *table, uint64_t key, uint64_t *number);

/* False where the key has no number. */
bool number_table_find(const struct number_table *table, uint64_t key, uint64_t *number);

#endif
