/*
 * Merging: see covsplit.h. A thin layer over common/sidecar/profile_groups.h.
 */
#include <stdlib.h>

#include "common/sidecar/profile_groups.h"
#include "reader/sidecar_choice.h"
#include "reader/state.h"

struct covsplit_merger {
    struct profile_groups groups;
    struct sidecar_choice sidecars;
    size_t place; /* of the next profile */
    /* Why the merger can no longer be used; NULL while it can. */
    const char *end;
};

/* ---- mergers ---- */

covsplit_merger *covsplit_merger_new(const covsplit_store *store, covsplit_error **error)
{
    covsplit_merger *merger = calloc(1, sizeof(*merger));
    struct error why = {0};

    if (merger == NULL) {
        error_out_of_memory(&why, "a merger", sizeof(*merger));
        report_error(error, &why);
        return NULL;
    }
    sidecar_choice_start(&merger->sidecars, store);
    profile_groups_start(&merger->groups, &merger->sidecars.source);
    return merger;
}

void covsplit_merger_free(covsplit_merger *merger)
{
    if (merger == NULL)
        return;
    profile_groups_free(&merger->groups);
    sidecar_choice_free(&merger->sidecars);
    free(merger);
}

bool covsplit_merger_add_sidecar(covsplit_merger *merger, covsplit_sidecar *sidecar,
                                 covsplit_error **error)
{
    return sidecar_choice_add(&merger->sidecars, sidecar, error);
}

/* ---- adding ---- */

static bool check_usable(const covsplit_merger *merger, const char *name, struct error *error)
{
    return merger->end == NULL ||
           error_set(error, "%s: the merger %s; make another one", name, merger->end);
}

static bool check_kind(const struct profile *profile, const char *name, struct error *error)
{
    return profile_can_be_summed(profile) ||
           error_set(error, "%s: %s cannot be added to others; correlate it by itself", name,
                     profile->value_data.size != 0 ? "a value profile" : "a temporal profile");
}

static bool add_profile(covsplit_merger *merger, const struct profile *profile, const char *name,
                        struct error *error)
{
    const struct profile_place place = {name, merger->place, 0};
    struct profile_group *group;

    if (!check_usable(merger, name, error) || !check_kind(profile, name, error))
        return false;
    /* Counters last: where bytes are missing, those that follow look like counts. */
    group = profile_groups_find(&merger->groups, profile, 1, name, error);
    if (group == NULL || !profile_check_counters(profile, name, error))
        return false;
    merger->place++;
    if (profile_groups_add(&merger->groups, group, profile, &place, 0, 1, error))
        return true;
    merger->end = "ran out of memory";
    return false;
}

bool covsplit_merger_add(covsplit_merger *merger, const covsplit_profile *profile,
                         covsplit_error **error)
{
    struct error why = {0};

    return check_result(add_profile(merger, &profile->profile, profile->name, &why), error, &why);
}

/* Adds what a state has of an image: a state_visitor. */
static bool add_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    covsplit_merger *merger = context;
    const struct profile_place place = {name, merger->place++, 0};
    struct profile_group *group;
    struct profile profile;

    if (!profile_parse(profile_sum_combined(sum), 0, name, &profile, error))
        return false;
    group = profile_groups_find(&merger->groups, &profile, 1, name, error);
    return group != NULL && profile_group_add_sum(group, sum, &place, error);
}

static bool add_state(covsplit_merger *merger, struct state *state, struct error *error)
{
    if (!check_usable(merger, state_path(state), error))
        return false;
    if (state_read(state, add_sum, merger, error))
        return true;
    merger->end = "has only a part of a state";
    return false;
}

bool covsplit_merger_add_state(covsplit_merger *merger, covsplit_state *state,
                               covsplit_error **error)
{
    struct error why = {0};

    return check_result(add_state(merger, state->state, &why), error, &why);
}

/* ---- finishing ---- */

/* Counts what the caller's sink receives. */
struct counting_sink {
    struct caller_sink caller;
    uint64_t size;
};

static bool count_and_pass(void *context, struct bytes part, struct error *error)
{
    struct counting_sink *sink = context;

    sink->size += part.size;
    return pass_to_caller(&sink->caller, part, error);
}

/* A sum, and where its parts go. */
struct group_sink {
    struct profile_group *group;
    struct counting_sink *sink;
};

/* A profile_sum_visitor. */
static bool write_part(void *context, struct bytes part, uint64_t weight, struct error *error)
{
    static const uint8_t zeros[PROFILE_ALIGNMENT];
    const struct group_sink *target = context;
    const struct profile_group *group = target->group;
    struct bytes padding = {zeros, profile_padding(target->sink->size)};
    struct profile profile;

    (void)weight;
    return (padding.size == 0 || count_and_pass(target->sink, padding, error)) &&
           profile_parse(part, 0, group->name, &profile, error) &&
           profile_sidecar_correlate(group->sidecar, &profile, group->name, count_and_pass,
                                     target->sink, error);
}

static bool write_group(struct profile_group *group, struct counting_sink *sink,
                        struct error *error)
{
    struct group_sink target = {group, sink};
    bool done;

    sink->caller.name = group->name;
    done = profile_sum_visit(group->sum, false, write_part, &target, error);
    profile_sidecar_unload(group->sidecar);
    return done;
}

static bool finish(covsplit_merger *merger, struct counting_sink *sink, struct error *error)
{
    if (!check_usable(merger, "the sum of the profiles", error))
        return false;
    if (merger->place == 0)
        return error_set(error, "the sum of the profiles: there are none; add one");
    merger->end = "has passed on its sums already";
    profile_groups_finish(&merger->groups);
    if (!profile_groups_combine(&merger->groups, error))
        return false;
    for (size_t i = 0; i < merger->groups.count; i++) {
        if (!write_group(merger->groups.list[i], sink, error))
            return false;
    }
    return true;
}

bool covsplit_merger_finish(covsplit_merger *merger, covsplit_sink sink, void *context,
                            covsplit_error **error)
{
    struct counting_sink counting = {.caller = {.sink = sink, .context = context}};
    struct error why = {0};

    return check_result(finish(merger, &counting, &why), error, &why);
}
