/*
 * NameRefs and FuncHashes there and back, byte by byte where the form is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/records.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

static struct cursor cursor_of(struct bytes bytes)
{
    return cursor_open(bytes, false, false);
}

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

/* Records as no compiler has them, which go everywhere. */
static uint64_t random_reference(struct random_state *random, const struct names *names,
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
    size_t count = counts[_i] * 3 / 2 + 10;
    struct names names;
    uint64_t *references = calloc(count, sizeof(*references)), number = 0;
    struct random_state random = random_start((uint64_t)_i);

    ck_assert_ptr_nonnull(references);
    make_names(&names, counts[_i]);
    for (int turn = 0; turn < 10; turn++) {
        struct name_refs writer = {.names = &names}, reader = {.names = &names};
        struct buffer first = {0}, second = {0};
        struct cursor codes, others;

        for (size_t i = 0; i < count; i++) {
            references[i] = random_reference(&random, &names, &number);
            name_refs_put(&writer, references[i], &first, &second);
        }
        ck_assert_uint_eq(first.size, count);
        codes = cursor_of(buffer_view(&first));
        others = cursor_of(buffer_view(&second));
        for (size_t i = 0; i < count; i++)
            ck_assert_uint_eq(name_refs_take(&reader, &codes, &others), references[i]);
        ck_assert(cursor_finished(&codes) && cursor_finished(&others));
        name_refs_take(&reader, &codes, &others);
        ck_assert(codes.bad);
        buffer_free(&first);
        buffer_free(&second);
    }
    free(references);
    names_free(&names);
}
END_TEST

/* Each code once, and more places that were left than are remembered. */
START_TEST(test_form_of_names)
{
    static const int order[] = {0,   1,   5,   2,   3,   6, 3,   -1,  9,  300,
                                400, 402, 301, 401, 403, 7, 250, 302, 404};
    static const uint8_t codes[] = {0, 0,     7 + 6, 1, 0, 1, 7 + 7, 5, 7 + 10, 6,
                                    6, 7 + 2, 2,     2, 2, 6, 6,     4, 3};
    /* Of the one that has no name, its NameRef; and how far 300, 400, 7 and 250 are from the name
     * that is next: the zigzag of 290, 99, -397 and 242. */
    static const uint8_t others[] = {1,    2,    3,    4,    5,    6,    7,    8,
                                     0xc4, 0x04, 0xc6, 0x01, 0x99, 0x06, 0xe4, 0x03};
    struct buffer first = {0}, second = {0};
    struct names names;
    struct name_refs refs = {.names = &names};

    make_names(&names, 500);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        name_refs_put(&refs,
                      order[i] < 0 ? UINT64_C(0x0807060504030201) : names.references[order[i]],
                      &first, &second);
    ck_assert_uint_eq(first.size, sizeof(codes));
    ck_assert_mem_eq(first.data, codes, sizeof(codes));
    ck_assert_uint_eq(second.size, sizeof(others));
    ck_assert_mem_eq(second.data, others, sizeof(others));
    buffer_free(&first);
    buffer_free(&second);
    names_free(&names);
}
END_TEST

/* Whatever the columns hold, nothing but what is there is read. */
START_TEST(test_hostile_names)
{
    struct random_state random = random_start(11);
    struct names names;
    uint8_t first[600], second[600];
    unsigned most = 0;

    make_names(&names, 300);
    for (unsigned turn = 0; turn < 4000; turn++) {
        struct cursor codes = cursor_of((struct bytes){first, sizeof(first)});
        struct cursor others = cursor_of((struct bytes){second, sizeof(second)});
        struct name_refs refs = {.names = _i == 0 ? NULL : &names};
        unsigned taken = 0;

        random_fill(&random, first, sizeof(first), turn % 2 == 0 ? 256 : 20);
        random_fill(&random, second, sizeof(second), turn % 3 == 0 ? 256 : 20);
        for (; !codes.bad; taken++)
            name_refs_take(&refs, &codes, &others);
        most = taken > most ? taken : most;
    }
    if (_i != 0)
        ck_assert_uint_gt(most, 50);
    names_free(&names);
}
END_TEST

/* Places that were not left, a name before the first and behind the last, and a NameRef that is cut
 * short. */
START_TEST(test_damaged_names)
{
    static const struct {
        uint8_t codes[2];
        const char *others;
        unsigned good;
    } cases[] = {{{1}, "", 0},         {{0, 2}, "", 1}, {{7 + 1}, "", 0},
                 {{0, 7 + 18}, "", 1}, {{6}, "\24", 0}, {{6}, "\23", 0},
                 {{5}, "1234567", 0},  {{0, 6}, "", 1}, {{7 + 20}, "", 0}};
    struct cursor codes = cursor_of((struct bytes){cases[_i].codes, 2});
    struct cursor others =
        cursor_of((struct bytes){(const uint8_t *)cases[_i].others, strlen(cases[_i].others)});
    struct names names;
    struct name_refs refs = {.names = &names};

    make_names(&names, 10);
    for (unsigned i = 0; i < cases[_i].good; i++)
        name_refs_take(&refs, &codes, &others);
    ck_assert(!codes.bad);
    name_refs_take(&refs, &codes, &others);
    ck_assert(codes.bad);
    names_free(&names);
}
END_TEST

/* ---- FuncHashes ---- */

static const struct {
    uint64_t hash;
    size_t size;
    uint8_t stored[12];
} hashes[] = {
    {0, 1, {0}},
    {1, 2, {1, 0}},
    {63, 2, {63, 0}},
    {64, 9, {64, 64, 0, 0, 0, 0, 0, 0, 0}}, /* its last digit is 0 */
    {65, 3, {1, 1, 0}},
    {UINT64_C(0xfffffffffffffff), 11, {63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 0}},
    {UINT64_C(0x1041041041041041), 9, {64, 0x41, 0x10, 4, 0x41, 0x10, 4, 0x41, 0x10}},
    {UINT64_MAX, 9, {64, 255, 255, 255, 255, 255, 255, 255, 255}},
};

START_TEST(test_form_of_hashes)
{
    struct buffer stream = {0};
    struct cursor cursor;

    func_hash_put(&stream, hashes[_i].hash);
    ck_assert_uint_eq(stream.size, hashes[_i].size);
    ck_assert_mem_eq(stream.data, hashes[_i].stored, stream.size);
    cursor = cursor_of(buffer_view(&stream));
    ck_assert_uint_eq(func_hash_take(&cursor), hashes[_i].hash);
    ck_assert(cursor_finished(&cursor));
    /* Cut short. */
    cursor = cursor_of((struct bytes){stream.data, stream.size - 1});
    func_hash_take(&cursor);
    ck_assert(cursor.bad);
    buffer_free(&stream);
}
END_TEST

/* More digits than there can be, and what is none. */
START_TEST(test_damaged_hashes)
{
    static const uint8_t stored[][12] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {1, 64}, {255}};
    struct cursor cursor = cursor_of((struct bytes){stored[_i], sizeof(stored[_i])});

    func_hash_take(&cursor);
    ck_assert(cursor.bad);
}
END_TEST

int main(void)
{
    TCase *names = suite_case("names", 300, NULL);
    suite_loops(names, 6, test_names_come_back);
    suite_tests(names, test_form_of_names);
    suite_loops(names, 2, test_hostile_names);
    suite_loops(names, 9, test_damaged_names);
    TCase *functions = suite_case("hashes", 60, NULL);
    suite_loops(functions, sizeof(hashes) / sizeof(hashes[0]), test_form_of_hashes);
    suite_loops(functions, 3, test_damaged_hashes);
    return suite_main("records", names, functions);
}
