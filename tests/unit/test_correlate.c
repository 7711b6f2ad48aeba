/*
 * Correlating: for every version and form, what comes out is the profile that the image would have
 * written unsplit; and sidecars of other builds are refused.
 */
#include <string.h>

#include "common/llvm/tripwire.h"
#include "common/sidecar/correlate.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/profile_maker.h"
#include "tests/unit/sidecar_sample.h"

#define DATA_ADDRESS     UINT64_C(0x20000)
#define COUNTERS_ADDRESS (DATA_ADDRESS + MAKER_COUNTERS_DISTANCE)
#define BITMAP_ADDRESS   (DATA_ADDRESS + MAKER_BITMAP_DISTANCE)
#define LOAD_BIAS        UINT64_C(0x555000)

#define RECORDS          5
#define EACH             3
#define NAMES            "names of functions"
#define ID               "build-id"

static const uint8_t stub[PROFILE_STUB_ID_SIZE] = ID;

/* A split image: what it would have written, what it writes, and its sidecar. */
struct image {
    struct profile_recipe full, light;
    struct buffer data;
    struct section sections[4];
    struct sample *sample;
    struct sidecar_source source;
    struct buffer file;
    struct sidecar *sidecar;
};

static struct section *section_of(struct image *image, enum section_kind kind)
{
    for (size_t i = 0; i < image->source.section_count; i++) {
        if (image->sections[i].kind == kind)
            return &image->sections[i];
    }
    ck_abort_msg("no such section");
    return NULL;
}

static void add_section(struct image *image, enum section_kind kind, uint64_t address,
                        uint64_t size, struct bytes content)
{
    image->sections[image->source.section_count++] = (struct section){
        .kind = kind, .address = address, .alignment = 8, .size = size, .content = content};
}

/* Everything but the sidecar itself, so that a test can change something. */
static struct image describe(int form)
{
    struct image image = {.full = profile_form(form)};
    struct sidecar_facts *facts = &image.source.facts;

    image.full.records = RECORDS;
    image.full.counters_each = EACH;
    image.full.names = NAMES;
    image.full.binary_id = ID;
    image.full.load_address = COUNTERS_ADDRESS + LOAD_BIAS;
    image.light = image.full;
    image.light.names = NULL;
    image.light.records = 1;
    image.light.stub_counters = RECORDS * EACH;
    image.light.stub = stub;
    image.data = profile_make_data(&image.full, COUNTERS_ADDRESS);
    image.sample = sample_make(
        &sample_shapes[(image.full.is_32_bit ? 2 : 0) + (image.full.big_endian ? 1 : 0)]);
    image.source = image.sample->source;
    image.source.section_count = 0;
    image.source.kept_count = 0;
    facts->elf_class = image.full.is_32_bit ? 1 : 2;
    facts->elf_data = image.full.big_endian ? 2 : 1;
    facts->pointer_size = image.full.is_32_bit ? 4 : 8;
    facts->raw_version = image.full.raw_version;
    facts->has_stub = true;
    memcpy(facts->stub_id, stub, sizeof(stub));
    facts->uuid = (struct uuid){.size = strlen(ID)};
    facts->uuid_source = UUID_FROM_BUILD_ID;
    facts->format = image.full.windows ? IMAGE_COFF : IMAGE_ELF;
    memcpy(facts->uuid.bytes, ID, strlen(ID));
    return image;
}

static void add_sections(struct image *image)
{
    bool windows = image->full.windows;

    add_section(image, SECTION_NAMES, 0x10000, strlen(NAMES),
                (struct bytes){(const uint8_t *)NAMES, strlen(NAMES)});
    add_section(image, SECTION_DATA, DATA_ADDRESS, image->data.size, buffer_view(&image->data));
    add_section(image, SECTION_COUNTERS,
                windows ? DATA_ADDRESS - MAKER_COUNTERS_DISTANCE : COUNTERS_ADDRESS,
                RECORDS * EACH * 8 + (windows ? 7 : 0), (struct bytes){0});
    if (PROFILE_VERSION(image->full.raw_version) >= 9)
        add_section(image, SECTION_BITMAP,
                    windows ? DATA_ADDRESS - MAKER_BITMAP_DISTANCE : BITMAP_ADDRESS, RECORDS * EACH,
                    (struct bytes){0});
}

