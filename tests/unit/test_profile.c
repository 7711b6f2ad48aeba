/*
 * Raw profiles: made by hand for every version, pointer size and byte order, then cut short, and
 * with headers that are damaged.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile.h"
#include "tests/support/suite.h"

/* What a profile is made of. */
struct recipe {
    unsigned version;
    bool is_64_bit;
    bool big_endian;
    uint64_t variants;
    uint64_t num_data;
    uint64_t num_counters;
    uint64_t num_bitmap_bytes;
    uint64_t uniform_padding; /* behind uniform counters, of which there are none */
    uint64_t names_size;
    uint64_t num_vtables;
    uint64_t vnames_size;
    size_t binary_id_size; /* 0: none */
    uint32_t value_size;   /* of the value data of each record; 0: none */
    bool stub;             /* the first record covers all counters and bitmap bytes */
};

#define COUNTERS_DELTA UINT64_C(0xffffffffffffffc0)
#define STUB_BYTE      0xab

static void put_64(struct buffer *profile, const struct recipe *recipe, uint64_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value, recipe->big_endian);
    ck_assert(buffer_append(profile, bytes, sizeof(bytes)));
}

static void put_32(struct buffer *profile, const struct recipe *recipe, uint32_t value)
{
    uint8_t bytes[4];

    store_u32(bytes, value, recipe->big_endian);
    ck_assert(buffer_append(profile, bytes, sizeof(bytes)));
}

static void put_pointer(struct buffer *profile, const struct recipe *recipe, uint64_t value)
{
    if (recipe->is_64_bit)
        put_64(profile, recipe, value);
    else
        put_32(profile, recipe, (uint32_t)value);
}

static void put_filled(struct buffer *profile, size_t size, uint8_t byte)
{
    while (size-- != 0)
        ck_assert(buffer_append(profile, &byte, 1));
}

static void pad(struct buffer *profile)
{
    ck_assert(buffer_append_zeros(profile, -profile->size % 8));
}

static uint64_t counters_size(const struct recipe *recipe)
{
    return (recipe->variants >> 60 & 1) != 0 ? recipe->num_counters : 8 * recipe->num_counters;
}

static uint64_t binary_ids_size(const struct recipe *recipe)
{
    uint64_t size = 8 + recipe->binary_id_size;

    if (recipe->binary_id_size == 0)
        return 0;
    return recipe->version >= 8 ? align_up(size, 8) : size;
}

static void put_header(struct buffer *profile, const struct recipe *recipe)
{
    uint64_t letter = recipe->is_64_bit ? 'r' : 'R';

    put_64(profile, recipe, UINT64_C(0xff6c70726f660081) | letter << 8);
    put_64(profile, recipe, recipe->version | recipe->variants);
    put_64(profile, recipe, binary_ids_size(recipe));
    put_64(profile, recipe, recipe->num_data);
    put_64(profile, recipe, 0);
    put_64(profile, recipe, recipe->num_counters);
    put_64(profile, recipe, -counters_size(recipe) % 8);
    if (recipe->version >= 9) {
        put_64(profile, recipe, recipe->num_bitmap_bytes);
        put_64(profile, recipe, -recipe->num_bitmap_bytes % 8);
    }
    if (recipe->version >= 11) {
        put_64(profile, recipe, 0);
        put_64(profile, recipe, recipe->uniform_padding);
        put_64(profile, recipe, 0);
    }
    put_64(profile, recipe, recipe->names_size);
    put_64(profile, recipe, COUNTERS_DELTA);
    if (recipe->version >= 9)
        put_64(profile, recipe, 0);
    put_64(profile, recipe, 0x1000);
    if (recipe->version >= 10) {
        put_64(profile, recipe, recipe->num_vtables);
        put_64(profile, recipe, recipe->vnames_size);
    }
    put_64(profile, recipe, recipe->version >= 10 ? 2 : 1);
}

