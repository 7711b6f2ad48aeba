/*
 * What commands cost, for the benchmarks that are run by hand.
 */
#ifndef COVSPLIT_TESTS_BENCH_COST_H
#define COVSPLIT_TESTS_BENCH_COST_H

#include "tests/support/process.h"

struct cost {
    double processor_seconds; /* the command's and its children's */
    double wall_seconds;
    long peak_kib; /* of the largest process */
};

/* Runs the command once. Where it fails, says so and ends the benchmark. */
struct cost cost_of(const struct command *command);

/* Takes the smaller of each. What disturbs a run only makes it longer. */
void cost_keep_best(struct cost *best, struct cost cost);

#endif
