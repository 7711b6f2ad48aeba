/*
 * Finds the sidecars of profiles (see sidecar_search.h) and correlates with them.
 */
#ifndef COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H
#define COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/output.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/profile_groups.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/options.h"
#include "split/cli/sidecar_search.h"

/* Initialize to {0}; close with profile_sidecars_close. */
struct profile_sidecars {
    struct sidecar_places places;
    struct profile_sidecar given; /* if --sidecar names a single file: opened at the start */
};

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error);
void profile_sidecars_close(struct profile_sidecars *sidecars);

/* Finds the sidecar of the image that wrote the profile, and checks that it is the right one. NULL
 * with an error if there is none. Give it back with profile_sidecars_release. */
struct profile_sidecar *profile_sidecars_find(struct profile_sidecars *sidecars,
                                              const struct profile *profile, const char *name,
                                              struct error *error);

/* Finds the sidecar of the image with that UUID, which may be given by its beginning. */
struct profile_sidecar *profile_sidecars_find_uuid(struct profile_sidecars *sidecars,
                                                   const struct uuid *start, struct error *error);
void profile_sidecars_release(const struct profile_sidecars *sidecars,
                              struct profile_sidecar *sidecar);

/* Finds sidecars for groups of profiles. The set must outlive the source. */
struct profile_sidecar_source profile_sidecars_source(struct profile_sidecars *sidecars);

/* Appends the full raw profile to the output, after padding with zeros. The sidecar is NULL for a
 * profile that needs none. */
bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error);

/* Returns false with an error if the output (-o) would replace a sidecar, whatever it is of: it may
 * be the only place where the coverage data of an image is. */
bool sidecar_check_no_output(const struct parsed_options *options, struct error *error);

/* The same for this sidecar, which may be damaged. */
bool sidecar_check_output(const struct parsed_options *options, const char *sidecar,
                          struct error *error);

#endif
