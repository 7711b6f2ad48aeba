/*
 * Packed units, and ordinary sections made of them: units of random records read as they were
 * written; whatever objects of a program are packed, the sections that are unpacked from its link
 * are those of the link without packing; linked sections come back from their streams; and what is
 * damaged is refused or sound; memory that fails is an error.
 */
#include <stdlib.h>

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/llvm/coverage.h"
#include "tests/support/suite.h"
#include "tests/unit/packed_maker.h"
#include "tests/unit/refused_memory.h"
#include "tests/unit/refused_ways.h"

#define UNITS    200
#define PROGRAMS 300
/* So many are damaged, and each in so many ways. */
#define DAMAGED  100
#define ROUNDS   50
#define MEMORIES 8
#define MEMORY   ((uint64_t)64 << 20)
/* Units with so many filenames each. */
#define LARGE_UNITS 64
#define LARGE_NAMES 20000

static void check_same_unit(const struct packed_unit *a, const struct packed_unit *b)
{
    ck_assert_uint_eq(a->version, b->version);
    ck_assert(bytes_equal(a->filenames, b->filenames));
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        ck_assert_uint_eq(a->records[i].name_reference, b->records[i].name_reference);
        ck_assert_uint_eq(a->records[i].function_hash, b->records[i].function_hash);
        ck_assert_int_eq((int)a->records[i].group, (int)b->records[i].group);
        ck_assert(bytes_equal(a->records[i].mapping, b->records[i].mapping));
    }
}

START_TEST(test_round_trip)
{
    struct random_state random = random_start((uint64_t)_i);
    struct packed_unit unit, again = {0};
    struct buffer texts = {0}, section = {0};
    struct bytes rest, packed;
    bool big = _i % 2 != 0;

    packed_make_unit(&random, 1000, false, &unit, &texts);
    if (unit.count != 0)
        unit.records[0].group = PACKED_GROUP_NONE;
    for (int i = 0; i < 2; i++) {
        ck_assert(buffer_append_zeros(&section, -section.size % 8));
        ck_assert_int_eq(packed_unit_write(&unit, big, &section), RESULT_OK);
    }
    rest = buffer_view(&section);
    ck_assert(unpack_is_needed(rest, big));
    for (int i = 0; i < 2; i++) {
        ck_assert(packed_unit_take(&rest, big, &packed));
        ck_assert_int_eq(packed_unit_read(&again, packed, big, MEMORY), RESULT_OK);
        check_same_unit(&again, &unit);
        ck_assert_uint_eq(again.reference, md5_name_reference(unit.filenames));
    }
    ck_assert_uint_eq(rest.size, 0);
    ck_assert(!packed_unit_take(&rest, big, &packed));
    packed_unit_free(&unit);
    packed_unit_free(&again);
    buffer_free(&texts);
    buffer_free(&section);
}
END_TEST

/* Every subset of the objects is packed, in turn. */
START_TEST(test_unpack)
{
    struct random_state random = random_start((uint64_t)_i);
    struct linked_program program;
    struct buffer expected[2] = {{0}, {0}};
    bool big = _i % 2 != 0;

    packed_make_program(&random, false, &program);
    packed_link(&program, 0, big, &expected[0], &expected[1]);
    for (unsigned packed = 0; packed < 1u << program.object_count; packed += 1 + packed / 16) {
        struct buffer linked[2] = {{0}, {0}}, made[2] = {{0}, {0}};
        struct error error = {0};

        packed_link(&program, packed, big, &linked[0], &linked[1]);
        ck_assert_msg(unpack_mapping(&(struct mapping_sections){buffer_view(&linked[0]),
                                                                buffer_view(&linked[1])},
                                     big, MEMORY, "image", &made[0], &made[1], &error),
                      "%s", error.message);
        for (int i = 0; i < 2; i++) {
            ck_assert(bytes_equal(buffer_view(&made[i]), buffer_view(&expected[i])));
            buffer_free(&made[i]);
            buffer_free(&linked[i]);
        }
    }
    buffer_free(&expected[0]);
    buffer_free(&expected[1]);
    packed_free_program(&program);
}
END_TEST

