/*
 * Reads the profiles to be merged, into one sum for each image.
 *
 * The profiles of one image that can be added form a group. Several threads read files and add them
 * up; each has one file in memory at a time, and they share the sums. The result does not depend on
 * the number of threads.
 *
 * Profiles that cannot be summed (value profiles, temporal profiles) form groups too, so that they
 * are checked and their sidecars found, but are read again when the output is written.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_READ_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_READ_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/llvm/profile_sum.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/progress.h"
#include "split/profiles/merge_inputs.h"

struct merge_group {
    struct digest identity;
    unsigned version; /* of its raw profiles */
    bool can_be_summed;
    bool is_temporal;
    struct profile_sum *sum;         /* NULL if its profiles cannot be summed */
    struct profile_sidecar *sidecar; /* NULL if its profiles need none */
    size_t first_input; /* the input of its first profile, which decides the order of the output */
    uint64_t first_offset;
    uint64_t profile_count;
};

/* An input that was not merged, and why. */
struct merge_failure {
    size_t input;
    struct error error;
};

/* A stream (stream.h) whose profiles cannot be summed: what was read is kept. */
struct merge_kept_stream {
    size_t input;
    struct buffer content;
};

struct merge {
    /* Set by the caller. */
    const struct path_list *inputs;
    struct profile_sidecars *sidecars;
    unsigned threads;
    bool goes_on;              /* continue after bad inputs: --failure-mode=all */
    uint64_t memory_limit;     /* --memory-limit, for each input (memory_limit.h); 0: not given */
    struct progress *progress; /* updated when a file has been added */

    /* Set by merge_read, in the order of the inputs. */
    struct merge_group **groups;
    size_t group_count, group_capacity;
    struct merge_failure *failures;
    size_t failure_count, failure_capacity;
    size_t empty_count; /* empty inputs, left by programs that wrote no profile */
    size_t first_empty;
    uint64_t bytes_read;
    bool *must_be_read_again; /* by input: it has profiles that cannot be summed */
    struct merge_kept_stream *kept_streams;
    size_t kept_stream_count, kept_stream_capacity;

    /* Shared by the threads. */
    pthread_mutex_t lock;
    void *group_tree; /* a tsearch tree of the groups, by identity */
    size_t next_input;
    bool failed; /* out of memory; see `error` */
    struct error error;
};

/* What the input is called in messages. */
const char *merge_input_name(const struct merge *merge, size_t input);

/* Reads all inputs, or without goes_on those up to the first bad one. False if out of memory, or if
 * no thread can be started; bad inputs are reported in `failures`. Free with merge_free, even after
 * a failure. */
bool merge_read(struct merge *merge, struct error *error);
void merge_free(struct merge *merge);

/* Adds up groups that turn out to belong to the same image: those with profiles of the split image,
 * and of the image before the split. */
bool merge_combine_groups(struct merge *merge, struct error *error);

/* Called with each profile of a group; see merge_read_again. */
typedef bool (*merge_user)(void *context, const struct profile *profile, const char *name,
                           struct error *error);

/* Calls the user with the profiles of a group that cannot be summed, in order. */
bool merge_read_again(const struct merge *merge, const struct merge_group *group, merge_user user,
                      void *context, struct error *error);

#endif
