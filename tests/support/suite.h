/*
 * What the main functions of all suites have in common.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SUITE_H
#define COVSPLIT_TESTS_SUPPORT_SUITE_H

#include <check.h>

#include "tests/support/text.h"

/* Runs the suite and returns what main should. */
int suite_run(Suite *suite);

/* A test case of the suite with a time limit for each test. */
TCase *suite_add_case(Suite *suite, const char *name, unsigned timeout_seconds);

/* Fails the Check test with the problem, if there is one, after "LABEL: ". */
void verdict_assert(const struct verdict *verdict, const char *label);

#endif
