/*
 * Compression that does not depend on the number of threads, and decompression that believes
 * nothing.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/codec/zstd.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#define NAME "test"
#define WHAT "a section"

/* Half random, half repeating, so that it is neither stored as it is nor shrunk to nothing. */
static struct buffer make_source(size_t size, uint64_t seed)
{
    struct random_state random = random_start(seed);
    struct buffer source = {0};

    while (source.size < size) {
        uint8_t block[512];
        size_t part = size - source.size < sizeof(block) ? size - source.size : sizeof(block);

        for (size_t i = 0; i < sizeof(block) / 2; i++)
            block[i] = (uint8_t)random_next(&random);
        memset(block + sizeof(block) / 2, 'r', sizeof(block) / 2);
        ck_assert(buffer_append(&source, block, part));
    }
    return source;
}

static struct buffer compress(const struct buffer *source, int level, unsigned threads)
{
    const struct codec_options options = {.level = level, .threads = threads};
    struct buffer compressed = {0};
    struct error error = {0};

    ck_assert_msg(codec_compress(buffer_view(source), &options, NAME, &compressed, &error), "%s",
                  error.message);
    return compressed;
}

/* Opens, reads in parts of random size, finishes. */
static bool decompress(struct bytes compressed, uint64_t size, struct buffer *out, uint64_t seed)
{
    struct error error = {0};
    struct codec_stream *stream =
        codec_stream_open(&(struct encoded){compressed, size, NAME, WHAT}, &error);
    struct random_state random = random_start(seed);
    bool done = stream != NULL;

    while (done && size != 0) {
        size_t part = 1 + (size_t)random_below(&random, 300000);

        if (part > size)
            part = (size_t)size;
        size -= part;
        ck_assert(buffer_reserve(out, part));
        done = codec_stream_read(stream, out->data + out->size, part, &error);
        out->size += done ? part : 0;
    }
    done = done && codec_stream_finish(stream, &error);
    ck_assert(done || strncmp(error.message, NAME ": " WHAT " is damaged", 22) == 0);
    codec_stream_free(stream);
    return done;
}

static const size_t sizes[] = {0, 1, 100, 131072, 600000, (8 << 20) + 1, 20 << 20};

START_TEST(test_round_trip)
{
    FREED_BY(buffer_free) struct buffer source = make_source(sizes[_i], 1);
    const int levels[] = {1, 3, 9};

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        FREED_BY(buffer_free) struct buffer first = compress(&source, levels[i], 1), result = {0};
        const unsigned threads[] = {2, 4, 1000};

        for (size_t j = 0; j < sizeof(threads) / sizeof(threads[0]); j++) {
            FREED_BY(buffer_free) struct buffer again = compress(&source, levels[i], threads[j]);
            ck_assert(bytes_equal(buffer_view(&first), buffer_view(&again)));
        }
        ck_assert(decompress(buffer_view(&first), source.size, &result, 5));
        ck_assert(bytes_equal(buffer_view(&source), buffer_view(&result)));
    }
}
END_TEST

/* ---- damage ---- */

START_TEST(test_wrong_sizes)
{
    FREED_BY(buffer_free) struct buffer source = make_source(5000, 6);
    FREED_BY(buffer_free) struct buffer compressed = compress(&source, 3, 1);
    const uint64_t wrong[] = {0, 1, 4999, 5001, UINT64_C(1) << 40, UINT64_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        FREED_BY(buffer_free) struct buffer result = {0};
        ck_assert(!decompress(buffer_view(&compressed), wrong[i], &result, 7));
        ck_assert_uint_eq(result.size, 0);
    }
}
END_TEST

START_TEST(test_truncations)
{
    FREED_BY(buffer_free) struct buffer source = make_source(3000, 7), result = {0};
    FREED_BY(buffer_free) struct buffer compressed = compress(&source, 3, 1);

    for (size_t size = 0; size < compressed.size; size++) {
        ck_assert(!decompress((struct bytes){compressed.data, size}, source.size, &result, 8));
        result.size = 0;
    }
    ck_assert(buffer_append_zeros(&compressed, 1));
    ck_assert(!decompress(buffer_view(&compressed), source.size, &result, 8));
}
END_TEST

/* Two frames whose contents add up are not one. */
START_TEST(test_only_one_frame)
{
    FREED_BY(buffer_free) struct buffer source = make_source(3000, 8), result = {0};
    FREED_BY(buffer_free) struct buffer compressed = compress(&source, 3, 1);
    size_t size = compressed.size;

    ck_assert(buffer_reserve(&compressed, size));
    ck_assert(buffer_append(&compressed, compressed.data, size));
    ck_assert(!decompress(buffer_view(&compressed), source.size, &result, 9));
    result.size = 0;
    ck_assert(!decompress(buffer_view(&compressed), 2 * source.size, &result, 9));
}
END_TEST

/* A frame of five bytes 'a' that wants a window of so many bits, read one byte at a time: zstd
 * needs no window where it can decompress a frame in one go. */
