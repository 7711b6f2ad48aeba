/*
 * What the main functions of all suites have in common: a suite is cases of tests, and main says
 * which, with nothing of its own around them.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SUITE_H
#define COVSPLIT_TESTS_SUPPORT_SUITE_H

#include <check.h>
#include <stdbool.h>

/* A test case with a time limit for each test (0: Check's own), and with what is done once before
 * all its tests; NULL: nothing. */
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

/* Stores the words of the command line, one for each word of the usage, in that order. Ends the
 * program with the usage where their number is another. */
void suite_arguments(int count, char **words, const char *usage, ...);

/* Whether the last word is --list, which is taken off then: the suite shall write its rows, all of
 * them, and do nothing else. tests/supported.py makes a page of them. */
bool suite_is_list(int *count, char **words);

/* A row: what it is of, how what it makes is run (or is not), and what made it. */
void suite_list_row(const char *format, const char *machine, const char *how, const char *linker,
                    const char *clang, const char *kind);

/* Writes how the program is used; what main returns then. */
int suite_usage(const char *program, const char *usage);

#endif
