/*
 * What must hold for any input: covsplit ends by itself, soon and using little memory, with status
 * 0 or 1. If 1, it has given the reason in one line and written no output; and the input has not
 * changed.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_HOSTILE_H
#define COVSPLIT_TESTS_SUPPORT_HOSTILE_H

#include <stdbool.h>

#include "tests/support/file_system.h"
#include "tests/support/process.h"
#include "tests/support/text.h"

/* "Soon" is measured in processor time, as other tests run at the same time. */
#define HOSTILE_PROCESSOR_SECONDS 5
#define HOSTILE_TIMEOUT_SECONDS   60

/* From now on covsplit's main function is called in forked processes, which tests the same and
 * takes a fraction of the time; or, if false, covsplit is started as a program again. */
void hostile_fork(bool forks);

/* Puts scratch files, thousands of small ones, into memory if there is a file system for that. */
void hostile_in_memory(void);

/* Takes the seeds of the mutations from words of the command line, FIRST and COUNT, of which a
 * share may be run (see rounds.h). The seeds are spread over loops of tests: the results are the
 * number of tests, and the seed at which each of them ends. */
void hostile_seeds(const char *first, const char *count);
size_t hostile_tests(void);
unsigned long hostile_first(int test);
unsigned long hostile_end(int test);

/* In a loop over seeds, runs all but a hundred of them in forked processes. */
void hostile_fork_most(unsigned long seed);

/* Fails if, in a whole test, all mutations were refused or all were harmless: that would test
 * little. */
void hostile_assert_mixed(unsigned accepted, unsigned refused);

/* A command line of covsplit with words of a text, run as hostile_fork says. */
struct command hostile_command(const char *directory, const char *words);

/* Runs covsplit with words of a text. *exit_code is valid only if true is returned. */
bool hostile_run(const char *directory, const char *words, int *exit_code, struct verdict *verdict);

/* Whether a file in the directory has exactly these contents. */
bool hostile_holds(const char *directory, const char *name, const struct contents *expected,
                   struct verdict *verdict);

/* Checks that the directory has just these files, and removes all but the first. */
bool hostile_only_these(const char *directory, const char *names, struct verdict *verdict);

/* Splits the input, which may be refused, and joins the result. */
bool hostile_split(const char *directory, const struct contents *input, int *exit_code,
                   struct verdict *verdict);

#endif