static bool read_with_window(unsigned window_log)
{
    const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc0, (uint8_t)((window_log - 10) << 3),
                             5,    0,    0,    0,    0,    0,
                             0,    0,    0x2b, 0,    0,    'a'};
    struct error error = {0};
    struct codec_stream *stream =
        codec_stream_open(&(struct encoded){{frame, sizeof(frame)}, 5, NAME, WHAT}, &error);
    bool done = stream != NULL;
    char byte = 'a';

    for (unsigned i = 0; done && i < 5 && byte == 'a'; i++)
        done = codec_stream_read(stream, &byte, 1, &error);
    done = done && byte == 'a' && codec_stream_finish(stream, &error);
    codec_stream_free(stream);
    return done;
}

START_TEST(test_window_is_bounded)
{
    ck_assert(read_with_window(23));
    ck_assert(read_with_window(27));
    ck_assert(!read_with_window(28));
    ck_assert(!read_with_window(41));
}
END_TEST

/* ---- memory ---- */

#define LARGE ((size_t)64 << 20)

/* This process gets so much more memory, and no more. */
static void limit_memory(size_t more)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);

    const rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}), 0);
}

/* The decoder has the whole window in memory. If there is no room for that, the frame is not
 * damaged. */
START_TEST(test_no_memory_for_window)
{
    struct buffer source = {0}, compressed = {0};
    struct codec_stream *stream;
    struct error error = {0};
    uint8_t start[100];

    ck_assert(buffer_append_zeros(&source, LARGE));
    ck_assert(codec_compress_once(buffer_view(&source), 1, false, NAME, &compressed, &error));
    buffer_free(&source);
    stream =
        codec_stream_open(&(struct encoded){buffer_view(&compressed), LARGE, NAME, WHAT}, &error);
    ck_assert_ptr_nonnull(stream);
    if (!IS_SANITIZED) { /* whose shadow is larger than any limit */
        limit_memory(LARGE / 4);
        ck_assert(!codec_stream_read(stream, start, sizeof(start), &error));
        ck_assert_msg(error_is_of_memory(&error), "%s", error.message);
    }
    codec_stream_free(stream);
    buffer_free(&compressed);
}
END_TEST

/* What was compressed after a prefix comes back after that, even if either is empty, and not after
 * another one; and its bytes do not depend on what was compressed before. */
START_TEST(test_after_prefix)
{
    static const size_t lengths[] = {0, 1, 100, 70000};
    static const int levels[] = {1, 2, 9, 19};
    static const uint8_t magic[] = {0x37, 0xa4, 0x30, 0xec}; /* of zstd's dictionaries */
    const size_t count = sizeof(lengths) / sizeof(lengths[0]);
    FREED_BY(buffer_free) struct buffer text = {0};
    struct codec_prefix *kept = NULL;
    struct error error = {0};

    buffer_append(&text, magic, sizeof(magic));
    for (size_t i = 0; i < 2 * lengths[count - 1] + 50; i++)
        buffer_append(&text, &(uint8_t){(uint8_t)(i * i >> 7)}, 1);
    for (size_t i = 0; i < count * count; i++) {
        const struct bytes prefix = {text.data, lengths[i / count]};
        const struct bytes source = {text.data + 50, lengths[i % count]};
        FREED_BY(buffer_free) struct buffer both = {0}, compressed = {0}, alone = {0}, back = {0};
        struct codec_prefix *own = NULL;
        struct encoded frame;

        if (i % count == 0) {
            codec_prefix_free(kept);
            kept = NULL;
        }
        buffer_append(&both, prefix.data, prefix.size);
        buffer_append(&both, source.data, source.size);
        ck_assert(codec_compress_after(&kept, buffer_view(&both), prefix.size, levels[_i], NAME,
                                       &compressed, &error));
        ck_assert(codec_compress_after(&own, buffer_view(&both), prefix.size, levels[_i], NAME,
                                       &alone, &error));
        codec_prefix_free(own);
        ck_assert(bytes_equal(buffer_view(&compressed), buffer_view(&alone)));
        frame = (struct encoded){buffer_view(&compressed), source.size, NAME, WHAT};
        ck_assert_msg(codec_decompress_after(prefix, &frame, &back, &error), "%s", error.message);
        ck_assert(bytes_equal(buffer_view(&back), source));
        if (prefix.size > source.size && source.size >= 100) {
            ck_assert(!codec_decompress_after((struct bytes){text.data + 1, prefix.size}, &frame,
                                              &back, &error));
            ck_assert(!codec_decompress_after((struct bytes){0}, &frame, &back, &error));
            ck_assert_uint_eq(back.size, source.size);
        }
    }
    codec_prefix_free(kept);
}
END_TEST

int main(void)
{
    const int size_count = sizeof(sizes) / sizeof(sizes[0]);
    TCase *sound = suite_case("sound", 300, NULL);
    suite_loops(sound, size_count, test_round_trip);
    suite_loops(sound, 4, test_after_prefix);
    TCase *damage = suite_case("damage", 60, NULL);
    suite_tests(damage, test_wrong_sizes, test_truncations, test_only_one_frame);
    suite_tests(damage, test_window_is_bounded, test_no_memory_for_window);
    return suite_main("codec", sound, damage);
}
