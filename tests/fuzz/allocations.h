/*
 * How much memory the code under test asks for while an input is handled, to compare it with what
 * the input justifies. Counted by ASan; without it, nothing is counted.
 */
#ifndef COVSPLIT_TESTS_FUZZ_ALLOCATIONS_H
#define COVSPLIT_TESTS_FUZZ_ALLOCATIONS_H

#include <stddef.h>

/* Starts counting. */
void allocations_start(void);

/* Ends counting. Aborts if a single block since the start was larger than `most` bytes, or if all
 * of them together were larger than `all`. */
void allocations_check(size_t most, size_t all);

#endif
