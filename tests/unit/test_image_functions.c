/*
 * The functions of an image, as profiles have them: whose counters are where, in every version and
 * form; and what a recorder makes of them.
 */
#include <string.h>

#include "common/state/reached.h"
#include "common/state/tests_query.h"
#include "tests/support/suite.h"
#include "tests/unit/profile_maker.h"
#include "tests/unit/refused_memory.h"

#define RECORDS       5
#define COUNTERS_EACH 3

static struct image_functions read_functions(const struct buffer *made)
{
    struct profile profile = profile_of(made);
    struct image_functions functions = {0};
    struct error error = {0};

    ck_assert_msg(image_functions_read(&functions, &profile, NULL, false, "made", &error), "%s",
                  error.message);
    ck_assert_uint_eq(functions.count, RECORDS);
    return functions;
}

static unsigned reached_by(const struct image_functions *functions, const struct buffer *made)
{
    struct profile profile = profile_of(made);
    uint8_t set[1] = {0};

    image_functions_reached(functions, &profile, set);
    return set[0];
}

/* Each counter is its function's, in the first byte and the last. */
START_TEST(test_counters)
{
    struct profile_recipe recipe = profile_form(_i);
    struct buffer made = profile_make(&recipe);
    struct image_functions functions = read_functions(&made);

    ck_assert_uint_eq(reached_by(&functions, &made), 0);
    for (uint64_t i = 0; i < RECORDS * COUNTERS_EACH; i++) {
        profile_set_counter(&made, i, 1);
        ck_assert_uint_eq(reached_by(&functions, &made), 1u << i / COUNTERS_EACH);
        profile_set_counter(&made, i, UINT64_C(1) << 63);
        ck_assert_uint_eq(reached_by(&functions, &made), 1u << i / COUNTERS_EACH);
        profile_set_counter(&made, i, 0);
    }
    image_functions_free(&functions);
    buffer_free(&made);
}
END_TEST

/* 0 stands for "executed". */
START_TEST(test_byte_coverage)
{
    struct profile_recipe recipe = profile_form(_i);
    struct image_functions functions;
    struct buffer made;
    size_t counters;

    recipe.raw_version |= PROFILE_VARIANT_BYTE_COVERAGE;
    made = profile_make(&recipe);
    functions = read_functions(&made);
    counters = (size_t)(profile_of(&made).counters.data - made.data);
    memset(made.data + counters, 0xff, RECORDS * COUNTERS_EACH);
    ck_assert_uint_eq(reached_by(&functions, &made), 0);
    for (size_t i = 0; i < RECORDS * COUNTERS_EACH; i++) {
        made.data[counters + i] = 0;
        ck_assert_uint_eq(reached_by(&functions, &made), 1u << i / COUNTERS_EACH);
        made.data[counters + i] = 0xff;
    }
    image_functions_free(&functions);
    buffer_free(&made);
}
END_TEST

/* Counters that would be outside of the profile. */
START_TEST(test_outside)
{
    struct profile_recipe recipe = profile_form(_i);
    struct buffer made = profile_make(&recipe);
    struct profile profile = profile_of(&made);
    size_t record = (size_t)(profile.data.data - made.data) + 3 * profile.layout.record_size;
    struct image_functions functions = {0};
    struct error error;

    store_u32(made.data + record + profile.layout.num_counters, 100, recipe.big_endian);
    profile = profile_of(&made);
    ck_assert(!image_functions_read(&functions, &profile, NULL, false, "made", &error));
    ck_assert_str_eq(error.message, "made: damaged (the counters of record 3 are not in it); copy "
                                    "it again, or run the program again");
    image_functions_free(&functions);
    buffer_free(&made);
}
END_TEST

/* ---- the recorder ---- */

static void record(struct test_recorder *recorder, const struct digest *identity,
                   const struct buffer *made, const char *test)
{
    struct profile profile = profile_of(made);
    struct error error = {0};

    ck_assert_msg(test_recorder_know(recorder, identity, NULL, &profile, "made", &error), "%s",
                  error.message);
    ck_assert(test_recorder_add(recorder, identity, &profile, test, "made", &error));
}

static struct buffer recorded(struct test_recorder *recorder, const struct digest *identity)
{
    struct buffer bytes = {0};
    struct error error = {0};

    ck_assert_msg(test_recorder_encode(recorder, identity, "made", &bytes, &error), "%s",
                  error.message);
    return bytes;
}

