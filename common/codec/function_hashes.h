/*
 * FuncHash and NumCounters of profile data's records, as columns.
 *
 * Both tell of a function's control flow, and the number follows from the hash. So a pair of them
 * is told once, however many functions have it. Clang's hash of a function with at most ten
 * statements that matter is these statements, six bits each; that of one with more is an MD5. The
 * former is told a byte for a statement, so that zstd sees them.
 */
#ifndef COVSPLIT_COMMON_CODEC_FUNCTION_HASHES_H
#define COVSPLIT_COMMON_CODEC_FUNCTION_HASHES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"

/* All numbers are unsigned LEB128, but for bytes where it says so. */
enum function_column {
    /* Of each record a byte: 0 where the pair is new and comes once; 1 where it is new; else it is
     * a pair that was told with 1, and what follows gives its number, counted from 0: 2 to 201, and
     * it is this less 2; 202 to 254, and it is this less 202, times 256, plus the next byte, plus
     * 200; 255, and it is the next number plus 13768. */
    FUNCTION_CODES,
    /* Of each new pair the digits of the hash in base 64 as bytes, the highest first, and 0; only
     * 64 where the hash is in FUNCTION_HASHES: it has more than ten digits, or one is 0. */
    FUNCTION_DIGITS,
    FUNCTION_HASHES, /* 8 bytes each, low one first */
    /* The numbers of counters of new pairs: of those with digits, and of the others. */
    FUNCTION_COUNTERS,
    FUNCTION_COUNTERS_OF_HASHES,
    FUNCTION_COLUMNS,
};

struct function_hash {
    uint64_t hash;
    uint32_t counters;
};

/* Starts as {0}; freed with function_writer_free. Takes at most UINT32_MAX records. */
struct function_writer {
    struct intern_table hashes;
    struct intern_table pairs;
    struct buffer kinds;   /* by number of a pair */
    struct buffer records; /* uint32_t: the number of the pair of each */
};

void function_writer_free(struct function_writer *writer);

/* Adds the next record. False: no memory. */
bool function_writer_add(struct function_writer *writer, struct function_hash function);

/* Appends all records to the FUNCTION_COLUMNS columns. False: no memory. */
bool function_writer_finish(const struct function_writer *writer, struct buffer *columns);

struct function_reader {
    struct bytes columns[FUNCTION_COLUMNS]; /* what is left of them */
    struct buffer known;                    /* struct function_hash; freed by the caller */
};

/* The next record. Unfit: the columns are damaged. */
enum result function_reader_take(struct function_reader *reader, struct function_hash *function);

#endif
