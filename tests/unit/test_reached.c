/*
 * Matrices of tests and functions: what was added is what is read back, in whatever order; hostile
 * files, and memory that runs out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/zstd.h"
#include "common/state/reached.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/refused_memory.h"

#define LIMIT (UINT64_C(64) << 20)

/* ---- matrices ---- */

/* Sets about `share` of 256 bits. */
static void random_bits(struct random_state *random, uint8_t *set, uint64_t count, unsigned share)
{
    memset(set, 0, bit_set_size(count));
    for (uint64_t i = 0; i < count; i++) {
        if (random_below(random, 256) < share)
            bit_set_add(set, i);
    }
}

static struct buffer encoded(const struct reached *reached)
{
    struct buffer bytes = {0};
    struct error error = {0};

    ck_assert_msg(reached_encode(reached, "sample", &bytes, &error), "%s", error.message);
    return bytes;
}

static struct reached_table opened(const struct buffer *bytes)
{
    struct reached_table table;
    struct error error = {0};

    ck_assert_msg(reached_open(&table, buffer_view(bytes), "sample", LIMIT, &error), "%s",
                  error.message);
    return table;
}

/* Decodes everything. */
static bool verify(struct reached_table *table, struct error *error)
{
    const uint8_t *tests;
    bool done = true;

    for (uint64_t i = 0; done && i < table->function_count; i += REACHED_BLOCK)
        done = reached_find(table, i, &tests, error);
    return done;
}

static struct buffer merged(const struct buffer *first, const struct buffer *second)
{
    struct reached_table a = opened(first), b = opened(second);
    struct buffer both = {0};
    struct error error = {0};

    ck_assert_msg(reached_merge(&a, &b, &both, &error), "%s", error.message);
    reached_close(&a);
    reached_close(&b);
    return both;
}

static bool test_reaches(struct reached_table *table, size_t test, uint64_t function)
{
    const uint8_t *tests;
    struct error error = {0};

    ck_assert_msg(reached_find(table, function, &tests, &error), "%s", error.message);
    return bit_set_has(tests, test);
}

static void add(struct reached *reached, const char *test, const uint8_t *functions)
{
    ck_assert(reached_add(reached, test, functions));
}

/* ---- what was added is there ---- */

static const struct {
    uint64_t functions;
    unsigned tests;
} sizes[] = {
    {1, 1},   {7, 3},    {8, 8},     {9, 9},     {63, 2},    {64, 65},
    {65, 64}, {4095, 7}, {4096, 33}, {4097, 16}, {8192, 17}, {10000, 70},
};

static void check_bits(const struct buffer *bytes, uint64_t functions, unsigned tests,
                       uint8_t *const *expected)
{
    struct reached_table table = opened(bytes);
    struct error error;

    ck_assert_uint_eq(table.function_count, functions);
    ck_assert_uint_eq(table.test_count, tests);
    for (unsigned test = 0; test < tests; test++) {
        char name[16];

        snprintf(name, sizeof(name), "test %03u", test);
        ck_assert_str_eq(table.tests[test], name);
    }
    for (uint64_t function = 0; function < functions; function++) {
        for (unsigned test = 0; test < tests; test++)
            ck_assert(test_reaches(&table, test, function) ==
                      bit_set_has(expected[test], function));
    }
    ck_assert(verify(&table, &error));
    reached_close(&table);
}

START_TEST(test_bits)
{
    uint64_t functions = sizes[_i].functions;
    unsigned tests = sizes[_i].tests;
    struct random_state random = random_start((uint64_t)_i);
    struct reached *reached = reached_new(functions);
    uint8_t *expected[70];
    struct buffer bytes;

    for (unsigned test = 0; test < tests; test++) {
        expected[test] = malloc(bit_set_size(functions));
        random_bits(&random, expected[test], functions, test % 5 * 50);
    }
    /* From the last to the first, and every other one in two parts. */
    for (unsigned test = tests; test-- > 0;) {
        char name[16];

        snprintf(name, sizeof(name), "test %03u", test);
        add(reached, name, expected[test]);
        if (test % 2 == 0) {
            uint8_t *more = malloc(bit_set_size(functions));

            random_bits(&random, more, functions, 10);
            add(reached, name, more);
            for (size_t i = 0; i < bit_set_size(functions); i++)
                expected[test][i] |= more[i];
            free(more);
        }
    }
    bytes = encoded(reached);
    check_bits(&bytes, functions, tests, expected);
    for (unsigned test = 0; test < tests; test++)
        free(expected[test]);
    buffer_free(&bytes);
    reached_free(reached);
}
END_TEST

