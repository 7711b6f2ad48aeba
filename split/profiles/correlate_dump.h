/*
 * covsplit correlate --counters: a full raw profile made of a dump (common/sidecar/dump.h).
 */
#ifndef COVSPLIT_SPLIT_PROFILES_CORRELATE_DUMP_H
#define COVSPLIT_SPLIT_PROFILES_CORRELATE_DUMP_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"

/* NULL if the options can be used together with --counters; else why not. */
const char *correlate_dump_misuse(const struct parsed_options *options);

/* Finds the sidecar, checks the sizes of the dump, and writes the profile. */
bool correlate_dump(const struct parsed_options *options, struct profile_sidecars *sidecars,
                    struct error *error);

#endif
