/*
 * The form of the coverage mapping of functions: how special mappings are told, and which are not
 * taken apart. That random mappings come back is shown by the fuzz targets.
 */
#include <stdlib.h>
#include <string.h>

#include "common/codec/codec.h"
#include "common/codec/mapping/mapping.h"
#include "common/llvm/coverage.h"
#include "tests/support/suite.h"

/* A section that needs no others. */
struct subject {
    const struct transform *transform;
    struct transform_context context;
    struct buffer section;
};

static void free_subject(struct subject *subject)
{
    buffer_free(&subject->section);
}

/* In its compact form. */
static bool comes_back(const struct subject *subject)
{
    const struct codec_options options = {.level = 3, .threads = 2};
    FREED_BY(buffer_free) struct buffer packed = {0}, again = {0};
    struct error error = {0};
    bool fits;

    ck_assert_msg(codec_encode(subject->transform, &subject->context,
                               buffer_view(&subject->section), &options, "sample", &packed, &fits,
                               &error),
                  "%s", error.message);
    if (fits) {
        ck_assert_msg(codec_decode(subject->transform, &subject->context,
                                   &(struct encoded){buffer_view(&packed), subject->section.size,
                                                     "sample", "the section"},
                                   &again, &error),
                      "%s", error.message);
        ck_assert_uint_eq(again.size, subject->section.size);
        ck_assert_mem_eq(again.data, subject->section.data, again.size);
    }
    return fits;
}

/* For sections that are too small to be worth it, and larger than tests like. Changes the streams.
 */
static bool parts_come_back(const struct subject *subject, struct streams *streams)
{
    FREED_BY(buffer_free) struct buffer again = {0};

    return subject->transform->decode(&subject->context, streams, subject->section.size, &again) ==
               RESULT_OK &&
           again.size == subject->section.size &&
           memcmp(again.data, subject->section.data, again.size) == 0;
}

/* A record whose mapping has files with `count` regions each, all of them zero regions. */
static struct buffer make_zero_regions(uint32_t files, uint32_t count)
{
    static const uint8_t region[] = {0, 1, 1, 1, 1};
    struct buffer section = {0};

    ck_assert(buffer_append_zeros(&section, 28));
    ck_assert(buffer_append_uleb128(&section, files));
    for (uint32_t file = 0; file <= files; file++) /* and no expressions */
        ck_assert(buffer_append_uleb128(&section, 0));
    for (uint32_t file = 0; file < files; file++) {
        ck_assert(buffer_append_uleb128(&section, count));
        for (uint32_t i = 0; i < count; i++)
            ck_assert(buffer_append(&section, region, sizeof(region)));
    }
    store_u32(section.data + 8, (uint32_t)section.size - 28, false);
    return section;
}

/* What would need more memory than its bytes are worth is stored as it is. */
START_TEST(test_many_regions)
{
    for (uint32_t count = MAPPING_COUNT_MAX / 2; count <= MAPPING_COUNT_MAX / 2 + 1; count++) {
        FREED_BY(free_subject)
        struct subject subject = {.transform = transform_for(SECTION_COVFUN, false),
                                  .context = {.pointer_size = 8, .raw_version = 10},
                                  .section = make_zero_regions(2, count)};
        FREED_BY(streams_free) struct streams streams = {0};

        ck_assert_int_eq(
            subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
            RESULT_OK);
        ck_assert_int_eq(streams.stream[STREAM_RAW_MAPPINGS].size != 0,
                         count > MAPPING_COUNT_MAX / 2);
        ck_assert(comes_back(&subject));
    }
}
END_TEST

/* And what is stored as if it were not so large is damaged: here a known shape in each of many
 * files, which costs next to nothing. Fewer files come back. */
