/*
 * The library's states: sums that a merger takes over, what is refused, and memory that runs out at
 * any moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile_sum.h"
#include "common/state/state.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"
#include "tests/unit/refused_memory.h"

DEFINE_DROP(drop_sum, struct profile_sum, profile_sum_free)
DEFINE_DROP(drop_state, struct state, state_close)

static struct fixture fixture;
static char state_directory[64];
static covsplit_store *store;

/* Makes a state of two profiles like that of the fixture. */
static void make_state(void)
{
    struct profile profile = profile_of(&fixture.profile_bytes);
    FREED_BY(drop_sum) struct profile_sum *sum;
    struct digest identity;
    struct error error = {0};
    struct state_batch *batch;
    FREED_BY(drop_state) struct state *state;

    identity = profile_identity(&profile);
    sum = profile_sum_new(&identity, &error);
    for (int i = 0; i < 2; i++)
        ck_assert(profile_sum_add(sum, &profile, 0, 1, &error));
    ck_assert_msg(state_open(&state, state_directory, STATE_CREATE, 0, &error), "%s",
                  error.message);
    ck_assert(state_batch_start(state, &batch, &error));
    ck_assert(state_batch_add(batch, sum, &error));
    ck_assert(state_batch_commit(batch, &error));
    state_batch_free(batch);
    ck_assert(state_fold(state, &error));
}

static void prepare(void)
{
    set_up(&fixture);
    snprintf(state_directory, sizeof(state_directory), "%s/state", fixture.directory);
    store = covsplit_store_open_directory(fixture.directory, NULL);
}

static void clean_up(void)
{
    directory_remove(state_directory);
    covsplit_store_close(store);
    tear_down(&fixture);
}

/* ---- merging ---- */

static bool merge(size_t profiles, struct buffer *result, covsplit_error **error)
{
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(store, error);
    FREED_BY(drop_profile)
    covsplit_profile *profile =
        merger == NULL ? NULL : covsplit_profile_open(fixture.profile, error);
    covsplit_state *state = profile == NULL ? NULL : covsplit_state_open(state_directory, error);
    bool done = state != NULL && covsplit_merger_add_state(merger, state, error);

    covsplit_state_close(state);
    for (size_t i = 0; done && i < profiles; i++)
        done = covsplit_merger_add(merger, profile, error);
    done = done && covsplit_merger_finish(merger, collect, result, error);
    return done;
}

START_TEST(test_sums)
{
    FREED_BY(buffer_free) struct buffer result = {0};
    FREED_BY(drop_profile) covsplit_profile *sum;
    bool found;

    make_state();
    ck_assert(merge((size_t)_i, &result, NULL));
    sum = covsplit_profile_open_memory(result.data, result.size, "sum", NULL);
    ck_assert(!covsplit_profile_needs_sidecar(sum));
    ck_assert_uint_eq(covsplit_profile_counter(sum, 5), (2 + (uint64_t)_i) * 77);
    ck_assert(covsplit_profile_next(sum, &found, NULL));
    ck_assert(!found);
}
END_TEST

START_TEST(test_no_sidecar)
{
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(NULL, NULL);
    covsplit_error *error = NULL;
    covsplit_state *state;

    make_state();
    state = covsplit_state_open(state_directory, NULL);
    ck_assert(!covsplit_merger_add_state(merger, state, &error));
    assert_message(error, "needs the sidecar of its image");
    ck_assert(!covsplit_merger_finish(merger, collect, NULL, &error));
    assert_message(error, "has only a part of a state; make another one");
    ck_assert(!covsplit_merger_add_state(merger, state, &error));
    assert_message(error, "has only a part of a state; make another one");
    covsplit_state_close(state);
}
END_TEST

START_TEST(test_refused)
{
    covsplit_error *error = NULL;

    ck_assert_ptr_null(covsplit_state_open(state_directory, &error));
    assert_message(error, state_directory);
    ck_assert_ptr_null(covsplit_state_open(fixture.directory, &error));
    assert_message(error, fixture.directory);
    covsplit_state_close(NULL);
}
END_TEST

/* ---- without memory ---- */

START_TEST(test_no_memory_to_merge)
{
    FREED_BY(buffer_free) struct buffer expected = {0}, result = {0};
    covsplit_error *error = NULL;
    size_t refused = 0;

    make_state();
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
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, prepare, clean_up);
    suite_tests(all, test_no_sidecar, test_refused, test_no_memory_to_merge);
    tcase_add_loop_test(all, test_sums, 0, 3);
    return suite_main("reader_state", all);
}