/* ---- merging ---- */

#define PARTS        5
#define MERGED_COUNT ((uint64_t)9000)

/* Tests of one name are in several parts. */
static void add_part(struct random_state *random, struct reached *part, struct reached *whole)
{
    uint8_t set[MERGED_COUNT / 8];

    for (unsigned i = 0; i < 12; i++) {
        char name[16];

        snprintf(name, sizeof(name), "t%u", (unsigned)random_below(random, 40));
        random_bits(random, set, MERGED_COUNT, 20);
        add(part, name, set);
        add(whole, name, set);
    }
}

START_TEST(test_merge_in_any_order)
{
    struct random_state random = random_start((uint64_t)_i);
    struct reached *whole = reached_new(MERGED_COUNT);
    struct buffer parts[PARTS], bytes;
    size_t left = PARTS;

    for (size_t i = 0; i < PARTS; i++) {
        struct reached *part = reached_new(MERGED_COUNT);

        add_part(&random, part, whole);
        parts[i] = encoded(part);
        reached_free(part);
    }
    bytes = encoded(whole);
    /* Any two of those that are left become one. */
    while (left > 1) {
        size_t a = (size_t)random_below(&random, left), b;
        struct buffer both;

        do {
            b = (size_t)random_below(&random, left);
        } while (a == b);
        both = merged(&parts[a], &parts[b]);
        buffer_free(&parts[a]);
        buffer_free(&parts[b]);
        parts[a] = both;
        parts[b] = parts[left - 1];
        if (a == left - 1)
            parts[b] = both;
        left--;
    }
    ck_assert(bytes_equal(buffer_view(&parts[0]), buffer_view(&bytes)));
    buffer_free(&parts[0]);
    buffer_free(&bytes);
    reached_free(whole);
}
END_TEST

START_TEST(test_other_image)
{
    static const uint8_t bits[2] = {1};
    struct reached *a = reached_new(10), *b = reached_new(11);
    struct reached_table left, right;
    struct buffer first, second, both = {0};
    struct error error;

    add(a, "t", bits);
    add(b, "t", bits);
    first = encoded(a);
    second = encoded(b);
    left = opened(&first);
    right = opened(&second);
    ck_assert(!reached_merge(&left, &right, &both, &error));
    ck_assert_str_eq(error.message, "sample: its list of tests is damaged (the number of "
                                    "functions); get an intact copy");
    reached_close(&left);
    reached_close(&right);
    buffer_free(&first);
    buffer_free(&second);
    reached_free(a);
    reached_free(b);
}
END_TEST

/* ---- names ---- */

START_TEST(test_wrong_names)
{
    char name[REACHED_NAME_MAX + 2];
    struct error error;

    memset(name, 'n', sizeof(name));
    name[REACHED_NAME_MAX + 1] = '\0';
    ck_assert(!reached_check_name(name, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "has 4097 bytes"));
    ck_assert(reached_check_name(name + 1, &error));
    ck_assert(!reached_check_name("", &error));
}
END_TEST

/* ---- files that lie ---- */

static struct buffer make_sample(uint64_t seed)
{
    struct random_state random = random_start(seed);
    struct reached *reached = reached_new(MERGED_COUNT);
    uint8_t set[MERGED_COUNT / 8];
    struct buffer bytes;

    for (unsigned i = 0; i < 9; i++) {
        char name[16];

        random_bits(&random, set, MERGED_COUNT, i);
        snprintf(name, sizeof(name), "test %u", i);
        add(reached, name, set);
    }
    bytes = encoded(reached);
    reached_free(reached);
    return bytes;
}

