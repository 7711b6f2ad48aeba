/*
 * The files that the suites of `covsplit run` read: an image and a profile in all their forms, and
 * a program that reads files in every way.
 *
 * The expected contents come from other commands: the full profile from `covsplit correlate`, the
 * object from `covsplit export`.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_RUN_FILES_H
#define COVSPLIT_TESTS_SUPPORT_RUN_FILES_H

#include "tests/support/process.h"
#include "tests/support/sample.h"

#define RUN_FILES_FUNCTIONS 30

struct run_files {
    struct sample sample; /* split */
    char *store;          /* with its sidecar */
    char *light;          /* a lightweight profile of it */
    char *full;           /* the same, correlated */
    char *object;         /* exported */
    char *opener;         /* tests/fixtures/opener.c */
};

/* Aborts the Check test if anything fails. */
struct run_files run_files_create(const char *label);

/* Builds another opener. Options are words separated by blanks. */
void opener_build(const char *output, const char *compiler, const char *options);

/* `covsplit run --store STORE --`, to which words can be added. */
struct command run_files_command(const struct run_files *files);

/* Runs and frees the command, and expects the exit code and exactly this text on standard error;
 * NULL: nothing. */
void run_expect(struct command *command, int exit_code, const char *errors);

/* Runs a program with arguments, a list that ends with NULL, as run_files_command does. It must
 * exit with 0 and print nothing. */
void run_expect_silence(const struct run_files *files, const char *program, ...)
    __attribute__((sentinel));

#endif
