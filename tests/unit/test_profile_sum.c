/*
 * Sums of profiles: every version and form, numbers that do not fit, byte coverage against
 * counting, threads, what must not be added to each other, and memory that ends.
 */
#include <pthread.h>

#include "common/llvm/profile_sum.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/profile_maker.h"
#include "tests/unit/refused_memory.h"

DEFINE_DROP(drop_sum, struct profile_sum, profile_sum_free)

#define LIMIT (UINT64_MAX - 2)
#define BYTES PROFILE_VARIANT_BYTE_COVERAGE

/* The combined profile, which is as if it had been parsed. */
static struct profile sum_profile(struct profile_sum *sum)
{
    const struct profile *combined = profile_sum_combined(sum);
    struct buffer view = {sum->bytes, (size_t)sum->size, 0, false};
    struct profile parsed = profile_of(&view);

    ck_assert_mem_eq(&combined->header, &parsed.header, sizeof(parsed.header));
    ck_assert_ptr_eq(combined->counters.data, parsed.counters.data);
    return parsed;
}

static struct profile_sum *new_sum(const struct buffer *first)
{
    struct profile profile = profile_of(first);
    struct error error = {0};
    struct profile_sum *sum = profile_sum_new(&(struct digest){{0}}, &error);

    ck_assert_msg(sum != NULL && profile_sum_add(sum, &profile, 0, 1, &error), "%s", error.message);
    return sum;
}

static void add(struct profile_sum *sum, const struct buffer *more)
{
    struct profile profile = profile_of(more);
    struct error error = {0};

    ck_assert_msg(profile_sum_add(sum, &profile, 0, 1, &error), "%s", error.message);
}

static struct digest identity_of(const struct profile_recipe *recipe)
{
    FREED_BY(buffer_free) struct buffer made = profile_make(recipe);
    struct profile profile = profile_of(&made);

    return profile_identity(&profile);
}

/* The sum that the parts make up, for the first counters. */
struct made_up {
    unsigned __int128 counts[9];
    unsigned parts;
    bool with_weights;
};

/* A profile_sum_visitor. */
static bool add_part(void *context, const struct profile *part, uint64_t weight,
                     struct error *error)
{
    struct made_up *made_up = context;

    ck_assert(profile_check_counters(part, "part", error));
    ck_assert(weight == 1 || made_up->with_weights);
    made_up->parts++;
    for (size_t i = 0; i < 9; i++)
        made_up->counts[i] += (unsigned __int128)weight * profile_get_counter(part, i);
    return true;
}

/* llvm-profdata limits only what its own addition makes too large, and warns of that alone. */
static void check_parts(struct profile_sum *sum, const struct profile *result)
{
    for (int with_weights = 0; with_weights < 2; with_weights++) {
        struct made_up made_up = {.with_weights = with_weights != 0};
        struct error error = {0};

        ck_assert(profile_sum_visit(sum, made_up.with_weights, add_part, &made_up, &error));
        ck_assert_uint_eq(made_up.parts, made_up.with_weights ? 2 : 256);
        for (size_t i = 0; i < 9; i++) {
            uint64_t count = profile_get_counter(result, i);

            ck_assert(count == LIMIT ? made_up.counts[i] > UINT64_MAX : made_up.counts[i] == count);
        }
    }
}

START_TEST(test_counts)
{
    static const struct {
        uint64_t first, more, sum;
    } cases[] = {
        {1, 2, 3},
        {0, 0, 0},
        {UINT64_C(1) << 40, UINT64_C(1) << 40, UINT64_C(1) << 41},
        {LIMIT, 0, LIMIT},
        {LIMIT, 1, LIMIT},
        {LIMIT - 1, 1, LIMIT},
        {UINT64_MAX, 0, LIMIT},
        {UINT64_MAX, UINT64_MAX, LIMIT},
        {UINT64_C(1) << 63, UINT64_C(1) << 63, LIMIT},
    };
    struct profile_recipe recipe = profile_form(_i);
    FREED_BY(buffer_free) struct buffer first = profile_make(&recipe), more = profile_make(&recipe);
    FREED_BY(drop_sum) struct profile_sum *sum;
    struct profile result;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        profile_set_counter(&first, i, cases[i].first);
        profile_set_counter(&more, i, cases[i].more);
    }
    ck_assert_uint_eq(profile_of(&first).counter_skew, recipe.windows ? 7 : 0);
    sum = new_sum(&first);
    add(sum, &more);
    result = sum_profile(sum);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_uint_eq(profile_get_counter(&result, i), cases[i].sum);
    ck_assert_uint_eq(profile_sum_plane_count(sum), 1);
    check_parts(sum, &result);
    /* All else is as it was. */
    ck_assert(bytes_equal(result.names, profile_of(&first).names));
    ck_assert(bytes_equal(result.data, profile_of(&first).data));
    ck_assert(bytes_equal(result.binary_ids, profile_of(&first).binary_ids));
    ck_assert_uint_eq(profile_sum_combined(sum)->size, first.size);
}
END_TEST

