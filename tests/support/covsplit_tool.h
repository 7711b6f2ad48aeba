/*
 * Runs the covsplit command under test: $COVSPLIT, or the one of this build.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COVSPLIT_TOOL_H
#define COVSPLIT_TESTS_SUPPORT_COVSPLIT_TOOL_H

#include <stdbool.h>

#include "tests/support/process.h"
#include "tests/support/suite.h"

/* The exit code of sanitizers after an error, which covsplit itself never uses. */
#define SANITIZER_EXIT_CODE 99
#define SANITIZER_OPTIONS   "exitcode=99"

const char *covsplit_path(void);

/* True if the command was built with a sanitizer, which makes it slower and larger. */
bool covsplit_is_sanitized(void);

/* A command line that starts with covsplit; more words can be added. The list ends with NULL. */
struct command covsplit_command(const char *directory, ...) __attribute__((sentinel));

/* A command line of covsplit and the words of a text. */
struct command covsplit_words(const char *directory, const char *words);

/* `covsplit WORDS` (separated by blanks), run as a user who is not root. If the tests run as root,
 * the directory is opened to everyone, and the tool copied into `scratch`, which that user must be
 * able to reach. */
struct command covsplit_command_as_user(const char *scratch, const char *directory,
                                        const char *words);

/* If covsplit was built with AddressSanitizer, makes the command end with SANITIZER_EXIT_CODE when
 * it allocates more than this many MiB at once, used or not. Otherwise does nothing. */
void covsplit_limit_allocations(struct command *command, unsigned long mebibytes);

/* Runs `covsplit WORDS...`. The list ends with NULL. */
struct outcome covsplit_run(const char *directory, ...) __attribute__((sentinel));

/* Runs `covsplit WORDS` (separated by blanks) and aborts the Check test unless it exits with
 * `exit_code`. */
struct outcome covsplit_run_words(const char *directory, int exit_code, const char *words);

/* Runs `covsplit WORDS...` and fails the verdict unless it exits with `exit_code`. If `errors` is
 * not NULL, it gets what was written to standard error. The list ends with NULL. */
bool covsplit_expect(struct verdict *verdict, int exit_code, const char **errors,
                     const char *directory, ...) __attribute__((sentinel));

/* Runs `covsplit WORDS...`, fails the Check test unless it exits with `exit_code`, and returns what
 * was written to standard error. The list ends with NULL. */
const char *covsplit_assert(int exit_code, const char *directory, ...) __attribute__((sentinel));

/* Whether a run failed properly: with exit code 1 and a single message, "covsplit: error: ...". */
bool covsplit_refused(const struct command *command, const struct outcome *outcome,
                      struct verdict *verdict);

/* ---- hostile input ----
 *
 * What must hold for any input: covsplit ends by itself, soon and using little memory, with status
 * 0 or 1. If 1, it has given the reason in one line and written no output; and the input has not
 * changed. */

/* "Soon" is measured in processor time, as other tests run at the same time. */
#define HOSTILE_PROCESSOR_SECONDS 5
#define HOSTILE_TIMEOUT_SECONDS   60

/* From now on covsplit's main function is called in forked processes, which tests the same and
 * takes a fraction of the time; or, if false, covsplit is started as a program again. */
void hostile_fork(bool forks);

/* Puts scratch files, thousands of small ones, into memory if there is a file system for that. */
void hostile_in_memory(void);

/* Takes the seeds of the mutations from words of the command line, FIRST and COUNT, of which a
 * share may be run (see suite.h). The seeds are spread over loops of tests: the results are the
 * number of tests, and the seed at which each of them ends. */
void hostile_seeds(const char *first, const char *count);
size_t hostile_tests(void);
unsigned long hostile_first(int test);
unsigned long hostile_end(int test);

/* In a loop over seeds, runs all but a hundred of them, or their share, in forked processes. */
void hostile_fork_most(unsigned long seed);

/* Fails if, in a whole test, all mutations were refused or all were harmless: that would test
 * little. */
void hostile_assert_mixed(unsigned accepted, unsigned refused);

/* Damages a file; *description, which is freed, says how. */
typedef struct contents hostile_damage(unsigned long seed, char **description);

/* Checks what covsplit makes of a damaged file; *exit_code says whether it was taken. */
typedef bool hostile_check(const char *directory, const struct contents *damaged, int *exit_code,
                           struct verdict *verdict);

/* Damages and checks in the directory for all seeds of a test. If `is_mixed`, some must be taken
 * and some refused. */
void hostile_run_seeds(int test, const char *directory, hostile_damage *damage,
                       hostile_check *check, bool is_mixed);

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
