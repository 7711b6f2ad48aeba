/*
 * The sidecars that `covsplit run` uses: found by UUID, read once for as long as their files do not
 * change, and kept for later conversions. All threads share them.
 */
#ifndef COVSPLIT_SPLIT_RUN_SIDECARS_H
#define COVSPLIT_SPLIT_RUN_SIDECARS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"

struct run_sidecars;

/* Sets up the search from the options, without opening anything. NULL with an error if out of
 * memory. Close with run_sidecars_close (NULL is allowed), when no thread uses it any more. */
struct run_sidecars *run_sidecars_open(const struct parsed_options *options, struct error *error);
void run_sidecars_close(struct run_sidecars *sidecars);

/* The identity of a file, apart from its name: device, inode, size and times. The UUID is not
 * enough: a build may reuse it for another program. */
struct digest run_sidecars_file_identity(const struct stat *status);

/* The number of --memory-limit; 0: not given. */
uint64_t run_sidecars_limit(const struct run_sidecars *sidecars);

/* Applies the options to a sidecar. */
void run_sidecars_set_up(const struct run_sidecars *sidecars, struct sidecar *sidecar);

/* Finds the wanted sidecar and checks that it is the right one. Only the caller may use it until
 * run_sidecars_release. NULL with an error if there is none. */
struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error);
void run_sidecars_release(struct run_sidecars *sidecars, struct profile_sidecar *sidecar);

/* Adds to the digest which files run_sidecars_find would examine now: as long as the digest is the
 * same, the same sidecar is found. Does not wait for sidecars that other threads use. False with an
 * error if out of memory. */
bool run_sidecars_identify(const struct run_sidecars *sidecars, const struct sidecar_wanted *wanted,
                           struct digest_stream *digest, struct error *error);

#endif
