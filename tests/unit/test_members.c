/*
 * Lists of names as numbers: the form is what the page says it is, lists come back, and damaged
 * ones name no name that there is not.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/name_lists.h"
#include "tests/support/random.h"

#define NAMES_MAX 400

static struct bytes view(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* Lists as they are stored. */
struct lists {
    struct buffer kinds;
    struct buffer others;
    unsigned width;
    size_t count; /* names */
};

static void free_lists(struct lists *lists)
{
    buffer_free(&lists->kinds);
    buffer_free(&lists->others);
}

/* ---- the form ---- */

/* Each letter is a name; "/" is between lists. */
static void write_letters(const char *letters, struct lists *lists)
{
    struct member_writer writer = {.kinds = &lists->kinds, .others = &lists->others};

    *lists = (struct lists){0};
    member_writer_start_list(&writer);
    for (; *letters != '\0'; letters++) {
        if (*letters == '/')
            member_writer_start_list(&writer);
        else
            ck_assert(member_writer_put(&writer, (struct bytes){(const uint8_t *)letters, 1}));
    }
    ck_assert(member_writer_finish(&writer, &lists->width));
    lists->count = (size_t)writer.state.new_number;
    member_writer_free(&writer);
}

static const struct {
    const char *letters;
    const char *kinds; /* as letters: e, n, l, o */
    size_t others;
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
    char kinds[40];

    write_letters(forms[_i].letters, &lists);
    ck_assert_uint_lt(lists.kinds.size, sizeof(kinds));
    for (size_t i = 0; i < lists.kinds.size; i++)
        kinds[i] = letters[lists.kinds.data[i]];
    kinds[lists.kinds.size] = '\0';
    ck_assert_str_eq(kinds, forms[_i].kinds);
    ck_assert_uint_eq(lists.width, 2);
    ck_assert_uint_eq(lists.others.size, 2 * forms[_i].others);
    free_lists(&lists);
}
END_TEST

/* ---- both ways ---- */

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
        struct member_writer writer = {.kinds = &lists.kinds, .others = &lists.others};
        struct member_reader reader;
        struct bytes width;

        for (size_t i = 0; i < list_count; i++) {
            counts[i] = random_list(&random, numbers[i], &known);
            member_writer_start_list(&writer);
            for (size_t k = 0; k < counts[i]; k++)
                ck_assert(
                    member_writer_put(&writer, (struct bytes){(const uint8_t *)&numbers[i][k], 8}));
        }
        ck_assert(member_writer_finish(&writer, &lists.width));
        ck_assert_uint_eq(writer.state.new_number, known);
        ck_assert_uint_eq(writer.names.text.size, 9 * known);
        ck_assert(member_reader_start(&reader, (size_t)known, buffer_view(&lists.kinds),
                                      buffer_view(&lists.others)));
        width = (struct bytes){(const uint8_t *)&lists.width, 1};
        ck_assert(member_reader_take_width(&reader, &width));
        for (size_t i = 0; i < list_count; i++) {
            member_reader_start_list(&reader);
            for (size_t k = 0; k < counts[i]; k++) {
                ck_assert(member_reader_take(&reader, &number));
                ck_assert_uint_eq(number, numbers[i][k]);
            }
        }
        ck_assert(member_reader_at_end(&reader));
        ck_assert(!member_reader_take(&reader, &number));
        member_reader_free(&reader);
        member_writer_free(&writer);
        free_lists(&lists);
    }
}
END_TEST

/* ---- damage ---- */

/* Takes all members of one list; false where one is refused. */
static bool read_all(struct bytes kinds, struct bytes others, size_t count)
{
    struct member_reader reader;
    uint64_t number;
    bool good = true;

    ck_assert(member_reader_start(&reader, count, kinds, others));
    reader.width = 2;
    member_reader_start_list(&reader);
    while (good && reader.kinds.size != 0) {
        good = member_reader_take(&reader, &number);
        ck_assert(!good || number < count);
    }
    member_reader_free(&reader);
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
    ck_assert(!read_all(view("\4"), none, 1));   /* no such kind */
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
        uint8_t kinds[50], others[40];

        for (size_t i = 0; i < sizeof(kinds); i++)
            kinds[i] = (uint8_t)(random_below(&random, 30) == 0 ? random_next(&random)
                                                                : random_below(&random, 4));
        for (size_t i = 0; i < sizeof(others); i++)
            others[i] = (uint8_t)(i % 2 == 0 ? random_below(&random, 12) : 0);
        read_all((struct bytes){kinds, random_below(&random, sizeof(kinds) + 1)},
                 (struct bytes){others, sizeof(others)}, 1 + (size_t)random_below(&random, 30));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("members");
    TCase *lists = tcase_create("lists");
    SRunner *runner;
    int failed;

    tcase_set_timeout(lists, 300);
    tcase_add_loop_test(lists, test_written_as_told, 0, (int)(sizeof(forms) / sizeof(forms[0])));
    tcase_add_test(lists, test_comes_back);
    tcase_add_test(lists, test_damaged);
    tcase_add_test(lists, test_random_lists);
    suite_add_tcase(suite, lists);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
