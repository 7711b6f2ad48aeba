/*
 * Pairs of FuncHash and NumCounters there and back, byte by byte where the form is given.
 */
#include <stdlib.h>
#include <string.h>

#include "common/codec/function_hashes.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

static struct function_hash random_function(struct random_state *random)
{
    uint64_t bits = random_below(random, 65), hash = random_next(random);

    hash = bits == 0 ? 0 : hash >> (64 - bits);
    if (random_below(random, 2) == 0)
        hash |= UINT64_C(0x041041041041041) >> random_below(random, 60); /* digits that are not 0 */
    return (struct function_hash){.hash = hash,
                                  .counters = random_below(random, 9) == 0
                                                  ? (uint32_t)random_next(random)
                                                  : (uint32_t)random_below(random, 30)};
}

static void free_columns(struct buffer *columns)
{
    for (size_t i = 0; i < FUNCTION_STREAMS; i++)
        buffer_free(&columns[i]);
}

static void put_functions(const struct function_hash *functions, size_t count,
                          struct buffer *columns)
{
    struct function_writer writer = {0};

    for (size_t i = 0; i < count; i++)
        ck_assert(function_writer_add(&writer, functions[i]));
    ck_assert(function_writer_finish(&writer, columns));
    function_writer_free(&writer);
}

static void check_functions(const struct function_hash *functions, size_t count)
{
    struct buffer columns[FUNCTION_STREAMS] = {0};
    struct function_reader reader = {0};
    struct function_hash function;

    put_functions(functions, count, columns);
    for (size_t i = 0; i < FUNCTION_STREAMS; i++)
        reader.streams[i] = buffer_view(&columns[i]);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(function_reader_take(&reader, &function), RESULT_OK);
        ck_assert_uint_eq(function.hash, functions[i].hash);
        ck_assert_uint_eq(function.counters, functions[i].counters);
    }
    for (size_t i = 0; i < FUNCTION_STREAMS; i++)
        ck_assert_uint_eq(reader.streams[i].size, 0);
    ck_assert_int_eq(function_reader_take(&reader, &function), RESULT_UNFIT);
    buffer_free(&reader.known);
    free_columns(columns);
}

START_TEST(test_functions_come_back)
{
    static const size_t kinds[] = {1, 2, 30, 300, 20000};
    size_t count = kinds[_i] * 3;
    struct function_hash *functions = calloc(count, sizeof(*functions));
    struct random_state random = random_start((uint64_t)_i + 20);

    ck_assert_ptr_nonnull(functions);
    for (size_t i = 0; i < kinds[_i]; i++)
        functions[i] = random_function(&random);
    /* Two thirds are known: with the largest number, in all three lengths. */
    for (size_t i = kinds[_i]; i < count; i++)
        functions[i] = functions[random_below(&random, i)];
    check_functions(functions, count);
    free(functions);
}
END_TEST

START_TEST(test_form_of_functions)
{
    static const struct function_hash functions[] = {
        {0x123, 5},                        /* digits 4 and 35 */
        {0x123, 5},                        /* known */
        {0x123, 6},                        /* another, and only once */
        {0, 1},                            /* no digits */
        {0x1001, 300},                     /* a digit is 0 */
        {UINT64_C(0x0fffffffffffffff), 2}, /* ten digits */
        {UINT64_C(0x1000000000000000), 1}, /* more than that */
    };
    static const struct {
        const char *bytes;
        size_t size;
    } expected[FUNCTION_STREAMS] = {
        {"\1\2\0\0\0\0\0", 7},
        {"\4\43\0\4\43\0\0\100\77\77\77\77\77\77\77\77\77\77\0\100", 20},
        {"\1\20\0\0\0\0\0\0\0\0\0\0\0\0\0\20", 16},
        {"\5\6\1\2", 4},
        {"\254\2\1", 3},
    };
    struct buffer columns[FUNCTION_STREAMS] = {0};

    put_functions(functions, sizeof(functions) / sizeof(functions[0]), columns);
    for (size_t i = 0; i < FUNCTION_STREAMS; i++) {
        ck_assert_uint_eq(columns[i].size, expected[i].size);
        ck_assert_mem_eq(columns[i].data, expected[i].bytes, expected[i].size);
    }
    free_columns(columns);
}
END_TEST

