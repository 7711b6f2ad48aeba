/*
 * The library's states: sums that a merger takes over, which tests reach a function, what is
 * refused, and memory that runs out at any moment.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile_sum.h"
#include "common/state/reached.h"
#include "common/state/state.h"
#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"
#include "tests/unit/refused_memory.h"

static struct fixture fixture;
static char state_directory[64];
static covsplit_store *store;

/* Function 0 is "main"; the names of the others are not known. `ties` reaches functions 0 and 1,
 * `shoes` reaches 0. */
static struct buffer make_tests(void)
{
    static const uint8_t ties[] = {3}, shoes[] = {1};
    struct reached *reached = reached_new(RECORDS);
    struct buffer encoded = {0};
    struct error error = {0};

    ck_assert(reached_add(reached, "ties", ties));
    ck_assert(reached_add(reached, "shoes", shoes));
    ck_assert(reached_encode(reached, "tests", &encoded, &error));
    reached_free(reached);
    return encoded;
}

/* Makes a state of two profiles like that of the fixture. */
static void make_state(bool with_tests)
{
    struct profile profile = profile_of(&fixture.profile_bytes);
    struct profile_sum *sum;
    struct digest identity;
    struct error error = {0};
    struct state_batch *batch;
    struct state *state;

    identity = profile_identity(&profile);
    sum = profile_sum_new(&identity, &error);
    for (int i = 0; i < 2; i++)
        ck_assert(profile_sum_add(sum, &profile, 0, 1, &error));
    if (with_tests)
        sum->tests = make_tests();
    ck_assert_msg(state_open(&state, state_directory, STATE_CREATE, 0, &error), "%s",
                  error.message);
    ck_assert(state_batch_start(state, &batch, &error));
    ck_assert(state_batch_add(batch, sum, &error));
    ck_assert(state_batch_commit(batch, &error));
    state_batch_free(batch);
    ck_assert(state_fold(state, &error));
    state_close(state);
    profile_sum_free(sum);
}

