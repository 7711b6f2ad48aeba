/*
 * Merging profiles into a state and deleting them: `covsplit merge --into --consume`.
 *
 * Profiles are claimed (claim.h) as they are found, and read some hundred at a time; their sums are
 * held in memory. From time to time all that was read is committed as one batch, and the profiles
 * are deleted when the batch is folded. Memory is bounded by the images, and by the paths of one
 * batch.
 *
 * What cannot be consumed stays where it is. However this process ends, each profile either counts
 * once or still exists, under its own name or a hidden one, by which the next run finds it.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_CONSUME_H
#define COVSPLIT_SPLIT_PROFILES_CONSUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/state/state.h"
#include "common/state/test_recorder.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/path_list.h"
#include "split/profiles/claim.h"
#include "split/profiles/left_files.h"
#include "split/profiles/stop.h"
#include "split/profiles/test_name.h"

struct consumer {
    /* Set by the caller, after consumer_start. */
    struct profile_sidecars *sidecars;
    const struct test_naming *naming;
    unsigned threads;
    uint64_t memory_limit; /* --memory-limit, for each profile; 0: not given */
    struct stop *stop;
    struct left_files left;
    const char *root; /* the directory that was named as an operand; NULL: a file was. May change */

    /* What has been done. */
    uint64_t files, profiles, bytes; /* consumed */
    size_t empty_count;              /* files without bytes, which stay */
    size_t open_count;               /* files that others have open */
    char *first_open;                /* one of them */
    bool must_repeat; /* a program wrote into a claim: all of its batch was given back */

    struct state *state;

    /* The batch. */
    struct test_recorder recorder;
    struct claims claims;
    size_t unread; /* the first claim that was not read yet */
    struct held_sum *sums;
    size_t sum_count, sum_capacity;
    uint64_t held, batch_profiles, batch_bytes;
};

void consumer_start(struct consumer *consumer, struct state *state);

/* Consumes a file. It is no failure if that must stay, which is noted or named. After a failure the
 * consumer can only be freed. */
bool consume_file(struct consumer *consumer, const char *path, struct error *error);

/* Consumes the files of a directory, and adds the paths of the directories in it to the list,
 * except for states. Stops early if the stop is wanted. If the directory is gone, nothing is done;
 * if it cannot be read, it is left like a file. */
bool consume_directory(struct consumer *consumer, const char *path, struct path_list *directories,
                       struct error *error);

/* Consumes all that is in and below the directory. */
bool consume_tree(struct consumer *consumer, const char *path, struct error *error);

/* Commits what was read, and folds it. */
bool consume_commit(struct consumer *consumer, struct error *error);

/* Gives back what was not committed, and frees everything but the state and the sidecars. */
void consumer_free(struct consumer *consumer);

#endif
