/*
 * Packed units that nothing writes: what is damaged, larger than it may be, or not certain, is
 * refused. That units come back is shown by suites of packed objects, and by the fuzz targets.
 */
#include <string.h>

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/coverage.h"
#include "tests/support/suite.h"

#define MEMORY ((uint64_t)64 << 20)
/* Units with so many filenames each. */
#define LARGE_UNITS 64
#define LARGE_NAMES 20000

/* ---- units that nothing writes ---- */

/* The numbers in front of a unit, and its text, before it is compressed. */
enum {
    FRONT_FIRST,
    FRONT_FORM,
    FRONT_VERSION,
    FRONT_COUNT,
    FRONT_FILENAMES_SIZE,
    FRONT_TEXT_SIZE,
    FRONT_HEADS_SIZE,
    FRONTS,
};

#define TEXT_SIZE 14 /* a group, a size, a hash, the start of a mapping, and its rest */

struct crafted {
    uint64_t front[FRONTS];
    uint8_t text[TEXT_SIZE];
    size_t text_size;
    uint64_t limit;
};

static const struct crafted sound_unit = {
    .front = {0, 1, COVMAP_VERSION_4, 1, 3, TEXT_SIZE, 2},
    .text = {0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0},
    .text_size = TEXT_SIZE,
    .limit = MEMORY,
};

/* Reads the first `most` bytes behind the header. Sets *most to how many there are. */
static enum result read_crafted(const struct crafted *crafted, size_t *most)
{
    FREED_BY(packed_unit_free) struct packed_unit unit = {0};
    FREED_BY(buffer_free) struct buffer section = {0};
    enum result result;

    ck_assert(buffer_append_zeros(&section, COVMAP_HEADER_SIZE));
    for (size_t i = 0; i < FRONTS; i++)
        ck_assert(buffer_append_uleb128(&section, crafted->front[i]));
    ck_assert(buffer_append(&section, "abc", 3) && buffer_append(&section, "NameRef", 8));
    ck_assert_int_eq(quick_compress((struct bytes){crafted->text, crafted->text_size}, &section),
                     RESULT_OK);
    if (section.size - COVMAP_HEADER_SIZE > *most)
        section.size = COVMAP_HEADER_SIZE + *most;
    *most = section.size - COVMAP_HEADER_SIZE;
    store_u32(section.data + COVMAP_FILENAMES_SIZE, (uint32_t)*most, false);
    store_u32(section.data + COVMAP_VERSION, PACKED_UNIT_VERSION, false);
    result = packed_unit_read(&unit, buffer_view(&section), false, crafted->limit);
    return result;
}

/* One number is another: in front of the text, or a byte of it. */
static const struct {
    int front, byte; /* -1: not this */
    uint64_t value;
    enum result result;
} numbers[] = {
    {FRONT_FORM, -1, 1, RESULT_OK},
    {FRONT_FIRST, -1, 1, RESULT_UNFIT},
    {FRONT_FORM, -1, 2, RESULT_UNFIT},
    {FRONT_VERSION, -1, 0, RESULT_UNFIT},
    {FRONT_VERSION, -1, PACKED_UNIT_VERSION, RESULT_UNFIT},
    {FRONT_COUNT, -1, 2, RESULT_UNFIT},
    {FRONT_COUNT, -1, 1000, RESULT_UNFIT},
    {FRONT_FILENAMES_SIZE, -1, 1000, RESULT_UNFIT},
    {FRONT_TEXT_SIZE, -1, TEXT_SIZE + 1, RESULT_UNFIT},
    {FRONT_TEXT_SIZE, -1, MEMORY, RESULT_OVER_LIMIT},
    {FRONT_HEADS_SIZE, -1, 1, RESULT_UNFIT},
    {FRONT_HEADS_SIZE, -1, 3, RESULT_UNFIT},
    {FRONT_HEADS_SIZE, -1, 5, RESULT_UNFIT},
    {-1, 0, PACKED_GROUP_OF_USED + 1, RESULT_UNFIT},
    {-1, 1, 3, RESULT_UNFIT},
    {-1, 1, 0x80, RESULT_UNFIT},
    {-1, 10, 2, RESULT_UNFIT},
};

START_TEST(test_hostile_numbers)
{
    struct crafted crafted = sound_unit;
    size_t most = SIZE_MAX;

    if (numbers[_i].front >= 0)
        crafted.front[numbers[_i].front] = numbers[_i].value;
    else
        crafted.text[numbers[_i].byte] = (uint8_t)numbers[_i].value;
    ck_assert_int_eq(read_crafted(&crafted, &most), numbers[_i].result);
}
END_TEST

/* A unit that ends anywhere, or whose text does; and one that takes more memory than there is. */
START_TEST(test_cut_units)
{
    struct crafted crafted = sound_unit;
    size_t whole = SIZE_MAX, all = SIZE_MAX;

    ck_assert_int_eq(read_crafted(&crafted, &whole), RESULT_OK);
    for (size_t most = 0; most < whole; most++) {
        size_t size = most;

        ck_assert_int_eq(read_crafted(&crafted, &size), RESULT_UNFIT);
    }
    crafted.limit = (uint64_t)2 * TEXT_SIZE;
    ck_assert_int_eq(read_crafted(&crafted, &all), RESULT_OVER_LIMIT);
    crafted.limit = MEMORY;
    for (crafted.text_size = 0; crafted.text_size < TEXT_SIZE; crafted.text_size++) {
        all = SIZE_MAX;
        crafted.front[FRONT_TEXT_SIZE] = crafted.text_size;
        ck_assert_int_eq(read_crafted(&crafted, &all), RESULT_UNFIT);
    }
}
END_TEST

/* ---- links of which more than one order is possible ---- */

