/*
 * Refuses one allocation, to see what comes of it. A suite that is linked with refused_memory.c has
 * its functions in the place of malloc and its kin (--wrap).
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H
#define COVSPLIT_TESTS_UNIT_REFUSED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define MEMORY_ALL SIZE_MAX

/* So many allocations are granted before one is refused; then it is MEMORY_ALL again. */
extern size_t memory_granted;

#endif
