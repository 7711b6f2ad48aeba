/*
 * zlib streams made again: the same bytes as zlib's own, over all that decides which they are: the
 * window's end, the ends of blocks, each kind of block, codes that come out too long, short and
 * empty inputs.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/digest.h"
#include "common/codec/deflate/deflate.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

static const struct {
    enum zlib_form form;
    int level;
} levels[] = {{ZLIB_FORM_DEFAULT, 6}, {ZLIB_FORM_BEST, 9}};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static void check_level(struct bytes text, enum zlib_form form, int level)
{
    uLongf size = compressBound((uLong)text.size);
    FREED_BY(buffer_free) struct buffer expected = {0}, again = {0};
    enum zlib_form told;

    ck_assert(buffer_reserve(&expected, size));
    ck_assert_int_eq(compress2(expected.data, &size, text.data, (uLong)text.size, level), Z_OK);
    expected.size = size;
    ck_assert_int_eq(recompress(text, form, size, &again), RESULT_OK);
    ck_assert_uint_eq(again.size, expected.size);
    ck_assert_mem_eq(again.data, expected.data, expected.size);
    ck_assert(recompress_form(buffer_view(&again), &told));
    ck_assert_int_eq(told, form);
}

/* zlib reads what the quick search makes. */
static void check_quick(struct bytes text)
{
    FREED_BY(buffer_free) struct buffer stream = {0}, found = {0};
    uLongf size = (uLong)text.size;

    ck_assert(buffer_append(&stream, "before", 6));
    ck_assert_int_eq(quick_compress(text, &stream), RESULT_OK);
    ck_assert_mem_eq(stream.data, "before", 6);
    ck_assert(buffer_reserve(&found, size + 1));
    ck_assert_int_eq(uncompress(found.data, &size, stream.data + 6, stream.size - 6), Z_OK);
    found.size = size;
    ck_assert(bytes_equal(buffer_view(&found), text));
}

static void check_text(struct bytes text)
{
    check_quick(text);
    for (size_t i = 0; i < LEVELS; i++)
        check_level(text, levels[i].form, levels[i].level);
}

START_TEST(test_short)
{
    static const uint8_t text[] = "aaaaaaaaaaabcabcabcabcdabcdeabcdefabcdefg";

    for (size_t size = 0; size < sizeof(text); size++)
        check_text((struct bytes){text, size});
}
END_TEST

/* Random texts of a small or large alphabet, with copies of what was before, near and far. */
static struct buffer random_text(struct random_state *random, size_t size)
{
    uint64_t alphabet = 1 + random_below(random, (uint64_t)1 << random_below(random, 9));
    uint64_t copies = random_below(random, 5);
    struct buffer text = {0};

    ck_assert(buffer_append_zeros(&text, size));
    for (size_t i = 0; i < size;) {
        uint64_t distance, length;

        if (i < 4 || random_below(random, 4) >= copies) {
            text.data[i++] = (uint8_t)random_below(random, alphabet);
            continue;
        }
        distance = 1 + random_below(random, random_below(random, 2) == 0 || i < 99 ? i : 99);
        length = 1 + random_below(random, 400);
        for (; length != 0 && i < size; length--, i++)
            text.data[i] = text.data[i - distance];
    }
    return text;
}

/* Sidecars rely on it that the quick search always makes these bytes. */
START_TEST(test_quick_is_fixed)
{
    struct random_state random = random_start(1);
    FREED_BY(buffer_free) struct buffer stream = {0};

    for (size_t size = 1; size <= 1000000; size *= 10) {
        FREED_BY(buffer_free) struct buffer text = random_text(&random, size);

        ck_assert_int_eq(quick_compress(buffer_view(&text), &stream), RESULT_OK);
    }
    ck_assert_uint_eq(stream.size, 86433);
    ck_assert_uint_eq(md5_name_reference(buffer_view(&stream)), UINT64_C(10917280586848020131));
}
END_TEST

