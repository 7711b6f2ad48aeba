/*
 * Claims: profiles that are to be deleted once they count.
 *
 * Before a profile is read, it is renamed to a hidden name that contains the nonce of the batch
 * (state.h). From then on no program finds it by its name: a program that wants to write there
 * creates a new file. But a program may have opened it before. This is how pools (%m) work: when a
 * process ends, it opens the file, waits for a lock, reads the file, adds its own counts, and
 * writes it. What it adds after the profile was read would be deleted with the file. So a profile
 * is claimed only if nobody has it open. This is checked by a write lease (F_SETLEASE), which the
 * kernel does not grant while the file is open elsewhere, or mapped.
 *
 * Where there are no leases, as on network file systems or for files of other users, the lock that
 * the profile runtime takes on a pool is checked instead. It does not show a process that has
 * opened the file but not yet locked it; so such a claim is left alone for a moment, and checked
 * again before it is read.
 *
 * A process may also have looked up the name, but not yet opened the file, when the file is
 * renamed: then it opens the claim. So before a batch is committed, all claims are checked once
 * more: nobody may have one open, and none may have changed since it was taken.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_CLAIM_H
#define COVSPLIT_SPLIT_PROFILES_CLAIM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/state/state.h"

struct claim {
    char *path; /* its hidden name */
    char *name; /* the path of the profile, for messages and to be given back */
    char *test; /* that the profile belongs to; NULL: none. Set by the caller */
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

/* The lock of a directory, without which claims are not taken from it: while two processes look at
 * one profile, each takes the other for a program that has it open. Waits for it a second at most,
 * in case a program locks the directory for reasons of its own. -1: it is not locked. */
int directory_lock(const char *path);
void directory_unlock(int lock);

#endif