static void finish(struct image *image)
{
    image->source.sections = image->sections;
    image->file = sample_write(&image->source, 3, 1);
    image->sidecar = sample_open(&image->file);
}

static struct image make_image(int form)
{
    struct image image = describe(form);

    add_sections(&image);
    finish(&image);
    return image;
}

static void free_image(struct image *image)
{
    sidecar_close(image->sidecar);
    buffer_free(&image->file);
    buffer_free(&image->data);
    sample_free(image->sample);
}

/* Correlates; *error says why not. */
static bool correlate(struct sidecar *sidecar, const struct buffer *light, struct buffer *full,
                      struct error *error)
{
    FREED_BY(profile_sidecar_unload) struct profile_sidecar opened = {.sidecar = sidecar};
    FREED_BY(buffer_free) struct buffer relocated = {0};
    struct profile profile = profile_of(light), result;

    return profile_sidecar_apply(&opened, &profile, "light", &relocated, &result, error) &&
           profile_write(&result, sample_collect, full, error);
}

static void assert_correlates(const struct image *image, const struct profile_recipe *light,
                              const struct profile_recipe *full)
{
    FREED_BY(buffer_free)
    struct buffer from = profile_make(light), expected = profile_make(full), found = {0};
    struct error error = {0};

    for (uint64_t i = 0; i < RECORDS * EACH; i++) {
        profile_set_counter(&from, i, i * i);
        profile_set_counter(&expected, i, i * i);
    }
    ck_assert_msg(correlate(image->sidecar, &from, &found, &error), "%s", error.message);
    ck_assert_uint_eq(found.size, expected.size);
    ck_assert(bytes_equal(buffer_view(&found), buffer_view(&expected)));
}

static void assert_refused(const struct image *image, const struct profile_recipe *light,
                           const char *message)
{
    struct buffer from = profile_make(light), found = {0};
    struct error error = {0};

    ck_assert(!correlate(image->sidecar, &from, &found, &error));
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    ck_assert_uint_eq(found.size, 0);
    buffer_free(&from);
}

START_TEST(test_stub)
{
    FREED_BY(free_image) struct image image = make_image(_i);

    assert_correlates(&image, &image.light, &image.full);
    assert_correlates(&image, &image.full, &image.full);
}
END_TEST

static bool correlate_dump(struct sidecar *sidecar, struct bytes counters, struct bytes bitmap,
                           struct buffer *full, struct error *error)
{
    FREED_BY(dump_free) struct dump dump = {.counters = counters, .bitmap = bitmap};
    FREED_BY(profile_sidecar_unload) struct profile_sidecar opened = {.sidecar = sidecar};

    return dump_make(&dump, &opened, "dump", error) &&
           profile_sidecar_correlate(&opened, &dump.profile, "dump", sample_collect, full, error);
}

/* Of nothing but counters and bitmap comes the same as of the whole profile. */
START_TEST(test_dump)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    const struct section *section = sidecar_find(image.sidecar, SECTION_COUNTERS);
    FREED_BY(buffer_free) struct buffer light, expected = {0}, found = {0};
    struct profile profile, full, of_dump;
    struct error error = {0};

    image.light.load_address = COUNTERS_ADDRESS;
    light = profile_make(&image.light);
    for (uint64_t i = 0; i < RECORDS * EACH; i++)
        profile_set_counter(&light, i, i * i);
    ck_assert_msg(correlate(image.sidecar, &light, &expected, &error), "%s", error.message);
    profile = profile_of(&light);
    ck_assert_msg(correlate_dump(image.sidecar,
                                 (struct bytes){profile.counters.data, section->size},
                                 profile.bitmap, &found, &error),
                  "%s", error.message);
    full = profile_of(&expected);
    of_dump = profile_of(&found);
    ck_assert(bytes_equal(of_dump.data, full.data));
    ck_assert(bytes_equal(profile_whole_counters(&of_dump), profile_whole_counters(&full)));
    ck_assert(bytes_equal(of_dump.bitmap, full.bitmap));
    ck_assert(bytes_equal(of_dump.names, full.names));
    ck_assert_uint_eq(of_dump.header.counters_delta, full.header.counters_delta);
    ck_assert_uint_eq(of_dump.header.num_counters, full.header.num_counters);
}
END_TEST

