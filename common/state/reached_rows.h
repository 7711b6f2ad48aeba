/*
 * How a matrix is stored, for the files that encode and decode it: see reached.h.
 *
 * In memory, a block has a row for each test, with a bit for each function: each profile gives a
 * row, and rows are easy to sort and unite. On disk, it has a column for each function. Rows and
 * columns are converted in squares of 8 by 8 bits.
 */
#ifndef COVSPLIT_COMMON_STATE_REACHED_ROWS_H
#define COVSPLIT_COMMON_STATE_REACHED_ROWS_H

#include "common/state/reached.h"

#define REACHED_ROW_SIZE ((size_t)REACHED_BLOCK / 8) /* of a block */

/* The numbers at the start of an encoded matrix. */
enum {
    REACHED_HEADER_FUNCTIONS,
    REACHED_HEADER_TESTS,
    REACHED_HEADER_NAMES_SIZE,
    REACHED_HEADER_NAMES_STORED_SIZE,
    REACHED_HEADER_COUNT,
};
#define REACHED_HEADER_SIZE (REACHED_HEADER_COUNT * sizeof(uint64_t))

uint64_t reached_block_count(uint64_t functions);

/* How many functions are in the block. */
size_t reached_block_width(uint64_t functions, uint64_t block);

/* Transposes `height` rows of `width` bits into `width` rows of `height` bits. The rows start at
 * multiples of the strides, which are in bytes. */
void reached_transpose(const uint8_t *from, size_t height, size_t width, size_t from_stride,
                       uint8_t *to, size_t to_stride);

/* What is encoded: names and rows. */
struct reached_rows {
    const char *name; /* for messages */
    uint64_t function_count;
    size_t test_count;
    const char *const *tests; /* in ascending order */
    /* Sets the bits of a block, which are 0: a row of REACHED_ROW_SIZE bytes for each test. */
    bool (*fill)(void *context, uint64_t block, uint8_t *rows, struct error *error);
    void *context;
};

/* Appends the encoded matrix; nothing if it has no tests. */
bool reached_rows_encode(const struct reached_rows *rows, struct buffer *to, struct error *error);

#endif