static const struct {
    size_t units_behind; /* ordinary ones behind the packed one */
    uint64_t second;     /* the name of a second ordinary record; 0: there is none */
    const char *message; /* NULL: it is unpacked */
} links[] = {
    {0, 0, NULL},
    {0, 6, NULL},
    {1, 0, "so the order of their functions is not certain"},
    {0, 5, "so which ones stay is not certain"},
};

/* Ordinary units of the same filenames, in front of a packed one and behind it. */
START_TEST(test_order)
{
    static const uint8_t names[] = {1, 2, 0, 1, 'a', 1, 2, 0, 1, 'b'};
    static const uint8_t regions[] = {1, 0, 0, 1, 1, 3, 1, 2, 9};
    const struct bytes ordinary = {names, 5}, mapping = {regions, sizeof(regions)};
    struct packed_record packed = {7, 1, mapping, PACKED_GROUP_OF_USED};
    const struct packed_unit unit = {
        .version = COVMAP_VERSION_4, .filenames = {names + 5, 5}, .records = &packed, .count = 1};
    struct covfun_record record = {.name_reference = 5,
                                   .function_hash = 1,
                                   .filenames_reference = md5_name_reference(ordinary),
                                   .mapping = mapping};
    FREED_BY(buffer_free) struct buffer covmap = {0}, covfun = {0};
    struct buffer made[2] = {{0}, {0}};
    struct error error = {0};
    bool done;

    for (size_t i = 0; i < 2 + links[_i].units_behind; i++) {
        ck_assert(buffer_append_zeros(&covmap, -covmap.size % COVERAGE_ALIGNMENT));
        if (i == 1)
            ck_assert_int_eq(packed_unit_write(&unit, false, &covmap), RESULT_OK);
        else
            ck_assert(covmap_append(&covmap, COVMAP_VERSION_4, ordinary, false));
    }
    ck_assert(covfun_append(&covfun, &record, false));
    record.name_reference = links[_i].second;
    if (record.name_reference != 0)
        ck_assert(buffer_append_zeros(&covfun, -covfun.size % COVERAGE_ALIGNMENT) &&
                  covfun_append(&covfun, &record, false));
    done = unpack_mapping(&(struct mapping_sections){buffer_view(&covmap), buffer_view(&covfun)},
                          false, MEMORY, "image", &made[0], &made[1], &error);
    ck_assert_msg(done == (links[_i].message == NULL), "%s", error.message);
    if (done) {
        struct bytes rest = buffer_view(&made[1]);
        uint64_t expected[] = {5, links[_i].second, 7};

        for (size_t i = 0; i < 3; i++) {
            if (expected[i] != 0) {
                ck_assert(covfun_take(&rest, false, &record));
                ck_assert_uint_eq(record.name_reference, expected[i]);
            }
        }
        ck_assert_uint_eq(rest.size, 0);
    } else {
        ck_assert_ptr_nonnull(strstr(error.message, links[_i].message));
    }
    buffer_free(&made[0]);
    buffer_free(&made[1]);
}
END_TEST

/* ---- memory ---- */

/* Appends a unit with so many empty filenames, compressed; units of different counts differ. */
static void add_large_unit(struct buffer *covmap, size_t name_count)
{
    FREED_BY(buffer_free) struct buffer text = {0}, stream = {0}, filenames = {0};
    uint8_t header[COVMAP_HEADER_SIZE] = {0};

    ck_assert(buffer_append_zeros(&text, name_count));
    ck_assert_int_eq(quick_compress(buffer_view(&text), &stream), RESULT_OK);
    ck_assert(buffer_append_uleb128(&filenames, name_count) &&
              buffer_append_uleb128(&filenames, text.size) &&
              buffer_append_uleb128(&filenames, stream.size) &&
              buffer_append(&filenames, stream.data, stream.size));
    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, false);
    store_u32(header + COVMAP_VERSION, COVMAP_VERSION_4, false);
    ck_assert(buffer_append(covmap, header, sizeof header) &&
              buffer_append(covmap, filenames.data, filenames.size) &&
              buffer_append_zeros(covmap, -covmap->size % COVERAGE_ALIGNMENT));
}

/* Units that are small, but have more filenames together than may be held. */
START_TEST(test_many_filenames)
{
    const struct transform *transform = transform_for(SECTION_LINKED_COVMAP, false);
    struct transform_context context = {.pointer_size = 8, .threads = 1};
    FREED_BY(streams_free) struct streams streams = {0};
    FREED_BY(buffer_free) struct buffer covmap = {0}, made = {0};
    enum result result;

    for (size_t i = 0; i < LARGE_UNITS; i++)
        add_large_unit(&covmap, LARGE_NAMES + i);
    context.covmap = buffer_view(&covmap);
    result = transform->encode(&context, context.covmap, &streams);
    ck_assert_int_eq(result, RESULT_OK);
    context.memory_limit = (uint64_t)LARGE_UNITS * LARGE_NAMES * sizeof(uint32_t) / 2;
    ck_assert_uint_gt(context.memory_limit, 16 * LARGE_NAMES * 2);
    result = transform->decode(&context, &streams, covmap.size, &made);
    ck_assert_int_eq(result, RESULT_OVER_LIMIT);
    context.memory_limit = 0;
    made.size = 0;
    result = transform->decode(&context, &streams, covmap.size, &made);
    ck_assert_int_eq(result, RESULT_OK);
    ck_assert(bytes_equal(buffer_view(&made), buffer_view(&covmap)));
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);

    suite_loops(all, (int)(sizeof(numbers) / sizeof(numbers[0])), test_hostile_numbers);
    suite_loops(all, (int)(sizeof(links) / sizeof(links[0])), test_order);
    suite_tests(all, test_many_filenames, test_cut_units);
    return suite_main("packed-units", all);
}