/* A pair's number, as it is told in one byte, in two, and in more. */
START_TEST(test_form_of_known_functions)
{
    static const struct {
        size_t number;
        uint8_t code[4];
        size_t size;
    } cases[] = {
        {0, {2}, 1},
        {199, {201}, 1},
        {200, {202, 0}, 2},
        {456, {203, 0}, 2},
        {13767, {254, 255}, 2},
        {13768, {255, 0}, 2},
        {13968, {255, 0xc8, 1}, 3},
    };
    enum { KINDS = 14000 };
    struct function_hash *functions = calloc(2 * KINDS + 1, sizeof(*functions));

    ck_assert_ptr_nonnull(functions);
    for (size_t i = 0; i < KINDS; i++)
        functions[i] = functions[KINDS + 1 + i] = (struct function_hash){.hash = i, .counters = 1};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer columns[FUNCTION_STREAMS] = {0};

        functions[KINDS] = functions[cases[i].number];
        put_functions(functions, 2 * KINDS + 1, columns);
        ck_assert_mem_eq(columns[FUNCTION_CODES].data + KINDS, cases[i].code, cases[i].size);
        free_columns(columns);
    }
    free(functions);
}
END_TEST

START_TEST(test_hostile_functions)
{
    struct random_state random = random_start(13);
    uint8_t bytes[FUNCTION_STREAMS][400];

    for (unsigned turn = 0; turn < 4000; turn++) {
        struct function_reader reader = {0};
        struct function_hash function;
        enum result result;

        for (size_t i = 0; i < FUNCTION_STREAMS; i++) {
            random_fill(&random, bytes[i], sizeof(bytes[i]), (turn >> i) % 2 == 0 ? 256 : 5);
            reader.streams[i] = (struct bytes){bytes[i], random_below(&random, sizeof(bytes[i]))};
        }
        while ((result = function_reader_take(&reader, &function)) == RESULT_OK)
            continue;
        ck_assert_int_eq(result, RESULT_UNFIT);
        buffer_free(&reader.known);
    }
}
END_TEST

/* What a reader must refuse: a NumCounters of 33 bits, an eleventh digit, and a pair that is not
 * known. */
START_TEST(test_damaged_functions)
{
    static const struct {
        const char *codes;
        size_t size;
        const char *digits, *counters;
    } cases[] = {
        {"\0", 1, "\1", "\200\200\200\200\20"},
        {"\0", 1, "\1\1\1\1\1\1\1\1\1\1\1", "\1"},
        {"\2", 1, "", ""},
        {"\0", 1, "\101", "\1"},
        {"\312\0", 2, "", ""},
    };
    struct function_reader reader = {0};
    struct function_hash function;

    reader.streams[FUNCTION_CODES] =
        (struct bytes){(const uint8_t *)cases[_i].codes, cases[_i].size};
    reader.streams[FUNCTION_DIGITS] =
        (struct bytes){(const uint8_t *)cases[_i].digits, strlen(cases[_i].digits) + 1};
    reader.streams[FUNCTION_COUNTERS] =
        (struct bytes){(const uint8_t *)cases[_i].counters, strlen(cases[_i].counters)};
    ck_assert_int_eq(function_reader_take(&reader, &function), RESULT_UNFIT);
    buffer_free(&reader.known);
}
END_TEST

int main(void)
{
    TCase *functions = suite_case("functions", 300, NULL);
    suite_loops(functions, 5, test_functions_come_back);
    suite_tests(functions, test_form_of_functions, test_form_of_known_functions,
                test_hostile_functions);
    suite_loops(functions, 5, test_damaged_functions);
    return suite_main("function hashes", functions);
}
