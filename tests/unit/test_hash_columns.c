/*
 * Columns of hashes: numbers that are not used against a list that is counted through, and NameRefs
 * and FuncHashes there and back, byte by byte where the form is told.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/compact/compact.h"
#include "common/compact/function_hashes.h"
#include "common/compact/hashes.h"
#include "tests/support/random.h"

/* ---- unused numbers ---- */

struct list {
    struct unused_numbers numbers;
    uint8_t *used;
    uint64_t count;
};

static struct list list_start(uint64_t count)
{
    struct list list = {.used = calloc((size_t)count + 1, 1), .count = count};

    ck_assert_ptr_nonnull(list.used);
    ck_assert(unused_numbers_start(&list.numbers, count));
    return list;
}

static void list_free(struct list *list)
{
    unused_numbers_free(&list->numbers);
    free(list->used);
}

static uint64_t count_below(const struct list *list, uint64_t number)
{
    uint64_t unused = 0;

    for (uint64_t i = 0; i < number; i++)
        unused += list->used[i] == 0;
    return unused;
}

static void check_find(const struct list *list, uint64_t from, uint64_t difference)
{
    uint64_t below = count_below(list, from) + difference, found = 0;
    bool is_there = below < count_below(list, list->count);

    ck_assert_int_eq(unused_numbers_find(&list->numbers, from, difference, &found), is_there);
    if (!is_there)
        return;
    ck_assert_uint_lt(found, list->count);
    ck_assert(!list->used[found]);
    ck_assert_uint_eq(count_below(list, found), below);
}

static void check_list(const struct list *list, struct random_state *random)
{
    uint64_t from = random_below(random, list->count + 1);
    uint64_t near = random_below(random, 200), far = random_below(random, list->count);

    ck_assert_uint_eq(list->numbers.unused, count_below(list, list->count));
    ck_assert_uint_eq(unused_numbers_below(&list->numbers, from), count_below(list, from));
    if (from < list->count)
        ck_assert_int_eq(unused_numbers_is_used(&list->numbers, from), list->used[from]);
    check_find(list, from, 0);
    check_find(list, from, near);
    check_find(list, from, 0 - near);
    check_find(list, from, far);
    check_find(list, from, 0 - far);
    check_find(list, from, random_next(random));
}

/* Runs of numbers, and now and then one that is anywhere. */
static void use_some(struct list *list, struct random_state *random)
{
    uint64_t number = random_below(random, list->count);
    uint64_t run = random_below(random, 4) == 0 ? list->count / 3 : random_below(random, 300);

    for (uint64_t i = 0; i <= run && number < list->count; i++, number++) {
        if (list->used[number])
            continue;
        list->used[number] = 1;
        ck_assert(unused_numbers_use(&list->numbers, number));
    }
}

START_TEST(test_unused_numbers)
{
    static const uint64_t counts[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 8192, 30000};
    struct random_state random = random_start(7);
    struct list list = list_start(counts[_i]);

    for (unsigned i = 0; i < 150; i++) {
        check_list(&list, &random);
        use_some(&list, &random);
    }
    for (uint64_t i = 0; i < list.count; i++) {
        if (!list.used[i])
            ck_assert(unused_numbers_use(&list.numbers, i));
        list.used[i] = 1;
    }
    check_list(&list, &random);
    list_free(&list);
}
END_TEST

START_TEST(test_no_numbers)
{
    struct unused_numbers numbers;
    uint64_t found;

    ck_assert(unused_numbers_start(&numbers, 0));
    ck_assert(!unused_numbers_find(&numbers, 0, 0, &found));
    ck_assert(!unused_numbers_find(&numbers, 0, UINT64_MAX, &found));
    unused_numbers_free(&numbers);
}
END_TEST

/* ---- NameRefs ---- */

static void make_names(struct name_table *names, size_t count)
{
    struct buffer text = {0};
    char name[32];
    bool had_memory;

    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "function%zu\1", i);
        ck_assert(buffer_append(&text, name, strlen(name)));
    }
    ck_assert(name_table_index(names, &text, &had_memory));
    ck_assert(name_table_hash(names, 1));
}