START_TEST(test_claimed_regions)
{
    static const unsigned more[] = {200, 3000};
    FREED_BY(free_subject)
    struct subject subject = {.transform = transform_for(SECTION_COVFUN, false),
                              .context = {.pointer_size = 8, .raw_version = 10},
                              .section = make_zero_regions(3, 1000)};

    for (unsigned i = 0; i < 2; i++) {
        FREED_BY(buffer_free)
        struct buffer grown = make_zero_regions(3 + more[0], 1000), again = {0};
        FREED_BY(streams_free) struct streams streams = {0};
        enum result result;

        ck_assert_int_eq(
            subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
            RESULT_OK);
        ck_assert_uint_eq(streams.stream[STREAM_FILE_COUNTS].size, 1);
        ck_assert_uint_eq(streams.stream[STREAM_FILES].size, 3);
        ck_assert_uint_eq(streams.stream[STREAM_TEMPLATE_CODES].size, 2);
        streams.stream[STREAM_FILE_COUNTS].size = 0;
        ck_assert(buffer_append_uleb128(&streams.stream[STREAM_FILE_COUNTS], 4 + more[i]));
        ck_assert(buffer_append_zeros(&streams.stream[STREAM_FILES], more[i]));
        for (unsigned k = 0; k < more[i]; k++)
            ck_assert(buffer_append(&streams.stream[STREAM_TEMPLATE_CODES], "\2", 1));
        result = subject.transform->decode(&subject.context, &streams,
                                           i == 0 ? grown.size : UINT64_C(100) << 20, &again);
        if (i == 0) {
            ck_assert_int_eq(result, RESULT_OK);
            ck_assert_uint_eq(again.size, grown.size);
            ck_assert_mem_eq(again.data, grown.data, grown.size);
        } else {
            ck_assert_int_eq(result, RESULT_UNFIT);
            ck_assert_uint_lt(again.size, 1000);
        }
    }
}
END_TEST

/* Appends a record of covfun without a name that is known. */
static void add_record(struct buffer *section, uint64_t name_ref, struct bytes mapping)
{
    size_t start = section->size;

    ck_assert(buffer_append_zeros(section, 28));
    ck_assert(buffer_append(section, mapping.data, (size_t)mapping.size));
    ck_assert(buffer_append_zeros(section, (size_t)(align_up(section->size, 8) - section->size)));
    store_u64(section->data + start, name_ref, false);
    store_u32(section->data + start + 8, (uint32_t)mapping.size, false);
}

/* Lines that add up to more than 32 bits start again from 0. The page says so, for what else is
 * told of them. */
START_TEST(test_lines_start_again)
{
    /* A file, no expressions, and regions of counter 0: all but the first start, or end, many lines
     * behind the one before. */
    static const uint8_t lines[] = {1,    5,    0,    3,    1,    0,  0, 0,    0,
                                    1,    0xfe, 0xff, 0xff, 0xff, 15, 2, 0xff, 0xff,
                                    0xff, 0xff, 15,   9,    1,    4,  1, 1,    9};
    FREED_BY(free_subject)
    struct subject subject = {.transform = transform_for(SECTION_COVFUN, false),
                              .context = {.pointer_size = 8, .raw_version = 10}};
    FREED_BY(streams_free) struct streams streams = {0};

    add_record(&subject.section, 1, (struct bytes){lines, sizeof(lines)});
    ck_assert_int_eq(
        subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
        RESULT_OK);
    ck_assert_uint_eq(streams.stream[STREAM_RAW_MAPPINGS].size, 0);
    ck_assert(parts_come_back(&subject, &streams));
}
END_TEST

/* A size that is missing is not taken for 0. */
START_TEST(test_missing_size)
{
    FREED_BY(free_subject)
    struct subject subject = {transform_for(SECTION_COVFUN, false), {.pointer_size = 8}, {0}};
    FREED_BY(streams_free) struct streams streams = {.count = 0};
    struct buffer *codes = &streams.stream[STREAM_MAPPING_CODES], again = {0};

    ck_assert(buffer_append_zeros(&subject.section, 28)); /* a record with an empty mapping */
    ck_assert_int_eq(
        subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
        RESULT_OK);
    ck_assert_uint_eq(codes->size, 2);
    ck_assert(parts_come_back(&subject, &streams));
    codes->size = 1;
    ck_assert_int_eq(subject.transform->decode(&subject.context, &streams, 28, &again),
                     RESULT_UNFIT);
    buffer_free(&again);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("mappings", 60, NULL);
    suite_tests(test_case, test_many_regions, test_claimed_regions, test_missing_size,
                test_lines_start_again);
    return suite_main("covfun form", test_case);
}
