/*
 * Prints the tests that reach any of some functions, each once, with libcovsplit: those to run
 * again after a change. `covsplit show --tests` tells more.
 *
 *     cc tests.c $(pkg-config --cflags --libs covsplit) -o tests
 *     covsplit merge --into STATE --by NAME ...       after each test
 *     ./tests STATE STORE FUNCTION...
 */
#include <covsplit.h>
#include <stdio.h>
#include <string.h>

static bool reaches(const covsplit_tests *tests, const char *test)
{
    covsplit_reached reached;

    for (size_t i = 0; covsplit_tests_get(tests, i, &reached); i++) {
        for (size_t k = 0; k < reached.test_count; k++) {
            if (strcmp(reached.tests[k], test) == 0)
                return true;
        }
    }
    return false;
}

/* A function that is in no image may be new, or inlined everywhere: nothing is known of it. */
static bool is_known(const covsplit_tests *tests, size_t function)
{
    covsplit_reached reached;

    for (size_t i = 0; covsplit_tests_get(tests, i, &reached); i++) {
        if (reached.function == function)
            return true;
    }
    return false;
}

static void print(const covsplit_tests *tests, char **functions, size_t function_count)
{
    size_t count;
    const char *const *names = covsplit_tests_names(tests, &count);

    for (size_t i = 0; i < count; i++) {
        if (reaches(tests, names[i]))
            printf("%s\n", names[i]);
    }
    for (size_t i = 0; i < function_count; i++) {
        if (!is_known(tests, i))
            fprintf(stderr, "%s: is in no image\n", functions[i]);
    }
}

int main(int argument_count, char **arguments)
{
    covsplit_error *error = NULL;
    covsplit_store *store;
    covsplit_state *state;
    covsplit_tests *tests;
    char **functions = &arguments[3];
    size_t function_count = (size_t)argument_count - 3;

    if (argument_count < 4)
        return 2;
    store = covsplit_store_open(arguments[2], &error);
    state = store == NULL ? NULL : covsplit_state_open(arguments[1], store, &error);
    tests = state == NULL ? NULL
                          : covsplit_tests_find(state, (const char *const *)functions,
                                                function_count, &error);
    covsplit_state_close(state);
    covsplit_store_close(store);
    if (tests == NULL) {
        fprintf(stderr, "%s\n", covsplit_error_message(error));
        covsplit_error_free(error);
        return 1;
    }
    print(tests, functions, function_count);
    covsplit_tests_close(tests);
    return 0;
}
