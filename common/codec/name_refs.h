/*
 * NameRefs by the number of their name, for data and the mapping of functions: "NameRefs" in
 * docs/sidecar-format.md.
 *
 * Functions come nearly in the order of their names. So what is told is where a run of names
 * starts; where the order was left, it is mostly taken up again. In the mapping a function that one
 * translation unit did not use, and another did, comes again: then it is where the data has it.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAME_REFS_H
#define COVSPLIT_COMMON_CODEC_NAME_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/codec/data_hashes.h"
#include "common/codec/names/table.h"
#include "common/codec/number_table.h"

/* Where the order was left, the last time first. */
#define NAME_PLACES 4

/* NameRefs to numbers and back. */
struct name_numbers {
    const struct name_table *names;          /* NULL: no name has a number */
    const struct number_table *by_reference; /* for writing */
    struct number_table own;                 /* where the context has none */
    const struct data_hashes *data;          /* NULL, or set before the first NameRef */
    uint64_t next;                           /* the number behind the last name */
    uint64_t left[NAME_PLACES];              /* what `next` was */
    unsigned left_count;
    uint64_t before; /* the NameRef of the record before, at first 0 */
};

struct compact_context;

/* False: no memory. Freed with name_numbers_free, also after a failure and when zeroed. */
bool name_numbers_start_writing(struct name_numbers *numbers,
                                const struct compact_context *context);
bool name_numbers_start_reading(struct name_numbers *numbers,
                                const struct compact_context *context);
void name_numbers_free(struct name_numbers *numbers);

/* The numbers of all names, for context->name_numbers. False: no memory. Freed with
 * number_table_free, also after a failure. */
bool name_numbers_make(struct number_table *table, const struct name_table *names);

/* Puts a byte into `column`, and into `others` what it may call for. False: no memory. */
bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others);

/* Unfit: the columns are damaged. */
enum compact_result name_numbers_take(struct name_numbers *numbers, struct bytes *column,
                                      struct bytes *others, uint64_t *reference);

/* A hash as its number of bytes, and those, low one first. */
bool hash_put(uint64_t hash, struct buffer *sizes, struct buffer *bytes);
bool hash_take(struct bytes *sizes, struct bytes *bytes, uint64_t *hash);

#endif