/* Reads everything, and merges. Whatever is read must have the form of a matrix. */
static bool use(struct bytes bytes, const struct buffer *good, struct error *error)
{
    struct reached_table table, other = opened(good);
    struct buffer both = {0};
    bool done;

    *error = (struct error){0};
    done = reached_open(&table, bytes, "hostile", LIMIT, error) && verify(&table, error);
    for (size_t i = 1; done && i < table.test_count; i++)
        ck_assert(strcmp(table.tests[i - 1], table.tests[i]) < 0);
    done = done && table.test_count != 0 && reached_merge(&table, &other, &both, error);
    if (done) {
        struct reached_table again = opened(&both);

        ck_assert(verify(&again, error));
        reached_close(&again);
    }
    buffer_free(&both);
    reached_close(&table);
    reached_close(&other);
    return done;
}

START_TEST(test_cut)
{
    struct buffer good = make_sample(2), more = make_sample(2);
    struct error error;

    for (size_t size = 1; size < good.size; size++)
        ck_assert(!use((struct bytes){good.data, size}, &good, &error));
    ck_assert(use(buffer_view(&good), &good, &error));
    ck_assert(buffer_append(&more, "", 1));
    ck_assert(!use(buffer_view(&more), &good, &error));
    buffer_free(&more);
    buffer_free(&good);
}
END_TEST

/* Makes a matrix of which the parts are given; all blocks are the same. */
static struct buffer make_claim(uint64_t functions, uint64_t tests, struct bytes names,
                                uint64_t block_size)
{
    const uint64_t words[] = {functions, tests, names.size};
    const size_t blocks = (size_t)(functions / REACHED_BLOCK + (functions % REACHED_BLOCK != 0));
    struct buffer bytes = {0}, stored = {0}, zeros = {0};
    struct error error;

    ck_assert(codec_compress_once(names, 3, false, "made", &stored, &error));
    for (size_t i = 0; i < 3; i++) {
        ck_assert(buffer_append_zeros(&bytes, 8));
        store_u64(bytes.data + 8 * i, words[i], false);
    }
    ck_assert(buffer_append_zeros(&bytes, 8 + 8 * blocks));
    store_u64(bytes.data + 24, stored.size, false);
    ck_assert(buffer_append(&bytes, stored.data, stored.size));
    if (block_size != 0) {
        ck_assert(buffer_append_zeros(&zeros, (size_t)block_size));
        zeros.data[0] = 1;
        stored.size = 0;
        ck_assert(codec_compress_once(buffer_view(&zeros), 3, false, "made", &stored, &error));
    }
    for (size_t i = 0; block_size != 0 && i < blocks; i++) {
        store_u64(bytes.data + 32 + 8 * i, stored.size, false);
        ck_assert(buffer_append(&bytes, stored.data, stored.size));
    }
    buffer_free(&stored);
    buffer_free(&zeros);
    return bytes;
}

/* Few bytes that claim many: blocks larger than the limit, names, and many blocks together. */
START_TEST(test_claims)
{
    static const struct {
        uint64_t functions, tests, name_size;
    } claims[] = {
        {4096, 200000, 8},                 /* a block of 100 MB */
        {4096, 3, (UINT64_C(65) << 20)},   /* names of 65 MB, that is three of 22 MB */
        {UINT64_C(4096) << 10, 100000, 8}, /* 1,024 blocks of 50 MB */
    };
    struct buffer names = {0}, bytes;
    struct reached_table table;
    struct error error;

    for (uint64_t i = 0; i < claims[_i].tests && names.size < LIMIT + (2 << 20); i++) {
        char name[9];

        if (claims[_i].name_size > 8)
            ck_assert(buffer_append_zeros(&names, (size_t)claims[_i].name_size));
        snprintf(name, sizeof(name), "%07u", (unsigned)i);
        ck_assert(buffer_append(&names, name, 8));
    }
    bytes = make_claim(claims[_i].functions, claims[_i].tests, buffer_view(&names), 4096);
    ck_assert(!reached_open(&table, buffer_view(&bytes), "claim", LIMIT, &error) ||
              !verify(&table, &error));
    ck_assert_msg(strstr(error.message, "claim: its list of tests claims ") == error.message, "%s",
                  error.message);
    reached_close(&table);
    buffer_free(&names);
    buffer_free(&bytes);
}
END_TEST