static void put_record(struct buffer *profile, const struct recipe *recipe, bool covers_all)
{
    size_t kinds = recipe->version >= 10 ? 3 : 2;
    uint8_t sites[6] = {0};

    if (recipe->value_size != 0)
        store_u16(sites, 1, recipe->big_endian);
    put_filled(profile, 16, STUB_BYTE);
    put_pointer(profile, recipe, COUNTERS_DELTA);
    if (recipe->version >= 11)
        put_pointer(profile, recipe, 0);
    if (recipe->version >= 9)
        put_pointer(profile, recipe, 0);
    put_pointer(profile, recipe, 0);
    put_pointer(profile, recipe, 0);
    put_32(profile, recipe, covers_all ? (uint32_t)recipe->num_counters : 1);
    ck_assert(buffer_append(profile, sites, 2 * kinds));
    if (recipe->version >= 11)
        put_filled(profile, 2, 0);
    if (recipe->version >= 9) {
        ck_assert(buffer_append_zeros(profile, -profile->size % 4));
        put_32(profile, recipe, covers_all ? (uint32_t)recipe->num_bitmap_bytes : 0);
    }
}

static void put_binary_id(struct buffer *profile, const struct recipe *recipe)
{
    put_64(profile, recipe, recipe->binary_id_size);
    put_filled(profile, recipe->binary_id_size, STUB_BYTE);
    if (recipe->version >= 8)
        pad(profile);
}

static void make(const struct recipe *recipe, struct buffer *profile)
{
    size_t start;

    put_header(profile, recipe);
    if (recipe->binary_id_size != 0)
        put_binary_id(profile, recipe);
    start = profile->size;
    for (uint64_t i = 0; i < recipe->num_data; i++) {
        put_record(profile, recipe, recipe->stub && i == 0);
        ck_assert(buffer_append_zeros(profile, (start - profile->size) % 8));
    }
    put_filled(profile, (size_t)counters_size(recipe), 1);
    ck_assert(buffer_append_zeros(profile, -counters_size(recipe) % 8));
    put_filled(profile, (size_t)recipe->num_bitmap_bytes, 2);
    ck_assert(buffer_append_zeros(profile, -recipe->num_bitmap_bytes % 8));
    ck_assert(buffer_append_zeros(profile, (size_t)recipe->uniform_padding));
    put_filled(profile, (size_t)recipe->names_size, 3);
    ck_assert(buffer_append_zeros(profile, -recipe->names_size % 8));
    put_filled(profile, (size_t)recipe->num_vtables * (recipe->is_64_bit ? 24 : 16), 4);
    put_filled(profile, (size_t)recipe->vnames_size, 5);
    ck_assert(buffer_append_zeros(profile, -recipe->vnames_size % 8));
    for (uint64_t i = 0; recipe->value_size != 0 && i < recipe->num_data; i++) {
        put_32(profile, recipe, recipe->value_size);
        put_32(profile, recipe, 1);
        put_filled(profile, recipe->value_size - 8, 6);
    }
}

static struct recipe ordinary(unsigned version, bool is_64_bit, bool big_endian)
{
    struct recipe recipe = {
        .version = version,
        .is_64_bit = is_64_bit,
        .big_endian = big_endian,
        .num_data = 3,
        .num_counters = 5,
        .names_size = 21,
        .binary_id_size = 20,
        .value_size = 24,
    };

    if (version >= 9)
        recipe.num_bitmap_bytes = 11;
    if (version >= 10) {
        recipe.num_vtables = 3;
        recipe.vnames_size = 9;
    }
    if (version >= 11)
        recipe.uniform_padding = 8;
    return recipe;
}

static struct profile parse_good(const struct buffer *file)
{
    struct profile profile;
    struct error error = {0};

    ck_assert_msg(profile_parse(buffer_view(file), 0, "p", &profile, &error), "%s", error.message);
    return profile;
}

/* ---- the layout ---- */

#define SHAPES ((PROFILE_VERSION_MAX - PROFILE_VERSION_MIN + 1) * 4)

static struct recipe shape(int index)
{
    return ordinary((unsigned)(PROFILE_VERSION_MIN + index / 4), (index & 1) != 0,
                    (index & 2) != 0);
}

