/*
 * The sidecars that `covsplit run` uses: found by UUID, read once for as long as their files do not
 * change, and kept for later conversions. All threads share them.
 */
#ifndef COVSPLIT_SPLIT_RUN_SIDECARS_H
#define COVSPLIT_SPLIT_RUN_SIDECARS_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"

struct run_sidecars {
    struct sidecar_places places;
    pthread_mutex_t lock;    /* protects the members below */
    struct run_sidecar *all; /* most recently used first */
    pthread_cond_t returned; /* some sidecar that was lent */
};

/* Sets up the search from the options, without opening anything, before threads are started. Close
 * it when no thread uses it any more. */
void run_sidecars_open(struct run_sidecars *sidecars, const struct parsed_options *options);
void run_sidecars_close(struct run_sidecars *sidecars);

/* The identity of a file, apart from its name: device, inode, size and times. The UUID is not
 * enough: a build may reuse it for another program. */
struct digest run_sidecars_file_identity(const struct stat *status);

/* Finds the wanted sidecar and checks that it is the right one. Only the caller may use it until
 * run_sidecars_release. NULL with an error if there is none. */
struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error);
void run_sidecars_release(struct run_sidecars *sidecars, struct profile_sidecar *sidecar);

/* Appends the identities of the files that run_sidecars_find would examine now: as long as they are
 * the same, the same sidecar is found. Does not wait for sidecars that other threads use. False
 * with an error if out of memory, but for what the buffer lacks. */
bool run_sidecars_identify(const struct run_sidecars *sidecars, const struct sidecar_wanted *wanted,
                           struct buffer *known, struct error *error);

#endif