START_TEST(test_random)
{
    struct random_state random = random_start(100 + (uint64_t)_i);

    for (int i = 0; i < 60; i++) {
        size_t limit = i % 10 == 0 ? 300000 : 3000;
        FREED_BY(buffer_free)
        struct buffer text = random_text(&random, (size_t)random_below(&random, limit));

        check_text(buffer_view(&text));
    }
}
END_TEST

/* Frequencies like Fibonacci's numbers make the longest codes there are. */
START_TEST(test_long_codes)
{
    struct random_state random = random_start(1);
    FREED_BY(buffer_free) struct buffer text = {0};
    size_t before = 1, count = 1;

    for (int symbol = 0; symbol < 21; symbol++) {
        size_t next = before + count;

        for (size_t i = 0; i < count; i++)
            ck_assert(buffer_append(&text, &(uint8_t){(uint8_t)symbol}, 1));
        before = count;
        count = next;
    }
    for (size_t i = text.size; i > 1; i--) {
        size_t other = (size_t)random_below(&random, i);
        uint8_t byte = text.data[i - 1];

        text.data[i - 1] = text.data[other];
        text.data[other] = byte;
    }
    for (size_t size = text.size; size > 8000; size -= 1000)
        check_text((struct bytes){text.data, size});
}
END_TEST

/* A copy just as far away as zlib reaches, and one further, wherever the window starts. */
START_TEST(test_reach)
{
    struct random_state random = random_start(7);
    FREED_BY(buffer_free) struct buffer text = {0};

    ck_assert(buffer_append_zeros(&text, 200000));
    for (size_t i = 0; i < text.size; i++)
        text.data[i] = (uint8_t)random_next(&random);
    for (size_t start = 0; start < 140000; start += start < 70000 ? 32768 : 9973) {
        for (size_t distance = 32504; distance < 32509; distance++) {
            FREED_BY(buffer_free) struct buffer copied = {0};

            ck_assert(buffer_append(&copied, text.data, text.size));
            memcpy(copied.data + start + distance, copied.data + start, 20);
            check_text(buffer_view(&copied));
        }
    }
}
END_TEST

/* Bytes of which zlib's hash sees next to nothing: chains are so long that it does not go to their
 * ends, for short matches and for those behind long ones. */
START_TEST(test_long_chains)
{
    struct random_state random = random_start(9);

    for (unsigned bits = 1; bits <= 3; bits++) {
        FREED_BY(buffer_free) struct buffer text = {0};

        ck_assert(buffer_append_zeros(&text, 100000));
        for (size_t i = 0; i < text.size; i++)
            text.data[i] = (uint8_t)(random_below(&random, UINT64_C(1) << bits) << 5);
        for (size_t i = 40000; i + 300 < text.size; i += 500)
            memcpy(text.data + i, text.data + random_below(&random, i - 300),
                   (size_t)random_below(&random, 300));
        check_text(buffer_view(&text));
    }
}
END_TEST

START_TEST(test_other_streams)
{
    static const uint8_t fastest[] = {0x78, 0x01, 3, 0}, gzip[] = {0x1f, 0x8b, 8, 0};
    struct buffer stream = {0};
    enum zlib_form form;

    ck_assert(!recompress_form((struct bytes){fastest, sizeof(fastest)}, &form));
    ck_assert(!recompress_form((struct bytes){gzip, sizeof(gzip)}, &form));
    ck_assert(!recompress_form((struct bytes){fastest, 1}, &form));
    ck_assert_int_eq(
        recompress((struct bytes){fastest, DEFLATE_SIZE_MAX}, ZLIB_FORM_BEST, 99, &stream),
        RESULT_UNFIT);
    ck_assert_uint_eq(stream.size, 0);
}
END_TEST

