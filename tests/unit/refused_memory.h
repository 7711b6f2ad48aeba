/*
 * Makes one allocation fail, or all from one on. In a suite that is linked with refused_memory.c,
 * its functions replace malloc and its kin (--wrap).
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H
#define COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_ALL SIZE_MAX

/* How many allocations are granted before one is refused. Then it is MEMORY_ALL again, or if
 * memory_stays_refused, all that follow are refused too. */
extern size_t memory_granted;
extern bool memory_stays_refused;

/* What each allocation asks, and whatever else of a suite is to fail as if it were one. */
bool memory_is_granted(void);

/* Called before that is answered, unless it is NULL. */
extern void (*memory_watch)(void);

/* Whether calls count that let a buffer or an array grow. Most grow in memory that they have, but
 * whether that is so depends on what is in a file, and so any of them may fail. For suites that are
 * linked with refused_growth.c too. */
extern bool memory_growth_counts;

#endif
