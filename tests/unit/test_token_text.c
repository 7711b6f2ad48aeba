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

/* ---- tokens ---- */

/* The tokens of a string, each with "|" behind it, counted ones with "#" before. None of them is so
 * frequent that it has a code of one byte. */
static void cut(enum token_rule rule, const char *string, char *tokens, size_t room)
{
    struct buffer text = {0}, codes = {0}, dictionary = {0};
    struct bytes known[64], rest;
    bool counted[64];
    size_t size = 0, count = 0, number;

    append(&text, string);
    append(&text, "\1");
    ck_assert_int_eq(token_text_encode(buffer_view(&text), rule, &codes, &dictionary), RESULT_OK);
    rest = buffer_view(&dictionary);
    for (const uint8_t *code = codes.data + 5; *code != TOKEN_CODE_END; code++) {
        number = *code == TOKEN_CODE_NEW_PLAIN || *code == TOKEN_CODE_NEW_COUNTED ? count : *++code;
        if (number == count) {
            const uint8_t *end = memchr(rest.data, NAME_SEPARATOR, (size_t)rest.size);

            counted[count] = *code == TOKEN_CODE_NEW_COUNTED;
            known[count++] = (struct bytes){rest.data, (uint64_t)(end - rest.data)};
            rest = (struct bytes){end + 1, rest.size - known[number].size - 1};
        }
        size += (size_t)snprintf(tokens + size, room - size, "%s%.*s|", counted[number] ? "#" : "",
                                 (int)known[number].size, (const char *)known[number].data);
        ck_assert_uint_lt(size, room);
    }
    buffer_free(&text);
    buffer_free(&codes);
    buffer_free(&dictionary);
}

static const struct {
    enum token_rule rule;
    const char *string;
    const char *tokens;
} cuts[] = {
    {TOKENS_OF_NAMES, "main", "main|"},
    {TOKENS_OF_NAMES, "a.c:main", "a.c:main|"},
    {TOKENS_OF_NAMES, "_Z3foov", "_Z|#foo|v|"},
    {TOKENS_OF_NAMES, "a_b.cc:_ZN1a3barEv", "a_b.cc:|_ZN|#a|#bar|Ev|"},
    {TOKENS_OF_NAMES, "d/e.cc;_ZNK1aC2ERKS_S1_T0_", "d/e.cc;|_ZNK|#a|C2E|RK|S_|S1_|T0_|"},
    {TOKENS_OF_NAMES, "_ZN1aILm10EEE", "_ZN|#a|I|Lm|10|EE|E|"},
    {TOKENS_OF_NAMES, "_ZNSt3tieE", "_ZN|St|#tie|E|"},
    {TOKENS_OF_NAMES, "_Z9shortv", "_Z|9|s|h|o|r|t|v|"},
    {TOKENS_OF_NAMES, "_Z03foo", "_Z|03|f|o|o|"},
    {TOKENS_OF_NAMES, "_Z00012345a", "_Z|00012345|a|"},
    {TOKENS_OF_NAMES, "_RNvCs1Ab_4core3fmt", "_|R|N|v|Cs1Ab_|#core|#fmt|"},
    {TOKENS_OF_NAMES, "_RNvB3_4Kja_s_", "_|R|N|v|B3_|#Kja_|s_|"},
    {TOKENS_OF_WORDS, "sqlite3HTTPParse_url10", "sqlite|3|HTTP|Parse|_|url|10|"},
    {TOKENS_OF_WORDS, "aBC", "a|BC|"},
    {TOKENS_OF_WORDS, "h9f3a07bc44d18e2", "h9f3a07bc44d18e2|"},
    {TOKENS_OF_WORDS, "h9f3a0", "h|9|f|3|a|0|"},
    {TOKENS_OF_WORDS, "std_h9f3a07bc", "std_h9f3a07bc|"},
    {TOKENS_OF_WORDS, "something_longer_h9f3a0", "something|_|longer|_|h|9|f|3|a|0|"},
    {TOKENS_OF_WORDS, "\xc3\xa4X", "\xc3|\xa4|X|"},
};

