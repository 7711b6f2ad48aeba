/*
 * covsplit merge, in parts:
 *
 *     merge.c          the command, what it is to merge, and states as its output
 *     merge_read.c     reads the profiles to be merged, into one sum for each group
 *                      (profile_groups.h)
 *     merge_outputs.c  writes the sums to files
 *     consume.c        adds profiles to a state and deletes them: --consume, --watch
 *     claim.c          takes such profiles, so that no program adds to them
 *     explain.c        finds the functions about which the images disagree
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "common/sidecar/profile_groups.h"
#include "common/state/state.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"

/* ---- what is to be merged, and into what (merge.c) ---- */

enum profile_format { /* the words of --format */
                      FORMAT_RAW,
                      FORMAT_INDEXED,
                      FORMAT_UNKNOWN,
};

/* A profile, a directory, a state, or a list of these. */
struct merge_operand {
    const char *path;
    uint64_t weight; /* by which counts are multiplied */
};

struct merge_request {
    struct profile_sidecars *sidecars;
    unsigned threads;
    uint64_t memory_limit; /* --memory-limit, for each input (memory_limit.h); 0: not given */
    bool goes_on;          /* continue after bad inputs: --failure-mode=all */
    bool is_verbose;

    struct merge_operand *operands;
    size_t operand_count;

    const char *output;    /* a file, or a state: it is no input. Of a file in memory, a path in a
                            * directory for unnamed files */
    bool is_in_memory;     /* a .profdata file of no name */
    const char *per_image; /* --per-image; or NULL */
    enum profile_format format;
    const char *llvm_profdata; /* --llvm-profdata; or NULL */
    bool is_sparse;            /* --sparse */
    bool explains, is_json;    /* --explain, --json */
    bool is_into_state;        /* a profile that cannot be summed is bad */
    bool consumes, watches;    /* --consume, --watch */
};

/* Adds the operands to the state. *ended_by is the signal that ended it early; 0: none. */
bool merge_into_state(const struct merge_request *request, int *ended_by, struct error *error);

/* ---- images without a sidecar (merge_read.c) ---- */

/* An image of which no sidecar was found, and its inputs, which count as failed. */
struct lacking_image {
    struct uuid uuid;
    uint64_t profile_count;
    char *first; /* the name of the one that comes first */
};

/* Initialize to {0}; free with lacking_images_free. */
struct lacking_images {
    struct lacking_image *items;
    size_t count, capacity;
};

/* Notes that the sidecar of so many profiles is missing. Whatever the order of the profiles, the
 * first one of an image is the one whose name comes first. */
void lacking_images_note(struct lacking_images *images, const struct uuid *uuid, uint64_t profiles,
                         const char *name);

/* Adds to the error about the sidecar of one of these images which others are missing. */
void lacking_images_tell(const struct lacking_images *images, struct error *error);
void lacking_images_free(struct lacking_images *images);

/* ---- reading (merge_read.c) ---- */

/* An input that was not merged, and why. */
struct merge_failure {
    size_t input;
    struct error error;
};

/* An input that is read again, as it has profiles that cannot be summed. */
struct merge_again {
    bool is_needed;
    struct buffer kept; /* its bytes, if it is a stream (stream.h) */
};

struct merge {
    const struct merge_request *request;
    struct progress progress; /* updated when a file has been added */

    /* For merge_read. */
    struct path_list inputs; /* files and states */
    uint64_t *weights;       /* of each input; NULL: 1 each */
    size_t weight_capacity;
    struct path_list names; /* what the inputs are called in messages; none: as `inputs` */

    /* Set by it. */
    struct profile_groups groups;
    struct merge_failure *failures; /* in the order of the inputs */
    size_t failure_count, failure_capacity;
    struct lacking_images lacking; /* by UUID */
    size_t empty_count;            /* empty inputs, left by programs that wrote no profile */
    size_t first_empty;
    uint64_t bytes_read;
    struct merge_again *again; /* by input */
    size_t again_count;

    struct profile_sidecar_source source; /* of the groups */
    struct sidecar_memo memo;             /* of their sidecars, from merge_open on */

    /* Shared by the threads. */
    pthread_mutex_t lock;
    unsigned threads;
    size_t next_input;
    bool stops;  /* some input is bad, so no more are read */
    bool failed; /* out of memory, or a state cannot be read; see `error` */
    struct error error;
};

/* The name of the input in messages. */
const char *merge_input_name(const struct merge *merge, size_t input);

/* When the file was modified, in nanoseconds; 0: not known. */
int64_t merge_file_time(const char *path);

