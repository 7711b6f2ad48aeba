/*
 * A cache in COVSPLIT_TEST_CACHE of what compilers and linkers make of the tests' programs, for all
 * suites and builds: the same few programs are needed again and again, and compiling them takes
 * longer than testing the result.
 *
 * A result is found by everything that it depends on: the words of the command, the contents of the
 * files that it reads, and the installed packages of the system, which contain the compilers,
 * linkers, headers and libraries. Times do not matter.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H
#define COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H

#include <stdbool.h>

#include "tests/support/process.h"

/* Makes files with the command, or takes them from the cache, in the command's directory. Returns
 * false if the cache cannot be used for such a command; nothing was done then. Aborts the Check
 * test if the command fails. The command runs in a directory of the cache, which shows up as
 * compilation directory in debug data and coverage mapping, and in which its sources stay. */
bool compile_cache_make(const struct command *command);

/* Fills a new directory. */
typedef void (*cache_maker)(const char *directory, const char *clang);

/* The directory with that label and this clang's results, which is made if there is none yet.
 * `inputs` is a text that differs whenever the results would: options, contents of sources that may
 * change. Nothing in the directory may be changed. Never freed. Aborts the Check test if anything
 * fails. */
const char *cache_directory(const char *label, const char *clang, const char *inputs,
                            cache_maker make);

#endif
