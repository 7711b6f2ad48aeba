/*
 * What must hold whatever covsplit is given: it ends by itself, soon and in little memory, with 0
 * or 1; with 1 it has said why, in one line, and written nothing; the input is as it was.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_HOSTILE_H
#define COVSPLIT_TESTS_SUPPORT_HOSTILE_H

#include "tests/support/file_system.h"
#include "tests/support/text.h"

#define HOSTILE_TIMEOUT_SECONDS 5

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