/* Units that have the same filenames: the right sections, or an error; both occur. */
START_TEST(test_alike)
{
    size_t done = 0, refused = 0;

    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        struct random_state random = random_start(seed);
        struct linked_program program;
        struct buffer sections[6] = {{0}};
        struct error error = {0};

        packed_make_program(&random, true, &program);
        packed_link(&program, 0, false, &sections[0], &sections[1]);
        packed_link(&program, (unsigned)random_next(&random), false, &sections[2], &sections[3]);
        if (unpack_mapping(
                &(struct mapping_sections){buffer_view(&sections[2]), buffer_view(&sections[3])},
                false, MEMORY, "image", &sections[4], &sections[5], &error)) {
            ck_assert(bytes_equal(buffer_view(&sections[0]), buffer_view(&sections[4])));
            ck_assert(bytes_equal(buffer_view(&sections[1]), buffer_view(&sections[5])));
            done++;
        } else {
            ck_assert_ptr_nonnull(strstr(error.message, "have the same filenames"));
            refused++;
        }
        for (int i = 0; i < 6; i++)
            buffer_free(&sections[i]);
        packed_free_program(&program);
    }
    ck_assert_uint_gt(done, PROGRAMS / 4);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* ---- linked sections, in terms of the ordinary ones ---- */

struct linked_sections {
    struct transform_context context;
    struct buffer linked[2], ordinary[2];
};

static const enum section_kind linked_kinds[2] = {SECTION_LINKED_COVMAP, SECTION_LINKED_COVFUN};

static void make_linked(struct linked_sections *sections, uint64_t seed)
{
    struct random_state random = random_start(seed);
    struct linked_program program;

    *sections = (struct linked_sections){.context = {.big_endian = seed % 2 != 0,
                                                     .pointer_size = 8,
                                                     .threads = 1 + (unsigned)(seed / 2 % 2)}};
    packed_make_program(&random, seed % 5 == 0, &program);
    packed_link(&program, 0, seed % 2 != 0, &sections->ordinary[0], &sections->ordinary[1]);
    packed_link(&program, (unsigned)random_next(&random), seed % 2 != 0, &sections->linked[0],
                &sections->linked[1]);
    sections->context.covmap = buffer_view(&sections->ordinary[0]);
    sections->context.covfun = buffer_view(&sections->ordinary[1]);
    packed_free_program(&program);
}

static void free_linked(struct linked_sections *sections)
{
    for (int i = 0; i < 2; i++) {
        buffer_free(&sections->linked[i]);
        buffer_free(&sections->ordinary[i]);
    }
}

START_TEST(test_linked)
{
    struct linked_sections sections;

    make_linked(&sections, (uint64_t)_i);
    for (int i = 0; i < 2; i++) {
        const struct transform *transform = transform_for(linked_kinds[i], false);
        struct bytes section = buffer_view(&sections.linked[i]);
        struct streams streams = {0};
        struct buffer again = {0};

        ck_assert_int_eq(transform->encode(&sections.context, section, &streams), RESULT_OK);
        ck_assert_int_eq(transform->decode(&sections.context, &streams, section.size, &again),
                         RESULT_OK);
        ck_assert(bytes_equal(buffer_view(&again), section));
        buffer_free(&again);
        streams_free(&streams);
    }
    free_linked(&sections);
}
END_TEST

/* ---- damage ---- */

static void mutate(struct random_state *random, uint8_t *bytes, size_t size)
{
    uint64_t changes = 1 + random_below(random, 3);

    for (; size != 0 && changes != 0; changes--) {
        uint8_t *byte = &bytes[random_below(random, size)];

        *byte = random_below(random, 2) == 0 ? (uint8_t)random_next(random)
                                             : *byte ^ (uint8_t)(1 << random_below(random, 8));
    }
}

