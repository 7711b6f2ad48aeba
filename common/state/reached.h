/*
 * The tests that reach the functions of one image: a matrix with a bit for each test and function.
 *
 * Functions are numbered as the data records of the image. A matrix is made in memory, from one bit
 * set for each profile, and then encoded. Encoded matrices are merged and searched without being
 * decoded as a whole: their functions are divided into blocks, and one block is in memory at a
 * time.
 *
 * Functions that work together are reached by the same tests. So a block is stored function by
 * function, for each of them a bit for each test, and zstd finds the equal ones: 1,000 tests of
 * 100,000 functions, 12.5 MB of bits, take about 1 MB. The tests are sorted by name, so the bytes
 * do not depend on the order in which profiles were added or matrices merged.
 *
 * An encoded matrix, in little-endian numbers:
 *     u64 functions, u64 tests, u64 names_size, u64 names_stored_size
 *     u64 stored_size of each block of REACHED_BLOCK functions; 0: no test reaches any of them
 *     the names of the tests as a zstd frame: each with a NUL at its end, in ascending order
 *     the blocks as zstd frames
 */
#ifndef COVSPLIT_COMMON_STATE_REACHED_H
#define COVSPLIT_COMMON_STATE_REACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Functions in a block. */
#define REACHED_BLOCK 4096

/* The length of a test's name is 1 to this; it has any bytes but NUL. */
#define REACHED_NAME_MAX 4096

/* The size in bytes of a set of bits. Bit k is bit k % 8 of byte k / 8. */
static inline size_t bit_set_size(uint64_t bits)
{
    return (size_t)(bits / 8 + (bits % 8 != 0));
}

static inline bool bit_set_has(const uint8_t *set, uint64_t bit)
{
    return (set[bit / 8] >> bit % 8 & 1) != 0;
}

static inline void bit_set_add(uint8_t *set, uint64_t bit)
{
    set[bit / 8] |= (uint8_t)(1u << bit % 8);
}

/* Adds the bits of another set of the same size in bytes. */
static inline void bit_set_unite(uint8_t *set, const uint8_t *other, size_t size)
{
    for (size_t i = 0; i < size; i++)
        set[i] |= other[i];
}

/* Fails if a test cannot have this name. */
bool reached_check_name(const char *test, struct error *error);

/* ---- made in memory ---- */

struct reached;

/* A matrix without tests. NULL if out of memory. Free with reached_free (NULL is allowed). */
struct reached *reached_new(uint64_t function_count);
void reached_free(struct reached *reached);

/* Adds the functions in the bit set to those that the test reaches. The name must have been
 * checked. False if out of memory; the matrix is unchanged then. */
bool reached_add(struct reached *reached, const char *test, const uint8_t *functions);

/* The memory that it takes, in bytes. */
uint64_t reached_memory(const struct reached *reached);

/* Appends the encoded matrix. `name` is for messages. */
bool reached_encode(const struct reached *reached, const char *name, struct buffer *to,
                    struct error *error);

/* ---- encoded ---- */

/* An encoded matrix whose names have been read. It points into the encoded bytes. */
struct reached_table {
    const char *name;        /* of the file, for messages */
    uint64_t function_count; /* 0 if there are no tests */
    size_t test_count;
    const char **tests; /* their names, in ascending order */
    /* For the implementation. */
    uint64_t limit;
    struct buffer text;
    struct bytes block_sizes;
    struct bytes blocks;
    struct buffer columns; /* the block that was decoded last, if any */
    uint64_t block;
};

/* Reads what is before the blocks. An empty view is a matrix without tests. No part that is held in
 * memory may take more than `limit` bytes (memory_limit.h). Free with reached_close, even after a
 * failure. */
bool reached_open(struct reached_table *table, struct bytes encoded, const char *name,
                  uint64_t limit, struct error *error);
void reached_close(struct reached_table *table);

/* Sets *tests to the bit set of the tests that reach a function, whose number must be less than
 * function_count. It is valid until the next call. */
bool reached_find(struct reached_table *table, uint64_t function, const uint8_t **tests,
                  struct error *error);

/* Appends the encoded union of two matrices of one image, both with tests. Tests of one name become
 * one. */
bool reached_merge(struct reached_table *a, struct reached_table *b, struct buffer *to,
                   struct error *error);

/* Makes one encoded matrix of *encoded and `more`, of one image; either may be empty. `name` is the
 * file that `more` is from, whose digest was right. After a failure *encoded is as it was. */
bool reached_unite(struct buffer *encoded, struct bytes more, const char *name,
                   struct error *error);

#endif
