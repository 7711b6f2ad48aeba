/*
 * JSON: structure, and strings of any bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "split/cli/json.h"
#include "tests/support/suite.h"

/* What the test writes into, and what came out. */
static struct json_writer writer;
static char *text;
static size_t text_size;

static void open_writer(void)
{
    writer = (struct json_writer){.stream = open_memstream(&text, &text_size)};
    ck_assert_ptr_nonnull(writer.stream);
}

static void expect(const char *expected)
{
    fclose(writer.stream);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(test_empty_containers)
{
    open_writer();
    json_begin_array(&writer, NULL);
    json_end_array(&writer);
    expect("[]\n");
    open_writer();
    json_begin_object(&writer, NULL);
    json_end_object(&writer);
    expect("{}\n");
}
END_TEST

START_TEST(test_nesting)
{
    open_writer();
    json_begin_array(&writer, NULL);
    json_begin_object(&writer, NULL);
    json_number(&writer, "a", UINT64_MAX);
    json_begin_array(&writer, "b");
    json_begin_array(&writer, NULL);
    json_end_array(&writer);
    json_boolean(&writer, NULL, true);
    json_null(&writer, NULL);
    json_end_array(&writer);
    json_fraction(&writer, "c", 10822);
    json_end_object(&writer);
    json_string(&writer, NULL, "x");
    json_end_array(&writer);
    expect("[\n"
           "  {\n"
           "    \"a\": 18446744073709551615,\n"
           "    \"b\": [\n"
           "      [],\n"
           "      true,\n"
           "      null\n"
           "    ],\n"
           "    \"c\": 1.0822\n"
           "  },\n"
           "  \"x\"\n"
           "]\n");
}
END_TEST

#define REPLACED "\xef\xbf\xbd"

static const struct {
    const char *from, *expected;
} strings[] = {
    {"", ""},
    {"a\"b\\c/d", "a\\\"b\\\\c/d"},
    {"\n\t\x01\x1f\x7f", "\\u000a\\u0009\\u0001\\u001f\\u007f"},
    /* The first and the last character of each length, and those around the surrogates. The first
     * of two bytes that is no control character is U+00A0. */
    {"\xc2\xa0\xdf\xbf", "\xc2\xa0\xdf\xbf"},
    {"\xe0\xa0\x80\xef\xbf\xbf", "\xe0\xa0\x80\xef\xbf\xbf"},
    {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
    /* A terminal may obey U+009B, and U+202E turns round what follows it; U+E0041 is of two units.
     */
    {"\xc2\x80\xc2\x9b"
     "2J\xc2\x9f",
     "\\u0080\\u009b2J\\u009f"},
    {"\xe2\x80\xae\xe2\x81\xa9\xef\xbb\xbf", "\\u202e\\u2069\\ufeff"},
    {"\xf3\xa0\x81\x81", "\\udb40\\udc41"},
    {"\xe2\x80\xa7\xe2\x80\xaf", "\xe2\x80\xa7\xe2\x80\xaf"},
    /* What is no UTF-8: cut short by the end or by a character, overlong, a surrogate. */
    {"a\xff"
     "b",
     "a" REPLACED "b"},
    {"\x80", REPLACED},
    {"\xc3", REPLACED},
    {"\xe2\x82", REPLACED REPLACED},
    {"\xf0\x9f\x98", REPLACED REPLACED REPLACED},
    {"\xc3(", REPLACED "("},
    {"\xc0\xaf", REPLACED REPLACED},
    {"\xe0\x9f\xbf", REPLACED REPLACED REPLACED},
    {"\xed\xa0\x80", REPLACED REPLACED REPLACED},
    {"\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED},
};

START_TEST(test_string)
{
    char expected[64];

    snprintf(expected, sizeof(expected), "\"%s\"", strings[_i].expected);
    open_writer();
    json_string(&writer, NULL, strings[_i].from);
    expect(expected);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_tests(all, test_empty_containers, test_nesting);
    suite_loops(all, sizeof(strings) / sizeof(strings[0]), test_string);
    return suite_main("json", all);
}
