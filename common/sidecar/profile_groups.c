/*
 * Groups of profiles: see profile_groups.h.
 */
#include "common/sidecar/profile_groups.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

/* ---- order ---- */

/* For a group that has no profile yet: sorts after all others. */
#define NO_INPUT SIZE_MAX

static bool is_earlier(const struct profile_group *group, const struct profile_place *place)
{
    return place->input != group->first.input ? place->input < group->first.input
                                              : place->offset < group->first.offset;
}

static int compare_groups(const void *a, const void *b)
{
    const struct profile_group *left = *(struct profile_group *const *)a;
    const struct profile_group *right = *(struct profile_group *const *)b;

    return is_earlier(right, &left->first) ? -1 : 1;
}

static void put_in_order(struct profile_groups *groups)
{
    if (groups->count > 1)
        qsort(groups->list, groups->count, sizeof(*groups->list), compare_groups);
}

/* ---- start and end ---- */

static void free_group(const struct profile_groups *groups, struct profile_group *group)
{
    profile_sum_free(group->sum);
    if (group->sidecar != NULL)
        groups->source->release(groups->source->context, group->sidecar);
    if (group->sidecar_of_split != NULL)
        groups->source->release(groups->source->context, group->sidecar_of_split);
    free(group->name);
    free(group);
}

static void keep_node(void *node)
{
    (void)node; /* the tree does not own the groups */
}

static void free_tree(struct profile_groups *groups)
{
    tdestroy(groups->tree, keep_node);
    groups->tree = NULL;
}

void profile_groups_start(struct profile_groups *groups,
                          const struct profile_sidecar_source *source)
{
    *groups = (struct profile_groups){.source = source};
    pthread_mutex_init(&groups->lock, NULL);
}

void profile_groups_free(struct profile_groups *groups)
{
    free_tree(groups);
    for (size_t i = 0; i < groups->count; i++)
        free_group(groups, groups->list[i]);
    free(groups->list);
    pthread_mutex_destroy(&groups->lock);
}

void profile_groups_finish(struct profile_groups *groups)
{
    size_t kept = 0;

    free_tree(groups);
    for (size_t i = 0; i < groups->count; i++) {
        struct profile_group *group = groups->list[i];

        if (group->first.input == NO_INPUT)
            free_group(groups, group);
        else
            groups->list[kept++] = group;
    }
    groups->count = kept;
    put_in_order(groups);
}

/* ---- finding ---- */

bool profile_group_has(const struct profile_group *group, const struct digest *identity,
                       const struct profile *profile, uint64_t weight)
{
    return digest_equal(&group->identity, identity) && group->weight == weight &&
           group->can_be_summed == profile_can_be_summed(profile);
}

static int compare_contents(const void *a, const void *b)
{
    const struct profile_group *left = a, *right = b;
    int order = memcmp(left->identity.bytes, right->identity.bytes, DIGEST_SIZE);

    if (order == 0)
        order = (int)left->can_be_summed - (int)right->can_be_summed;
    return order != 0 ? order : (left->weight > right->weight) - (left->weight < right->weight);
}

static struct profile_group *find_group(const struct profile_groups *groups,
                                        const struct digest *identity,
                                        const struct profile *profile, uint64_t weight)
{
    const struct profile_group wanted = {
        .identity = *identity, .weight = weight, .can_be_summed = profile_can_be_summed(profile)};
    struct profile_group *const *found = tfind(&wanted, &groups->tree, compare_contents);

    return found == NULL ? NULL : *found;
}

static bool keep_group(struct profile_groups *groups, struct profile_group *group)
{
    if (!ARRAY_ROOM_FOR_ONE(groups->list, groups->capacity, groups->count))
        return false;
    if (tsearch(group, &groups->tree, compare_contents) == NULL)
        return false;
    groups->list[groups->count++] = group;
    return true;
}

