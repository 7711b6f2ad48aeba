/*
 * Makes one allocation fail, or all from one on, in a program with refuse_memory in CMakeLists.txt:
 * the functions of refused_memory.c replace malloc and its kin, and what else may need memory.
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

/* Called before that is answered, unless it is NULL. */
extern void (*memory_watch)(void);

/* Whether calls count that let a buffer or an array grow, and calls of zstd. Most grow in memory
 * that they have, but whether that is so depends on what is in a file, and so any may fail. */
extern bool memory_growth_counts;

/* Runs something again and again, each time with one other call refused that may need memory. A
 * program makes far more such calls than it has places that make them. So of all calls with the
 * same callers, up to the fourth or so, only the first is refused, also over several uses of this
 * in a program.
 *
 * `run` must always make the same calls, on one thread. It returns whether it was done, which it
 * must be if nothing is refused; it checks by itself that the result is right, or that the reason
 * is memory. */
void refuse_each_way(bool (*run)(void *subject), void *subject);

/* Aborts unless the reason is memory, or a parameter that zstd did not take. */
void expect_memory(const struct error *error);

#endif
