/*
 * Sections that claim more than they can hold. zstd takes next to nothing for many like bytes, and
 * a member of a list takes a byte or two, whatever size its name has. So what comes of them is in
 * proportion to the size that the section claims, and refused before there is room for more.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/mapping/mapping.h"
#include "common/codec/name_lists.h"
#include "common/codec/names/names.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"
#include "tests/support/suite.h"

static const struct transform_context context = {
    .pointer_size = 8, .raw_version = 10, .threads = 2};

/* ---- streams ---- */

static const struct {
    enum section_kind kind;
    size_t part; /* of bytes as they are */
    unsigned times;
} limits[] = {
    {SECTION_NAMES, 6, 64},
    {SECTION_DATA, 9, 16},
    {SECTION_COVMAP, 4, 64},
    {SECTION_COVFUN, STREAM_RAW_MAPPINGS, 16},
};

/* Zeros take next to nothing in a sidecar, so streams that are larger than a section can make them
 * are refused before there is room for them. */
START_TEST(test_claimed_parts)
{
    const struct codec_options options = {.level = 3, .threads = 1};
    const uint64_t size = UINT64_C(1) << 18;

    for (unsigned more = 0; more <= 1; more++) {
        FREED_BY(streams_free) struct streams streams = {.count = limits[_i].part + 1};
        FREED_BY(buffer_free) struct buffer packed = {0}, again = {0};
        struct error error = {0};

        ck_assert(buffer_append_zeros(&streams.stream[limits[_i].part],
                                      (size_t)(limits[_i].times * size + more)));
        ck_assert(streams_compress(&streams, &options, "sample", &packed, &error));
        ck_assert(
            !codec_decode(transform_for(limits[_i].kind, false), &context,
                          &(struct encoded){buffer_view(&packed), size, "sample", "the section"},
                          &again, &error));
        ck_assert_int_eq(strstr(error.message, "parts are inconsistent") != NULL, more);
    }
}
END_TEST

static bool unpack_two(const struct encoded *packed, uint64_t wanted, struct streams_limits most,
                       struct error *error)
{
    FREED_BY(streams_free) struct streams streams = {0};

    return streams_decompress(packed, wanted, &most, &streams, error);
}

/* The limit is for those that are unpacked, taken together, before any of them is. */
START_TEST(test_memory_of_streams)
{
    static const struct {
        uint64_t wanted;
        struct streams_limits limits;
        const char *message; /* NULL: they are unpacked */
    } rows[] = {
        {3, {100000, 100000}, NULL},
        {1, {100000, 60000}, NULL},
        {3, {100000, 99999}, "--memory-limit"},
        {1, {100000, 59999}, "--memory-limit"},
        {1, {99999, 100000}, "damaged"},
    };
    const struct codec_options options = {.level = 3};
    FREED_BY(streams_free) struct streams streams = {.count = 2};
    FREED_BY(buffer_free) struct buffer stored = {0};
    struct error error = {0};

    ck_assert(buffer_append_zeros(&streams.stream[0], 60000));
    ck_assert(buffer_append_zeros(&streams.stream[1], 40000));
    ck_assert(streams_compress(&streams, &options, "sample", &stored, &error));
    ck_assert_uint_lt(stored.size, 1000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct encoded packed = {buffer_view(&stored), 100000, "sample", "the section"};
        bool done = unpack_two(&packed, rows[i].wanted, rows[i].limits, &error);

        ck_assert(done == (rows[i].message == NULL));
        ck_assert(done || strstr(error.message, rows[i].message) != NULL);
    }
}
END_TEST

/* ---- lists of names ---- */

#define NAME_SIZE    1000
#define MEMBERS      200000

#define EMPTY_TOKENS ((size_t)8 << 20)

/* What the members' names are less than. */
#define TEXTS_MIB 190

/* Where a part of each transform is. */
struct places {
    const struct transform *transform;
    size_t count;
    size_t kinds;
    size_t others;
    size_t numbers;
};

static const struct places names_places = {&names_transform, 7, 3, 4, 5};
static const struct places covmap_places = {&filenames_transform, 5, 1, 2, 3};

static void append(struct buffer *buffer, uint64_t number)
{
    ck_assert(buffer_append_uleb128(buffer, number));
}

/* Parts with one name. */
static struct streams start_parts(const struct places *places)
{
    struct streams streams = {.count = places->count};
    struct buffer text = {0};

    ck_assert(buffer_append_zeros(&text, NAME_SIZE + 1));
    memset(text.data, 'n', NAME_SIZE);
    text.data[NAME_SIZE] = 1;
    if (places == &names_places) {
        ck_assert_int_eq(name_text_encode(buffer_view(&text), streams.stream), RESULT_OK);
        buffer_free(&text);
    } else {
        streams.stream[0] = text;
    }
    append(&streams.stream[places->numbers], 2); /* bytes of a number */
    return streams;
}

/* One list of many members: the first one is new, the others are the first one again. */
static struct streams long_list(const struct places *places)
{
    struct streams streams = start_parts(places);
    struct buffer *numbers = &streams.stream[places->numbers];

