/*
 * A program as it was and as it is after the split, for the suites that compare what is made of
 * their profiles: original/ and split/ in a scratch directory, and the sidecars in store/.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_APPLICATION_H
#define COVSPLIT_TESTS_SUPPORT_APPLICATION_H

#include <stdint.h>

#include "tests/support/program.h"

struct application {
    char *scratch; /* where its commands run: directories and files are named relative to it */
    struct text_list images;
    const char *emulator; /* the words that run them; empty: this machine does */
};

/* Builds the program and splits its images, with so many options (words; NULL: none). `assert_said`
 * is given what each split writes to standard error, if it is not NULL. Aborts the Check test where
 * anything fails. */
struct application application_build(const struct program *program, const char *label,
                                     const char *options, void (*assert_said)(const char *errors));

/* Runs the program of a directory, with the number of the run as its argument; `profile` is for
 * LLVM_PROFILE_FILE. */
void application_run_once(const struct application *application, const char *images, unsigned run,
                          const char *profile);

/* The profiles in a directory, by the size of their counters: one order for those of the original
 * images and of the split ones, whose names differ where %m is in them. What LLVM writes depends a
 * little on the order of its inputs. */
struct text_list application_profiles(const struct application *application, const char *directory);

/* For qsort, of paths of profiles. */
int profiles_by_counters(const void *a, const void *b);

#endif
