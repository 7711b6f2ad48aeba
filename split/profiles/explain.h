/*
 * covsplit merge --explain: which inputs of a merge were used or left out, and about which
 * functions its images disagree (conflicts.h). Without the option, a warning of one line gives
 * their number.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_EXPLAIN_H
#define COVSPLIT_SPLIT_PROFILES_EXPLAIN_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/profiles/conflicts.h"
#include "split/profiles/merge_read.h"

/* Finds the conflicts between the groups of the merge, which must be in order. Profiles that cannot
 * be summed are compared only if `thorough`, because their files must be read again. Free the
 * conflicts even after a failure. */
bool explain_find(const struct merge *merge, bool thorough, struct conflicts *conflicts,
                  struct error *error);

/* Prints one line to standard error if there are conflicts. */
void explain_warn(const struct conflicts *conflicts);

/* Print everything to standard output. False if out of memory. */
void explain_print(const struct merge *merge, const struct conflicts *conflicts);
bool explain_print_json(const struct merge *merge, const struct conflicts *conflicts,
                        struct error *error);

#endif
