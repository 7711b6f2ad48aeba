/*
 * Columns of hashes: NameRefs and FuncHashes there and back, byte by byte where the form is told.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/function_hashes.h"
#include "common/codec/name_refs.h"
#include "common/codec/registry.h"
#include "tests/support/random.h"

/* ---- NameRefs ---- */

static void make_names(struct names *names, size_t count)
{
    struct buffer text = {0};
    char name[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "function%zu\1", i);
        ck_assert(buffer_append(&text, name, strlen(name)));
    }
    ck_assert_int_eq(names_take_text(names, &text), RESULT_OK);
    ck_assert(names_index(names, 1));
}

struct columns {
    struct buffer codes, others;
};

/* Records of the data: those of some names, one that has none, and one that comes twice. */
static struct buffer make_data(const struct names *names)
{
    struct buffer data = {0};
    uint8_t record[64] = {0};

    for (size_t i = 0; i < names->count / 2 + 3; i++) {
        store_u64(record, i == 1 ? 12345 : names->references[i * 7 % names->count], false);
        ck_assert(buffer_append(&data, record, sizeof(record)));
    }
    return data;
}

static struct columns put_names(const struct transform_context *context,
                                const struct data_records *data, const uint64_t *references,
                                size_t count)
{
    struct columns columns = {0};
    struct name_refs refs = {.names = context->names, .data = data};

    for (size_t i = 0; i < count; i++)
        ck_assert(name_refs_put(&refs, references[i], &columns.codes, &columns.others));
    return columns;
}

static void columns_free(struct columns *columns)
{
    buffer_free(&columns->codes);
    buffer_free(&columns->others);
}

/* Records as no compiler has them, which go everywhere. */
static uint64_t random_reference(struct random_state *random, const struct names *names,
                                 uint64_t *number)
{
    switch (random_below(random, 40)) {
    case 0:
        return random_below(random, 2) == 0 ? random_next(random) : 12345;
    case 1:
    case 2:
        *number = random_below(random, names->count);
        break;
    case 3:
    case 4:
        *number += random_below(random, 9);
        break;
    case 5:
        *number -= random_below(random, 9);
        break;
    default:
        ++*number;
    }
    *number %= names->count;
    return names->references[*number];
}

static void check_names(const struct transform_context *context, const struct data_records *data,
                        const uint64_t *references, size_t count)
{
    struct columns columns = put_names(context, data, references, count);
    struct bytes codes = buffer_view(&columns.codes), others = buffer_view(&columns.others);
    struct name_refs refs = {.names = context->names, .data = data};
    uint64_t found;

    ck_assert_uint_eq(codes.size, count);
    for (size_t i = 0; i < count; i++) {
        ck_assert(name_refs_take(&refs, &codes, &others, &found));
        ck_assert_uint_eq(found, references[i]);
    }
    ck_assert_uint_eq(codes.size + others.size, 0);
    ck_assert(!name_refs_take(&refs, &codes, &others, &found));
    columns_free(&columns);
}

START_TEST(test_names_come_back)
{
    static const size_t counts[] = {1, 3, 70, 500, 5000, 20000};
    size_t count = counts[_i] * 3 / 2 + 10;
    struct names names;
    uint64_t *references = calloc(count, sizeof(*references)), number = 0;
    struct random_state random = random_start((uint64_t)_i);
    struct data_records hashes;

    ck_assert_ptr_nonnull(references);
    make_names(&names, counts[_i]);
    struct buffer data = make_data(&names);
    struct transform_context context = {
        .names = &names, .pointer_size = 8, .raw_version = 10, .data = buffer_view(&data)};
    ck_assert(data_records_start(&hashes, &context));
    for (int turn = 0; turn < 10; turn++) {
        for (size_t i = 0; i < count; i++)
            references[i] = random_reference(&random, &names, &number);
        check_names(&context, NULL, references, count);
        check_names(&context, &hashes, references, count);
    }
    free(references);
    data_records_free(&hashes);
    buffer_free(&data);
    names_free(&names);
}
END_TEST

