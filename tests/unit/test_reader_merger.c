/*
 * The library's merger: sums, their order, profiles of an image before and after the split, where
 * sidecars come from, what is refused, and memory that runs out at any moment.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"
#include "tests/unit/refused_memory.h"
#include "tests/unit/sidecar_sample.h"

#define LIMIT (UINT64_C(1) << 56) /* of a counter in one profile */

/* A sidecar in a store, and the profile that its image writes. */
static struct fixture fixture;
static covsplit_store *store;

static void prepare(void)
{
    set_up(&fixture);
    store = covsplit_store_open_directory(fixture.directory, NULL);
}

static void release(void)
{
    covsplit_store_close(store);
    tear_down(&fixture);
}

/* ---- profiles ---- */

static bool try_add(covsplit_merger *merger, const struct buffer *file, const char *name,
                    covsplit_error **error)
{
    FREED_BY(drop_profile)
    covsplit_profile *profile = covsplit_profile_open_memory(file->data, file->size, name, error);

    return profile != NULL && covsplit_merger_add(merger, profile, error);
}

static void add(covsplit_merger *merger, const struct buffer *file)
{
    covsplit_error *error = NULL;

    ck_assert_msg(try_add(merger, file, "added", &error), "%s",
                  error == NULL ? "" : covsplit_error_message(error));
}

/* The lightweight profile of the fixture with a counter set. */
static void add_count(covsplit_merger *merger, uint64_t index, uint64_t value)
{
    profile_set_counter(&fixture.profile_bytes, index, value);
    add(merger, &fixture.profile_bytes);
}

static struct buffer finish(covsplit_merger *merger)
{
    covsplit_error *error = NULL;
    struct buffer result = {0};

    ck_assert_msg(covsplit_merger_finish(merger, collect, &result, &error), "%s",
                  error == NULL ? "" : covsplit_error_message(error));
    covsplit_merger_free(merger);
    return result;
}

/* What covsplit_profile_correlate makes of a lightweight profile. */
static struct buffer correlate(void)
{
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar = covsplit_sidecar_open(fixture.sidecar, &error);
    FREED_BY(drop_profile)
    covsplit_profile *profile = covsplit_profile_open_memory(
        fixture.profile_bytes.data, fixture.profile_bytes.size, "light", &error);
    struct buffer full = {0};

    ck_assert(covsplit_profile_correlate(profile, sidecar, collect, &full, &error));
    return full;
}

/* A full profile of another image. Its size is no multiple of 8, since binary IDs have no padding
 * in version 7. */
static struct buffer make_other(void)
{
    struct profile_recipe recipe = full_recipe;
    struct buffer made;

    recipe.raw_version = 7;
    recipe.bitmap = false;
    recipe.binary_id = "other";
    made = profile_make(&recipe);
    profile_set_counter(&made, 0, 40);
    return made;
}

/* ---- sums ---- */

/* Appends a profile to others. */
static void append(struct buffer *all, struct buffer more)
{
    ck_assert(buffer_append_zeros(all, (size_t)profile_padding(all->size)) &&
              buffer_append(all, more.data, more.size));
    buffer_free(&more);
}

/* A sum above what llvm-profdata takes is two profiles. */
START_TEST(test_sum)
{
    covsplit_merger *merger = covsplit_merger_new(store, NULL);
    FREED_BY(buffer_free) struct buffer result, expected;
    covsplit_error *error = NULL;

    add(merger, &fixture.profile_bytes); /* counter 5 is 77 */
    add_count(merger, 0, 1);
    add_count(merger, 7, LIMIT);
    add_count(merger, 5, 3);
    profile_set_counter(&fixture.profile_bytes, 7, LIMIT + 1);
    ck_assert(!try_add(merger, &fixture.profile_bytes, "damaged", &error));
    assert_message(error, "damaged: damaged: counter 7 is 72057594037927937");
    result = finish(merger);
    profile_set_counter(&fixture.profile_bytes, 0, 3);
    profile_set_counter(&fixture.profile_bytes, 5, 77 + 77 + 77 + 3);
    profile_set_counter(&fixture.profile_bytes, 7, LIMIT);
    expected = correlate();
    profile_set_counter(&fixture.profile_bytes, 0, 0);
    profile_set_counter(&fixture.profile_bytes, 5, 0);
    append(&expected, correlate());
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected)));
}
END_TEST

