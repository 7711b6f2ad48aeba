/*
 * Inputs of fuzz targets that consist of parts, such as the streams of a section or the files of a
 * directory: a few fixed bytes, then each part with its size before it (unsigned LEB128).
 *
 * Mutations of such an input work on one part, and write the sizes again, so that they do not end
 * at the first size that is wrong.
 */
#ifndef COVSPLIT_TESTS_FUZZ_PARTS_H
#define COVSPLIT_TESTS_FUZZ_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "tests/support/random.h"

#define PARTS_MAX       96
#define PARTS_FIXED_MAX 8

/* An input that was taken apart; it points into the input. */
struct parts {
    uint8_t fixed[PARTS_FIXED_MAX];
    size_t fixed_size;
    struct bytes part[PARTS_MAX];
    size_t count;
};

/* Any bytes are an input: what is missing is zero, or no part. */
void parts_read(struct parts *parts, struct bytes input, size_t fixed_size);

/* Part number `index`; empty if there is none. */
struct bytes parts_get(const struct parts *parts, size_t index);

/* Writes the input that is read as these parts over the `size` bytes at `to`, which the parts may
 * point into, and returns its size; leaves it as it is if that is more than `most`. */
size_t parts_write(const struct parts *parts, uint8_t *to, size_t size, size_t most);

/* libFuzzer calls this in place of its own mutations, and targets define it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

/* Writes a part with one change to *room. */
void part_mutate(struct bytes part, struct random_state *random, struct buffer *room);

/* Changes a part, or the list of them, keeping at least `least` parts; the fixed bytes stay. What
 * the parts point to then is in *room, which the caller frees. */
void parts_mutate(struct parts *parts, size_t least, struct random_state *random,
                  struct buffer *room);

/* A mutation of bytes without a form. Returns their new size, at most `most`. */
size_t mutate_bytes(uint8_t *bytes, size_t size, size_t most);

#endif
