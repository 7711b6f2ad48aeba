/*
 * `covsplit merge --into`: adds the sums of a merge to a state (common/state/state.h).
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_INTO_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_INTO_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/state/state.h"
#include "split/profiles/merge_read.h"

/* Opens the state, which is made if it does not exist, and finishes what others left in it. */
bool merge_into_open(struct state **state, const char *path, uint64_t memory_limit,
                     struct error *error);

/* Adds an image to the batch, with the tests that were recorded for it. `name` is that of its first
 * profile, for messages. */
bool merge_into_add_sum(struct state_batch *batch, struct profile_sum *sum,
                        struct test_recorder *recorder, const char *name, struct error *error);

/* Adds what the merge has read, as one batch. The merge must have a recorder. */
bool merge_into_add(struct state *state, const struct merge *merge, struct error *error);

#endif