/* The merge must stay where it is, and the request outlive it. Free with merge_free. */
void merge_start(struct merge *merge, const struct merge_request *request);
void merge_free(struct merge *merge);

/* Reads all inputs, or without goes_on those up to the first bad one, and adds them to the groups.
 * One whose sidecar was not found (ENODATA) stops nothing, so that all that is missing can be told.
 * May be repeated with other inputs, after which only the groups are those of all. False if out of
 * memory, or if a state cannot be read; bad inputs are reported in `failures`.
 *
 * Several threads read files and add them up; each has one file in memory at a time, and they share
 * the sums. The result does not depend on the number of threads. An input may also be a state
 * (common/state/state.h). Profiles that cannot be summed are checked and their sidecars found, but
 * are read again when the output is written. */
bool merge_read(struct merge *merge, struct error *error);

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

/* ---- all of it (merge.c) ---- */

/* Collects the inputs of a merge that was started, and reads them: groups in order, with sidecars.
 * For a file in memory the caller has to tell which profiles were empty or left out, and about what
 * the images disagree. */
bool merge_open(struct merge *merge, struct error *error);

/* ---- claims: profiles that are to be deleted once they count (claim.c) ---- */

struct claim {
    char *path; /* its hidden name */
    char *name; /* the path of the profile, for messages and to be given back */
    struct stat status;
    bool is_settled; /* it can be read */
};

/* The claims of a batch. Initialize to {.state = ...}; free with claims_free. */
struct claims {
    struct state *state;
    struct state_batch *batch; /* started with the first claim */
    struct claim *items;
    size_t count, capacity;
    char last_busy[NAME_MAX + 1]; /* a batch that others are at, as it is in the names of claims */
};

enum claim_result {
    CLAIM_TAKEN,  /* it is the last one of the claims */
    CLAIM_NOT,    /* not a profile that could be taken: gone, no regular file, another process's */
    CLAIM_EMPTY,  /* has no bytes: left by a program that wrote no profile, or has not yet */
    CLAIM_OPEN,   /* another process has it open */
    CLAIM_LEFT,   /* cannot be consumed; the error says why */
    CLAIM_FAILED, /* out of memory, or the state fails; so says the error */
};

/* Claims the profile at `path`, which may be an old claim that does not count. A symbolic link is
 * not followed. */
enum claim_result claims_take(struct claims *claims, const char *path, struct error *error);

/* Makes sure that the claims from `first` on can be read. Gives those back that somebody has opened
 * meanwhile, and removes them from the list. Returns how many these are. */
size_t claims_settle(struct claims *claims, size_t first);

/* True if the claim has not changed since it was taken, and nobody has it open. */
bool claim_is_quiet(const struct claim *claim);

/* Syncs the directories of all claims, so that a profile does not come back under its old name if
 * the machine fails. */
bool claims_sync(const struct claims *claims, struct error *error);

/* Gives the claim its old name again, unless there is a new file of that name, and removes it from
 * the list. */
void claims_give_back(struct claims *claims, size_t index);
void claims_give_all_back(struct claims *claims);

/* Ends the batch, and forgets the claims, but leaves their files alone. */
void claims_free(struct claims *claims);

/* ---- consuming (consume.c) ---- */

/* Consumes the operands: --consume, --watch. *ended_by is the signal that ended it early, with all
 * that was begun finished; 0: none. */
bool merge_consume(const struct merge_request *request, struct state *state, int *ended_by,
                   struct error *error);

/* ---- files (merge_outputs.c) ---- */

/* The files that a merge writes: the one of all images, and with --per-image one for each. All are
 * made before the first one gets its name. Initialize to {0}; free with merge_outputs_free, which
 * discards what was not committed. */
struct merge_outputs {
    struct output *files; /* the one of all images comes last */
    size_t count;
};

/* Makes the files that are asked for. One in memory can only be read through its descriptor. */
bool merge_outputs_make(struct merge_outputs *outputs, const struct merge *merge,
                        struct error *error);

/* Gives them their names. */
bool merge_outputs_commit(struct merge_outputs *outputs, struct error *error);
void merge_outputs_free(struct merge_outputs *outputs);

/* ---- explanations (explain.c) ---- */

/* Finds the functions about which the groups of the merge, which must be in order, disagree. With
 * --explain prints them, and which inputs were used or left out; otherwise a warning of one line.
 *
 * LLVM's tools know a function by its name and its FuncHash, a digest of its control flow. Images
 * that were built from different sources, or with different macros, may have different functions
 * under one name. The tools then drop or mix counts without saying so. */
bool explain_merge(const struct merge *merge, struct error *error);

#endif