/* Adding skips zeros, but not the limit, whatever stands beside a counter. */
START_TEST(test_limited_beside_zeros)
{
    struct profile_recipe recipe = profile_form(_i);
    FREED_BY(buffer_free) struct buffer first = profile_make(&recipe), more = profile_make(&recipe);
    FREED_BY(drop_sum) struct profile_sum *sum;
    struct profile result;

    profile_set_counter(&first, 0, UINT64_MAX);
    profile_set_counter(&first, 1, LIMIT);
    sum = new_sum(&first);
    add(sum, &more);
    result = sum_profile(sum);
    ck_assert_uint_eq(profile_get_counter(&result, 0), LIMIT);
    ck_assert_uint_eq(profile_get_counter(&result, 1), LIMIT);
    ck_assert_uint_eq(profile_get_counter(&result, 2), 0);
}
END_TEST

/* The planes, weighted, say in how many profiles each byte was 0; combined they say whether it was
 * in any. */
static void check_planes(struct profile_sum *sum, const unsigned *expected, size_t count)
{
    unsigned found[1000] = {0};
    struct profile combined = sum_profile(sum);

    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(profile_get_counter(&combined, i), expected[i] != 0 ? 0 : 0xff);
    for (unsigned plane = 0; plane < profile_sum_plane_count(sum); plane++) {
        struct bytes bytes = profile_sum_plane(sum, plane);
        struct buffer view = {(uint8_t *)(uintptr_t)bytes.data, (size_t)bytes.size, 0, false};
        struct profile profile = profile_of(&view);

        for (size_t i = 0; i < count; i++) {
            uint64_t counter = profile_get_counter(&profile, i);
            ck_assert(counter == 0 || counter == 0xff);
            found[i] += counter == 0 ? 1u << plane : 0;
        }
    }
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(found[i], expected[i]);
}

START_TEST(test_byte_coverage)
{
    struct profile_recipe recipe = profile_form(_i);
    struct random_state random = random_start((uint64_t)_i);
    unsigned expected[1000] = {0};
    FREED_BY(drop_sum) struct profile_sum *sum = NULL, *other = NULL;
    struct error error = {0};

    recipe.raw_version |= BYTES;
    recipe.counters_each = 200;
    for (int run = 0; run < 41; run++) {
        FREED_BY(buffer_free) struct buffer made = profile_make(&recipe);
        struct profile_sum **into = run % 3 == 2 ? &other : &sum;

        for (size_t i = 0; i < 1000; i++) {
            bool executed = random_below(&random, 1000) < i;
            /* Any byte but 0 means "not executed". */
            profile_set_counter(&made, i, executed ? 0 : 1 + random_below(&random, 255));
            expected[i] += executed;
        }
        if (*into == NULL)
            *into = new_sum(&made);
        else
            add(*into, &made);
    }
    ck_assert(profile_sum_add_sum(sum, other, &error));
    ck_assert_uint_le(profile_sum_plane_count(sum), 6);
    check_planes(sum, expected, 1000);
}
END_TEST

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS  50

struct adder {
    struct profile_sum *sum;
    struct profile profile;
    unsigned share;
};

static void *add_often(void *context)
{
    const struct adder *adder = context;
    struct error error = {0};

    for (int i = 0; i < ROUNDS; i++) {
        if (!profile_sum_add(adder->sum, &adder->profile, adder->share, THREADS, &error))
            return context;
    }
    return NULL;
}