/* A damaged unit is refused; if it is not, then it is a unit itself: written again, it is read as
 * what it was read as. The bytes of its text are covered by a sum, but not those in front. */
START_TEST(test_damaged_unit)
{
    struct random_state random = random_start(1000 + (uint64_t)_i);
    struct packed_unit unit, read = {0}, again = {0};
    struct buffer texts = {0}, section = {0}, written = {0};
    bool big = _i % 2 != 0;

    packed_make_unit(&random, 1000, false, &unit, &texts);
    ck_assert_int_eq(packed_unit_write(&unit, big, &section), RESULT_OK);
    for (int i = 0; i < ROUNDS; i++) {
        struct buffer damaged = {0};
        struct bytes view;

        ck_assert(buffer_append(&damaged, section.data, section.size));
        mutate(&random, damaged.data, damaged.size);
        view = buffer_view(&damaged);
        if (random_below(&random, 4) == 0)
            view.size = random_below(&random, view.size);
        if (packed_unit_read(&read, view, big, MEMORY) == RESULT_OK) {
            struct bytes whole;

            written.size = 0;
            ck_assert_int_eq(packed_unit_write(&read, big, &written), RESULT_OK);
            whole = buffer_view(&written);
            ck_assert_int_eq(packed_unit_read(&again, whole, big, MEMORY), RESULT_OK);
            check_same_unit(&again, &read);
        }
        buffer_free(&damaged);
    }
    packed_unit_free(&unit);
    packed_unit_free(&read);
    packed_unit_free(&again);
    buffer_free(&texts);
    buffer_free(&section);
    buffer_free(&written);
}
END_TEST

/* Damaged linked sections are refused, or unpacked to sections of sound units and records. */
START_TEST(test_damaged_link)
{
    struct random_state random = random_start(2000 + (uint64_t)_i);
    struct linked_sections sections;
    bool big = _i % 2 != 0;

    make_linked(&sections, (uint64_t)_i);
    for (int i = 0; i < ROUNDS; i++) {
        struct buffer damaged[2] = {{0}, {0}}, made[2] = {{0}, {0}};
        struct error error = {0};

        for (int j = 0; j < 2; j++)
            ck_assert(buffer_append(&damaged[j], sections.linked[j].data, sections.linked[j].size));
        mutate(&random, damaged[i % 2].data, damaged[i % 2].size);
        if (unpack_mapping(
                &(struct mapping_sections){buffer_view(&damaged[0]), buffer_view(&damaged[1])}, big,
                MEMORY, "image", &made[0], &made[1], &error)) {
            struct bytes covmap = buffer_view(&made[0]), covfun = buffer_view(&made[1]);
            struct covmap_unit unit;
            struct covfun_record record;

            while (covmap_take(&covmap, big, &unit))
                continue;
            while (covfun_take(&covfun, big, &record))
                continue;
            ck_assert_uint_eq(covmap.size, 0);
            ck_assert_uint_eq(covfun.size, 0);
        } else {
            ck_assert_ptr_nonnull(strstr(error.message, "image: "));
        }
        for (int j = 0; j < 2; j++) {
            buffer_free(&damaged[j]);
            buffer_free(&made[j]);
        }
    }
    free_linked(&sections);
}
END_TEST