START_TEST(test_cut)
{
    char tokens[200];

    cut(cuts[_i].rule, cuts[_i].string, tokens, sizeof(tokens));
    ck_assert_str_eq(tokens, cuts[_i].tokens);
}
END_TEST

/* ---- the form ---- */

static enum result decode(struct bytes codes, const char *dictionary, struct names *text)
{
    return token_text_decode(codes, view(dictionary), ANY_SIZE, text);
}

/* What the page says, byte by byte: size, singles of both kinds, pairs, triples; then codes. */
START_TEST(test_read_as_told)
{
    static const char dictionary[] = "a\1bc\1x9\1"
                                     "9\1"
                                     "010\1"
                                     "1000\1";
    static const uint8_t codes[] = {
        30,  1,   1,   1,   1,   /* singles are "a" and "2bc" */
        0,   1,   252,           /* "a2bc" */
        254, 255, 2,   0,   252, /* "x9", "19", pair 0: "x9" */
        252,                     /* "" */
        254, 252,                /* "010" */
        254, 253, 253, 252,      /* "1000", 1001, 1002 */
    };
    static const char text[] = "a2bc\1x919x9\1\1"
                               "010\1"
                               "100010011002\1";
    struct names made;

    ck_assert_int_eq(decode((struct bytes){codes, sizeof(codes)}, dictionary, &made), RESULT_OK);
    ck_assert(bytes_equal(buffer_view(&made.text), view(text)));
    names_free(&made);
}
END_TEST

/* The last tokens of a dictionary are copied without what lies behind it, be they long or short. */
START_TEST(test_dictionary_ends)
{
    static const uint8_t spelled[2][3] = {
        {TOKEN_CODE_NEW_PLAIN, TOKEN_CODE_NEW_PLAIN, TOKEN_CODE_END}, {0, 1, TOKEN_CODE_END}};

    for (size_t first = 1; first < 64; first++) {
        for (size_t second = 0; second < 64; second++) {
            size_t size = first + 1 + second + 1;
            /* Just so large that a byte too many is found. */
            uint8_t *dictionary = malloc(size);
            uint8_t codes[8] = {(uint8_t)(first + second + 1), _i == 0 ? 0 : 2};
            struct names made;

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
            names_free(&made);
            free(dictionary);
        }
    }
}
END_TEST

START_TEST(test_triples)
{
    struct buffer dictionary = {0}, codes = {0};
    struct names made;
    static const uint8_t end[] = {0, 0, 43, 252}; /* triple 43: behind one single and one pair */
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
    ck_assert(buffer_append(&codes, "\xfc\x02", 2));
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
    names_free(&made);
    buffer_free(&codes);
    buffer_free(&dictionary);
}
END_TEST

static const struct {
    const char *codes;
    size_t size;
    const char *dictionary;
} damaged[] = {
    {"", 0, ""},
    {"\x01\x00\x00\x00", 4, ""},
    {"\x02\x00\x00\x00\x00\xfc", 6, ""},                    /* shorter than it says */
    {"\x00\x00\x00\x00\x00\xfc", 6, ""},                    /* longer */
    {"\x00\x01\x00\x00\x00", 5, ""},                        /* no such single */
    {"\x00\x00\x01\x00\x00", 5, "a"},                       /* a token without its end */
    {"\x02\x00\x00\x00\x00\xfe\xfc", 7, ""},                /* no token left */
    {"\x01\x00\x00\x00\x00\xfc", 6, "a\1"},                 /* one left */
    {"\x02\x01\x00\x00\x00\x01\xfc", 7, "a\1"},             /* a code of nothing */
    {"\x02\x01\x00\x01\x00\x01", 6, "a\1"},                 /* cut short */
    {"\x02\x01\x00\x01\x00\x01\x00\xfc", 8, "a\1"},         /* of no token yet */
    {"\x02\x01\x00\x00\x00\xfd\xfc", 7, "a\1"},             /* no number before */
    {"\x04\x01\x00\x00\x00\x00\xfc\xfd\xfc", 9, "1\1"},     /* nor in another string */
    {"\x15\x01\x00\x00\x00\x00\xfd\xfc", 8, "999999999\1"}, /* too large */
    {"\x05\x01\x00\x00\x00\x00\xfd\xfc", 8, "01\1"},        /* no number that counts up */
    {"\x04\x00\x01\x00\x00\x00\xfd\xfc", 8, "1\1"},         /* nor is a counted token */
    {"\x00\x00\x00\xfd\x00", 5, ""},                        /* too many pairs */
    {"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00\x00", 14, ""},
};

