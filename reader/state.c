/*
 * States of incremental merges: see covsplit.h. A thin layer over common/state.
 */
#include "reader/state.h"

#include <stdlib.h>

#include "common/state/tests_query.h"

/* ---- opening ---- */

covsplit_state *covsplit_state_open(const char *path, const covsplit_store *store,
                                    covsplit_error **error)
{
    covsplit_state *opened = calloc(1, sizeof(*opened));
    struct error why = {0};

    if (opened == NULL) {
        error_out_of_memory(&why, path, sizeof(*opened));
    } else {
        sidecar_choice_start(&opened->sidecars, store);
        if (state_open(&opened->state, path, STATE_READ, 0, &why))
            return opened;
    }
    covsplit_state_close(opened);
    report_error(error, &why);
    return NULL;
}

void covsplit_state_close(covsplit_state *state)
{
    if (state == NULL)
        return;
    state_close(state->state);
    sidecar_choice_free(&state->sidecars);
    free(state);
}

bool covsplit_state_add_sidecar(covsplit_state *state, covsplit_sidecar *sidecar,
                                covsplit_error **error)
{
    return sidecar_choice_add(&state->sidecars, sidecar, error);
}

/* ---- tests ---- */

struct covsplit_tests {
    struct tests_answer answer;
};

covsplit_tests *covsplit_tests_find(covsplit_state *state, const char *const *functions,
                                    size_t count, covsplit_error **error)
{
    const char *path = state_path(state->state);
    covsplit_tests *tests = calloc(1, sizeof(*tests));
    struct error why = {0};

    if (tests == NULL) {
        error_out_of_memory(&why, path, sizeof(*tests));
    } else if (tests_find(state->state, &state->sidecars.source, 0, functions, count,
                          &tests->answer, &why)) {
        if (tests->answer.tests.count != 0)
            return tests;
        error_set(&why,
                  "%s: has no tests; add profiles to it with 'covsplit merge --into %s --by NAME'",
                  path, path);
    }
    covsplit_tests_close(tests);
    report_error(error, &why);
    return NULL;
}

void covsplit_tests_close(covsplit_tests *tests)
{
    if (tests == NULL)
        return;
    tests_answer_free(&tests->answer);
    free(tests);
}

const char *const *covsplit_tests_names(const covsplit_tests *tests, size_t *count)
{
    *count = tests->answer.tests.count;
    return (const char *const *)tests->answer.tests.items;
}

size_t covsplit_tests_count(const covsplit_tests *tests)
{
    return tests->answer.found_count;
}

bool covsplit_tests_get(const covsplit_tests *tests, size_t index, covsplit_reached *reached)
{
    const struct found_function *found;

    if (index >= tests->answer.found_count)
        return false;
    found = &tests->answer.found[index];
    *reached = (covsplit_reached){
        .function = found->index,
        .image_name = found->image,
        .uuid = found->uuid.bytes,
        .uuid_size = found->uuid.size,
        .tests = found->tests,
        .test_count = found->test_count,
    };
    return true;
}
