/*
 * The sidecars that `covsplit run` converts with: found by UUID, read once for as long as their
 * files stay as they are, and kept for the files that come after. All threads share them.
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

/* Takes what the options say. Nothing is opened yet. NULL with an error where
 * there is no memory. Closed with run_sidecars_close (NULL allowed), when no thread uses it any
 * more. */
struct run_sidecars *run_sidecars_open(const struct parsed_options *options, struct error *error);
void run_sidecars_close(struct run_sidecars *sidecars);

/* What a file is, apart from its name: device, inode, size and times. A UUID does not tell: a build
 * may use the same one again for another program. */
struct digest run_sidecars_file_identity(const struct stat *status);

/* Tells a sidecar what the options say. */
void run_sidecars_set_up(const struct run_sidecars *sidecars, struct sidecar *sidecar);

/* The sidecar that is wanted, which it is checked to be. It is the caller's alone until
 * run_sidecars_release. NULL with an error where there is none. */
struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error);
void run_sidecars_release(struct run_sidecars *sidecars, struct profile_sidecar *sidecar);

/* Adds to the digest which files run_sidecars_find would look at now: as long as it is the same, so
 * is the sidecar that is found. Waits for no sidecar that another thread uses. False with an error
 * where there is no memory. */
bool run_sidecars_identify(const struct run_sidecars *sidecars, const struct sidecar_wanted *wanted,
                           struct digest_stream *digest, struct error *error);

#endif