/* The tripwire tells it too: of a UUID that is as long as it says. */
START_TEST(test_tripwire)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    struct uuid uuid = image.source.facts.uuid;
    char names[TRIPWIRE_SIZE_MAX + 1] = "";

    image.light.names = names;
    tripwire_write((uint8_t *)names, tripwire_size(sizeof(names), uuid.size, 1), &uuid);
    assert_correlates(&image, &image.light, &image.full);
    image.light.binary_id = NULL;
    image.full.binary_id = NULL;
    assert_correlates(&image, &image.light, &image.full);
    uuid.bytes[uuid.size++] = 0;
    tripwire_write((uint8_t *)names, tripwire_size(sizeof(names), uuid.size, 1), &uuid);
    assert_refused(&image, &image.light, "another build");
}
END_TEST

/* If the names were taken out, others in their place mean that bytes were lost or added on the way.
 * If they stayed, they are the image's. */
START_TEST(test_other_names)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    char names[TRIPWIRE_SIZE_MAX + 1] = "";

    tripwire_write((uint8_t *)names, tripwire_size(sizeof(names), image.source.facts.uuid.size, 1),
                   &image.source.facts.uuid);
    names[0]++;
    image.light.names = names;
    assert_refused(&image, &image.light, "damaged: bytes before its names are missing");
    free_image(&image);
    image = describe(_i);
    add_sections(&image);
    section_of(&image, SECTION_NAMES)->fate = FATE_COPIED;
    finish(&image);
    image.light.names = NAMES;
    assert_correlates(&image, &image.light, &image.full);
}
END_TEST

/* Without a binary ID the stub record tells whose profile it is. */
START_TEST(test_without_binary_id)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    static const uint8_t other[PROFILE_STUB_ID_SIZE] = "build-iX";

    image.light.binary_id = NULL;
    image.full.binary_id = NULL;
    assert_correlates(&image, &image.light, &image.full);
    image.light.stub = other;
    assert_refused(&image, &image.light, "another build");
}
END_TEST

/* One UUID, but another stub: two builds. */
START_TEST(test_other_stub)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    static const uint8_t later[PROFILE_STUB_ID_SIZE] = ID "a digest";

    image.light.stub = later;
    assert_refused(&image, &image.light, "has the same UUID but other functions");
    free_image(&image);
    image = describe(_i);
    memcpy(image.source.facts.stub_id, later, sizeof(later));
    add_sections(&image);
    finish(&image);
    assert_refused(&image, &image.light, "has the same UUID but other functions");
    image.light.stub = later;
    assert_correlates(&image, &image.light, &image.full);
}
END_TEST

/* Every byte of the stub but those of the UUID is as the split has left it, or the program has
 * changed its records: with names and a binary ID, or with neither. */
START_TEST(test_changed_stub)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    struct profile_record_layout layout;

    ck_assert(profile_record_layout(image.full.raw_version, image.full.is_32_bit ? 4 : 8, &layout));
    for (size_t i = PROFILE_STUB_ID_SIZE; i < 2 * layout.record_size; i++) {
        struct profile_recipe light = image.light;
        bool has_id = i < layout.record_size;
        size_t place = i % layout.record_size;
        struct buffer from, found = {0};
        struct error error = {0};
        struct profile profile;

        if (place < PROFILE_STUB_ID_SIZE)
            continue;
        light.binary_id = has_id ? ID : NULL;
        light.names = has_id ? NAMES : NULL;
        from = profile_make(&light);
        profile = profile_of(&from);
        from.data[(size_t)(profile.data.data - from.data) + place] ^= 1;
        ck_assert_msg(!correlate(image.sidecar, &from, &found, &error), "byte %zu", place);
        /* On Windows the stub may tell other distances, and then the names are looked at first. */
        ck_assert_msg(strstr(error.message, "was changed") != NULL ||
                          strstr(error.message, image.full.windows && has_id
                                                    ? "bytes before its names"
                                                    : "its counters are not where") != NULL,
                      "byte %zu: %s", place, error.message);
        ck_assert_uint_eq(found.size, 0);
        buffer_free(&from);
    }
}
END_TEST

