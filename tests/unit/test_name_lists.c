/*
 * Lists of names as numbers: the form is what the page says it is, lists come back, and damaged
 * ones name no name that there is not.
 */
#include <stdlib.h>
#include <string.h>

#include "common/codec/name_lists.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#define NAMES_MAX 400

static struct bytes view(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* Lists as they are stored. */
struct lists {
    struct buffer codes;
    struct buffer numbers;
    unsigned width;
    size_t count; /* names */
};

static void free_lists(struct lists *lists)
{
    buffer_free(&lists->codes);
    buffer_free(&lists->numbers);
}

/* ---- the form ---- */

/* Each letter is a name; "/" is between lists. */
static void write_letters(const char *letters, struct lists *lists)
{
    struct name_list_writer writer = {.codes = &lists->codes, .numbers = &lists->numbers};

    *lists = (struct lists){0};
    name_list_writer_start_list(&writer);
    for (; *letters != '\0'; letters++) {
        if (*letters == '/')
            name_list_writer_start_list(&writer);
        else
            ck_assert(name_list_writer_put(&writer, (struct bytes){(const uint8_t *)letters, 1}));
    }
    ck_assert(name_list_writer_finish(&writer, &lists->width));
    lists->count = (size_t)writer.state.new_number;
    name_list_writer_free(&writer);
}

static const struct {
    const char *letters;
    const char *codes; /* as letters: e, n, l, o */
    size_t numbers;
} forms[] = {
    {"abc", "eee", 0},
    {"abc/abcd", "eeeeeee", 0},
    {"abcd/acd", "eeeeeoe", 1},       /* b is left */
    {"abcd/acdb", "eeeeeoel", 1},     /* and comes last */
    {"abcd/axbcd", "eeeeenlee", 0},   /* a new one goes before it */
    {"abcde/cadbe", "eeeeeollle", 1}, /* each one back to what the one before left */
    {"abcd/cdab", "eeeeoele", 1},
    {"abcd/bacc", "eeeeoleo", 2}, /* c was left, and came */
    {"aa", "eo", 1},              /* a name twice in a list */
    {"ab/ba/ab", "eeolee", 1},
};

START_TEST(test_written_as_told)
{
    static const char letters[] = "enlo";
    struct lists lists;
    char codes[40];

    write_letters(forms[_i].letters, &lists);
    ck_assert_uint_lt(lists.codes.size, sizeof(codes));
    for (size_t i = 0; i < lists.codes.size; i++)
        codes[i] = letters[lists.codes.data[i]];
    codes[lists.codes.size] = '\0';
    ck_assert_str_eq(codes, forms[_i].codes);
    ck_assert_uint_eq(lists.width, 2);
    ck_assert_uint_eq(lists.numbers.size, 2 * forms[_i].numbers);
    free_lists(&lists);
}
END_TEST

/* ---- both sides ---- */

/* Numbers of names: runs of what came, with some left out, and new ones. */
static size_t random_list(struct random_state *random, uint64_t *list, uint64_t *known)
{
    size_t count = 1 + (size_t)random_below(random, 100);
    uint64_t at = 0;

    for (size_t i = 0; i < count; i++) {
        if (random_below(random, 10) == 0)
            at = random_below(random, *known + 1);
        else if (random_below(random, 10) == 0)
            at = *known;
        if (at > *known || at >= NAMES_MAX)
            at = 0;
        *known += at == *known;
        list[i] = at;
        at += 1 + (random_below(random, 6) == 0) * random_below(random, 20);
    }
    return count;
}

START_TEST(test_comes_back)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct random_state random = random_start(seed);
        uint64_t numbers[20][100], known = 0, number;
        size_t counts[20], list_count = 1 + (size_t)random_below(&random, 20);
        struct lists lists = {0};
        struct name_list_writer writer = {.codes = &lists.codes, .numbers = &lists.numbers};
        struct name_list_reader reader;
        struct bytes width;

        for (size_t i = 0; i < list_count; i++) {
            counts[i] = random_list(&random, numbers[i], &known);
            name_list_writer_start_list(&writer);
            for (size_t k = 0; k < counts[i]; k++)
                ck_assert(name_list_writer_put(&writer,
                                               (struct bytes){(const uint8_t *)&numbers[i][k], 8}));
        }
        ck_assert(name_list_writer_finish(&writer, &lists.width));
        ck_assert_uint_eq(writer.state.new_number, known);
        ck_assert_uint_eq(writer.names.text.size, 9 * known);
        ck_assert(name_list_reader_start(&reader, (size_t)known, buffer_view(&lists.codes),
                                         buffer_view(&lists.numbers)));
        width = (struct bytes){(const uint8_t *)&lists.width, 1};
        ck_assert(name_list_reader_take_width(&reader, &width));
        for (size_t i = 0; i < list_count; i++) {
            name_list_reader_start_list(&reader);
            for (size_t k = 0; k < counts[i]; k++) {
                ck_assert(name_list_reader_take(&reader, &number));
                ck_assert_uint_eq(number, numbers[i][k]);
            }
        }
        ck_assert(name_list_reader_at_end(&reader));
        ck_assert(!name_list_reader_take(&reader, &number));
        name_list_reader_free(&reader);
        name_list_writer_free(&writer);
        free_lists(&lists);
    }
}
END_TEST