/* Images are in the order of their first profiles, each where a reader finds it. */
START_TEST(test_order)
{
    covsplit_merger *merger = covsplit_merger_new(store, NULL);
    FREED_BY(drop_profile) covsplit_profile *profile;
    FREED_BY(buffer_free) struct buffer other = make_other(), result;
    bool found;

    ck_assert_uint_ne(other.size % PROFILE_ALIGNMENT, 0);
    for (int i = 0; i < 3; i++) {
        add(merger, _i == 0 ? &other : &fixture.profile_bytes);
        add(merger, _i == 0 ? &fixture.profile_bytes : &other);
    }
    result = finish(merger);
    profile = covsplit_profile_open_memory(result.data, result.size, "result", NULL);
    for (int i = 0; i < 2; i++) {
        bool is_other = i == _i;

        ck_assert(!covsplit_profile_needs_sidecar(profile));
        ck_assert_uint_eq(covsplit_profile_raw_version(profile), is_other ? 7 : 10);
        ck_assert_uint_eq(covsplit_profile_counter(profile, is_other ? 0 : 5),
                          is_other ? 3 * 40 : 3 * 77);
        ck_assert(covsplit_profile_next(profile, &found, NULL));
        ck_assert_int_eq(found, i == 0);
    }
}
END_TEST

/* Profiles of an image before and after the split are profiles of one image. */
START_TEST(test_unsplit)
{
    covsplit_merger *merger = covsplit_merger_new(store, NULL);
    FREED_BY(buffer_free) struct buffer full, other = make_other(), result, expected;

    full = correlate();
    add(merger, _i == 0 ? &full : &fixture.profile_bytes);
    add(merger, &other);
    add(merger, _i == 0 ? &fixture.profile_bytes : &full);
    add(merger, &fixture.profile_bytes);
    result = finish(merger);
    profile_set_counter(&fixture.profile_bytes, 5, 3 * 77);
    expected = correlate();
    ck_assert(buffer_append_zeros(&expected, (size_t)profile_padding(expected.size)));
    ck_assert(buffer_append(&expected, other.data, other.size));
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected)));
}
END_TEST

/* ---- sidecars ---- */

START_TEST(test_sidecars)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer other_bytes = sample_write(&sample->source, 3, 1);
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar, *other;
    FREED_BY(drop_store) covsplit_store *nowhere;
    covsplit_merger *merger;
    FREED_BY(buffer_free) struct buffer result, expected;
    size_t size;

    sidecar = covsplit_sidecar_open(fixture.sidecar, NULL);
    other = covsplit_sidecar_open_memory(other_bytes.data, other_bytes.size, "other", NULL);
    nowhere = covsplit_store_open_directory("/nowhere", NULL);

    merger = covsplit_merger_new(NULL, NULL);
    ck_assert(!try_add(merger, &fixture.profile_bytes, "light", &error));
    assert_message(error, "light: needs the sidecar of its image");
    ck_assert(covsplit_merger_add_sidecar(merger, other, NULL));
    ck_assert(!try_add(merger, &fixture.profile_bytes, "light", &error));
    assert_message(error, "other");
    covsplit_merger_free(merger);

    merger = covsplit_merger_new(nowhere, NULL);
    ck_assert(!try_add(merger, &fixture.profile_bytes, "light", &error));
    assert_message(error, "/nowhere");
    /* What was refused has left nothing behind, and the merger goes on. */
    ck_assert(covsplit_merger_add_sidecar(merger, other, NULL));
    ck_assert(covsplit_merger_add_sidecar(merger, sidecar, NULL));
    add(merger, &fixture.profile_bytes);
    result = finish(merger);
    expected = correlate();
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected)));
    /* A given sidecar stays open. */
    ck_assert_ptr_nonnull(covsplit_sidecar_content(sidecar, "__llvm_prf_names", &size, NULL));
}
END_TEST

/* ---- what is refused ---- */