/* What is too large stops soon, wherever the limit is, and is the same up to there. */
START_TEST(test_limit)
{
    struct random_state random = random_start(11);
    FREED_BY(buffer_free) struct buffer text = {0}, whole = {0};

    ck_assert(buffer_append_zeros(&text, 1000000));
    for (size_t i = 0; i < text.size; i++)
        text.data[i] = (uint8_t)random_next(&random);
    ck_assert(buffer_append(&whole, "before", 6));
    ck_assert_int_eq(recompress(buffer_view(&text), ZLIB_FORM_BEST, UINT64_MAX, &whole), RESULT_OK);
    for (uint64_t less = 1; less < 2000000; less *= 7) {
        uint64_t size = whole.size - 6, most = less < size ? size - less : 0;
        FREED_BY(buffer_free) struct buffer stream = {0};

        ck_assert(buffer_append(&stream, "before", 6));
        ck_assert_int_eq(recompress(buffer_view(&text), ZLIB_FORM_BEST, most, &stream),
                         RESULT_UNFIT);
        ck_assert_uint_le(stream.size, 6 + most + 100000);
        ck_assert_mem_eq(stream.data, whole.data, stream.size);
    }
}
END_TEST

/* What was proved is not made again, but only in the form in which it was proved. */
START_TEST(test_proved)
{
    struct bytes text = {(const uint8_t *)"some text", 9};
    struct buffer proved = {0}, streams[LEVELS] = {{0}};

    for (size_t i = 0; i < LEVELS; i++)
        ck_assert_int_eq(recompress(text, levels[i].form, UINT64_MAX, &streams[i]), RESULT_OK);
    zlib_text_prove(&proved, text, buffer_view(&streams[0]));
    for (size_t i = 0; i < LEVELS; i++) {
        FREED_BY(buffer_free) struct buffer again = {0};

        ck_assert_int_eq(
            zlib_text_recompress(&proved, 0, NULL, text, levels[i].form, UINT64_MAX, &again),
            RESULT_OK);
        ck_assert(bytes_equal(buffer_view(&again), buffer_view(&streams[i])));
    }
    for (size_t i = 0; i < LEVELS; i++)
        buffer_free(&streams[i]);
    buffer_free(&proved);
}
END_TEST

/* What was made is not made again, but only of the same text, and within the same limit. */
START_TEST(test_memo)
{
    struct bytes texts[] = {{(const uint8_t *)"some text", 9}, {(const uint8_t *)"another", 7}};
    FREED_BY(zlib_memo_free) struct zlib_memo memo = {.count = 0};

    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 2 * LEVELS; i++) {
            FREED_BY(buffer_free) struct buffer made = {0}, again = {0};
            enum zlib_form form = levels[i % LEVELS].form;

            ck_assert_int_eq(recompress(texts[i / LEVELS], form, UINT64_MAX, &made), RESULT_OK);
            ck_assert(buffer_append(&again, "x", 1));
            ck_assert_int_eq(zlib_text_recompress(&(struct buffer){0}, 0, &memo, texts[i / LEVELS],
                                                  form, made.size, &again),
                             RESULT_OK);
            ck_assert_uint_eq(memo.count, round == 0 ? i + 1 : 2 * LEVELS);
            ck_assert_uint_eq(again.size, made.size + 1);
            ck_assert_mem_eq(again.data + 1, made.data, made.size);
            ck_assert_int_eq(zlib_text_recompress(&(struct buffer){0}, 0, &memo, texts[i / LEVELS],
                                                  form, made.size - 1, &again),
                             RESULT_UNFIT);
        }
    }
}
END_TEST

int main(void)
{
    TCase *same = suite_case("same", 300, NULL);
    tcase_add_test(same, test_short);
    suite_loops(same, 8, test_random);
    suite_tests(same, test_long_codes, test_reach, test_long_chains, test_other_streams, test_limit,
                test_quick_is_fixed, test_proved, test_memo);
    return suite_main("zlib again", same);
}