/* Each of these is refused, although all sizes are right. */
START_TEST(test_forms)
{
    static const struct {
        const char *names;
        size_t size;
        uint64_t tests;
    } forms[] = {
        {"b\0a", 4, 2},   /* not in order */
        {"a\0a", 4, 2},   /* twice */
        {"a\0\0b", 5, 3}, /* an empty one */
        {"a\0b", 3, 2},   /* the last one has no end */
        {"a\0b", 4, 1},   /* more than there are */
        {"a\0b", 4, 3},   /* fewer */
        {"a\0b", 4, 0},   {"a\0b", 4, UINT64_MAX},
    };
    struct buffer bytes = make_claim(
        8, forms[_i].tests, (struct bytes){(const uint8_t *)forms[_i].names, forms[_i].size}, 8);
    struct reached_table table;
    struct error error;

    ck_assert(!reached_open(&table, buffer_view(&bytes), "made", LIMIT, &error));
    ck_assert_msg(strstr(error.message, "is damaged") != NULL, "%s", error.message);
    reached_close(&table);
    buffer_free(&bytes);
}
END_TEST

/* A bit of a test that does not exist. */
START_TEST(test_unused_bits)
{
    struct buffer bytes = make_claim(8, 1, (struct bytes){(const uint8_t *)"a", 2}, 8);
    struct reached_table table = opened(&bytes);
    struct buffer columns = {0};
    struct error error;

    ck_assert(verify(&table, &error));
    reached_close(&table);
    ck_assert(buffer_append_zeros(&columns, 8));
    columns.data[5] = 2;
    bytes.size = (size_t)(bytes.size - load_u64(bytes.data + 32, false));
    {
        size_t before = bytes.size;

        ck_assert(codec_compress_once(buffer_view(&columns), 3, false, "made", &bytes, &error));
        store_u64(bytes.data + 32, bytes.size - before, false);
    }
    table = opened(&bytes);
    ck_assert(!verify(&table, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "bits for tests without names"));
    reached_close(&table);
    buffer_free(&columns);
    buffer_free(&bytes);
}
END_TEST

/* ---- memory ---- */

/* Makes a matrix, merges it with another one, and reads the result. *error is that of the first
 * allocation that failed, if there was one. */
static bool do_everything(const struct buffer *other, struct buffer *result, struct error *error)
{
    static const uint8_t set[MERGED_COUNT / 8] = {1, 2, 3};
    struct reached *reached = reached_new(MERGED_COUNT);
    struct reached_table a = {0}, b = {0};
    struct buffer bytes = {0};
    bool done =
        reached != NULL && reached_add(reached, "new", set) && reached_add(reached, "test 3", set);

    if (!done)
        error_out_of_memory(error, "sample", 0);
    done = done && reached_encode(reached, "sample", &bytes, error) &&
           reached_open(&a, buffer_view(&bytes), "sample", LIMIT, error) &&
           reached_open(&b, buffer_view(other), "sample", LIMIT, error) &&
           reached_merge(&a, &b, result, error);
    reached_close(&a);
    reached_close(&b);
    buffer_free(&bytes);
    reached_free(reached);
    return done;
}

START_TEST(test_out_of_memory)
{
    struct buffer other = make_sample(3), expected = {0};
    struct error error = {0};
    size_t failures = 0;
    bool done = false;

    memory_stays_refused = true;
    ck_assert(do_everything(&other, &expected, &error));
    for (size_t i = 0; !done; i++) {
        struct buffer result = {0};

        error = (struct error){0};
        memory_granted = i;
        done = do_everything(&other, &result, &error);
        memory_granted = MEMORY_ALL;
        failures += !done;
        ck_assert_msg(done || error_is_of_memory(&error), "allocation %zu: %s", i, error.message);
        ck_assert(!done || bytes_equal(buffer_view(&result), buffer_view(&expected)));
        buffer_free(&result);
    }
    ck_assert_uint_gt(failures, 20);
    buffer_free(&expected);
    buffer_free(&other);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 300, NULL);

    suite_loops(all, sizeof(sizes) / sizeof(sizes[0]), test_bits);
    suite_loops(all, 20, test_merge_in_any_order);
    suite_loops(all, 3, test_claims);
    suite_loops(all, 8, test_forms);
    suite_tests(all, test_other_image, test_wrong_names, test_cut, test_unused_bits,
                test_out_of_memory);
    return suite_main("reached", all);
}