/* Damaged streams, or streams with other ordinary sections, give no more than they may. */
START_TEST(test_damaged_streams)
{
    struct random_state random = random_start(3000 + (uint64_t)_i);
    struct linked_sections sections;

    make_linked(&sections, (uint64_t)_i);
    for (int i = 0; i < ROUNDS; i++) {
        const struct transform *transform = transform_for(linked_kinds[i % 2], false);
        struct bytes section = buffer_view(&sections.linked[i % 2]);
        struct transform_context context = sections.context;
        struct streams streams = {0};
        struct buffer made = {0};

        ck_assert_int_eq(transform->encode(&context, section, &streams), RESULT_OK);
        if (random_below(&random, 8) == 0)
            context.covfun.size = random_below(&random, context.covfun.size + 1);
        else
            for (size_t j = 0; j < streams.count; j++) {
                if (random_below(&random, streams.count) <= 1)
                    mutate(&random, streams.stream[j].data, streams.stream[j].size);
            }
        if (transform->decode(&context, &streams, section.size, &made) == RESULT_OK)
            ck_assert_uint_eq(made.size, section.size);
        buffer_free(&made);
        streams_free(&streams);
    }
    free_linked(&sections);
}
END_TEST

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
    struct packed_unit unit = {0};
    struct buffer section = {0};
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
    packed_unit_free(&unit);
    buffer_free(&section);
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

/* ---- memory ---- */

/* Appends a unit with so many empty filenames, compressed; units of different counts differ. */
static void add_large_unit(struct buffer *covmap, size_t name_count)
{
    struct buffer text = {0}, stream = {0}, filenames = {0};
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
    buffer_free(&text);
    buffer_free(&stream);
    buffer_free(&filenames);
}

/* Units that are small, but have more filenames together than may be held. */
START_TEST(test_many_filenames)
{
    const struct transform *transform = transform_for(SECTION_LINKED_COVMAP, false);
    struct transform_context context = {.pointer_size = 8, .threads = 1};
    struct streams streams = {0};
    struct buffer covmap = {0}, made = {0};
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
    buffer_free(&covmap);
    buffer_free(&made);
    streams_free(&streams);
}
END_TEST

/* Does everything with the sections once. False if memory ran out; asserts that nothing else is
 * said then. */
static bool use_all(void *subject)
{
    const struct linked_sections *sections = subject;
    struct buffer made[2] = {{0}, {0}}, again = {0};
    struct streams streams = {0};
    struct error error = {0};
    enum result result = RESULT_OK;
    bool done =
        unpack_mapping(&(struct mapping_sections){buffer_view(&sections->linked[0]),
                                                  buffer_view(&sections->linked[1])},
                       sections->context.big_endian, MEMORY, "image", &made[0], &made[1], &error);

    ck_assert(done || error_is_of_memory(&error));
    for (int i = 0; done && i < 2; i++) {
        const struct transform *transform = transform_for(linked_kinds[i], false);
        struct bytes section = buffer_view(&sections->linked[i]);

        result = transform->encode(&sections->context, section, &streams);
        if (result == RESULT_OK)
            result = transform->decode(&sections->context, &streams, section.size, &again);
        ck_assert(result == RESULT_OK || result == RESULT_NO_MEMORY);
        done = result == RESULT_OK;
        streams_free(&streams);
        buffer_free(&again);
    }
    buffer_free(&made[0]);
    buffer_free(&made[1]);
    return done;
}

/* Every allocation fails in turn. */
START_TEST(test_memory)
{
    struct linked_sections sections;
    size_t granted = 0;
    bool done = false;

    make_linked(&sections, 10 + (uint64_t)_i);
    sections.context.threads = 1;
    for (; !done; granted++) {
        memory_granted = granted;
        done = use_all(&sections);
        ck_assert(!done || memory_granted != MEMORY_ALL);
    }
    memory_granted = MEMORY_ALL;
    ck_assert_uint_gt(granted, 10);
    refuse_each_way(use_all, &sections);
    free_linked(&sections);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);

    suite_loops(all, (int)rounds(UNITS), test_round_trip, test_unpack, test_linked);
    suite_loops(all, (int)rounds(DAMAGED), test_damaged_unit, test_damaged_link,
                test_damaged_streams);
    suite_loops(all, MEMORIES, test_memory);
    suite_loops(all, (int)(sizeof(numbers) / sizeof(numbers[0])), test_hostile_numbers);
    suite_tests(all, test_alike, test_many_filenames, test_cut_units);
    return suite_main("packed-units", all);
}