/* ---- damage ---- */

/* Takes all members of one list; false where one is refused. */
static bool read_all(struct bytes codes, struct bytes numbers, size_t count)
{
    struct name_list_reader reader;
    uint64_t number;
    bool good = true;

    ck_assert(name_list_reader_start(&reader, count, codes, numbers));
    reader.width = 2;
    name_list_reader_start_list(&reader);
    while (good && reader.codes.size != 0) {
        good = name_list_reader_take(&reader, &number);
        ck_assert(!good || number < count);
    }
    name_list_reader_free(&reader);
    return good;
}

START_TEST(test_damaged)
{
    static const struct bytes none = {0};
    struct bytes first = {(const uint8_t *)"\0\0", 2}, second = {(const uint8_t *)"\1\0", 2};

    ck_assert(read_all((struct bytes){(const uint8_t *)"\0\1", 2}, none, 2));
    ck_assert(!read_all((struct bytes){(const uint8_t *)"\0\0", 2}, none, 1)); /* no name left */
    ck_assert(!read_all((struct bytes){(const uint8_t *)"\0\1", 2}, none, 1));
    ck_assert(!read_all(view("\2"), none, 1));   /* nothing is left */
    ck_assert(!read_all(view("\4"), none, 1));   /* no such code */
    ck_assert(!read_all(view("\3"), first, 1));  /* it has not come */
    ck_assert(!read_all(view("\1\3"), none, 1)); /* its number is missing */
    ck_assert(read_all(view("\1\3"), first, 1));
    ck_assert(!read_all(view("\1\3"), second, 2));
    ck_assert(!read_all(view("\1\3\2"), first, 2));
}
END_TEST

START_TEST(test_random_lists)
{
    for (uint64_t seed = 0; seed < 5000; seed++) {
        struct random_state random = random_start(seed);
        uint8_t codes[50], numbers[40];

        for (size_t i = 0; i < sizeof(codes); i++)
            codes[i] = (uint8_t)(random_below(&random, 30) == 0 ? random_next(&random)
                                                                : random_below(&random, 4));
        for (size_t i = 0; i < sizeof(numbers); i++)
            numbers[i] = (uint8_t)(i % 2 == 0 ? random_below(&random, 12) : 0);
        read_all((struct bytes){codes, random_below(&random, sizeof(codes) + 1)},
                 (struct bytes){numbers, sizeof(numbers)}, 1 + (size_t)random_below(&random, 30));
    }
}
END_TEST

int main(void)
{
    TCase *lists = suite_case("lists", 300, NULL);
    suite_loops(lists, sizeof(forms) / sizeof(forms[0]), test_written_as_told);
    suite_tests(lists, test_comes_back, test_damaged, test_random_lists);
    return suite_main("members", lists);
}
