/*
 * The common parts of suite.h.
 */
#include "tests/support/suite.h"

#include <stdlib.h>

#include "tests/support/covsplit_tool.h"

/* Tests are processes that end after one failure or success; what they leave allocated is no
 * defect, and must not hide the leaks of covsplit, which runs as a process of its own. Where its
 * main function is called in a fork of a test, the exit code tells that a sanitizer found something
 * else. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0:" SANITIZER_OPTIONS;
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:" SANITIZER_OPTIONS;
}

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

TCase *suite_add_case(Suite *suite, const char *name, unsigned timeout_seconds)
{
    TCase *test_case = tcase_create(name);
    tcase_set_timeout(test_case, timeout_seconds);
    suite_add_tcase(suite, test_case);
    return test_case;
}

void verdict_assert(const struct verdict *verdict, const char *label)
{
    if (verdict->problem != NULL) {
        ck_abort_msg("%s: %s", label, verdict->problem);
    }
}
