/*
 * Merging profiles for a reader in the same process.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_H

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"
#include "split/profiles/merge_read.h"

/* Gets what was merged. `profile` is the descriptor of a .profdata file in memory, which is closed
 * when the reader returns. */
typedef bool (*merge_reader)(void *context, const struct merge *merge, int profile,
                             struct error *error);

/* Merges these operands as `covsplit merge` does, with its warnings. The options are those of
 * merge; OPTION_OUTPUT is a path in a directory for unnamed files. */
bool merge_for_reader(const struct parsed_options *options, const char *const *profiles,
                      size_t count, struct profile_sidecars *sidecars, merge_reader reader,
                      void *context, struct error *error);

#endif
