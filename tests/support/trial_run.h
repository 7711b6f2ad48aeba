/*
 * How a trial runs its application and compares what came of it. The harness has tests of its own,
 * which need the parts; other tests use trial.h.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRIAL_RUN_H
#define COVSPLIT_TESTS_SUPPORT_TRIAL_RUN_H

#include <stdbool.h>

#include "tests/support/raw_profile.h"
#include "tests/support/trial.h"

/* Runs the application of `directory` so many times, with the profiles going to a new directory
 * `profiles`. Returns exit codes and outputs as one text; never freed. */
const char *application_run(const struct trial *trial, const char *directory, const char *profiles,
                            unsigned runs);

/* Whether the profiles of stripped images say the same as those of the originals, and have just the
 * size that they should have. */
bool profiles_agree(const struct trial *trial, const char *original_profiles,
                    const char *stripped_profiles, struct verdict *verdict);

#endif
