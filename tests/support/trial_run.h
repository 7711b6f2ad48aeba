/*
 * How a trial runs its application and compares the results. The harness has its own tests, which
 * need these parts; other tests use trial.h.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRIAL_RUN_H
#define COVSPLIT_TESTS_SUPPORT_TRIAL_RUN_H

#include <stdbool.h>

#include "tests/support/raw_profile.h"
#include "tests/support/trial.h"

/* Runs the application in `directory` `runs` times, with its profiles written to a new directory
 * `profiles`. Returns exit codes and outputs as one text; never freed. */
const char *application_run(const struct trial *trial, const char *directory, const char *profiles,
                            unsigned runs);

/* Whether the profiles of the stripped images agree with those of the originals, and have exactly
 * the size that they should have. */
bool profiles_agree(const struct trial *trial, const char *original_profiles,
                    const char *stripped_profiles, struct verdict *verdict);

#endif
