/*
 * NameRefs there and back, byte by byte where the form is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/name_refs.h"
#include "common/codec/registry.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

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

        random_fill(&random, first, sizeof(first), turn % 2 == 0 ? 256 : 20);
        random_fill(&random, second, sizeof(second), turn % 3 == 0 ? 256 : 20);
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

int main(void)
{
    TCase *names = suite_case("names", 300, NULL);
    suite_loops(names, 6, test_names_come_back);
    suite_tests(names, test_form_of_names, test_form_with_data);
    suite_loops(names, 2, test_hostile_names);
    suite_loops(names, 11, test_damaged_names);
    return suite_main("name refs", names);
}