    append(numbers, 1);
    if (places == &covmap_places) {
        append(numbers, 0); /* NRecords */
        append(numbers, 0); /* CoverageSize */
        append(numbers, 6); /* Version */
    }
    append(numbers, ZLIB_FORM_NONE);
    append(numbers, MEMBERS);
    ck_assert(buffer_append_zeros(&streams.stream[places->kinds], MEMBERS));
    memset(streams.stream[places->kinds].data + 1, NAME_NUMBERED, MEMBERS - 1);
    ck_assert(buffer_append_zeros(&streams.stream[places->others], 2 * (MEMBERS - 1)));
    return streams;
}

/* Many chunks with the name that is expected in each. */
static struct streams many_chunks(size_t count)
{
    struct streams streams = start_parts(&names_places);
    struct buffer *numbers = &streams.stream[names_places.numbers];

    append(numbers, count);
    for (size_t i = 0; i < count; i++) {
        append(numbers, ZLIB_FORM_NONE);
        append(numbers, 1);
    }
    ck_assert(buffer_append_zeros(&streams.stream[names_places.kinds], count));
    return streams;
}

static long peak_kib(void)
{
    struct rusage usage;

    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* Decodes the streams as those of a section of `size` bytes, and frees them. */
static void check_refused(const struct places *places, struct streams *streams, uint64_t size)
{
    FREED_BY(buffer_free) struct buffer section = {0};
    long before = peak_kib();

    ck_assert_int_eq(places->transform->decode(&context, streams, size, &section), RESULT_UNFIT);
    ck_assert_int_lt(peak_kib() - before, TEXTS_MIB * 1024 / 2);
    streams_free(streams);
}

START_TEST(test_long_list_of_names)
{
    struct streams streams = long_list(&names_places);

    check_refused(&names_places, &streams, 10000);
}
END_TEST

START_TEST(test_long_list_of_files)
{
    struct streams streams = long_list(&covmap_places);

    check_refused(&covmap_places, &streams, 10000);
}
END_TEST

/* Such chunks could be as small as they claim to be, if they were compressed. */
START_TEST(test_many_chunks)
{
    struct streams streams = many_chunks(MEMBERS);

    check_refused(&names_places, &streams, 1000000);
}
END_TEST

/* Tokens without a text, each of which comes once. */
START_TEST(test_empty_tokens)
{
    const uint8_t no_text[] = {0, 0, 0, 0, 0};
    struct streams streams = {.count = names_places.count};
    struct buffer *codes = &streams.stream[NAME_TEXT_WORD_CODES];
    struct buffer *words = &streams.stream[NAME_TEXT_WORDS];

    ck_assert(buffer_append(codes, no_text, sizeof(no_text)) &&
              buffer_append_zeros(codes, EMPTY_TOKENS) && buffer_append_zeros(words, EMPTY_TOKENS));
    memset(codes->data + sizeof(no_text), TOKEN_CODE_NEW_PLAIN, EMPTY_TOKENS);
    memset(words->data, NAME_SEPARATOR, EMPTY_TOKENS);
    check_refused(&names_places, &streams, EMPTY_TOKENS / 32);
}
END_TEST

/* The same is what it claims to be, and comes. */
START_TEST(test_true_claims)
{
    const size_t count = 1000;
    const uint64_t size = (uint64_t)count * (NAME_SIZE + 3);
    FREED_BY(streams_free) struct streams streams = many_chunks(count);
    FREED_BY(buffer_free) struct buffer section = {0};

    ck_assert_int_eq(names_transform.decode(&context, &streams, size, &section), RESULT_OK);
    ck_assert_uint_eq(section.size, size);
    ck_assert_mem_eq(section.data + size - 4, "nnnn", 4);
}
END_TEST

/* ---- memory of a writer ---- */

/* Chunks of names are inflated a few at a time. */
START_TEST(test_memory_of_chunks)
{
    const size_t count = 128, text_size = 512 * (NAME_SIZE + 1) - 1;
    FREED_BY(buffer_free) struct buffer text = {0}, stream = {0}, section = {0};
    FREED_BY(streams_free) struct streams streams = {0};
    long before;

    ck_assert(buffer_append_zeros(&text, text_size));
    memset(text.data, 'n', text_size);
    for (size_t i = NAME_SIZE; i < text_size; i += NAME_SIZE + 1)
        text.data[i] = NAME_SEPARATOR;
    ck_assert_int_eq(recompress(buffer_view(&text), ZLIB_FORM_BEST, UINT64_MAX, &stream),
                     RESULT_OK);
    for (size_t i = 0; i < count; i++) {
        append(&section, text_size);
        append(&section, stream.size);
        ck_assert(buffer_append(&section, stream.data, stream.size));
    }
    before = peak_kib();
    ck_assert_int_eq(names_transform.encode(&context, buffer_view(&section), &streams), RESULT_OK);
    if (!IS_SANITIZED)
        ck_assert_int_lt(peak_kib() - before, (long)(count * text_size / 1024 / 2));
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);
    suite_loops(all, sizeof(limits) / sizeof(limits[0]), test_claimed_parts);
    suite_tests(all, test_memory_of_streams, test_long_list_of_names, test_long_list_of_files,
                test_many_chunks, test_empty_tokens, test_true_claims, test_memory_of_chunks);
    return suite_main("claims", all);
}
