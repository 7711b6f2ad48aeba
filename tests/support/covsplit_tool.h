/*
 * Runs the covsplit command under test: $COVSPLIT, or the one of this build.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COVSPLIT_TOOL_H
#define COVSPLIT_TESTS_SUPPORT_COVSPLIT_TOOL_H

#include <stdbool.h>

#include "tests/support/process.h"

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

#endif
