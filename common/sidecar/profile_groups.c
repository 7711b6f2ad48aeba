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

/* The tree does not own the groups. */
static void keep_node(void *node)
{
    (void)node;
}

void profile_groups_start(struct profile_groups *groups,
                          const struct profile_sidecar_source *source)
{
    *groups = (struct profile_groups){.source = source};
    pthread_mutex_init(&groups->lock, NULL);
}

void profile_groups_free(struct profile_groups *groups)
{
    tdestroy(groups->tree, keep_node);
    for (size_t i = 0; i < groups->count; i++)
        free_group(groups, groups->list[i]);
    free(groups->list);
    pthread_mutex_destroy(&groups->lock);
}

void profile_groups_finish(struct profile_groups *groups)
{
    size_t kept = 0;

    tdestroy(groups->tree, keep_node);
    groups->tree = NULL;
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
    return digest_equal(&group->sum->identity, identity) && group->weight == weight &&
           group->can_be_summed == profile_can_be_summed(profile);
}

static int compare_contents(const void *a, const void *b)
{
    const struct profile_group *left = a, *right = b;
    int order = memcmp(left->sum->identity.bytes, right->sum->identity.bytes, DIGEST_SIZE);

    if (order == 0)
        order = (int)left->can_be_summed - (int)right->can_be_summed;
    return order != 0 ? order : (left->weight > right->weight) - (left->weight < right->weight);
}

/* Under the lock. */
static struct profile_group *start_group(struct profile_groups *groups,
                                         const struct profile *profile, uint64_t weight,
                                         const char *name, const struct digest *identity,
                                         struct error *error)
{
    const struct profile_sidecar_source *source = groups->source;
    struct profile_group *group = calloc(1, sizeof(*group));
    enum profile_uuid_source uuid_source;
    struct profile head = *profile;
    bool done;

    if (group == NULL) {
        error_out_of_memory(error, name, sizeof(*group));
        return NULL;
    }
    head.binary_ids = head.data = head.counters = head.bitmap = head.names = head.vtables =
        head.vtable_names = head.value_data = (struct bytes){0};
    *group = (struct profile_group){
        .sum = profile_sum_new(identity, error),
        .version = profile->version,
        .can_be_summed = profile_can_be_summed(profile),
        .is_temporal = (profile->header.version & PROFILE_VARIANT_TEMPORAL) != 0,
        .head = head,
        .records = profile_records_digest(&profile->layout, profile->data, 0, profile->big_endian),
        .weight = weight,
        .uuid = profile_uuid(profile, &uuid_source),
        .first.input = NO_INPUT};
    done = group->sum != NULL &&
           (profile_needs_sidecar(profile) || profile_check_functions(profile, name, error));
    if (done && source != NULL && profile_needs_sidecar(profile)) {
        group->sidecar = source->find(source->context, profile, name, error);
        done = group->sidecar != NULL;
    }
    if (done && (!ARRAY_ROOM_FOR_ONE(groups->list, groups->capacity, groups->count) ||
                 tsearch(group, &groups->tree, compare_contents) == NULL))
        done = error_out_of_memory(error, name, sizeof(*group));
    if (!done) {
        free_group(groups, group);
        return NULL;
    }
    groups->list[groups->count++] = group;
    return group;
}

struct profile_group *profile_groups_find(struct profile_groups *groups,
                                          const struct profile *profile, uint64_t weight,
                                          const char *name, struct error *error)
{
    struct profile_group *const *found, *group;
    struct profile_sum sum = {0};
    const struct profile_group wanted = {
        .sum = &sum, .weight = weight, .can_be_summed = profile_can_be_summed(profile)};

    /* llvm-profdata takes no profile without the value data that its records announce. */
    if (profile->lacks_value_data) {
        error_set(error,
                  "%s: its value profile data is missing: the program was killed while it wrote, "
                  "counted continuously, or called __llvm_profile_write_buffer; let it write a "
                  "file at its end",
                  name);
        return NULL;
    }
    sum.identity = profile_identity(profile);
    pthread_mutex_lock(&groups->lock);
    found = tfind(&wanted, &groups->tree, compare_contents);
    group =
        found != NULL ? *found : start_group(groups, profile, weight, name, &sum.identity, error);
    pthread_mutex_unlock(&groups->lock);
    return group;
}

struct uuid profile_group_uuid(const struct profile_group *group)
{
    const struct profile_sidecar *sidecar = profile_group_sidecar(group);

    return sidecar != NULL ? sidecar->sidecar->facts.uuid : group->uuid;
}

bool profile_group_check(const struct profile_group *group, const struct sidecar *sidecar,
                         struct error *error)
{
    const struct profile_sidecar *own = profile_group_sidecar(group);

