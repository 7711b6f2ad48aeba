/*
 * What compilers and linkers make of the tests' programs, kept in COVSPLIT_TEST_CACHE for all
 * suites and builds: the same few programs are needed again and again, and compiling them takes
 * longer than testing what comes of them.
 *
 * A result is found by everything that it depends on: the words of the command, the contents of the
 * files that it reads, and the packages of the system that are installed, in which the compilers,
 * linkers, headers and libraries are. Times are no part of that.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H
#define COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H

#include <stdbool.h>

#include "tests/support/process.h"

/* Makes files by the command, or has them from the cache, in the command's directory. Returns false
 * where the command is of another kind, and nothing was done. Where it fails, the Check test is
 * aborted.
 *
 * The command runs in a directory of the cache, of which compilation directories in debug data and
 * coverage mapping tell, and its sources stay there. */
bool compile_cache_make(const struct command *command);

/* Fills a new directory. */
typedef void (*cache_maker)(const char *directory, const char *clang);

/* The directory of that label which this clang's results are in. Where there is none yet, it is
 * made. `inputs` is a text that is another one whenever the results would be: options, the contents
 * of sources that may change. Nothing is to be changed in the directory. Never freed. Whatever goes
 * wrong aborts the Check test. */
const char *cache_directory(const char *label, const char *clang, const char *inputs,
                            cache_maker make);

#endif
