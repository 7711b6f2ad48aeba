/*
 * Where the sidecars of profiles come from: --sidecar, --store, or the directories of
 * COVSPLIT_STORE.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_PROFILE_SIDECARS_H
#define COVSPLIT_SPLIT_PROFILES_PROFILE_SIDECARS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "reader/covsplit.h"
#include "split/cli/options.h"

/* Start from {0}; closed with profile_sidecars_close. */
struct profile_sidecars {
    covsplit_sidecar *given; /* --sidecar */
    covsplit_store *store;   /* NULL: none named */
    uint64_t memory_limit;   /* as in covsplit_sidecar_limit_memory */
};

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error);
void profile_sidecars_close(struct profile_sidecars *sidecars);

/* The sidecar of the image that wrote the profile, which it is checked to be. NULL with an error
 * where there is none. Given back with profile_sidecars_release. */
covsplit_sidecar *profile_sidecars_find(const struct profile_sidecars *sidecars,
                                        const covsplit_profile *profile, const char *name,
                                        struct error *error);
void profile_sidecars_release(const struct profile_sidecars *sidecars, covsplit_sidecar *sidecar);

#endif