/* Each code once, and more places that were left than are remembered. */
START_TEST(test_form_of_names)
{
    static const int order[] = {0,   1,   5,   2,   3,   6, 3,   -1,  9,  300,
                                400, 402, 301, 401, 403, 7, 250, 302, 404};
    static const uint8_t codes[] = {0, 0,     8 + 6, 1, 0, 1, 8 + 7, 5, 8 + 10, 7,
                                    7, 8 + 2, 2,     2, 2, 7, 7,     4, 3};
    /* Of the one that has no name, its NameRef; and how far 300, 400, 7 and 250 are from the name
     * that is next: the zigzag of 290, 99, -397 and 242. */
    static const uint8_t others[] = {1,    2,    3,    4,    5,    6,    7,    8,
                                     0xc4, 0x04, 0xc6, 0x01, 0x99, 0x06, 0xe4, 0x03};
    enum { COUNT = sizeof(order) / sizeof(order[0]) };
    uint64_t references[COUNT];
    struct names names;
    struct transform_context context = {.names = &names};

    make_names(&names, 500);
    for (size_t i = 0; i < COUNT; i++)
        references[i] = order[i] < 0 ? UINT64_C(0x0807060504030201) : names.references[order[i]];
    struct columns columns = put_names(&context, NULL, references, COUNT);
    ck_assert_uint_eq(columns.codes.size, sizeof(codes));
    ck_assert_mem_eq(columns.codes.data, codes, sizeof(codes));
    ck_assert_uint_eq(columns.others.size, sizeof(others));
    ck_assert_mem_eq(columns.others.data, others, sizeof(others));
    columns_free(&columns);
    names_free(&names);
}
END_TEST

/* What is far from the next name, or has no name, is told by the data where that has it nearer. */
START_TEST(test_form_with_data)
{
    static const uint8_t codes[] = {0, 6, 5, 6, 6, 0, 7, 7};
    /* By record: 1 where 1 is expected; a NameRef that is nowhere; 50 where 0 is expected, and 51
     * where 51 is. By number: 100, which the data does not have, where 2 is next, and 145, which is
     * record 235, where 101 is. */
    static const uint8_t others[] = {0, 9, 3, 0, 0, 0, 0, 0, 0, 100, 0, 0xc4, 1, 88};
    struct names names;
    struct data_records hashes;

    make_names(&names, 500);
    struct buffer data = make_data(&names); /* names 0, none, 14, 21, and so on by 7 */
    struct transform_context context = {
        .names = &names, .pointer_size = 8, .raw_version = 10, .data = buffer_view(&data)};
    const uint64_t *all = names.references;
    const uint64_t references[] = {all[0],   12345,  777,      all[350],
                                   all[357], all[1], all[100], all[145]};
    ck_assert(data_records_start(&hashes, &context));
    struct columns columns =
        put_names(&context, &hashes, references, sizeof(references) / sizeof(references[0]));
    ck_assert_uint_eq(columns.codes.size, sizeof(codes));
    ck_assert_mem_eq(columns.codes.data, codes, sizeof(codes));
    ck_assert_uint_eq(columns.others.size, sizeof(others));
    ck_assert_mem_eq(columns.others.data, others, sizeof(others));
    columns_free(&columns);
    data_records_free(&hashes);
    buffer_free(&data);
    names_free(&names);
}
END_TEST

static void fill(struct random_state *random, uint8_t *bytes, size_t size, unsigned limit)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_below(random, limit);
}

/* Whatever the columns hold, nothing but what is there is read. */
START_TEST(test_hostile_names)
{
    struct random_state random = random_start(11);
    struct names names;
    struct data_records hashes;
    uint8_t first[600], second[600];
    unsigned most = 0;

    make_names(&names, 300);
    struct buffer data = make_data(&names);
    struct transform_context context = {.names = _i == 0 ? NULL : &names,
                                        .pointer_size = 8,
                                        .raw_version = 10,
                                        .data = buffer_view(&data)};
    ck_assert(data_records_start(&hashes, &context));
    for (unsigned turn = 0; turn < 4000; turn++) {
        struct bytes codes = {first, sizeof(first)}, others = {second, sizeof(second)};
        struct name_refs refs = {.names = context.names, .data = turn % 4 < 2 ? &hashes : NULL};
        uint64_t reference;
        unsigned taken = 0;

        fill(&random, first, sizeof(first), turn % 2 == 0 ? 256 : 20);
        fill(&random, second, sizeof(second), turn % 3 == 0 ? 256 : 20);
        while (name_refs_take(&refs, &codes, &others, &reference))
            taken++;
        most = taken > most ? taken : most;
    }
    if (_i != 0)
        ck_assert_uint_gt(most, 50);
    data_records_free(&hashes);
    buffer_free(&data);
    names_free(&names);
}
END_TEST

/* Places that were not left, a name before the first and behind the last, a NameRef that is cut
 * short, and data that is not there. */
