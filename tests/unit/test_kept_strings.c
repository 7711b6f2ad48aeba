/*
 * String tables without what is not used: each string that is used can be found, nothing else is
 * left, and the order stays.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/object/kept_strings.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#define TABLES        300
#define LARGEST_TABLE 400

static struct bytes table_of(const char *text, size_t size)
{
    return (struct bytes){(const uint8_t *)text, size};
}

/* Uses the offsets, and compares the new table and the new offsets with those expected. */
static void check(struct bytes table, const uint32_t *used, const uint32_t *moved, size_t count,
                  struct bytes expected)
{
    struct kept_strings strings = {0};
    struct buffer made = {0};

    ck_assert(kept_strings_start(&strings, table));
    for (size_t i = 0; i < count; i++)
        kept_strings_use(&strings, used[i]);
    kept_strings_choose(&strings);
    ck_assert(kept_strings_append(&strings, &made));
    ck_assert(bytes_equal(buffer_view(&made), expected));
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(kept_strings_offset(&strings, used[i]), moved[i]);
    kept_strings_free(&strings);
    buffer_free(&made);
}

START_TEST(test_shared_ends)
{
    static const char table[] = "\0gone\0.rela.text\0last";
    static const uint32_t used[] = {0, 11, 17};
    static const uint32_t moved[] = {0, 1, 7};
    static const char expected[] = "\0.text\0last";
    /* Of ".rela.text" only ".text" is used. */
    check(table_of(table, sizeof(table)), used, moved, 3, table_of(expected, sizeof(expected)));
}
END_TEST

START_TEST(test_nothing_used)
{
    static const char table[] = "\0one\0two";
    check(table_of(table, sizeof(table)), NULL, NULL, 0, table_of("", 1));
    check(table_of("", 1), NULL, NULL, 0, table_of("", 1));
}
END_TEST

START_TEST(test_all_used)
{
    static const char table[] = "first\0second\0\0";
    struct kept_strings strings = {0};
    struct buffer made = {0};

    ck_assert(kept_strings_start(&strings, table_of(table, sizeof(table))));
    kept_strings_use_all(&strings);
    kept_strings_choose(&strings);
    ck_assert(kept_strings_append(&strings, &made));
    ck_assert(bytes_equal(buffer_view(&made), table_of(table, sizeof(table))));
    for (uint32_t i = 0; i < sizeof(table); i++)
        ck_assert_uint_eq(kept_strings_offset(&strings, i), i);
    kept_strings_free(&strings);
    buffer_free(&made);
}
END_TEST

/* What is kept by a simple count, byte by byte: a byte stays if its string is used at it or
 * before. */
START_TEST(test_random)
{
    struct random_state random = random_start((uint64_t)_i);
    char table[LARGEST_TABLE], expected[LARGEST_TABLE];
    uint32_t used[LARGEST_TABLE], moved[LARGEST_TABLE];
    bool is_used[LARGEST_TABLE] = {false}, stays = false;
    size_t size = 1 + (size_t)random_below(&random, LARGEST_TABLE), count = 0, made = 0;
    uint64_t sparse = 1 + random_below(&random, 40);

    for (size_t i = 0; i < size; i++) {
        table[i] = random_below(&random, 1 + (uint64_t)_i % 70) == 0 || i + 1 == size ? '\0' : 'a';
        is_used[i] = i == 0 || random_below(&random, sparse) == 0;
    }
    for (size_t i = 0; i < size; i++) {
        stays = stays || is_used[i];
        if (is_used[i]) {
            used[count] = (uint32_t)i;
            moved[count++] = (uint32_t)made;
        }
        if (stays)
            expected[made++] = table[i];
        stays = stays && table[i] != '\0';
    }
    check(table_of(table, size), used, moved, count, table_of(expected, made));
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_shared_ends, test_nothing_used, test_all_used);
    suite_loops(all, TABLES, test_random);
    return suite_main("kept_strings", all);
}