struct columns {
    struct buffer codes, others;
};

static struct columns put_names(const struct compact_context *context, const uint64_t *references,
                                size_t count)
{
    struct columns columns = {0};
    struct name_numbers numbers;

    ck_assert(name_numbers_start_writing(&numbers, context));
    for (size_t i = 0; i < count; i++)
        ck_assert(name_numbers_put(&numbers, references[i], &columns.codes, &columns.others));
    name_numbers_free(&numbers);
    return columns;
}

static void columns_free(struct columns *columns)
{
    buffer_free(&columns->codes);
    buffer_free(&columns->others);
}

/* Records as no compiler has them, which go everywhere. */
static uint64_t random_reference(struct random_state *random, const struct name_table *names,
                                 uint64_t *number)
{
    switch (random_below(random, 40)) {
    case 0:
        return random_next(random);
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

START_TEST(test_names_come_back)
{
    static const size_t counts[] = {1, 3, 70, 500, 5000, 20000};
    size_t records = counts[_i] * 3 / 2 + 10;
    struct name_table names;
    struct compact_context context = {.names = &names};
    uint64_t *references = calloc(records, sizeof(*references)), number = 0, found;
    struct random_state random = random_start((uint64_t)_i);

    ck_assert_ptr_nonnull(references);
    make_names(&names, counts[_i]);
    for (int turn = 0; turn < 10; turn++) {
        struct name_numbers numbers;

        for (size_t i = 0; i < records; i++)
            references[i] = random_reference(&random, &names, &number);
        struct columns columns = put_names(&context, references, records);
        struct bytes codes = buffer_view(&columns.codes), others = buffer_view(&columns.others);
        ck_assert_uint_eq(codes.size, records);
        ck_assert(name_numbers_start_reading(&numbers, &context));
        for (size_t i = 0; i < records; i++) {
            ck_assert_int_eq(name_numbers_take(&numbers, &codes, &others, &found), COMPACT_DONE);
            ck_assert_uint_eq(found, references[i]);
        }
        ck_assert_uint_eq(codes.size + others.size, 0);
        ck_assert_int_eq(name_numbers_take(&numbers, &codes, &others, &found), COMPACT_UNFIT);
        name_numbers_free(&numbers);
        columns_free(&columns);
    }
    free(references);
    name_table_free(&names);
}
END_TEST

/* Each code once, and more places that were left than are remembered. */
START_TEST(test_form_of_names)
{
    static const int order[] = {0,   1,   5,   2,   3,   6,   3, -1,  9,
                                300, 400, 402, 301, 401, 403, 7, 250, 302};
    static const uint8_t codes[] = {0, 0, 8 + 6, 1, 0, 1, 6, 5, 8 + 4,
                                    7, 7, 8 + 2, 2, 2, 0, 4, 7, 3};
    /* Of 3, which is there, its number; of the one that is not, its NameRef; and how many names are
     * passed by before 300, 400 and 250: the zigzag of 290, 99 and 241. */
    static const uint8_t others[] = {6, 1, 2, 3, 4, 5, 6, 7, 8, 0xc4, 0x04, 0xc6, 0x01, 0xe2, 0x03};
    enum { COUNT = sizeof(order) / sizeof(order[0]) };
    uint64_t references[COUNT];
    struct name_table names;
    struct compact_context context = {.names = &names};

    make_names(&names, 500);
    for (size_t i = 0; i < COUNT; i++)
        references[i] = order[i] < 0 ? UINT64_C(0x0807060504030201) : names.references[order[i]];
    struct columns columns = put_names(&context, references, COUNT);
    ck_assert_uint_eq(columns.codes.size, sizeof(codes));
    ck_assert_mem_eq(columns.codes.data, codes, sizeof(codes));
    ck_assert_uint_eq(columns.others.size, sizeof(others));
    ck_assert_mem_eq(columns.others.data, others, sizeof(others));
    columns_free(&columns);
    name_table_free(&names);
}
END_TEST

static void fill(struct random_state *random, uint8_t *bytes, size_t size, unsigned limit)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_below(random, limit);
}

/* Whatever the columns hold, what comes out is the NameRef of a name, or in the other column. */
START_TEST(test_hostile_names)
{
    struct random_state random = random_start(11);
    struct name_table names;
    struct compact_context context = {.names = _i == 0 ? NULL : &names};
    uint8_t first[600], second[600];
    unsigned most = 0;

    make_names(&names, 300);
    for (unsigned turn = 0; turn < 4000; turn++) {
        struct bytes codes = {first, sizeof(first)}, others = {second, sizeof(second)};
        struct name_numbers numbers;
        enum compact_result result;
        uint64_t reference;
        unsigned taken = 0;

        fill(&random, first, sizeof(first), turn % 2 == 0 ? 256 : 20);
        fill(&random, second, sizeof(second), turn % 3 == 0 ? 256 : 20);
        ck_assert(name_numbers_start_reading(&numbers, &context));
        while ((result = name_numbers_take(&numbers, &codes, &others, &reference)) == COMPACT_DONE)
            taken++;
        ck_assert_int_eq(result, COMPACT_UNFIT);
        most = taken > most ? taken : most;
        name_numbers_free(&numbers);
    }
    if (_i != 0)
        ck_assert_uint_gt(most, 50);
    name_table_free(&names);
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

    ck_assert(function_writer_start(&writer));
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
    bool had_memory;

    put_functions(functions, count, columns);
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++)
        reader.columns[i] = buffer_view(&columns[i]);
    for (size_t i = 0; i < count; i++) {
        ck_assert(function_reader_take(&reader, &function, &had_memory));
        ck_assert_uint_eq(function.hash, functions[i].hash);
        ck_assert_uint_eq(function.counters, functions[i].counters);
    }
    for (size_t i = 0; i < FUNCTION_COLUMNS; i++)
        ck_assert_uint_eq(reader.columns[i].size, 0);
    ck_assert(!function_reader_take(&reader, &function, &had_memory) && had_memory);
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
        bool had_memory;

        for (size_t i = 0; i < FUNCTION_COLUMNS; i++) {
            fill(&random, bytes[i], sizeof(bytes[i]), (turn >> i) % 2 == 0 ? 256 : 5);
            reader.columns[i] = (struct bytes){bytes[i], random_below(&random, sizeof(bytes[i]))};
        }
        while (function_reader_take(&reader, &function, &had_memory))
            continue;
        ck_assert(had_memory);
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
    bool had_memory;

    reader.columns[FUNCTION_CODES] =
        (struct bytes){(const uint8_t *)cases[_i].codes, cases[_i].size};
    reader.columns[FUNCTION_DIGITS] =
        (struct bytes){(const uint8_t *)cases[_i].digits, strlen(cases[_i].digits) + 1};
    reader.columns[FUNCTION_COUNTERS] =
        (struct bytes){(const uint8_t *)cases[_i].counters, strlen(cases[_i].counters)};
    ck_assert(!function_reader_take(&reader, &function, &had_memory));
    ck_assert(had_memory);
    buffer_free(&reader.known);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash columns");
    TCase *numbers = tcase_create("unused numbers");
    TCase *names = tcase_create("names");
    TCase *functions = tcase_create("functions");
    SRunner *runner;
    int failed;

    tcase_set_timeout(numbers, 300);
    tcase_add_loop_test(numbers, test_unused_numbers, 0, 10);
    tcase_add_test(numbers, test_no_numbers);
    suite_add_tcase(suite, numbers);
    tcase_set_timeout(names, 300);
    tcase_add_loop_test(names, test_names_come_back, 0, 6);
    tcase_add_test(names, test_form_of_names);
    tcase_add_loop_test(names, test_hostile_names, 0, 2);
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