START_TEST(test_damaged_names)
{
    static const struct {
        uint8_t codes[2];
        const char *others;
        unsigned good;
    } cases[] = {
        {{1}, "", 0},        {{0, 2}, "", 1}, {{8 + 1}, "", 0},  {{0, 8 + 18}, "", 1},
        {{7}, "\24", 0},     {{7}, "\23", 0}, {{6}, "\1", 0},    {{0, 6}, "", 1},
        {{5}, "1234567", 0}, {{0, 7}, "", 1}, {{8 + 20}, "", 0},
    };
    struct bytes codes = {cases[_i].codes, 2};
    struct bytes others = {(const uint8_t *)cases[_i].others, strlen(cases[_i].others)};
    struct names names;
    struct name_refs refs = {.names = &names};
    uint64_t reference;

    make_names(&names, 10);
    for (unsigned i = 0; i < cases[_i].good; i++)
        ck_assert(name_refs_take(&refs, &codes, &others, &reference));
    ck_assert(!name_refs_take(&refs, &codes, &others, &reference));
    names_free(&names);
}
END_TEST

/* ---- FuncHashes ---- */

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
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++)
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
    struct buffer columns[FUNCTION_COLUMNS] = {0};
    struct function_reader reader = {0};
    struct function_hash function;

    put_functions(functions, count, columns);
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++)
        reader.columns[i] = buffer_view(&columns[i]);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(function_reader_take(&reader, &function), RESULT_OK);
        ck_assert_uint_eq(function.hash, functions[i].hash);
        ck_assert_uint_eq(function.counters, functions[i].counters);
    }
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++)
        ck_assert_uint_eq(reader.columns[i].size, 0);
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
    } expected[FUNCTION_COLUMNS] = {
        {"\1\2\0\0\0\0\0", 7},
        {"\4\43\0\4\43\0\0\100\77\77\77\77\77\77\77\77\77\77\0\100", 20},
        {"\1\20\0\0\0\0\0\0\0\0\0\0\0\0\0\20", 16},
        {"\5\6\1\2", 4},
        {"\254\2\1", 3},
    };
    struct buffer columns[FUNCTION_COLUMNS] = {0};

    put_functions(functions, sizeof(functions) / sizeof(functions[0]), columns);
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++) {
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
        struct buffer columns[FUNCTION_COLUMNS] = {0};

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
    uint8_t bytes[FUNCTION_COLUMNS][400];

    for (unsigned turn = 0; turn < 4000; turn++) {
        struct function_reader reader = {0};
        struct function_hash function;
        enum result result;

        for (size_t i = 0; i < FUNCTION_COLUMNS; i++) {
            fill(&random, bytes[i], sizeof(bytes[i]), (turn >> i) % 2 == 0 ? 256 : 5);
            reader.columns[i] = (struct bytes){bytes[i], random_below(&random, sizeof(bytes[i]))};
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

    reader.columns[FUNCTION_CODES] =
        (struct bytes){(const uint8_t *)cases[_i].codes, cases[_i].size};
    reader.columns[FUNCTION_DIGITS] =
        (struct bytes){(const uint8_t *)cases[_i].digits, strlen(cases[_i].digits) + 1};
    reader.columns[FUNCTION_COUNTERS] =
        (struct bytes){(const uint8_t *)cases[_i].counters, strlen(cases[_i].counters)};
    ck_assert_int_eq(function_reader_take(&reader, &function), RESULT_UNFIT);
    buffer_free(&reader.known);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash columns");
    TCase *names = tcase_create("names");
    TCase *functions = tcase_create("functions");
    SRunner *runner;
    int failed;

    tcase_set_timeout(names, 300);
    tcase_add_loop_test(names, test_names_come_back, 0, 6);
    tcase_add_test(names, test_form_of_names);
    tcase_add_test(names, test_form_with_data);
    tcase_add_loop_test(names, test_hostile_names, 0, 2);
    tcase_add_loop_test(names, test_damaged_names, 0, 11);
    suite_add_tcase(suite, names);
    tcase_set_timeout(functions, 300);
    tcase_add_loop_test(functions, test_functions_come_back, 0, 5);
    tcase_add_test(functions, test_form_of_functions);
    tcase_add_test(functions, test_form_of_known_functions);
    tcase_add_test(functions, test_hostile_functions);
    tcase_add_loop_test(functions, test_damaged_functions, 0, 5);
    suite_add_tcase(suite, functions);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