START_TEST(test_every_shape)
{
    struct recipe recipe = shape(_i);
    FREED_BY(buffer_free) struct buffer file = {0};
    struct profile profile;

    make(&recipe, &file);
    ck_assert(profile_recognize(buffer_view(&file)));
    profile = parse_good(&file);
    ck_assert_uint_eq(profile.size, file.size);
    ck_assert_uint_eq(profile.version, recipe.version);
    ck_assert(profile.is_64_bit == recipe.is_64_bit);
    ck_assert(profile.big_endian == recipe.big_endian);
    ck_assert_uint_eq(profile.header.num_data, recipe.num_data);
    ck_assert_uint_eq(profile.header.counters_delta, COUNTERS_DELTA);
    ck_assert_uint_eq(profile.header.names_delta, 0x1000);
    ck_assert_uint_eq(profile.counters.size, 8 * recipe.num_counters);
    ck_assert_uint_eq(profile.counters.data[0], 1);
    ck_assert_uint_eq(profile.bitmap.size, recipe.num_bitmap_bytes);
    ck_assert_uint_eq(profile.names.size, recipe.names_size);
    ck_assert_uint_eq(profile.names.data[0], 3);
    ck_assert_uint_eq(profile.vtable_names.size, recipe.vnames_size);
    ck_assert_uint_eq(profile.value_data.size, recipe.num_data * recipe.value_size);
    ck_assert(!profile.lightweight);
}
END_TEST

START_TEST(test_record_sizes)
{
    static const struct {
        unsigned version;
        size_t pointer_size, record_size;
    } sizes[] = {
        {7, 8, 48}, {8, 8, 48}, {9, 8, 64}, {10, 8, 64}, {11, 8, 72},
        {7, 4, 40}, {8, 4, 40}, {9, 4, 48}, {10, 4, 48}, {11, 4, 56},
    };
    struct profile_record_layout layout;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t raw_version = sizes[i].version | UINT64_C(1) << 55 | UINT64_C(1) << 56;

        ck_assert(profile_record_layout(raw_version, sizes[i].pointer_size, &layout));
        ck_assert_uint_eq(layout.record_size, sizes[i].record_size);
    }
    ck_assert(!profile_record_layout(6, 8, &layout));
    ck_assert(!profile_record_layout(12, 8, &layout));
    ck_assert(!profile_record_layout(8, 2, &layout));
}
END_TEST

/* The record of version 11, as C lays it out. */
struct record_64 {
    uint64_t name_ref, func_hash;
    uint64_t counter_ptr, uniform_counter_ptr, bitmap_ptr, function_pointer, values;
    uint32_t num_counters;
    uint16_t num_value_sites[3];
    uint16_t offload_device_wave_size;
    uint32_t num_bitmap_bytes;
};

struct record_32 {
    uint64_t name_ref, func_hash;
    uint32_t counter_ptr, uniform_counter_ptr, bitmap_ptr, function_pointer, values;
    uint32_t num_counters;
    uint16_t num_value_sites[3];
    uint16_t offload_device_wave_size;
    uint32_t num_bitmap_bytes;
} __attribute__((aligned(8)));

#define EXPECT_FIELD(layout, record, field)                                                        \
    ck_assert_uint_eq((layout).field, offsetof(struct record, field))
#define EXPECT_FIELDS(layout, record)                                                              \
    EXPECT_FIELD(layout, record, counter_ptr);                                                     \
    EXPECT_FIELD(layout, record, uniform_counter_ptr);                                             \
    EXPECT_FIELD(layout, record, bitmap_ptr);                                                      \
    EXPECT_FIELD(layout, record, num_counters);                                                    \
    EXPECT_FIELD(layout, record, num_value_sites);                                                 \
    EXPECT_FIELD(layout, record, offload_device_wave_size);                                        \
    EXPECT_FIELD(layout, record, num_bitmap_bytes);                                                \
    ck_assert_uint_eq((layout).record_size, sizeof(struct record))

START_TEST(test_record_of_version_11)
{
    struct profile_record_layout layout;

    ck_assert(profile_record_layout(11, 8, &layout));
    EXPECT_FIELDS(layout, record_64);
    ck_assert(profile_record_layout(11, 4, &layout));
    EXPECT_FIELDS(layout, record_32);
    ck_assert(profile_record_layout(10, 8, &layout));
    ck_assert_uint_eq(layout.uniform_counter_ptr, 0);
    ck_assert_uint_eq(layout.offload_device_wave_size, 0);
}
END_TEST

