/*
 * Reads the profiles to be merged, into one sum for each group (profile_groups.h).
 *
 * Several threads read files and add them up; each has one file in memory at a time, and they share
 * the sums. The result does not depend on the number of threads.
 *
 * An input may also be a state (common/state/state.h), whose sums are added to the groups.
 *
 * Profiles that cannot be summed are checked and their sidecars found, but are read again when the
 * output is written.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_READ_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_READ_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/sidecar/profile_groups.h"
#include "common/state/test_recorder.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/profiles/merge_inputs.h"

/* An input that was not merged, and why. */
struct merge_failure {
    size_t input;
    struct error error;
};

/* An image of which no sidecar was found, and its inputs, which count as failed. */
struct merge_lacking {
    struct uuid uuid;
    uint64_t profile_count;
    char *first; /* the name of the one that was met first */
};

/* A stream (stream.h) whose profiles cannot be summed: what was read is kept. */
struct merge_kept_stream {
    size_t input;
    struct buffer content;
};

struct merge {
    /* Set by the caller. */
    const struct path_list *inputs;
    const uint64_t *weights;       /* of each input; NULL: 1 each */
    const struct path_list *names; /* what the inputs are called in messages; NULL: as `inputs` */
    struct profile_sidecars *sidecars;
    unsigned threads;
    bool goes_on;              /* continue after bad inputs: --failure-mode=all */
    bool only_sums;            /* a profile that cannot be summed is bad */
    uint64_t memory_limit;     /* --memory-limit, for each input (memory_limit.h); 0: not given */
    struct progress *progress; /* updated when a file has been added */
    /* Notes which functions the tests reach: those that states have, and those of the inputs, whose
     * names are in `tests`. Both may be NULL. */
    struct test_recorder *recorder;
    const struct path_list *tests; /* for each input */

    /* Set by merge_read, in the order of the inputs. */
    struct profile_groups groups;
    struct merge_failure *failures;
    size_t failure_count, failure_capacity;
    struct merge_lacking *lacking;
    size_t lacking_count, lacking_capacity;
    size_t empty_count; /* empty inputs, left by programs that wrote no profile */
    size_t first_empty;
    uint64_t bytes_read;
    bool *must_be_read_again; /* by input: it has profiles that cannot be summed */
    struct merge_kept_stream *kept_streams;
    size_t kept_stream_count, kept_stream_capacity;

    struct profile_sidecar_source source; /* of the groups */

    /* Shared by the threads. */
    pthread_mutex_t lock;
    size_t next_input;
    bool failed; /* out of memory, or a state cannot be read; see `error` */
    struct error error;
};

/* What the input is called in messages. */
const char *merge_input_name(const struct merge *merge, size_t input);

/* Reads all inputs, or without goes_on those up to the first bad one. False if out of memory, if
 * no thread can be started, or if a state cannot be read; bad inputs are reported in `failures`.
 * Free with merge_free, even after a failure. */
bool merge_read(struct merge *merge, struct error *error);
void merge_free(struct merge *merge);

/* A profile that is read again. */
struct merge_found {
    size_t input;
    const char *name; /* of the input, in messages */
    const struct profile_group *group;
    const struct profile *profile;
};

typedef bool (*merge_user)(void *context, const struct merge_found *found, struct error *error);

/* Calls the user with the profiles of these groups, which cannot be summed: input by input, in the
 * order that they have there. */
bool merge_read_again(const struct merge *merge, const struct profile_group *const *groups,
                      size_t count, merge_user user, void *context, struct error *error);

#endif
