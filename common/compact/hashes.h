/*
 * Columns of hashes, for data and coverage mapping: NameRefs by the number of the name, FuncHashes
 * without their leading zero bytes (those of simple functions have few others).
 */
#ifndef COVSPLIT_COMMON_COMPACT_HASHES_H
#define COVSPLIT_COMMON_COMPACT_HASHES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/compact/name_table.h"
#include "common/compact/number_table.h"

/* NameRefs to numbers and back. */
struct name_numbers {
    const struct name_table *names;          /* NULL: no name has a number */
    const struct number_table *by_reference; /* for writing */
    struct number_table own;                 /* where the context has none */
    uint64_t next; /* the number that is expected: names mostly come in their order */
};

struct compact_context;

/* For writing; reading needs only {.names}. False: no memory. Freed with name_numbers_free, also
 * after a failure. */
bool name_numbers_start(struct name_numbers *numbers, const struct compact_context *context);
void name_numbers_free(struct name_numbers *numbers);

/* The numbers of all names, for context->name_numbers. False: no memory. Freed with
 * number_table_free, also after a failure. */
bool name_numbers_make(struct number_table *table, const struct name_table *names);

/* Into `column` goes, as unsigned LEB128, 0 for a NameRef without a name, which goes to `others` (8
 * bytes, low one first); else 1 plus the zigzag of the number less the one that is expected. False:
 * no memory. */
bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others);

/* False where the columns are damaged. */
bool name_numbers_take(struct name_numbers *numbers, struct bytes *column, struct bytes *others,
                       uint64_t *reference);

/* A hash as its number of bytes, and those, low one first. */
bool hash_put(uint64_t hash, struct buffer *sizes, struct buffer *bytes);
bool hash_take(struct bytes *sizes, struct bytes *bytes, uint64_t *hash);

#endif