static void prepare(void)
{
    set_up(&fixture);
    snprintf(state_directory, sizeof(state_directory), "%s/state", fixture.directory);
    store = covsplit_store_open_directory(fixture.directory, NULL);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void clean_up(void)
{
    nftw(state_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    covsplit_store_close(store);
    tear_down(&fixture);
}

/* ---- merging ---- */

static bool merge(size_t profiles, struct buffer *result, covsplit_error **error)
{
    covsplit_merger *merger = covsplit_merger_new(store, error);
    covsplit_profile *profile =
        merger == NULL ? NULL : covsplit_profile_open(fixture.profile, error);
    covsplit_state *state =
        profile == NULL ? NULL : covsplit_state_open(state_directory, NULL, error);
    bool done = state != NULL && covsplit_merger_add_state(merger, state, error);

    covsplit_state_close(state);
    for (size_t i = 0; done && i < profiles; i++)
        done = covsplit_merger_add(merger, profile, error);
    done = done && covsplit_merger_finish(merger, collect, result, error);
    covsplit_profile_close(profile);
    covsplit_merger_free(merger);
    return done;
}

START_TEST(test_sums)
{
    struct buffer result = {0};
    covsplit_profile *sum;
    bool found;

    make_state(false);
    ck_assert(merge((size_t)_i, &result, NULL));
    sum = covsplit_profile_open_memory(result.data, result.size, "sum", NULL);
    ck_assert(!covsplit_profile_needs_sidecar(sum));
    ck_assert_uint_eq(covsplit_profile_counter(sum, 5), (2 + (uint64_t)_i) * 77);
    ck_assert(covsplit_profile_next(sum, &found, NULL));
    ck_assert(!found);
    covsplit_profile_close(sum);
    buffer_free(&result);
}
END_TEST

START_TEST(test_no_sidecar)
{
    covsplit_merger *merger = covsplit_merger_new(NULL, NULL);
    covsplit_error *error = NULL;
    covsplit_state *state;

    make_state(true);
    state = covsplit_state_open(state_directory, NULL, NULL);
    ck_assert(!covsplit_merger_add_state(merger, state, &error));
    assert_message(error, "needs the sidecar of its image");
    ck_assert(!covsplit_merger_finish(merger, collect, NULL, &error));
    assert_message(error, "has only a part of a state; make another one");
    ck_assert(!covsplit_merger_add_state(merger, state, &error));
    assert_message(error, "has only a part of a state; make another one");
    ck_assert_ptr_null(covsplit_tests_find(state, NULL, 0, &error));
    assert_message(error, "needs the sidecar of its image");
    covsplit_merger_free(merger);
    covsplit_state_close(state);
}
END_TEST

/* ---- tests ---- */

static const char *const functions[] = {"absent", "main"};

static void assert_answer(const covsplit_tests *tests)
{
    covsplit_reached reached;
    const char *const *names;
    size_t count;

    names = covsplit_tests_names(tests, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(names[0], "shoes");
    ck_assert_str_eq(names[1], "ties");
    ck_assert_uint_eq(covsplit_tests_count(tests), 1);
    ck_assert(covsplit_tests_get(tests, 0, &reached));
    ck_assert(!covsplit_tests_get(tests, 1, &reached));
    ck_assert_uint_eq(reached.function, 1);
    ck_assert_str_eq(reached.image_name, "sample-image");
    ck_assert_uint_eq(reached.uuid_size, strlen(ID));
    ck_assert_mem_eq(reached.uuid, ID, strlen(ID));
    ck_assert_uint_eq(reached.test_count, 2);
    ck_assert_str_eq(reached.tests[0], "shoes");
    ck_assert_str_eq(reached.tests[1], "ties");
}

START_TEST(test_tests)
{
    covsplit_sidecar *sidecar = covsplit_sidecar_open(fixture.sidecar, NULL);
    covsplit_state *state;
    covsplit_tests *tests;

    make_state(true);
    state = covsplit_state_open(state_directory, _i == 0 ? store : NULL, NULL);
    if (_i == 1)
        ck_assert(covsplit_state_add_sidecar(state, sidecar, NULL));
    tests = covsplit_tests_find(state, functions, 2, NULL);
    covsplit_state_close(state);
    ck_assert_ptr_nonnull(tests);
    assert_answer(tests);
    covsplit_tests_close(tests);
    covsplit_tests_close(NULL);
    covsplit_sidecar_close(sidecar);
}
END_TEST

START_TEST(test_refused)
{
    covsplit_error *error = NULL;
    covsplit_state *state;

    ck_assert_ptr_null(covsplit_state_open(state_directory, store, &error));
    assert_message(error, state_directory);
    ck_assert_ptr_null(covsplit_state_open(fixture.directory, store, &error));
    assert_message(error, fixture.directory);
    make_state(false);
    state = covsplit_state_open(state_directory, store, NULL);
    ck_assert_ptr_null(covsplit_tests_find(state, functions, 2, &error));
    assert_message(error, "has no tests");
    covsplit_state_close(state);
    covsplit_state_close(NULL);
}
END_TEST

/* ---- without memory ---- */

START_TEST(test_no_memory_to_merge)
{
    struct buffer expected = {0}, result = {0};
    covsplit_error *error = NULL;
    size_t refused = 0;

    make_state(true);
    ck_assert(merge(1, &expected, NULL));
    ck_assert(buffer_reserve(&result, expected.size)); /* the sink needs no memory */
    for (memory_granted = 0; !merge(1, &result, &error); memory_granted = ++refused) {
        ck_assert_msg(covsplit_error_is_of_memory(error), "%s", covsplit_error_message(error));
        covsplit_error_free(error);
        result.size = 0;
    }
    memory_granted = MEMORY_ALL;
    ck_assert_uint_gt(refused, 20);
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected)));
    buffer_free(&expected);
    buffer_free(&result);
}
END_TEST

static covsplit_tests *ask(covsplit_error **error)
{
    covsplit_state *state = covsplit_state_open(state_directory, store, error);
    covsplit_tests *tests = state == NULL ? NULL : covsplit_tests_find(state, functions, 2, error);

    covsplit_state_close(state);
    return tests;
}

START_TEST(test_no_memory_to_ask)
{
    covsplit_error *error = NULL;
    covsplit_tests *tests;
    size_t refused = 0;

    make_state(true);
    for (memory_granted = 0; (tests = ask(&error)) == NULL; memory_granted = ++refused) {
        ck_assert_msg(covsplit_error_is_of_memory(error), "%s", covsplit_error_message(error));
        covsplit_error_free(error);
    }
    memory_granted = MEMORY_ALL;
    ck_assert_uint_gt(refused, 20);
    assert_answer(tests);
    covsplit_tests_close(tests);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, prepare, clean_up);
    suite_tests(all, test_no_sidecar, test_refused, test_no_memory_to_merge, test_no_memory_to_ask);
    tcase_add_loop_test(all, test_sums, 0, 3);
    tcase_add_loop_test(all, test_tests, 0, 2);
    return suite_main("reader_state", all);
}