START_TEST(test_records_of_devices)
{
    uint8_t record[PROFILE_RECORD_SIZE_MAX];
    struct profile_record_layout layout;

    ck_assert(profile_record_layout(10, 8, &layout));
    memset(record, 0xff, sizeof(record));
    ck_assert(!profile_record_is_of_device(&layout, record, false));
    ck_assert(profile_record_layout(11, 8, &layout));
    memset(record + layout.uniform_counter_ptr, 0, layout.pointer_size);
    memset(record + layout.offload_device_wave_size, 0, sizeof(uint16_t));
    ck_assert(!profile_record_is_of_device(&layout, record, false));
    store_u16(record + layout.offload_device_wave_size, 64, false);
    ck_assert(profile_record_is_of_device(&layout, record, false));
    store_u16(record + layout.offload_device_wave_size, 0, false);
    record[layout.uniform_counter_ptr + 7] = 1;
    ck_assert(profile_record_is_of_device(&layout, record, false));
}
END_TEST

/* Zeros end somewhere, be they a hole or not. */
START_TEST(test_too_many_zeros)
{
    struct recipe recipe = ordinary(8, true, false);
    FREED_BY(buffer_free) struct buffer file = {0};
    struct profile profile;
    struct error error;
    uint64_t offset = 0;

    make(&recipe, &file);
    ck_assert(profile_parse(buffer_view(&file), 0, "p", &profile, &error));
    ck_assert(buffer_append_zeros(&file, PROFILE_GAP_MAX));
    offset = profile.size;
    ck_assert(!profile_find_next(buffer_view(&file), &offset));
    ck_assert(buffer_append_zeros(&file, 1));
    offset = profile.size;
    ck_assert(profile_find_next(buffer_view(&file), &offset));
    ck_assert(!profile_parse(buffer_view(&file), offset, "p", &profile, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "64 MiB of zeros"));
}
END_TEST

/* ---- whose profile it is ---- */

static struct recipe lightweight(int index)
{
    struct recipe recipe = shape(index);

    recipe.num_data = 1;
    recipe.names_size = 0;
    recipe.num_vtables = 0;
    recipe.vnames_size = 0;
    recipe.value_size = 0;
    recipe.binary_id_size = 0;
    recipe.stub = true;
    return recipe;
}

static bool is_lightweight(const struct recipe *recipe)
{
    FREED_BY(buffer_free) struct buffer file = {0};

    make(recipe, &file);
    return parse_good(&file).lightweight;
}

START_TEST(test_not_lightweight)
{
    struct recipe two_records = lightweight(_i);
    struct recipe one_function = lightweight(_i);
    struct recipe value_sites = lightweight(_i);
    struct recipe partial = lightweight(_i);

    two_records.num_data = 2;
    ck_assert(!is_lightweight(&two_records));
    one_function.names_size = 8;
    ck_assert(!is_lightweight(&one_function));
    /* Names were kept by --sections, but the record has the image's UUID. */
    one_function.binary_id_size = 20;
    ck_assert(is_lightweight(&one_function));
    value_sites.value_size = 16;
    ck_assert(!is_lightweight(&value_sites));
    partial.stub = false;
    ck_assert(!is_lightweight(&partial));
}
END_TEST

/* What a sidecar is looked for by: the binary IDs, and then the stub. */
START_TEST(test_uuids)
{
    struct recipe recipe = lightweight(_i);
    FREED_BY(buffer_free) struct buffer file = {0};
    struct profile profile;
    struct profile_uuids uuids = {.profile = &profile};
    struct uuid uuid;
    enum profile_uuid_source source;

    recipe.binary_id_size = 20;
    make(&recipe, &file);
    profile = parse_good(&file);
    ck_assert(profile.lightweight);
    ck_assert(profile_next_uuid(&uuids, &uuid, &source));
    ck_assert_int_eq(source, PROFILE_UUID_BINARY_ID);
    ck_assert_uint_eq(uuid.size, 20);
    ck_assert(profile_next_uuid(&uuids, &uuid, &source));
    ck_assert_int_eq(source, PROFILE_UUID_STUB);
    ck_assert_uint_eq(uuid.size, UUID_STUB_SIZE);
    ck_assert(!profile_next_uuid(&uuids, &uuid, &source));
    ck_assert(!profile_next_uuid(&uuids, &uuid, &source));
    ck_assert_uint_eq(uuid.size, 0);
}
END_TEST

/* ---- damage ---- */

static void expect_bad(struct bytes bytes, const char *message)
{
    struct profile profile;
    struct error error = {0};

    ck_assert(!profile_parse(bytes, 0, "p", &profile, &error));
    ck_assert_msg(strstr(error.message, message) != NULL, "'%s' is not '%s'", error.message,
                  message);
}