/* The data stayed in the image. */
START_TEST(test_names_only)
{
    FREED_BY(free_image) struct image image = describe(_i);
    struct profile_recipe kept = image.full;

    add_sections(&image);
    image.source.facts.has_stub = false;
    memmove(&image.sections[1], &image.sections[2], 2 * sizeof(image.sections[0]));
    image.source.section_count--;
    finish(&image);
    kept.names = NULL;
    assert_correlates(&image, &kept, &image.full);
}
END_TEST

/* In version 7 of an image that can be loaded anywhere, the file has no addresses. */
static struct image describe_relocated(int shape, struct profile_record_layout *layout)
{
    struct image image = describe(shape * PROFILE_VERSIONS);

    ck_assert(profile_record_layout(7, image.full.is_32_bit ? 4 : 8, layout));
    for (size_t i = 0; i < RECORDS; i++)
        memset(image.data.data + i * layout->record_size + layout->counter_ptr, 0,
               layout->pointer_size);
    return image;
}

START_TEST(test_addresses_by_relocation)
{
    struct profile_record_layout layout;
    FREED_BY(free_image) struct image image = describe_relocated(_i, &layout);

    add_sections(&image);
    finish(&image);
    assert_correlates(&image, &image.light, &image.full);
}
END_TEST

START_TEST(test_addresses_unknown)
{
    struct profile_record_layout layout;
    FREED_BY(free_image) struct image image = describe_relocated(_i, &layout);

    store_u32(image.data.data + layout.num_counters, 2, image.full.big_endian);
    add_sections(&image);
    finish(&image);
    assert_refused(&image, &image.light, "cannot be assigned to functions");
}
END_TEST

/* Versions without bitmaps do not count those of other code. */
START_TEST(test_other_bitmap)
{
    FREED_BY(free_image) struct image image = describe(_i);

    add_sections(&image);
    if (PROFILE_VERSION(image.full.raw_version) < 9)
        add_section(&image, SECTION_BITMAP, BITMAP_ADDRESS, EACH, (struct bytes){0});
    finish(&image);
    assert_correlates(&image, &image.light, &image.full);
}
END_TEST

/* Data with value sites stays in the image, so a sidecar has none in place of a stub record. */
START_TEST(test_value_sites)
{
    FREED_BY(free_image) struct image image = describe(_i);
    struct profile_record_layout layout;
    uint8_t *last;

    ck_assert(profile_record_layout(image.full.raw_version, image.full.is_32_bit ? 4 : 8, &layout));
    last = image.data.data + (RECORDS - 1) * layout.record_size;
    store_u16(last + layout.num_value_sites + (layout.value_kinds - 1) * sizeof(uint16_t), 1,
              image.full.big_endian);
    add_sections(&image);
    finish(&image);
    assert_refused(&image, &image.light, "has value sites");
}
END_TEST

/* __llvm_covdata: addresses, value sites, a record of a function that is not there, and one that
 * comes twice. */
