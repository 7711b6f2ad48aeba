/*
 * Runs something again and again, each time with one other call refused that may need memory:
 * allocations, growth of buffers and arrays, and calls of zstd. A program makes far more such calls
 * than it has places that make them. So of all calls with the same callers, up to the fourth or so,
 * only the first is refused, also over several uses of this in a test.
 *
 * For suites with refuse_ways in CMakeLists.txt.
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_WAYS_H
#define COVSPLIT_TESTS_UNIT_REFUSED_WAYS_H

#include <stdbool.h>

#include "common/base/error.h"

/* `run` must always make the same calls, on one thread. It returns whether it was done, which it
 * must be if nothing is refused; it checks by itself that the result is right, or that the reason
 * is memory. */
void refuse_each_way(bool (*run)(void *subject), void *subject);

/* Aborts unless the reason is memory, or a parameter that zstd did not take. */
void expect_memory(const struct error *error);

#endif