/* A profile with a value site, and if asked for, the value data of it: no values. */
static struct buffer make_value_profile(bool with_data)
{
    static const uint8_t no_values[24] = {24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
    struct profile_recipe recipe = full_recipe;
    struct buffer made;
    struct profile profile;

    recipe.records = 1;
    made = profile_make(&recipe);
    profile = profile_of(&made);
    made.data[(size_t)(profile.data.data - made.data) + profile.layout.num_value_sites] = 1;
    if (with_data)
        ck_assert(buffer_append(&made, no_values, sizeof(no_values)));
    return made;
}

START_TEST(test_refused)
{
    struct profile_recipe temporal_recipe = full_recipe;
    FREED_BY(buffer_free)
    struct buffer value = make_value_profile(true), cut = make_value_profile(false), temporal,
                  other = make_other(), result;
    covsplit_merger *merger = covsplit_merger_new(NULL, NULL);
    covsplit_error *error = NULL;

    temporal_recipe.raw_version |= PROFILE_VARIANT_TEMPORAL;
    temporal = profile_make(&temporal_recipe);
    ck_assert(!try_add(merger, &value, "value", &error));
    assert_message(error, "value: a value profile cannot be added");
    ck_assert(!try_add(merger, &cut, "cut", &error));
    assert_message(error, "cut: its value profile data is missing");
    ck_assert(!try_add(merger, &temporal, "temporal", &error));
    assert_message(error, "temporal: a temporal profile cannot be added");
    add(merger, &other);
    ck_assert(!try_add(merger, &value, "value", NULL));
    result = finish(merger);
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&other)));
}
END_TEST

START_TEST(test_end)
{
    FREED_BY(buffer_free) struct buffer other = make_other(), result = {0};
    covsplit_error *error = NULL;
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(NULL, &error);

    ck_assert(!covsplit_merger_finish(merger, collect, &result, &error));
    assert_message(error, "there are none");
    add(merger, &other);
    ck_assert(!covsplit_merger_finish(merger, stop, NULL, &error));
    assert_message(error, "added: reading was stopped");
    ck_assert(!covsplit_merger_finish(merger, collect, &result, &error));
    assert_message(error, "make another one");
    ck_assert(!try_add(merger, &other, "late", &error));
    assert_message(error, "late: the merger ");
    ck_assert_uint_eq(result.size, 0);
    covsplit_merger_free(NULL);
}
END_TEST

/* ---- without memory ---- */

/* False if memory ran out. *added is then the number of files that were added, and *result what the
 * merger makes of these, unless it is empty. */
static bool merge_all(const struct buffer *const files[], size_t count, size_t *added,
                      struct buffer *result)
{
    covsplit_error *error = NULL;
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(store, &error);
    bool done = merger != NULL;

    for (*added = 0; done && *added < count; *added += done)
        done = try_add(merger, files[*added], "file", &error);
    done = done && covsplit_merger_finish(merger, collect, result, &error);
    ck_assert(done || covsplit_error_is_of_memory(error));
    covsplit_error_free(error);
    if (!done)
        result->size = 0;
    if (!done && merger != NULL && !covsplit_merger_finish(merger, collect, result, NULL))
        result->size = 0;
    return done;
}

#define FILES 4

START_TEST(test_no_memory)
{
    FREED_BY(buffer_free)
    struct buffer full = correlate(), other = make_other(), result = {0};
    struct buffer expected[FILES + 1] = {0};
    size_t added, refused = 0, passed_on = 0;

    const struct buffer *const files[FILES] = {&fixture.profile_bytes, &other, &full, &other};
    for (size_t count = 1; count <= FILES; count++)
        ck_assert(merge_all(files, count, &added, &expected[count]));
    ck_assert(buffer_reserve(&result, expected[FILES].size)); /* the sink needs no memory */
    for (memory_granted = 0; !merge_all(files, FILES, &added, &result);
         memory_granted = ++refused) {
        /* What was added only in part is never passed on. */
        if (result.size != 0)
            ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected[added])));
        passed_on += result.size != 0;
        result.size = 0;
    }
    memory_granted = MEMORY_ALL;
    ck_assert_uint_gt(refused, 20);
    ck_assert_uint_gt(passed_on, 0);
    ck_assert(bytes_equal(buffer_view(&result), buffer_view(&expected[FILES])));
    for (size_t count = 1; count <= FILES; count++)
        buffer_free(&expected[count]);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, prepare, release);
    suite_tests(all, test_sum, test_sidecars, test_refused, test_end, test_no_memory);
    tcase_add_loop_test(all, test_order, 0, 2);
    tcase_add_loop_test(all, test_unsplit, 0, 2);
    return suite_main("reader_merger", all);
}
