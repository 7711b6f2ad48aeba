/*
 * The library's unions: what they are made of, what is refused, and memory that runs out at any
 * moment. What llvm-cov makes of unions is for other suites.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"
#include "tests/unit/refused_memory.h"
#include "tests/unit/sidecar_sample.h"

static struct buffer sample_bytes; /* a sidecar with coverage mapping */

static void prepare(void)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);

    sample_bytes = sample_write(&sample->source, 3, 1);
}

static void release(void)
{
    buffer_free(&sample_bytes);
}

static bool make_union(size_t members, struct buffer *result, covsplit_error **error)
{
    covsplit_sidecar *sidecar =
        covsplit_sidecar_open_memory(sample_bytes.data, sample_bytes.size, "sample", error);
    covsplit_union *all = sidecar == NULL ? NULL : covsplit_union_new(collect, result, error);
    bool done = all != NULL;

    for (size_t i = 0; done && i < members; i++)
        done = covsplit_union_add(all, sidecar, error);
    covsplit_sidecar_close(sidecar);
    done = done && covsplit_union_finish(all, error);
    covsplit_union_free(all);
    return done;
}

START_TEST(test_members)
{
    FREED_BY(buffer_free) struct buffer one = {0}, two = {0};

    ck_assert(make_union(1, &one, NULL));
    ck_assert(make_union(2, &two, NULL));
    ck_assert(covsplit_is_union(one.data, one.size));
    ck_assert(!covsplit_is_union(sample_bytes.data, sample_bytes.size));
    ck_assert(!covsplit_is_union(NULL, 0));
    /* The first member is the same whatever follows it. */
    ck_assert_uint_gt(two.size, one.size);
    ck_assert_mem_eq(two.data, one.data, one.size);
}
END_TEST

START_TEST(test_refused)
{
    FREED_BY(tear_down) struct fixture fixture;
    FREED_BY(buffer_free) struct buffer result = {0};
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar, *without_mapping;
    covsplit_union *all = covsplit_union_new(collect, &result, NULL);

    set_up(&fixture);
    sidecar = covsplit_sidecar_open_memory(sample_bytes.data, sample_bytes.size, "sample", NULL);
    without_mapping = covsplit_sidecar_open(fixture.sidecar, NULL);
    ck_assert(!covsplit_union_finish(all, &error));
    assert_message(error, "no sidecar with coverage");
    covsplit_union_free(all);

    all = covsplit_union_new(collect, &result, NULL);
    ck_assert(covsplit_union_add(all, sidecar, NULL));
    ck_assert(!covsplit_union_add(all, without_mapping, &error));
    assert_message(error, "holds no coverage mapping");
    /* Half a union is none. */
    ck_assert(!covsplit_union_add(all, sidecar, &error));
    assert_message(error, "make another one");
    ck_assert(!covsplit_union_finish(all, &error));
    assert_message(error, "make another one");
    covsplit_union_free(all);

    all = covsplit_union_new(stop, NULL, NULL);
    ck_assert(!covsplit_union_add(all, sidecar, &error));
    assert_message(error, "stopped by the program");
    covsplit_union_free(all);
    covsplit_union_free(NULL);
}
END_TEST

START_TEST(test_no_memory)
{
    FREED_BY(buffer_free) struct buffer expected = {0}, result = {0};
    covsplit_error *error = NULL;
    size_t refused = 0;

    ck_assert(make_union(2, &expected, NULL));
    ck_assert(buffer_reserve(&result, expected.size)); /* the sink needs no memory */
    for (memory_granted = 0; !make_union(2, &result, &error); memory_granted = ++refused) {
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

    tcase_add_checked_fixture(all, prepare, release);
    suite_tests(all, test_members, test_refused, test_no_memory);
    return suite_main("reader_union", all);
}