    if (own == NULL)
        return correlation_check_full(sidecar, &group->head, &group->uuid, &group->records,
                                      group->name, error);
    return sidecar_agrees(own->sidecar, sidecar) ||
           error_set(error,
                     "%s: written by another build than that of %s: its sidecar is %s; name the "
                     "image that wrote it, and link each build %s",
                     group->name, sidecar->name, own->sidecar->name,
                     uuid_link_advice(sidecar->facts.format));
}

/* ---- adding ---- */

/* Makes the place that of the group's first profile, if it is earlier. */
static bool note_place(struct profile_group *group, const struct profile_place *place,
                       bool *is_first, struct error *error)
{
    char *name;

    if (place->time > group->newest)
        group->newest = place->time;
    *is_first = is_earlier(group, place);
    if (!*is_first)
        return true;
    name = strdup(place->name);
    if (name == NULL)
        return error_out_of_memory(error, place->name, strlen(place->name));
    free(group->name);
    group->name = name;
    group->first = *place;
    group->first.name = name;
    return true;
}

/* The counters start with the profile that happens to be added first, but header and data are those
 * of the one whose place is first: their addresses differ from run to run. */
bool profile_groups_add(struct profile_groups *groups, struct profile_group *group,
                        const struct profile *profile, const struct profile_place *place,
                        unsigned share, unsigned shares, struct error *error)
{
    struct profile_sum *sum = group->sum;
    bool is_first, has_counters, done;

    pthread_mutex_lock(&groups->lock);
    done = note_place(group, place, &is_first, error);
    has_counters = profile_sum_has_counters(sum);
    if (done && is_first && has_counters)
        profile_sum_adopt(sum, profile);
    if (done && !has_counters)
        done = profile_sum_add(sum, profile, share, shares, error);
    pthread_mutex_unlock(&groups->lock);
    return done && (!has_counters || profile_sum_add(sum, profile, share, shares, error));
}

bool profile_group_add_sum(struct profile_group *group, struct profile_sum *sum,
                           const struct profile_place *place, struct error *error)
{
    bool is_first;

    return note_place(group, place, &is_first, error) &&
           profile_sum_add_sum(group->sum, sum, error);
}

/* ---- groups of one image ---- */

void profile_groups_drop(struct profile_groups *groups, size_t index)
{
    free_group(groups, groups->list[index]);
    groups->count--;
    memmove(&groups->list[index], &groups->list[index + 1],
            (groups->count - index) * sizeof(*groups->list));
}

/* The identity that the group's profiles will have after correlation. */
static bool correlated_identity(struct profile_group *group, struct digest *identity,
                                struct error *error)
{
    struct buffer relocated = {0};
    struct profile full;
    bool done = profile_sidecar_apply(group->sidecar, profile_sum_combined(group->sum), group->name,
                                      &relocated, &full, error);

    if (done)
        *identity = profile_identity(&full);
    profile_sidecar_unload(group->sidecar);
    buffer_free(&relocated);
    return done;
}

/* Finds a group of full profiles: one of this identity; NULL: one that may belong to the image of
 * the other group. */
static struct profile_group *find_full_group(const struct profile_groups *groups,
                                             const struct profile_group *of,
                                             const struct digest *identity)
{
    for (size_t i = 0; i < groups->count; i++) {
        struct profile_group *full = groups->list[i];

        if (full->can_be_summed && full->sidecar == NULL && full->weight == of->weight &&
            (identity == NULL ? full->head.header.version == of->head.header.version &&
                                    full->head.header.num_counters == of->head.header.num_counters
                              : digest_equal(&full->sum->identity, identity)))
            return full;
    }
    return NULL;
}

bool profile_groups_combine(struct profile_groups *groups, struct error *error)
{
    for (size_t i = 0; i < groups->count;) {
        struct profile_group *group = groups->list[i], *full = NULL;
        struct digest identity;

        /* Correlating in memory pays off only if there is a full profile that may match. */
        if (group->can_be_summed && group->sidecar != NULL &&
            find_full_group(groups, group, NULL) != NULL) {
            if (!correlated_identity(group, &identity, error))
                return false;
            full = find_full_group(groups, group, &identity);
        }
        if (full == NULL) {
            i++;
            continue;
        }
        if (full->sidecar_of_split == NULL) {
            full->sidecar_of_split = group->sidecar;
            group->sidecar = NULL;
        }
        group->first.time = group->newest;
        if (!profile_group_add_sum(full, group->sum, &group->first, error))
            return false;
        profile_groups_drop(groups, i);
    }
    put_in_order(groups);
    return true;
}
