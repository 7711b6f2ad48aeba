/*
 * The common parts of suite.h.
 */
#include "tests/support/suite.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Check's own, four seconds, is short where the processors have other things to do. */
#define DEFAULT_TIMEOUT 60

TCase *suite_case(const char *name, unsigned timeout_seconds, SFun prepare)
{
    TCase *test_case = tcase_create(name);
    tcase_set_timeout(test_case, timeout_seconds != 0 ? timeout_seconds : DEFAULT_TIMEOUT);
    if (prepare != NULL) {
        tcase_add_unchecked_fixture(test_case, prepare, NULL);
    }
    return test_case;
}

void suite_add_loops(TCase *test_case, int count, const TTest *const *tests)
{
    for (; *tests != NULL; tests++) {
        tcase_add_loop_test(test_case, *tests, 0, count);
    }
}

void suite_add_tests(TCase *test_case, const TTest *const *tests)
{
    suite_add_loops(test_case, 1, tests);
}

int suite_run(const char *name, TCase *const *cases)
{
    Suite *suite = suite_create(name);
    for (; *cases != NULL; cases++) {
        suite_add_tcase(suite, *cases);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int suite_usage(const char *program, const char *usage)
{
    fprintf(stderr, "usage: %s %s\n", program, usage);
    return EXIT_FAILURE;
}

bool suite_is_list(int *count, char **words)
{
    bool is_list = *count > 1 && strcmp(words[*count - 1], "--list") == 0;
    *count -= is_list;
    return is_list;
}

void suite_list_row(const char *format, const char *machine, const char *how, const char *linker,
                    const char *clang, const char *kind)
{
    printf("%s\t%s\t%s\t%s\t%s\t%s\n", format, machine, how, linker, clang, kind);
}

void suite_arguments(int count, char **words, const char *usage, ...)
{
    int wanted = 1;
    for (const char *c = usage; *c != '\0'; c++) {
        wanted += *c == ' ';
    }
    if (count != wanted + 1) {
        exit(suite_usage(words[0], usage));
    }
    va_list places;
    va_start(places, usage);
    for (int i = 1; i < count; i++) {
        *va_arg(places, const char **) = words[i];
    }
    va_end(places);
}

/* ---- marks without writes ----
 *
 * Check writes down each assertion that holds, in a file that its parent process reads in the end,
 * so that a crash can be said to come "after this point". Loops with many assertions spend most of
 * their time with that. Here the last mark is kept in memory, and handed on only when a signal is
 * about to end the process. Linked with --wrap=_mark_point. */

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

static const char *volatile last_file;
static volatile int last_line;

/* The signal comes again when this returns, and finds its default action. */
static void hand_on(int number)
{
    __real__mark_point(last_file, last_line);
    raise(number);
}

/* A sanitizer's handlers stay: they say more. */
static void catch_deadly_signals(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction action;
        if (sigaction(deadly[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
            action = (struct sigaction){.sa_handler = hand_on, .sa_flags = (int)SA_RESETHAND};
            sigaction(deadly[i], &action, NULL);
        }
    }
}

void __wrap__mark_point(const char *file, int line)
{
    bool first = last_file == NULL;
    last_file = file;
    last_line = line;
    if (first) {
        catch_deadly_signals();
    }
}
