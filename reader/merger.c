/*
 * Merging: see covsplit.h. A thin layer over common/sidecar/profile_groups.h.
 */
#include <stdlib.h>

#include "common/base/array.h"
#include "common/sidecar/profile_groups.h"
#include "reader/internal.h"

struct covsplit_merger {
    struct profile_groups groups;
    struct profile_sidecar_source source; /* of the groups */
    const covsplit_store *store;          /* may be NULL */
    covsplit_sidecar **given;
    size_t given_count, given_capacity;
    size_t profile_count;
    /* Why the merger can no longer be used; NULL while it can. */
    const char *end;
};

/* ---- sidecars ---- */

static bool is_given(const covsplit_merger *merger, const struct sidecar *sidecar)
{
    for (size_t i = 0; i < merger->given_count; i++) {
        if (merger->given[i]->sidecar == sidecar)
            return true;
    }
    return false;
}

/* Gives back a group's sidecar: a profile_sidecar_source's release. */
static void release(void *context, struct profile_sidecar *sidecar)
{
    correlation_free(&sidecar->correlation);
    if (!is_given(context, sidecar->sidecar))
        sidecar_close(sidecar->sidecar);
    free(sidecar);
}

/* Sets *found to the first given sidecar that fits, or NULL; the error then says why the first does
 * not. False if out of memory. */
static bool find_given(const covsplit_merger *merger, const struct profile *profile,
                       const char *name, struct sidecar **found, struct error *error)
{
    *found = NULL;
    for (size_t i = 0; i < merger->given_count; i++) {
        struct sidecar *sidecar = merger->given[i]->sidecar;
        struct error why = {0};

        if (correlation_check(sidecar, profile, name, &why)) {
            *found = sidecar;
            return true;
        }
        if (i == 0 || error_is_of_memory(&why))
            *error = why;
        if (error_is_of_memory(&why))
            return false;
    }
    return true;
}

static struct sidecar *find_in_store(const covsplit_store *store, const struct profile *profile,
                                     const char *name, struct error *error)
{
    struct sidecar *sidecar = open_for_profile(store, profile, name, error);

    if (sidecar == NULL || correlation_check(sidecar, profile, name, error))
        return sidecar;
    sidecar_close(sidecar);
    return NULL;
}

static struct sidecar *find_sidecar(const covsplit_merger *merger, const struct profile *profile,
                                    const char *name, struct error *error)
{
    struct sidecar *sidecar;

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (!find_given(merger, profile, name, &sidecar, error) || sidecar != NULL)
        return sidecar;
    if (merger->store != NULL)
        return find_in_store(merger->store, profile, name, error);
    if (merger->given_count == 0)
        error_set(error, "%s: needs the sidecar of its image; give the merger that, or a store",
                  name);
    return NULL;
}

/* Finds the sidecar of a group: a profile_sidecar_source's find. */
static struct profile_sidecar *find(void *context, const struct profile *profile, const char *name,
                                    struct error *error)
{
    struct profile_sidecar *sidecar = calloc(1, sizeof(*sidecar));

    if (sidecar == NULL) {
        error_out_of_memory(error, name, sizeof(*sidecar));
        return NULL;
    }
    sidecar->sidecar = find_sidecar(context, profile, name, error);
    if (sidecar->sidecar != NULL)
        return sidecar;
    free(sidecar);
    return NULL;
}

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
    merger->store = store;
    merger->source = (struct profile_sidecar_source){find, release, merger};
    profile_groups_start(&merger->groups, &merger->source);
    return merger;
}

void covsplit_merger_free(covsplit_merger *merger)
{
    if (merger == NULL)
        return;
    profile_groups_free(&merger->groups);
    free(merger->given);
    free(merger);
}

bool covsplit_merger_add_sidecar(covsplit_merger *merger, covsplit_sidecar *sidecar,
                                 covsplit_error **error)
{
    const char *name = sidecar_name(sidecar->sidecar);
    struct error why = {0};
    bool added = ARRAY_ROOM_FOR_ONE(merger->given, merger->given_capacity, merger->given_count);

    if (added)
        merger->given[merger->given_count++] = sidecar;
    else
        error_out_of_memory(&why, name, sizeof(sidecar));
    return check_result(added, error, &why);
}

/* ---- adding ---- */

static bool check_usable(const covsplit_merger *merger, const char *name, struct error *error)
{
    return merger->end == NULL ||
           error_set(error, "%s: the merger %s; make another one", name, merger->end);
}

static bool check_profile(const struct profile *profile, const char *name, struct error *error)
{
    return profile_can_be_summed(profile) ||
           error_set(error, "%s: %s cannot be added to others; correlate it by itself", name,
                     profile->value_data.size != 0 ? "a value profile" : "a temporal profile");
}

static bool add_profile(covsplit_merger *merger, const struct profile *profile, const char *name,
                        struct error *error)
{
    const struct profile_place place = {name, merger->profile_count, 0};
    struct profile_group *group;

    if (!check_usable(merger, name, error) || !check_profile(profile, name, error))
        return false;
    group = profile_groups_find(&merger->groups, profile, name, error);
    if (group == NULL)
        return false;
    merger->profile_count++;
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

/* What is decompressed of a sidecar is freed again, so that it is in memory for one image only. */
static bool write_group(struct profile_group *group, struct counting_sink *sink,
                        struct error *error)
{
    static const uint8_t zeros[PROFILE_ALIGNMENT];
    struct bytes padding = {zeros, profile_padding(sink->size)};
    struct profile profile;
    bool done;

    sink->caller.name = group->name;
    done = (padding.size == 0 || count_and_pass(sink, padding, error)) &&
           profile_parse(profile_sum_combined(group->sum), 0, group->name, &profile, error) &&
           profile_sidecar_correlate(group->sidecar, &profile, group->name, count_and_pass, sink,
                                     error);
    if (group->sidecar != NULL)
        correlation_free(&group->sidecar->correlation);
    return done;
}

static bool finish(covsplit_merger *merger, struct counting_sink *sink, struct error *error)
{
    if (!check_usable(merger, "the sum of the profiles", error))
        return false;
    if (merger->profile_count == 0)
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