START_TEST(test_binary)
{
    FREED_BY(free_image) struct image image = describe(_i);
    struct profile_record_layout layout;
    FREED_BY(buffer_free) struct buffer data = {0};
    struct profile_recipe light = image.full, full = image.full;
    bool big = image.full.big_endian;

    ck_assert(profile_record_layout(image.full.raw_version, image.full.is_32_bit ? 4 : 8, &layout));
    if (layout.bitmap_ptr == 0)
        return;
    for (size_t i = 0; i < RECORDS + 2; i++) {
        size_t from = i == 0 ? 0 : i > 2 ? i - 2 : i - 1;
        uint64_t offset = i == 0 ? 0xf000 : from * EACH * 8;
        uint8_t *record;

        ck_assert(
            buffer_append(&data, image.data.data + from * layout.record_size, layout.record_size));
        record = data.data + i * layout.record_size;
        store_u16(record + layout.num_value_sites, (uint16_t)i, big);
        if (image.full.is_32_bit) {
            store_u32(record + layout.counter_ptr, (uint32_t)(COUNTERS_ADDRESS + offset), big);
            store_u32(record + layout.bitmap_ptr, (uint32_t)(BITMAP_ADDRESS + from * EACH), big);
        } else {
            store_u64(record + layout.counter_ptr, COUNTERS_ADDRESS + offset, big);
            store_u64(record + layout.bitmap_ptr, BITMAP_ADDRESS + from * EACH, big);
        }
    }
    add_sections(&image);
    section_of(&image, SECTION_DATA)->kind = SECTION_COVDATA;
    section_of(&image, SECTION_COVDATA)->address = 0;
    /* The last record may come without its padding. */
    section_of(&image, SECTION_COVDATA)->size = data.size;
    section_of(&image, SECTION_COVDATA)->content = buffer_view(&data);
    section_of(&image, SECTION_NAMES)->kind = SECTION_COVNAMES;
    image.source.facts.has_stub = false;
    finish(&image);

    light.records = 0;
    light.counters_each = RECORDS * EACH;
    light.names = NULL;
    {
        FREED_BY(buffer_free) struct buffer from = profile_make(&light), found = {0};
        FREED_BY(buffer_free) struct buffer expected = profile_make(&full);
        struct profile result, wanted = profile_of(&expected);
        struct error error = {0};

        ck_assert_msg(correlate(image.sidecar, &from, &found, &error), "%s", error.message);
        result = profile_of(&found);
        ck_assert_uint_eq(result.header.num_data, RECORDS);
        ck_assert(!result.lacks_value_data);
        ck_assert(bytes_equal(result.names, wanted.names));
        for (size_t i = 0; i < RECORDS; i++) {
            const uint8_t *record = result.data.data + i * layout.record_size;
            uint64_t pointer = image.full.is_32_bit ? load_u32(record + layout.counter_ptr, big)
                                                    : load_u64(record + layout.counter_ptr, big);

            /* In 64 bits, as llvm-profdata computes. */
            ck_assert_uint_eq(pointer - result.header.counters_delta + i * layout.record_size,
                              i * EACH * 8);
            pointer = image.full.is_32_bit ? load_u32(record + layout.bitmap_ptr, big)
                                           : load_u64(record + layout.bitmap_ptr, big);
            ck_assert_uint_eq(pointer - result.header.bitmap_delta + i * layout.record_size,
                              i * EACH);
            ck_assert_mem_eq(record, wanted.data.data + i * layout.record_size, 16);
        }
    }
}
END_TEST

START_TEST(test_other_builds)
{
    FREED_BY(free_image) struct image image = make_image(_i);
    struct profile_recipe other = image.light;
    static const uint8_t stub_2[PROFILE_STUB_ID_SIZE] = "build-i2";

    other.binary_id = "build-i2";
    other.stub = stub_2;
    assert_refused(&image, &other, "6275696c642d6932"); /* the UUIDs are named */
    assert_refused(&image, &other, "6275696c642d6964");
    other = image.light;
    other.stub_counters++;
    assert_refused(&image, &other, "16 counters");
    other = image.light;
    other.raw_version |= UINT64_C(1) << 56;
    assert_refused(&image, &other, "raw version");
    other = image.light;
    other.is_32_bit = !other.is_32_bit;
    assert_refused(&image, &other, "raw version");
    other = image.light;
    other.big_endian = !other.big_endian;
    assert_refused(&image, &other, "raw version");
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);
    suite_loops(all, PROFILE_FORMS + PROFILE_WINDOWS_FORMS, test_stub, test_dump, test_tripwire,
                test_other_names, test_without_binary_id, test_other_stub, test_changed_stub,
                test_names_only);
    suite_loops(all, PROFILE_FORMS / PROFILE_VERSIONS, test_addresses_by_relocation,
                test_addresses_unknown);
    suite_loops(all, PROFILE_FORMS, test_binary);
    suite_loops(all, PROFILE_FORMS + PROFILE_WINDOWS_FORMS, test_other_bitmap, test_value_sites);
    suite_loops(all, PROFILE_FORMS, test_other_builds);
    return suite_main("correlate", all);
}
