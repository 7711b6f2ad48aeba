/*
 * Decompressing zlib streams of a claimed size: texts that streams are hundreds of times smaller
 * than, claims that are a little off or absurd, streams that end early or have bytes behind them.
 */
#include <stdlib.h>
#include <zlib.h>

#include "common/base/inflate.h"
#include "tests/support/suite.h"

/* Sizes around those where the room for the text grows. */
static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 16384, 16385, 100000, 3000000};

#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static struct buffer text_of(size_t size)
{
    struct buffer text = {0};

    ck_assert(buffer_reserve(&text, size + 1) && buffer_append_zeros(&text, size));
    for (size_t i = 0; i < size; i += 1 + size / 3)
        text.data[i] = (uint8_t)(1 + i);
    return text;
}

static struct buffer stream_of(struct bytes text)
{
    uLongf size = compressBound((uLong)text.size);
    struct buffer stream = {0};

    ck_assert(buffer_reserve(&stream, size + 1));
    ck_assert_int_eq(compress(stream.data, &size, text.data, (uLong)text.size), Z_OK);
    stream.size = size;
    return stream;
}

static enum result inflate_claimed(struct bytes stream, uint64_t size)
{
    FREED_BY(buffer_free) struct buffer text = {0};
    enum result result = inflate_exactly(stream, size, &text);

    return result;
}

START_TEST(test_exact)
{
    FREED_BY(buffer_free)
    struct buffer text = text_of(sizes[_i]), stream = stream_of(buffer_view(&text)), found = {0};

    ck_assert(buffer_append(&found, "before", 6));
    ck_assert_int_eq(inflate_exactly(buffer_view(&stream), text.size, &found), RESULT_OK);
    ck_assert_uint_eq(found.size, 6 + text.size);
    ck_assert_mem_eq(found.data, "before", 6);
    if (text.size != 0)
        ck_assert_mem_eq(found.data + 6, text.data, text.size);
}
END_TEST

START_TEST(test_wrong)
{
    FREED_BY(buffer_free)
    struct buffer text = text_of(sizes[_i]), stream = stream_of(buffer_view(&text));
    struct bytes view = buffer_view(&stream);

    ck_assert_int_eq(inflate_claimed(view, text.size + 1), RESULT_UNFIT);
    ck_assert_int_eq(inflate_claimed(view, 20 * (uint64_t)text.size + 20), RESULT_UNFIT);
    ck_assert_int_eq(inflate_claimed(view, UINT64_MAX), RESULT_UNFIT);
    if (text.size != 0) {
        ck_assert_int_eq(inflate_claimed(view, text.size - 1), RESULT_UNFIT);
        ck_assert_int_eq(inflate_claimed(view, 0), RESULT_UNFIT);
    }
    stream.data[stream.size] = 0;
    ck_assert_int_eq(inflate_claimed((struct bytes){view.data, view.size + 1}, text.size),
                     RESULT_UNFIT);
    for (uint64_t size = 0; size < view.size; size++)
        ck_assert_int_eq(inflate_claimed((struct bytes){view.data, size}, text.size), RESULT_UNFIT);
    /* The sum of the text is at the end. */
    stream.data[stream.size - 1] ^= 1;
    ck_assert_int_eq(inflate_claimed(view, text.size), RESULT_UNFIT);
}
END_TEST

/* Nobody knows the dictionary. */
START_TEST(test_dictionary)
{
    static const char dictionary[] = "_ZN3foo3barEv", text[] = "_ZN3foo3barEv_ZN3foo3barEv";
    z_stream zlib = {.next_in = (Bytef *)(uintptr_t)text, .avail_in = sizeof(text)};
    uint8_t stream[100];

    ck_assert_int_eq(deflateInit(&zlib, Z_BEST_COMPRESSION), Z_OK);
    ck_assert_int_eq(deflateSetDictionary(&zlib, (const Bytef *)dictionary, sizeof(dictionary)),
                     Z_OK);
    zlib.next_out = stream;
    zlib.avail_out = sizeof(stream);
    ck_assert_int_eq(deflate(&zlib, Z_FINISH), Z_STREAM_END);
    ck_assert_int_eq(inflate_claimed((struct bytes){stream, zlib.total_out}, sizeof(text)),
                     RESULT_UNFIT);
    ck_assert_int_eq(inflate_claimed((struct bytes){stream, zlib.total_out}, 0), RESULT_UNFIT);
    deflateEnd(&zlib);
}
END_TEST

/* A claim as large as the stream could be costs no more than what really comes out. */
START_TEST(test_memory)
{
    FREED_BY(buffer_free)
    struct buffer text = text_of(100000), stream = stream_of(buffer_view(&text)), found = {0};

    ck_assert(buffer_append_zeros(&stream, 1000000));
    ck_assert_int_eq(inflate_exactly(buffer_view(&stream), UINT64_C(1) << 29, &found),
                     RESULT_UNFIT);
    ck_assert_uint_le(found.capacity, 64 * stream.size);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_loops(all, SIZES, test_exact, test_wrong);
    suite_tests(all, test_dictionary, test_memory);
    return suite_main("inflate", all);
}
