/*
 * A program before and after a split, for the suites that compare what is made from their profiles:
 * original/ and split/ in a scratch directory, with the sidecars in store/.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_APPLICATION_H
#define COVSPLIT_TESTS_SUPPORT_APPLICATION_H

#include <stdint.h>

#include "tests/support/program.h"

struct application {
    char *scratch; /* its commands run here, so names of files are relative to it */
    struct text_list images;
    const char *emulator; /* the words that run the images; empty: this machine runs them */
};

/* Builds the program and splits its images with the options (words; NULL: none), of which
 * `--sidecar` puts the sidecar of the only image elsewhere. If `assert_said`
 * is not NULL, it is given what each split writes to standard error. Aborts the Check test if
 * anything fails. */
struct application application_build(const struct program *program, const char *label,
                                     const char *options, void (*assert_said)(const char *errors));

/* Runs the program in a directory, with the number of the run as its argument; `profile` is the
 * value of LLVM_PROFILE_FILE. */
void application_run_once(const struct application *application, const char *images, unsigned run,
                          const char *profile);

/* The profiles in a directory, sorted by the size of their counters, so that those of the original
 * images and those of the split ones have the same order, although their names differ if they
 * contain %m. What LLVM writes depends a little on the order of its inputs. */
struct text_list application_profiles(const struct application *application, const char *directory);

/* For qsort, of paths of profiles. */
int profiles_by_counters(const void *a, const void *b);

#endif