/* More counters than one stripe has. */
START_TEST(test_threads)
{
    struct profile_recipe recipe = profile_form(3);
    pthread_t threads[THREADS];
    struct adder adders[THREADS];
    FREED_BY(buffer_free) struct buffer made;
    struct profile result;
    uint64_t total, each = _i == 0 ? 1 : 0;

    recipe.raw_version |= _i == 0 ? 0 : BYTES;
    recipe.counters_each = 60000;
    made = profile_make(&recipe);
    total = recipe.records * recipe.counters_each;
    for (uint64_t i = 0; i < total; i++)
        profile_set_counter(&made, i, each);
    adders[0].sum = new_sum(&made);
    for (unsigned i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){adders[0].sum, profile_of(&made), i};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_often, &adders[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    if (_i != 0) { /* 201 = 0b11001001 */
        for (unsigned plane = 0; plane < 8; plane++) {
            struct bytes bytes = profile_sum_plane(adders[0].sum, plane);
            struct buffer view = {(uint8_t *)(uintptr_t)bytes.data, (size_t)bytes.size, 0, false};
            result = profile_of(&view);
            for (uint64_t i = 0; i < total; i++)
                ck_assert_uint_eq(profile_get_counter(&result, i), 201 >> plane & 1 ? 0 : 0xff);
        }
    } else {
        result = sum_profile(adders[0].sum);
        for (uint64_t i = 0; i < total; i++)
            ck_assert_uint_eq(profile_get_counter(&result, i), 1 + THREADS * ROUNDS);
    }
    profile_sum_free(adders[0].sum);
}
END_TEST

/* ---- what belongs together ---- */

static bool is_same(const struct profile_recipe *one, const struct profile_recipe *other)
{
    struct digest identity = identity_of(one), found = identity_of(other);

    return digest_equal(&identity, &found);
}

START_TEST(test_identity)
{
    struct profile_recipe recipe = profile_form(_i);
    struct profile_recipe moved = recipe, renamed = recipe, rebuilt = recipe, other = recipe,
                          variant = recipe;

    moved.load_address = 0x7000000;
    ck_assert(is_same(&recipe, &moved));
    renamed.names = "other name";
    ck_assert(!is_same(&recipe, &renamed));
    rebuilt.binary_id = "build-i2";
    ck_assert(!is_same(&recipe, &rebuilt));
    other.records = 3;
    other.counters_each = 5;
    ck_assert(!is_same(&recipe, &other));
    variant.raw_version |= UINT64_C(1) << 56;
    ck_assert(!is_same(&recipe, &variant));
}
END_TEST

START_TEST(test_adopt)
{
    struct profile_recipe recipe = profile_form(_i);
    FREED_BY(buffer_free) struct buffer first, more;
    FREED_BY(drop_sum) struct profile_sum *sum;
    struct profile profile;

    first = profile_make(&recipe);
    recipe.load_address = 0x123000;
    more = profile_make(&recipe);
    profile_set_counter(&first, 2, 7);
    profile_set_counter(&more, 2, 100);
    sum = new_sum(&first);
    profile = profile_of(&more);
    profile_sum_adopt(sum, &profile);
    profile_set_counter(&more, 2, 7);
    sum_profile(sum);
    ck_assert(bytes_equal((struct bytes){sum->bytes, sum->size}, buffer_view(&more)));
}
END_TEST

START_TEST(test_can_be_summed)
{
    struct profile_recipe recipe = profile_form(3);
    FREED_BY(buffer_free) struct buffer made = profile_make(&recipe);
    struct profile profile = profile_of(&made);

    ck_assert(profile_can_be_summed(&profile));
    profile.value_data = profile.names;
    ck_assert(!profile_can_be_summed(&profile));
    profile.value_data.size = 0;
    profile.header.version |= PROFILE_VARIANT_TEMPORAL;
    ck_assert(!profile_can_be_summed(&profile));
}
END_TEST

/* A sum that could not start has no part of the counters, to which another thread might add. */
START_TEST(test_refused_start)
{
    struct profile_recipe recipe = profile_form(3);
    FREED_BY(buffer_free) struct buffer made;
    struct profile profile;
    FREED_BY(drop_sum) struct profile_sum *sum = NULL;
    struct error error = {0};
    bool added = false;

    recipe.raw_version |= _i == 0 ? 0 : BYTES;
    made = profile_make(&recipe);
    profile = profile_of(&made);
    for (size_t granted = 0; !added; granted++) {
        profile_sum_free(sum);
        sum = profile_sum_new(&(struct digest){{0}}, &error);
        memory_granted = granted;
        added = profile_sum_add(sum, &profile, 0, 1, &error);
        memory_granted = MEMORY_ALL;
        ck_assert(profile_sum_has_counters(sum) == added);
        if (!added) {
            ck_assert(error_is_of_memory(&error));
            ck_assert(profile_sum_add(sum, &profile, 0, 1, &error));
        }
        ck_assert(bytes_equal(sum_profile(sum).names, profile.names));
    }
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 300, NULL);
    suite_loops(all, PROFILE_FORMS + PROFILE_WINDOWS_FORMS, test_counts, test_limited_beside_zeros);
    suite_loops(all, PROFILE_FORMS, test_byte_coverage);
    suite_loops(all, 2, test_threads, test_refused_start);
    suite_loops(all, PROFILE_FORMS + PROFILE_WINDOWS_FORMS, test_identity, test_adopt);
    tcase_add_test(all, test_can_be_summed);
    return suite_main("profile_sum", all);
}
