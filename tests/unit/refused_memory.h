/*
 * Makes one allocation fail, or all from one on. In a suite that is linked with refused_memory.c,
 * its functions replace malloc and its kin (--wrap).
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H
#define COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define MEMORY_ALL SIZE_MAX

/* How many allocations are granted before one is refused. Then it is MEMORY_ALL again, or if
 * memory_stays_refused, all that follow are refused too. */
extern size_t memory_granted;
extern bool memory_stays_refused;

/*
 * Runs something again and again, each time with one other call that may need memory refused: also
 * calls that rarely do, such as an append to a buffer that has room, and those of zstd. A program
 * makes far more such calls than it has places that make them. So of all calls with the same
 * callers, up to the fourth or so, only the first is refused, also over several uses of this
 * function in a test.
 *
 * `run` must always make the same calls, on one thread. It returns whether it was done, which it
 * must be if nothing is refused; it checks by itself that the result is right, or that the reason
 * is memory.
 */
void memory_refuse_each(bool (*run)(void *subject), void *subject);

/* Fails the test unless the reason is memory, or a parameter that zstd did not take. */
void memory_expect_reason(const struct error *error);

#endif