START_TEST(test_damaged)
{
    struct names made;

    ck_assert_int_eq(decode((struct bytes){(const uint8_t *)damaged[_i].codes, damaged[_i].size},
                            damaged[_i].dictionary, &made),
                     RESULT_UNFIT);
    names_free(&made);
}
END_TEST

/* Claims of all sizes, also of those that leave no room behind the text. */
START_TEST(test_longer_than_it_says)
{
    static const char dictionary[] = "a word that is longer than what is copied at once\1";

    for (uint8_t size = 0; size < 128; size++) {
        const uint8_t codes[] = {size, 1, 0, 0, 0, 0, 0, 0, TOKEN_CODE_END};
        struct names made;

        ck_assert_int_eq(decode((struct bytes){codes, sizeof(codes)}, dictionary, &made),
                         RESULT_UNFIT);
        names_free(&made);
    }
}
END_TEST

/* ---- both sides ---- */

static void comes_back(const struct buffer *text, enum token_rule rule)
{
    struct buffer codes = {0}, dictionary = {0};
    struct names again;

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
    names_free(&again);
    buffer_free(&codes);
    buffer_free(&dictionary);
}

static void put_random_identifier(struct random_state *random, struct buffer *text, uint64_t most)
{
    char identifier[80], name[100];
    uint64_t number = random_below(random, most);
    int size = snprintf(identifier, sizeof(identifier), "%s%.*s%llu",
                        number % 3 == 0 ? "Some_" : "any", (int)(number % 40),
                        "ThingsAreCalledForWhatTheyAreAndNotForLess", (unsigned long long)number);

    /* Sometimes the number is wrong. */
    size += random_below(random, 20) == 0 ? (int)random_below(random, 5) - 2 : 0;
    snprintf(name, sizeof(name), "%d%s", size, identifier);
    append(text, name);
}

/* What mangled names are made of, with few or many identifiers, and what they are not. */
static struct buffer random_names(struct random_state *random, size_t count)
{
    static const char *const streams[] = {"_ZN", "E",   "S_",   "S1_", "SA_", "St", "T_",  "Lm",
                                          "I",   "RKc", "C2Ev", "9",   "10",  "11", "_RN", "Cs12_"};
    uint64_t identifiers = (uint64_t)1 << random_below(random, 18);
    struct buffer text = {0};

    for (size_t i = 0; i < count; i++) {
        uint64_t kind = random_below(random, 10);

        if (kind == 0)
            append(&text, "file.cc:");
        if (kind < 8)
            append(&text, kind == 7 ? "_RN" : "_ZN");
        for (uint64_t left = random_below(random, 20); left > 0; left--) {
            if (random_below(random, 3) == 0)
                put_random_identifier(random, &text, identifiers);
            else
                append(&text, streams[random_below(random, sizeof(streams) / sizeof(streams[0]))]);
            if (random_below(random, 200) == 0) {
                uint8_t byte = (uint8_t)random_next(random);
                ck_assert(byte == 1 || buffer_append(&text, &byte, 1));
            }
        }
        append(&text, "\1");
    }
    return text;
}

START_TEST(test_comes_back)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct random_state random = random_start(seed);
        struct buffer text = random_names(&random, (size_t)random_below(&random, 300));

        comes_back(&text, TOKENS_OF_NAMES);
        comes_back(&text, TOKENS_OF_WORDS);
        buffer_free(&text);
    }
}
END_TEST

/* More tokens than codes of two bytes have place for, none or many of them frequent. */
START_TEST(test_many_tokens)
{
    struct buffer text = {0};
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
    buffer_free(&text);
}
END_TEST

START_TEST(test_small_texts)
{
    static const char *const texts[] = {
        "", "\1", "\1\1\1", "a\1", "_Z\1", "1\0012\1", "_Z9\1", "999999998x999999999y1000000000\1"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buffer text = {0};

        append(&text, texts[i]);
        comes_back(&text, TOKENS_OF_NAMES);
        comes_back(&text, TOKENS_OF_WORDS);
        buffer_free(&text);
    }
}
END_TEST

