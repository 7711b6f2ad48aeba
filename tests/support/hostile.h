/*
 * What must hold whatever covsplit is given: it ends by itself, soon and in little memory, with 0
 * or 1; with 1 it has said why, in one line, and written nothing; the input is as it was.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_HOSTILE_H
#define COVSPLIT_TESTS_SUPPORT_HOSTILE_H

#include <stdbool.h>

#include "tests/support/file_system.h"
#include "tests/support/process.h"
#include "tests/support/text.h"

/* Soon is told by the processor's time: other tests run beside. */
#define HOSTILE_PROCESSOR_SECONDS 5
#define HOSTILE_TIMEOUT_SECONDS   60

/* From now on covsplit is called in forked processes, which is as good and takes a fraction of the
 * time, or it is started again as a program. */
void hostile_fork(bool forks);

/* Thousands of small files that nobody keeps: in memory, where there is a place for that. */
void hostile_in_memory(void);

/* The seeds of the mutations, by the words of the command line: FIRST and COUNT, of which a share
 * may be run (see rounds.h). They are spread over loops of tests: how many tests, and from which
 * seed up to which each goes. */
void hostile_seeds(const char *first, const char *count);
size_t hostile_tests(void);
unsigned long hostile_first(int test);
unsigned long hostile_end(int test);

/* For a loop over the seeds: all but a hundred of them are run in forked processes. */
void hostile_fork_most(unsigned long seed);

/* Mutations that are all refused, or all harmless, would show little: fails after a whole test in
 * which that was so. */
void hostile_assert_mixed(unsigned accepted, unsigned refused);

/* covsplit with words of a text, which hostile_fork has a say in. */
struct command hostile_command(const char *directory, const char *words);

/* Runs covsplit with words of a text. *exit_code is only good where true is returned. */
bool hostile_run(const char *directory, const char *words, int *exit_code, struct verdict *verdict);

/* Whether a file of the directory has just this contents. */
bool hostile_holds(const char *directory, const char *name, const struct contents *expected,
                   struct verdict *verdict);

/* The directory has just these files; then all but the first are removed. */
bool hostile_only_these(const char *directory, const char *names, struct verdict *verdict);

/* Splits the input, which may be refused; and joins what was split. */
bool hostile_split(const char *directory, const struct contents *input, int *exit_code,
                   struct verdict *verdict);

#endif