/* Finds the sidecar of a new group, if it needs one. */
static bool find_sidecar(const struct profile_groups *groups, struct profile_group *group,
                         const struct profile *profile, const char *name, struct error *error)
{
    const struct profile_sidecar_source *source = groups->source;

    if (source == NULL || !profile_needs_sidecar(profile))
        return true;
    group->sidecar = source->find(source->context, profile, name, error);
    return group->sidecar != NULL;
}

static struct profile_group *start_group(struct profile_groups *groups,
                                         const struct profile *profile, uint64_t weight,
                                         const char *name, const struct digest *identity,
                                         struct error *error)
{
    struct profile_group *group = calloc(1, sizeof(*group));
    enum profile_uuid_source source;
    bool done;

    if (group == NULL) {
        error_out_of_memory(error, name, sizeof(*group));
        return NULL;
    }
    *group = (struct profile_group){.identity = *identity,
                                    .version = profile->version,
                                    .raw_version = profile->header.version,
                                    .counter_count = profile->header.num_counters,
                                    .can_be_summed = profile_can_be_summed(profile),
                                    .is_temporal =
                                        (profile->header.version & PROFILE_VARIANT_TEMPORAL) != 0,
                                    .weight = weight,
                                    .uuid = profile_uuid(profile, &source),
                                    .first.input = NO_INPUT};
    done = find_sidecar(groups, group, profile, name, error);
    if (done && !keep_group(groups, group))
        done = error_out_of_memory(error, name, sizeof(*group));
    if (done)
        return group;
    free_group(groups, group);
    return NULL;
}

/* llvm-profdata takes no profile without the value data that its records announce. */
static bool check_value_data(const struct profile *profile, const char *name, struct error *error)
{
    return !profile->lacks_value_data ||
           error_set(error,
                     "%s: its value profile data is missing: the program was killed while "
                     "it wrote, counted continuously, or called "
                     "__llvm_profile_write_buffer; let it write a file at its end",
                     name);
}

struct profile_group *profile_groups_find(struct profile_groups *groups,
                                          const struct profile *profile, uint64_t weight,
                                          const char *name, struct error *error)
{
    struct profile_group *group;
    struct digest identity;

    if (!check_value_data(profile, name, error) ||
        !profile_identity(profile, name, &identity, error))
        return NULL;
    pthread_mutex_lock(&groups->lock);
    group = find_group(groups, &identity, profile, weight);
    if (group == NULL)
        group = start_group(groups, profile, weight, name, &identity, error);
    pthread_mutex_unlock(&groups->lock);
    return group;
}

struct uuid profile_group_uuid(const struct profile_group *group)
{
    const struct profile_sidecar *sidecar =
        group->sidecar != NULL ? group->sidecar : group->sidecar_of_split;

    return sidecar != NULL ? sidecar_facts(sidecar->sidecar)->uuid : group->uuid;
}

/* ---- adding ---- */

/* Makes the place that of the group's first profile. */
static bool set_first(struct profile_group *group, const struct profile_place *place,
                      struct error *error)
{
    char *name = strdup(place->name);

    if (name == NULL)
        return error_out_of_memory(error, place->name, strlen(place->name));
    free(group->name);
    group->name = name;
    group->first = *place;
    group->first.name = name;
    return true;
}

/* Counts the profile. The sum is created from the profile that happens to be added first, but takes
 * its header and data from the one whose place is first: their addresses differ from run to run. */
static bool count_profile(struct profile_group *group, const struct profile *profile,
                          const struct profile_place *place, bool *is_new, struct error *error)
{
    bool is_first = is_earlier(group, place);

    *is_new = false;
    group->profile_count++;
    if (is_first && !set_first(group, place, error))
        return false;
    if (!group->can_be_summed)
        return true;
    if (group->sum == NULL) {
        *is_new = true;
        group->sum = profile_sum_new(profile, place->name, error);
        return group->sum != NULL;
    }
    if (is_first)
        profile_sum_adopt(group->sum, profile);
    return true;
}

