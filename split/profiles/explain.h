/*
 * covsplit merge --explain: which inputs of a merge were used or left out, and about which
 * functions its images disagree. Without the option, a warning of one line gives their number.
 *
 * LLVM's tools know a function by its name and its FuncHash, a digest of its control flow. Images
 * that were built from different sources, or with different macros, may have different functions
 * under one name. The tools then drop or mix counts without saying so.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_EXPLAIN_H
#define COVSPLIT_SPLIT_PROFILES_EXPLAIN_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/options.h"
#include "split/profiles/merge.h"

/* Finds the conflicts between the groups of the merge, which must be in order, and prints what the
 * options ask for. */
bool explain_merge(const struct merge *merge, const struct parsed_options *options,
                   struct error *error);

#endif
