/*
 * Columns of hashes: NameRefs by the number of the name, for data and coverage mapping; FuncHashes
 * that data does not have, without their leading zero bytes (those of simple functions have few
 * others).
 *
 * Functions come in the order of their names but for those that the compiler put off, and a name
 * mostly comes once. So what is told is how many names that have not come are passed by; and where
 * the order was left, it is taken up again. In coverage mapping a function that one translation
 * unit did not use, and another did, comes again: then it is where the data has it.
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
#include "common/codec/unused_numbers.h"

/* Places that the records left. */
#define NAME_PLACES 4

/* NameRefs to numbers and back. */
struct name_numbers {
    const struct name_table *names;          /* NULL: no name has a number */
    const struct number_table *by_reference; /* for writing */
    struct number_table own;                 /* where the context has none */
    const struct data_hashes *data;          /* NULL, or set before the first NameRef */
    struct unused_numbers unused;            /* the names that have not come */
    uint64_t next;                           /* the number behind the last one that was new */
    uint64_t next_repeated;                  /* and behind the last one that had come before */
    uint64_t left[NAME_PLACES];              /* what `next` was, the last one first */
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

/* Puts a byte into `column`, and into `others` what it may call for. False: no memory.
 *
 * 0: the first name that has not come, from the number on that is behind the last new name. 1 to 4:
 * likewise from the place of that number in the list of those that were left, where it is taken
 * off. 5: a NameRef without a name, in `others` as 8 bytes, low one first. 6: a name that has come;
 * in `others`, as unsigned LEB128, the zigzag of its number less the one behind the last that was
 * told in this way. 7: the NameRef of a record of the data; in `others` likewise the zigzag of its
 * number less the one behind the first record with the NameRef before (less 0, where there is
 * none). 8: a name that has not come; in `others` likewise the zigzag of how many more such names
 * are before it than before the one of 0. 9 and more: the same number, plus 9. With 1 to 4, 8 and
 * more, the number behind the last new name is put in front of the list, before it changes. */
bool name_numbers_put(struct name_numbers *numbers, uint64_t reference, struct buffer *column,
                      struct buffer *others);

/* Unfit: the columns are damaged. */
enum compact_result name_numbers_take(struct name_numbers *numbers, struct bytes *column,
                                      struct bytes *others, uint64_t *reference);

/* A hash as its number of bytes, and those, low one first. */
bool hash_put(uint64_t hash, struct buffer *sizes, struct buffer *bytes);
bool hash_take(struct bytes *sizes, struct bytes *bytes, uint64_t *hash);

#endif
