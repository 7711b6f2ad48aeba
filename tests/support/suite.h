/*
 * What the main functions of all suites share: a suite consists of test cases, and main only lists
 * them.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SUITE_H
#define COVSPLIT_TESTS_SUPPORT_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/support/freed.h"

/* A test case with a time limit for each test (0: a minute), and a function to run once
 * before all its tests; NULL: none. */
TCase *suite_case(const char *name, unsigned timeout_seconds, SFun prepare);

/* Adds one test after the other: suite_tests(test_case, test_this, test_that). */
#define suite_tests(test_case, ...)                                                                \
    suite_add_tests((test_case), (const TTest *const[]){__VA_ARGS__, NULL})
/* Adds loops over the numbers below a bound: suite_loops(test_case, COUNT, test_each, ...). */
#define suite_loops(test_case, count, ...)                                                         \
    suite_add_loops((test_case), (int)(count), (const TTest *const[]){__VA_ARGS__, NULL})
void suite_add_tests(TCase *test_case, const TTest *const *tests);
void suite_add_loops(TCase *test_case, int count, const TTest *const *tests);

/* Runs the cases and returns what main should: suite_main("name", one_case, other_case). */
#define suite_main(name, ...) suite_run((name), (TCase *const[]){__VA_ARGS__, NULL})
int suite_run(const char *name, TCase *const *cases);

/* Stores the words of the command line, one for each word of the usage, in that order. If their
 * number is wrong, prints the usage and ends the program. */
void suite_arguments(int count, char **words, const char *usage, ...);

/* Whether the last word is --list, which is then removed: the suite must print all its rows and do
 * nothing else. tests/supported.py makes a page from them. */
bool suite_is_list(int *count, char **words);

/* Prints a row: what the suite tests, how the results are run (or that they are not), and what made
 * them. */
void suite_list_row(const char *format, const char *machine, const char *how, const char *linker,
                    const char *clang, const char *kind);

/* Prints the usage; returns the exit status for main. */
int suite_usage(const char *program, const char *usage);

/* ---- rounds ----
 *
 * How much of a test with many rounds is run: seeds of mutations, moments of kills, pairs of a
 * table. COVSPLIT_TEST_PERCENT says it, if set; otherwise everything is run. tests/run.sh sets it,
 * tests/campaign.sh does not. */

/* The number of rounds to run, out of `all`; at least one. */
static inline unsigned rounds(unsigned all)
{
    const char *percent = getenv("COVSPLIT_TEST_PERCENT");
    unsigned long share = percent != NULL ? strtoul(percent, NULL, 10) : 100;
    unsigned chosen = share < 100 ? (unsigned)(all * share / 100) : all;
    return chosen != 0 ? chosen : 1;
}

/* The step to take through consecutive cases (every byte, every system call). */
static inline unsigned rounds_step(void)
{
    return 100 / rounds(100);
}

static inline bool rounds_are_all(void)
{
    return rounds(100) == 100;
}

/* Whether to run this case of a table: every few cases, or all of them. */
static inline bool rounds_have(unsigned number, unsigned of)
{
    return rounds_are_all() || number % of == 0;
}

/* True if the tests, and so the command too, are built with a sanitizer that keeps a shadow of all
 * memory: such a program is slower, and needs far more addresses and memory. */
#ifdef __has_feature
#define IS_SANITIZED                                                                               \
    (__has_feature(address_sanitizer) || __has_feature(memory_sanitizer) ||                        \
     __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#endif