START_TEST(test_every_truncation_fails)
{
    struct recipe recipe = shape(_i);
    FREED_BY(buffer_free) struct buffer file = {0};
    /* In continuous mode the value data is not written: a profile that ends there is whole. */
    size_t whole;

    make(&recipe, &file);
    whole = file.size - (size_t)recipe.num_data * recipe.value_size;
    for (size_t size = 0; size < file.size; size++) {
        /* A copy of just that size, so that AddressSanitizer sees what is read behind it. */
        FREED_BY(drop_memory) uint8_t *copy = malloc(size + 1);
        struct bytes bytes = {copy, size};
        struct profile profile;
        struct error error = {0};

        memcpy(copy, file.data, size);
        ck_assert_msg(profile_parse(bytes, 0, "p", &profile, &error) == (size == whole),
                      "%zu of %zu bytes", size, file.size);
        ck_assert(size == whole || strncmp(error.message, "p: ", 3) == 0);
    }
}
END_TEST

START_TEST(test_bad_headers)
{
    struct recipe recipe = ordinary(8, true, false);
    FREED_BY(buffer_free) struct buffer file = {0};

    make(&recipe, &file);
    expect_bad((struct bytes){file.data, 0}, "not a raw profile");
    expect_bad((struct bytes){file.data, 12}, "cut short");
    store_u64(file.data + 8, 6, false);
    expect_bad(buffer_view(&file), "raw profile version 6");
    store_u64(file.data + 8, 12, false);
    expect_bad(buffer_view(&file), "raw profile version 12; this covsplit knows 7 to 11; ");
    store_u64(file.data + 8, 8, false);
    store_u64(file.data + 80, 2, false);
    expect_bad(buffer_view(&file), "last value kind is 2");
    store_u64(file.data + 80, UINT64_MAX, false);
    expect_bad(buffer_view(&file), "last value kind");
    store_u64(file.data + 80, 0, false);
    parse_good(&file);
    store_u64(file.data + 80, 1, false);
    store_u64(file.data + 88, 0, false);
    expect_bad(buffer_view(&file), "binary ID");
    store_u64(file.data + 88, UINT64_MAX, false);
    expect_bad(buffer_view(&file), "binary ID");
}
END_TEST

/* Wherever they would be: it is their number that is refused. */
START_TEST(test_uniform_counters)
{
    static const uint64_t counts[] = {1, 5, UINT64_C(1) << 61, UINT64_MAX};

    for (int index = 0; index < 4; index++) {
        struct recipe recipe = ordinary(11, (index & 1) != 0, (index & 2) != 0);
        FREED_BY(buffer_free) struct buffer file = {0};
        char text[64];

        make(&recipe, &file);
        parse_good(&file);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            store_u64(file.data + 9 * sizeof(uint64_t), counts[i], recipe.big_endian);
            snprintf(text, sizeof(text), "has %" PRIu64 " uniform counters", counts[i]);
            expect_bad(buffer_view(&file), text);
        }
    }
}
END_TEST

START_TEST(test_recognizes_only_profiles)
{
    static const uint8_t indexed[] = {0xff, 'l', 'p', 'r', 'o', 'f', 'i', 0x81};
    static const uint8_t elf[] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0};
    struct bytes empty = {NULL, 0};

    ck_assert(!profile_recognize((struct bytes){indexed, sizeof(indexed)}));
    ck_assert(profile_recognize_indexed((struct bytes){indexed, sizeof(indexed)}));
    ck_assert(!profile_recognize_indexed((struct bytes){indexed, 7}));
    ck_assert(!profile_recognize((struct bytes){elf, sizeof(elf)}));
    ck_assert(!profile_recognize(empty));
    ck_assert(!profile_recognize_indexed(empty));
}
END_TEST

int main(void)
{
    TCase *layout = tcase_create("layout");
    suite_loops(layout, SHAPES, test_every_shape);
    suite_tests(layout, test_record_sizes, test_record_of_version_11, test_records_of_devices,
                test_too_many_zeros);
    TCase *identity = tcase_create("identity");
    suite_loops(identity, SHAPES, test_not_lightweight, test_uuids);
    TCase *damage = tcase_create("damage");
    suite_loops(damage, SHAPES, test_every_truncation_fails);
    suite_tests(damage, test_bad_headers, test_uniform_counters);
    tcase_add_test(damage, test_recognizes_only_profiles);
    return suite_main("profile", layout, identity, damage);
}
