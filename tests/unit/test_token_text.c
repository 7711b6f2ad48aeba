/*
 * Texts as tokens: the form is what the page says it is, whatever text there is comes back, and
 * whatever a sidecar holds gives a text of a size in proportion or none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/codec/names/names.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#define ANY_SIZE ((uint64_t)1 << 30)

static struct bytes view(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static void append(struct buffer *buffer, const char *text)
{
    ck_assert(buffer_append(buffer, text, strlen(text)));
}

/* ---- the form ---- */

static enum result decode(struct bytes codes, const char *dictionary, struct names *text)
{
    return token_text_decode(codes, view(dictionary), ANY_SIZE, text);
}

/* The last tokens of a dictionary are copied without what lies behind it, be they long or short. */
START_TEST(test_dictionary_ends)
{
    static const uint8_t spelled[2][3] = {
        {TOKEN_CODE_NEW_PLAIN, TOKEN_CODE_NEW_PLAIN, TOKEN_CODE_END}, {0, 1, TOKEN_CODE_END}};

    for (size_t first = 1; first < 64; first++) {
        for (size_t second = 0; second < 64; second++) {
            size_t size = first + 1 + second + 1;
            /* Just so large that a byte too many is found. */
            FREED_BY(drop_memory) uint8_t *dictionary = malloc(size);
            uint8_t codes[8] = {(uint8_t)(first + second + 1), _i == 0 ? 0 : 2};
            FREED_BY(names_free) struct names made;

            ck_assert_ptr_nonnull(dictionary);
            memset(dictionary, 'a', first);
            memset(dictionary + first + 1, 'b', second);
            dictionary[first] = dictionary[size - 1] = 1;
            memcpy(codes + 5, spelled[_i], sizeof(spelled[_i]));
            ck_assert_int_eq(token_text_decode((struct bytes){codes, sizeof(codes)},
                                               (struct bytes){dictionary, size}, ANY_SIZE, &made),
                             RESULT_OK);
            ck_assert_uint_eq(made.text.size, first + second + 1);
            ck_assert_mem_eq(made.text.data, dictionary, first);
            ck_assert_mem_eq(made.text.data + first, dictionary + first + 1, second + 1);
        }
    }
}
END_TEST

START_TEST(test_triples)
{
    FREED_BY(buffer_free) struct buffer dictionary = {0}, codes = {0};
    FREED_BY(names_free) struct names made;
    static const uint8_t end[] = {0, 0, 43, 253}; /* triple 43: behind one single and one pair */
    char expected[8];

    for (unsigned i = 0; i < 301; i++) {
        char token[8];
        snprintf(token, sizeof(token), "%c%u\1", 'a' + (int)(i % 26), i);
        append(&dictionary, token);
    }
    ck_assert(buffer_append(&codes, "\x00\x00", 2)); /* the size, below */
    ck_assert(buffer_append(&codes, "\x01\x00\x01\x01", 4));
    for (unsigned i = 1; i < 301; i++)
        ck_assert(buffer_append(&codes, "\xfe", 1));
    ck_assert(buffer_append(&codes, "\xfd\x02", 2));
    ck_assert(buffer_append(&codes, end + 1, sizeof(end) - 1));
    snprintf(expected, sizeof(expected), "o300\1");
    size_t size = dictionary.size - 301 - strlen("a0") + 1 + strlen(expected);
    codes.data[0] = (uint8_t)(size | 0x80);
    codes.data[1] = (uint8_t)(size >> 7);
    ck_assert_int_eq(
        token_text_decode(buffer_view(&codes), buffer_view(&dictionary), ANY_SIZE, &made),
        RESULT_OK);
    ck_assert_uint_eq(made.text.size, size);
    ck_assert_mem_eq(made.text.data + size - strlen(expected), expected, strlen(expected));
}
END_TEST

static const struct {
    const char *codes;
    size_t size;
    const char *dictionary;
} damaged[] = {
    {"", 0, ""},
    {"\x01\x00\x00\x00", 4, ""},
    {"\x02\x00\x00\x00\x00\xfd", 6, ""},            /* shorter than it says */
    {"\x00\x00\x00\x00\x00\xfd", 6, ""},            /* longer */
    {"\x00\x01\x00\x00\x00", 5, ""},                /* no such single */
    {"\x00\x00\x01\x00\x00", 5, "a"},               /* a token without its end */
    {"\x02\x00\x00\x00\x00\xfe\xfd", 7, ""},        /* no token left */
    {"\x01\x00\x00\x00\x00\xfd", 6, "a\1"},         /* one left */
    {"\x02\x01\x00\x00\x00\x01\xfd", 7, "a\1"},     /* a code of nothing */
    {"\x02\x01\x00\x01\x00\x01", 6, "a\1"},         /* cut short */
    {"\x02\x01\x00\x01\x00\x01\x00\xfd", 8, "a\1"}, /* of no token yet */
    {"\x00\x00\x00\xfe\x00", 5, ""},                /* too many pairs */
    {"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00\x00", 14, ""},
};

