/*
 * What commands cost: see cost.h.
 */
#include "tests/bench/cost.h"

#include <stdio.h>
#include <stdlib.h>

struct cost cost_of(const struct command *command)
{
    struct outcome outcome = command_run(command);
    struct cost cost = {outcome.processor_seconds, outcome.wall_seconds, outcome.peak_resident_kib};
    if (!outcome_exited(&outcome, 0)) {
        fprintf(stderr, "%s\n", outcome_describe(command, &outcome));
        exit(EXIT_FAILURE);
    }
    outcome_free(&outcome);
    return cost;
}

void cost_keep_best(struct cost *best, struct cost cost)
{
    if (best->wall_seconds == 0 || cost.processor_seconds < best->processor_seconds) {
        best->processor_seconds = cost.processor_seconds;
    }
    if (best->wall_seconds == 0 || cost.peak_kib < best->peak_kib) {
        best->peak_kib = cost.peak_kib;
    }
    if (best->wall_seconds == 0 || cost.wall_seconds < best->wall_seconds) {
        best->wall_seconds = cost.wall_seconds;
    }
}
