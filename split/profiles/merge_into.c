/*
 * Merging into a state: see merge_into.h.
 */
#include "split/profiles/merge_into.h"

bool merge_into_open(struct state **state, const char *path, uint64_t memory_limit,
                     struct error *error)
{
    if (!state_open(state, path, STATE_CREATE, memory_limit, error))
        return false;
    if (state_fold(*state, error))
        return true;
    state_close(*state);
    *state = NULL;
    return false;
}

bool merge_into_add_sum(struct state_batch *batch, struct profile_sum *sum,
                        struct test_recorder *recorder, const char *name, struct error *error)
{
    return test_recorder_encode(recorder, &sum->identity, name, &sum->tests, error) &&
           state_batch_add(batch, sum, error);
}

static bool add_groups(struct state_batch *batch, const struct merge *merge, struct error *error)
{
    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        if (!merge_into_add_sum(batch, group->sum, merge->recorder, group->name, error))
            return false;
    }
    return true;
}

/* What is committed counts, even if it could not be folded: to add it again would be wrong. */
static bool fold(struct state *state, struct error *error)
{
    struct error failure = {0};

    return state_fold(state, &failure) ||
           error_set(error, "%.900s (the profiles count already; do not add them again)",
                     failure.message);
}

bool merge_into_add(struct state *state, const struct merge *merge, struct error *error)
{
    struct state_batch *batch;
    bool done = state_batch_start(state, &batch, error) && add_groups(batch, merge, error) &&
                state_batch_commit(batch, error);

    state_batch_free(batch);
    return done && fold(state, error);
}