START_TEST(test_damaged)
{
    FREED_BY(names_free) struct names made;

    ck_assert_int_eq(decode((struct bytes){(const uint8_t *)damaged[_i].codes, damaged[_i].size},
                            damaged[_i].dictionary, &made),
                     RESULT_UNFIT);
}
END_TEST

/* Claims of all sizes, also of those that leave no room behind the text. */
START_TEST(test_longer_than_it_says)
{
    static const char dictionary[] = "a word that is longer than what is copied at once\1";

    for (uint8_t size = 0; size < 128; size++) {
        const uint8_t codes[] = {size, 1, 0, 0, 0, 0, 0, 0, TOKEN_CODE_END};
        FREED_BY(names_free) struct names made;

        ck_assert_int_eq(decode((struct bytes){codes, sizeof(codes)}, dictionary, &made),
                         RESULT_UNFIT);
    }
}
END_TEST

/* ---- both sides ---- */

static void comes_back(const struct buffer *text, enum token_rule rule)
{
    FREED_BY(buffer_free) struct buffer codes = {0}, dictionary = {0};
    FREED_BY(names_free) struct names again;

    ck_assert_int_eq(token_text_encode(buffer_view(text), rule, &codes, &dictionary), RESULT_OK);
    ck_assert_int_eq(
        token_text_decode(buffer_view(&codes), buffer_view(&dictionary), text->size, &again),
        RESULT_OK);
    ck_assert(bytes_equal(buffer_view(text), buffer_view(&again.text)));
    names_free(&again);
    if (text->size != 0)
        ck_assert_int_eq(token_text_decode(buffer_view(&codes), buffer_view(&dictionary),
                                           text->size - 1, &again),
                         RESULT_UNFIT);
}

/* More tokens than codes of two bytes have place for, none or many of them frequent. */
START_TEST(test_many_tokens)
{
    FREED_BY(buffer_free) struct buffer text = {0};
    char name[40];

    for (unsigned i = 0; i < 60000; i++) {
        snprintf(name, sizeof(name), "_Z5x%04xv\1", i);
        append(&text, name);
        if (_i != 0 && i % 7 == 0) {
            snprintf(name, sizeof(name), "_Z5x%04x5x%04xv\1", i / 2, i % 300);
            append(&text, name);
        }
    }
    comes_back(&text, TOKENS_OF_NAMES);
}
END_TEST

/* ---- damage ---- */

/* A long token, named many times, costs a byte each time: more than the streams are worth. */
START_TEST(test_out_of_proportion)
{
    struct buffer text = {0}, streams[NAME_TEXT_STREAMS] = {0};
    struct names names;

    for (unsigned i = 0; i < 3000; i++) {
        append(&text, "_Z3000");
        for (unsigned letter = 0; letter < 3000; letter++)
            append(&text, "a");
        append(&text, "\1");
    }
    ck_assert_int_eq(name_text_encode(buffer_view(&text), streams), RESULT_OK);
    ck_assert_int_eq(name_text_decode(streams, ANY_SIZE, UINT64_MAX, &names), RESULT_UNFIT);
    names_free(&names);
    for (size_t i = 0; i < NAME_TEXT_STREAMS; i++)
        buffer_free(&streams[i]);
    buffer_free(&text);
}
END_TEST

/* A section of names is not so much smaller than what its names are. */
START_TEST(test_out_of_proportion_to_section)
{
    static const struct {
        uint64_t section_size;
        enum result result;
    } sections[] = {{ANY_SIZE, RESULT_OK}, {30000, RESULT_OK}, {20000, RESULT_UNFIT}};
    struct buffer text = {0}, streams[NAME_TEXT_STREAMS] = {0};
    char name[400];

    snprintf(name, sizeof(name), "_Z300%0300dv\1", 0);
    memset(name + 5, 'a', 300);
    for (unsigned i = 0; i < 8000; i++)
        append(&text, name);
    ck_assert_int_eq(name_text_encode(buffer_view(&text), streams), RESULT_OK);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        FREED_BY(names_free) struct names names;

        ck_assert_int_eq(name_text_decode(streams, sections[i].section_size, UINT64_MAX, &names),
                         sections[i].result);
    }
    for (size_t i = 0; i < NAME_TEXT_STREAMS; i++)
        buffer_free(&streams[i]);
    buffer_free(&text);
}
END_TEST

int main(void)
{
    TCase *forms = tcase_create("forms");
    suite_loops(forms, 2, test_dictionary_ends);
    tcase_add_test(forms, test_triples);
    suite_loops(forms, sizeof(damaged) / sizeof(damaged[0]), test_damaged);
    suite_tests(forms, test_longer_than_it_says);
    TCase *texts = suite_case("texts", 300, NULL);
    suite_loops(texts, 2, test_many_tokens);
    suite_tests(texts, test_out_of_proportion, test_out_of_proportion_to_section);
    return suite_main("token text", forms, texts);
}