/* Numbers that count up take no place in the dictionary. */
START_TEST(test_numbers_count_up)
{
    struct buffer text = {0}, codes = {0}, dictionary = {0};
    char number[16];

    append(&text, "_ZN1aI");
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(number, sizeof(number), "Lm%uE", i);
        append(&text, number);
    }
    append(&text, "\1");
    ck_assert_int_eq(token_text_encode(buffer_view(&text), TOKENS_OF_NAMES, &codes, &dictionary),
                     RESULT_OK);
    ck_assert_uint_lt(dictionary.size, 30);
    comes_back(&text, TOKENS_OF_NAMES);
    buffer_free(&text);
    buffer_free(&codes);
    buffer_free(&dictionary);
}
END_TEST

/* ---- damage ---- */

static void damage(struct random_state *random, struct buffer *part)
{
    if (random_below(random, 4) == 0)
        part->size = (size_t)random_below(random, part->size + 1);
    for (uint64_t i = random_below(random, 4); part->size != 0 && i > 0; i--)
        part->data[random_below(random, part->size)] =
            random_below(random, 2) == 0 ? (uint8_t)(250 + random_below(random, 6))
                                         : (uint8_t)random_next(random);
}

START_TEST(test_changed_parts)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct random_state random = random_start(seed);
        struct buffer text = random_names(&random, 1 + (size_t)random_below(&random, 20));
        struct buffer streams[NAME_TEXT_STREAMS] = {0};
        struct names names;

        ck_assert_int_eq(name_text_encode(buffer_view(&text), streams), RESULT_OK);
        damage(&random, &streams[random_below(&random, NAME_TEXT_STREAMS)]);
        name_text_decode(streams, ANY_SIZE, UINT64_MAX, &names);
        names_free(&names);
        for (size_t i = 0; i < NAME_TEXT_STREAMS; i++)
            buffer_free(&streams[i]);
        buffer_free(&text);
    }
}
END_TEST

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
        struct names names;

        ck_assert_int_eq(name_text_decode(streams, sections[i].section_size, UINT64_MAX, &names),
                         sections[i].result);
        names_free(&names);
    }
    for (size_t i = 0; i < NAME_TEXT_STREAMS; i++)
        buffer_free(&streams[i]);
    buffer_free(&text);
}
END_TEST

/* Neither the form of the streams nor how names are cut changes unnoticed. */
START_TEST(test_form_stays)
{
    struct digest_stream stream;
    struct digest digest;
    char text[DIGEST_HEX_MAX];

    digest_stream_start(&stream);
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct random_state random = random_start(seed);
        struct buffer names = random_names(&random, 200), streams[NAME_TEXT_STREAMS] = {0};

        ck_assert_int_eq(name_text_encode(buffer_view(&names), streams), RESULT_OK);
        for (size_t i = 0; i < NAME_TEXT_STREAMS; i++) {
            digest_stream_add(&stream, buffer_view(&streams[i]));
            buffer_free(&streams[i]);
        }
        buffer_free(&names);
    }
    digest = digest_stream_finish(&stream);
    ck_assert_str_eq(digest_format(&digest, text), "3d72fea11ce92554b407228d8d8a726c");
}
END_TEST

int main(void)
{
    TCase *forms = tcase_create("forms");
    suite_loops(forms, sizeof(cuts) / sizeof(cuts[0]), test_cut);
    tcase_add_test(forms, test_read_as_told);
    suite_loops(forms, 2, test_dictionary_ends);
    tcase_add_test(forms, test_triples);
    suite_loops(forms, sizeof(damaged) / sizeof(damaged[0]), test_damaged);
    suite_tests(forms, test_longer_than_it_says, test_form_stays);
    TCase *texts = suite_case("texts", 300, NULL);
    tcase_add_test(texts, test_comes_back);
    suite_loops(texts, 2, test_many_tokens);
    suite_tests(texts, test_small_texts, test_numbers_count_up, test_changed_parts,
                test_out_of_proportion, test_out_of_proportion_to_section);
    return suite_main("token text", forms, texts);
}