static void assert_tests(const struct buffer *bytes, uint64_t function, const char *expected)
{
    struct reached_table table;
    const uint8_t *set;
    struct error error;
    char text[64] = "";

    ck_assert(reached_open(&table, buffer_view(bytes), "made", 1 << 20, &error));
    ck_assert(reached_find(&table, function, &set, &error));
    for (size_t i = 0; i < table.test_count; i++) {
        if (bit_set_has(set, i))
            strcat(text, table.tests[i]);
    }
    ck_assert_str_eq(text, expected);
    reached_close(&table);
}

/* What is recorded is added to what is there; images are kept apart; and what was forgotten is
 * gone. */
START_TEST(test_recorder)
{
    struct profile_recipe recipe = profile_form(1);
    struct buffer made = profile_make(&recipe), first, none;
    struct digest one = {{1}}, other = {{2}};
    struct test_recorder recorder;
    struct error error;

    test_recorder_start(&recorder);
    profile_set_counter(&made, 4, 1); /* of function 1 */
    record(&recorder, &one, &made, "b");
    profile_set_counter(&made, 12, 1); /* of function 4 */
    record(&recorder, &one, &made, "a");
    record(&recorder, &other, &made, "x");
    first = recorded(&recorder, &one);
    assert_tests(&first, 1, "ab");
    assert_tests(&first, 4, "a");
    assert_tests(&first, 0, "");
    ck_assert_uint_gt(recorder.test_memory, 0);
    test_recorder_clear(&recorder);
    ck_assert_uint_eq(recorder.test_memory, 0);
    none = recorded(&recorder, &one);
    ck_assert_uint_eq(none.size, 0);
    record(&recorder, &one, &made, "c");
    ck_assert(test_recorder_encode(&recorder, &one, "made", &first, &error));
    assert_tests(&first, 1, "abc");
    assert_tests(&first, 4, "ac");
    /* Of another image. */
    first.data[0]++;
    ck_assert(!test_recorder_encode(&recorder, &one, "made", &first, &error));
    buffer_free(&first);
    buffer_free(&made);
    test_recorder_free(&recorder);
}
END_TEST

/* ---- memory ---- */

struct recording {
    struct buffer made;
    struct buffer expected; /* empty: not known yet */
    struct test_recorder recorder;
    struct digest identity;
};

/* One of the steps by which the recorder gets its tests. */
static bool take_step(struct recording *recording, int step, struct error *error)
{
    static const char *const tests[] = {"a", "b"};
    struct profile profile = profile_of(&recording->made);
    struct test_recorder *recorder = &recording->recorder;
    const struct digest *identity = &recording->identity;

    if (step == 0)
        return test_recorder_know(recorder, identity, NULL, &profile, "made", error);
    return test_recorder_add(recorder, identity, &profile, tests[step - 1], "made", error);
}

/* A step that has failed changes nothing: done again, it gives what it always gives. */
static bool record_again(void *subject)
{
    struct recording *recording = subject;
    struct error error = {0};
    bool refused = false;
    struct buffer bytes = {0};

    test_recorder_start(&recording->recorder);
    for (int step = 0; step < 3; step++) {
        if (take_step(recording, step, &error))
            continue;
        expect_memory(&error);
        refused = true;
        ck_assert(take_step(recording, step, &error));
    }
    if (!test_recorder_encode(&recording->recorder, &recording->identity, "made", &bytes, &error)) {
        expect_memory(&error);
        refused = true;
        buffer_free(&bytes);
        bytes = recorded(&recording->recorder, &recording->identity);
    }
    if (recording->expected.size == 0)
        recording->expected = bytes;
    else
        ck_assert(bytes_equal(buffer_view(&bytes), buffer_view(&recording->expected)));
    if (recording->expected.data != bytes.data)
        buffer_free(&bytes);
    test_recorder_free(&recording->recorder);
    return !refused;
}

START_TEST(test_recorder_memory_refused)
{
    struct profile_recipe recipe = profile_form(1);
    struct recording recording = {.made = profile_make(&recipe), .identity = {{1}}};

    profile_set_counter(&recording.made, 4, 1);
    ck_assert(record_again(&recording));
    assert_tests(&recording.expected, 1, "ab");
    refuse_each_way(record_again, &recording);
    buffer_free(&recording.expected);
    buffer_free(&recording.made);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);

    suite_loops(all, PROFILE_FORMS + PROFILE_WINDOWS_FORMS, test_counters, test_outside);
    suite_loops(all, PROFILE_FORMS, test_byte_coverage);
    suite_tests(all, test_recorder, test_recorder_memory_refused);
    return suite_main("image_functions", all);
}
