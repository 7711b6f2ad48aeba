/*
 * Refuses one allocation, or all from one on, to see what comes of it. A suite that is linked with
 * refused_memory.c has its functions in the place of malloc and its kin (--wrap).
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H
#define COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_ALL SIZE_MAX

/* So many allocations are granted before one is refused; then it is MEMORY_ALL again, or if
 * memory_stays_refused, all that follow are refused too. */
extern size_t memory_granted;
extern bool memory_stays_refused;

#endif