bool profile_groups_add(struct profile_groups *groups, struct profile_group *group,
                        const struct profile *profile, const struct profile_place *place,
                        unsigned share, unsigned shares, struct error *error)
{
    bool is_new, counted;

    pthread_mutex_lock(&groups->lock);
    counted = count_profile(group, profile, place, &is_new, error);
    pthread_mutex_unlock(&groups->lock);
    if (!counted || is_new || !group->can_be_summed)
        return counted;
    return profile_sum_add(group->sum, profile, share, shares, error);
}

bool profile_group_add_sum(struct profile_group *group, struct profile_sum *sum,
                           uint64_t profile_count, const struct profile_place *place,
                           struct error *error)
{
    bool added = !is_earlier(group, place) || set_first(group, place, error);

    group->profile_count += profile_count;
    if (added && group->sum == NULL) {
        group->sum = sum;
        return true;
    }
    added = added && profile_sum_add_sum(group->sum, sum, error);
    profile_sum_free(sum);
    return added;
}

/* ---- groups of one image ---- */

struct memory_sink {
    struct buffer buffer;
    const char *name; /* of the group */
};

static bool append_part(void *context, struct bytes part, struct error *error)
{
    struct memory_sink *sink = context;

    return buffer_append(&sink->buffer, part.data, (size_t)part.size) ||
           error_out_of_memory(error, sink->name, sink->buffer.size);
}

/* The identity that the group's profiles will have after correlation. */
static bool correlated_identity(struct profile_group *group, struct digest *identity,
                                struct error *error)
{
    const char *name = group->name;
    struct memory_sink full = {.name = name};
    struct profile sum, parsed;
    bool done = profile_parse(profile_sum_combined(group->sum), 0, name, &sum, error) &&
                profile_sidecar_correlate(group->sidecar, &sum, name, append_part, &full, error) &&
                profile_parse(buffer_view(&full.buffer), 0, name, &parsed, error) &&
                profile_identity(&parsed, name, identity, error);

    profile_sidecar_unload(group->sidecar);
    buffer_free(&full.buffer);
    return done;
}

static struct profile_group *find_full_group(const struct profile_groups *groups,
                                             const struct digest *identity, uint64_t weight)
{
    for (size_t i = 0; i < groups->count; i++) {
        struct profile_group *group = groups->list[i];

        if (group->sum != NULL && group->sidecar == NULL && group->weight == weight &&
            digest_equal(&group->identity, identity))
            return group;
    }
    return NULL;
}

static void remove_group(struct profile_groups *groups, size_t index)
{
    free_group(groups, groups->list[index]);
    memmove(&groups->list[index], &groups->list[index + 1],
            (groups->count - index - 1) * sizeof(*groups->list));
    groups->count--;
}

static bool combine_group(struct profile_groups *groups, size_t index, bool *combined,
                          struct error *error)
{
    struct profile_group *group = groups->list[index], *full;
    struct profile_sum *sum = group->sum;
    struct digest identity;

    *combined = false;
    if (!correlated_identity(group, &identity, error))
        return false;
    full = find_full_group(groups, &identity, group->weight);
    if (full == NULL)
        return true;
    group->sum = NULL; /* which is now the full group's to free */
    if (full->sidecar_of_split == NULL) {
        full->sidecar_of_split = group->sidecar;
        group->sidecar = NULL;
    }
    *combined = profile_group_add_sum(full, sum, group->profile_count, &group->first, error);
    remove_group(groups, index);
    return *combined;
}

/* Correlating in memory pays off only if there is a full profile that may match. */
static bool may_have_full_group(const struct profile_groups *groups,
                                const struct profile_group *group)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct profile_group *full = groups->list[i];

        if (full->sum != NULL && full->sidecar == NULL && full->raw_version == group->raw_version &&
            full->counter_count == group->counter_count)
            return true;
    }
    return false;
}

bool profile_groups_combine(struct profile_groups *groups, struct error *error)
{
    for (size_t i = 0; i < groups->count;) {
        const struct profile_group *group = groups->list[i];
        bool combined = false;

        if (group->sum != NULL && group->sidecar != NULL && may_have_full_group(groups, group) &&
            !combine_group(groups, i, &combined, error))
            return false;
        i += !combined;
    }
    put_in_order(groups);
    return true;
}
