/*
 * Groups of profiles: the profiles of one image that can be added, and their sum.
 *
 * Any number of profiles of any images are taken in, and each finds its group by its identity
 * (profile_sum.h). Several threads may do so at the same time. What comes out is always the
 * same: the groups are in the order of their first profiles, and header and data of a sum are those
 * of the first profile.
 *
 *     profile_groups_start(&groups, &source);
 *     for each profile:
 *         group = profile_groups_find(&groups, &profile, 1, name, &error);
 *         profile_groups_add(&groups, group, &profile, &place, 0, 1, &error);
 *     profile_groups_finish(&groups);
 *     profile_groups_combine(&groups, &error);
 *     for each of groups.list: profile_sum_combined(group->sum)
 *     profile_groups_free(&groups);
 *
 * To find a group and to add to it are two steps, so that a caller can check all profiles of a file
 * before it adds the first.
 *
 * Profiles that cannot be summed (value profiles, temporal profiles) form groups too, which count
 * them; the caller decides what to do with the profiles.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_PROFILE_GROUPS_H
#define COVSPLIT_COMMON_SIDECAR_PROFILE_GROUPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/llvm/profile_sum.h"
#include "common/sidecar/correlate.h"

/* The origin of a profile. The input that comes first has the lowest number. */
struct profile_place {
    const char *name; /* of the file, in messages */
    size_t input;
    uint64_t offset; /* in the file */
    int64_t time;    /* when the file was modified, in nanoseconds; 0: not known */
};

struct profile_group {
    struct profile_sum *sum; /* without counters if its profiles cannot be summed */
    unsigned version;        /* of its raw profiles */
    bool can_be_summed;
    bool is_temporal;
    struct profile head;   /* of its first profile that was found, without its parts */
    struct digest records; /* of these profiles: profile_records_digest */
    uint64_t weight;       /* by which llvm-profdata has to multiply the counts; 1 for most */
    struct profile_sidecar *sidecar; /* NULL if its profiles need none, or there is no source */
    /* If profiles of the split image were added to those of the image before the split: the sidecar
     * that they needed. */
    struct profile_sidecar *sidecar_of_split;
    struct uuid uuid;           /* of its first profile that was found; see profile_group_uuid */
    char *name;                 /* of the file of its first profile, in messages */
    struct profile_place first; /* of that profile, with the same name */
    int64_t newest;             /* the latest time of a profile */
};

/* The source of the sidecars of groups: `find` is called once for each group whose profiles need
 * one, and by one thread at a time. It checks that the sidecar is the right one. `release` gives a
 * sidecar back. */
struct profile_sidecar_source {
    struct profile_sidecar *(*find)(void *context, const struct profile *profile, const char *name,
                                    struct error *error);
    void (*release)(void *context, struct profile_sidecar *sidecar);
    void *context;
};

struct profile_groups {
    struct profile_group **list; /* in order once profile_groups_finish has been called */
    size_t count, capacity;
    const struct profile_sidecar_source *source;
    pthread_mutex_t lock;
    void *tree; /* a tsearch tree of the groups, by identity */
};

/* Without a source (NULL) the groups have no sidecars, and cannot be combined. The source must
 * outlive the groups. Free with profile_groups_free. */
void profile_groups_start(struct profile_groups *groups,
                          const struct profile_sidecar_source *source);
void profile_groups_free(struct profile_groups *groups);

/* Returns the group of the profile with this weight, which may be a new one. NULL with an error if
 * the profile lacks a part, if its sidecar cannot be found, or if out of memory. `name` is the
 * profile's. */
struct profile_group *profile_groups_find(struct profile_groups *groups,
                                          const struct profile *profile, uint64_t weight,
                                          const char *name, struct error *error);

/* Counts the profile, and adds it to the sum of its group if it can be summed. Each thread should
 * pass its own `share` (profile_sum_add). False only if out of memory; the groups can only be freed
 * then. */
bool profile_groups_add(struct profile_groups *groups, struct profile_group *group,
                        const struct profile *profile, const struct profile_place *place,
                        unsigned share, unsigned shares, struct error *error);

/* Adds a sum of profiles of the group's identity, and may empty it. No other thread may use the
 * groups at the same time. False only if out of memory, as above. */
bool profile_group_add_sum(struct profile_group *group, struct profile_sum *sum,
                           const struct profile_place *place, struct error *error);

/* The UUID of the image: that of the sidecar, if there is one, or else of the profiles; its size is
 * 0 if these contain none. */
struct uuid profile_group_uuid(const struct profile_group *group);

/* Checks that the sidecar belongs to the image that wrote the group's profiles, as far as these can
 * prove it (correlation_check): if they needed a sidecar, it must agree with that one. */
bool profile_group_check(const struct profile_group *group, const struct sidecar *sidecar,
                         struct error *error);

/* The sidecar that has the coverage mapping of the image; NULL if there is none. */
static inline struct profile_sidecar *profile_group_sidecar(const struct profile_group *group)
{
    return group->sidecar != NULL ? group->sidecar : group->sidecar_of_split;
}

/* True if the group is the one of a profile with this identity and weight. */
bool profile_group_has(const struct profile_group *group, const struct digest *identity,
                       const struct profile *profile, uint64_t weight);

/* Puts the groups in order, and drops those to which nothing was added. To be called when
 * everything has been added. */
void profile_groups_finish(struct profile_groups *groups);

/* Takes a group out, with its profiles. To be called after profile_groups_finish. */
void profile_groups_drop(struct profile_groups *groups, size_t index);

/* Adds up groups that turn out to belong to the same image: those with profiles of the split image,
 * and of the image before the split. To be called after profile_groups_finish. */
bool profile_groups_combine(struct profile_groups *groups, struct error *error);

#endif
