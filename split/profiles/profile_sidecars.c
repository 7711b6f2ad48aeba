/*
 * Finding the sidecars of profiles: see profile_sidecars.h.
 */
#include "split/profiles/profile_sidecars.h"

#include <stdlib.h>

#include "common/llvm/profile.h"
#include "common/store/store.h"
#include "split/cli/message.h"

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error)
{
    const char *sidecar = option_text(options, OPTION_SIDECAR);
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);
    covsplit_error *reader_error = NULL;
    bool done = true;

    sidecars->memory_limit = option_number(options, OPTION_MEMORY_LIMIT);
    if (sidecar != NULL) {
        sidecars->given = covsplit_sidecar_open(sidecar, &reader_error);
        done = sidecars->given != NULL;
        if (done)
            covsplit_sidecar_limit_memory(sidecars->given, sidecars->memory_limit);
    } else if (store != NULL) {
        sidecars->store = covsplit_store_open_directory(store, &reader_error);
        done = sidecars->store != NULL;
    } else if (environment != NULL && environment[0] != '\0') {
        sidecars->store = covsplit_store_open(environment, &reader_error);
        done = sidecars->store != NULL;
    }
    return done || error_from_reader(error, reader_error);
}

void profile_sidecars_close(struct profile_sidecars *sidecars)
{
    covsplit_sidecar_close(sidecars->given);
    covsplit_store_close(sidecars->store);
    *sidecars = (struct profile_sidecars){0};
}

covsplit_sidecar *profile_sidecars_find(const struct profile_sidecars *sidecars,
                                        const covsplit_profile *profile, const char *name,
                                        struct error *error)
{
    covsplit_sidecar *sidecar = sidecars->given;
    covsplit_error *reader_error = NULL;

    if ((covsplit_profile_raw_version(profile) & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (sidecar == NULL && sidecars->store == NULL) {
        error_set(error, "%s: of a split image, and no sidecar is named; give --sidecar or --store",
                  name);
        return NULL;
    }
    if (sidecar == NULL)
        sidecar = covsplit_store_find_for_profile(sidecars->store, profile, &reader_error);
    if (sidecar != NULL)
        covsplit_sidecar_limit_memory(sidecar, sidecars->memory_limit);
    if (sidecar != NULL && covsplit_profile_check(profile, sidecar, &reader_error))
        return sidecar;
    if (sidecar != NULL)
        profile_sidecars_release(sidecars, sidecar);
    error_from_reader(error, reader_error);
    return NULL;
}

void profile_sidecars_release(const struct profile_sidecars *sidecars, covsplit_sidecar *sidecar)
{
    if (sidecar != sidecars->given)
        covsplit_sidecar_close(sidecar);
}
