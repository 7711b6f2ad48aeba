/*
 * The state of an incremental merge: a directory with a file for each image, which has the sum of
 * all profiles that were added so far. Its disk space depends on the images, not on how often they
 * ran.
 *
 *     STATE/covsplit-state     the version, and a random number that identifies the state
 *     STATE/images/IDENTITY    an image: the sum of its profiles
 *     STATE/batches/NONCE      profiles that count, but are not in all files of images yet
 *     STATE/batches/NONCE.open exists, and is locked, while a process prepares the batch NONCE
 *
 * Profiles are added in batches. A batch has the sums of some profiles of any images. It is written
 * to a file without a name, and committed by giving the file its name: before that step none of its
 * profiles counts, after it all do. Then the batch is folded: its sums are added to the files of
 * the images, and it is removed. The file of an image lists the batches that were added to it, as
 * long as these exist, so that each is added once, even if a process is killed. The next process
 * that folds finishes what was left.
 *
 * Profiles can be consumed, that is deleted as soon as they count. Before such a profile is read,
 * it is renamed to a claim: a hidden name that contains the batch's nonce. The batch has a list of
 * its claims, and is not removed before these are. So it is known of each claim whether it counts,
 * is being read, or does not count because its process was killed.
 *
 *     state_open(&state, path, STATE_CREATE, 0, &error);
 *     state_fold(state, &error);                   what others left
 *     state_batch_start(state, &batch, &error);
 *     state_claim_path(batch, "a.profraw", claim, &error); rename("a.profraw", claim); ...
 *     state_batch_add(batch, sum, &error);         for each image
 *     state_batch_consume(batch, claim, &error);   for each claim that is in the sums
 *     state_batch_commit(batch, &error);           from here on they count
 *     state_batch_free(batch);
 *     state_fold(state, &error);                   deletes the claims, and folds
 *     state_close(state);
 *
 * Any number of processes may do this at the same time. One at a time commits or folds, and a
 * process that folds does so for all; readers see each batch as a whole or not at all. They use
 * locks (F_OFD_SETLKW), which end with their process. Descriptors are opened with O_CLOEXEC.
 */
#ifndef COVSPLIT_COMMON_STATE_STATE_H
#define COVSPLIT_COMMON_STATE_STATE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/profile_sum.h"

/* ---- states ---- */

struct state;

enum state_access {
    STATE_READ,   /* state_read only; the directory may be read-only */
    STATE_WRITE,  /* must exist */
    STATE_CREATE, /* is made, unless it exists */
};

/* True if the path is that of a state, of whatever version. */
bool state_is(const char *path);

/* Opens a state. The limit is that of the size of a profile in it (memory_limit_given). */
bool state_open(struct state **state, const char *path, enum state_access access,
                uint64_t memory_limit, struct error *error);
const char *state_path(const struct state *state);
void state_close(struct state *state); /* NULL is allowed */

/* Finishes all committed batches, of whatever process: deletes their claims, adds them to the
 * images, and removes them. Removes what killed processes left behind. A batch whose claims cannot
 * be deleted stays, which is an error, too; its counts are safe. */
bool state_fold(struct state *state, struct error *error);

/* ---- reading ---- */

/* Called with the sum of each image, in ascending order of the identities. `name` is that of its
 * file, for messages. The visitor may empty the sum. False, with an error, ends the visit. */
typedef bool (*state_visitor)(void *context, struct profile_sum *sum, const char *name,
                              struct error *error);

/* Visits what has been committed, folded or not. Has one image in memory at a time. Nobody can
 * commit meanwhile. The visitor must not use the state. */
bool state_read(struct state *state, state_visitor visit, void *context, struct error *error);

/* ---- batches ---- */

struct state_batch;

/* Starts a batch, which lives until it is freed or its process ends. */
bool state_batch_start(struct state *state, struct state_batch **batch, struct error *error);

/* Adds a sum of one profile or more; an image may be added several times. Writes it to the disk: it
 * need not be kept. */
bool state_batch_add(struct state_batch *batch, struct profile_sum *sum, struct error *error);

/* Adds a claim to the list of those that are deleted once they count. */
bool state_batch_consume(struct state_batch *batch, const char *claim, struct error *error);

/* Makes all of the batch durable at once. If it fails, nothing of it counts. Afterwards, the batch
 * can only be freed. */
bool state_batch_commit(struct state_batch *batch, struct error *error);

/* After a commit that failed: true if the batch may count nevertheless; state_claim_find then tells
 * if its claims do. */
bool state_batch_may_count(const struct state_batch *batch);

/* Ends the batch. If it was not committed, nothing of it counts. NULL is allowed. */
void state_batch_free(struct state_batch *batch);

/* ---- claims ---- */

/* The name to which a profile is to be renamed before it is read: in the same directory,
 * ".NAME.covsplit-claim-NONCE-NUMBER", unique. NAME is that of the profile, or what is left of it
 * if that would be too long; if the profile is itself a claim, it is the name from which that was
 * made. */
bool state_claim_path(struct state_batch *batch, const char *path, char claim[PATH_MAX],
                      struct error *error);

/* The length of NAME, which starts at name + 1, if the file name is that of a claim, of whatever
 * state. 0 if it is not. */
size_t state_claim_name_length(const char *name);

enum state_claim {
    STATE_CLAIM_IN_PROGRESS, /* of a batch that may still be committed: leave it alone */
    STATE_CLAIM_COUNTED,     /* counts; state_fold deletes it */
    STATE_CLAIM_UNCOUNTED,   /* left by a process that ended: a profile like any other */
    STATE_CLAIM_FOREIGN,     /* of another state; only that one can tell */
};

/* Finds out the state of a claim. The result stays true, except that a claim in progress may become
 * any other or cease to exist, and a counted one may cease to exist. To take an uncounted claim,
 * rename it to a claim of your own batch: if it is gone by then, another process was faster. */
bool state_claim_find(struct state *state, const char *claim, enum state_claim *result,
                      struct error *error);

#endif
