/*
 * Stub records of every version: what they say of counters and bitmap, and which do not fit one.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/runtime/runtime.h"
#include "tests/support/suite.h"

#define VERSIONS (PROFILE_VERSION_MAX - PROFILE_VERSION_MIN + 1)

/* A record of the n-th version, in one of two sizes and byte orders. */
static struct profile_record_layout layout_of(int index, uint64_t *version, bool *big_endian)
{
    struct profile_record_layout layout;
    size_t pointer_size = (index / VERSIONS & 1) != 0 ? 4 : 8;

    *version = PROFILE_VERSION_MIN + (uint64_t)(index % VERSIONS);
    *big_endian = (index / VERSIONS & 2) != 0;
    ck_assert(stub_layout(*version, pointer_size, &layout));
    return layout;
}

static uint64_t load_pointer(const uint8_t *from, size_t size, bool big_endian)
{
    return size == 4 ? load_u32(from, big_endian) : load_u64(from, big_endian);
}

/* Distances from the record, or addresses; and all other bytes are zero. */
static const uint8_t id[PROFILE_STUB_ID_SIZE] = "0123456789abcdef";

START_TEST(test_fields)
{
    struct stub_place place = {
        .record = 0x9000, .counters = 0x1000, .counters_size = 80, .bitmap = 0x8000};
    uint8_t record[STUB_RECORD_MAX];
    struct profile_record_layout layout;
    uint64_t version, origin, mask;
    bool big_endian;

    layout = layout_of(_i, &version, &big_endian);
    place.bitmap_size = layout.bitmap_ptr != 0 ? 5 : 0;
    place.has_narrow_distances = _i / (4 * VERSIONS) != 0;
    origin = layout.relative ? place.record : 0;
    mask = place.has_narrow_distances || layout.pointer_size == 4 ? UINT32_MAX : UINT64_MAX;
    memset(record, 0x55, sizeof(record));
    ck_assert(stub_encode(&layout, version, &place, id, big_endian, record));
    ck_assert_mem_eq(record, id, sizeof(id));
    memset(record, 0, sizeof(id));
    ck_assert_uint_eq(load_pointer(record + layout.counter_ptr, layout.pointer_size, big_endian),
                      (place.counters - origin) & mask);
    ck_assert_uint_eq(load_u32(record + layout.num_counters, big_endian), 10);
    if (layout.bitmap_ptr != 0) {
        ck_assert_uint_eq(load_pointer(record + layout.bitmap_ptr, layout.pointer_size, big_endian),
                          (place.bitmap - origin) & mask);
        ck_assert_uint_eq(load_u32(record + layout.num_bitmap_bytes, big_endian), 5);
        memset(record + layout.bitmap_ptr, 0, layout.pointer_size);
        memset(record + layout.num_bitmap_bytes, 0, 4);
    }
    memset(record + layout.counter_ptr, 0, layout.pointer_size);
    memset(record + layout.num_counters, 0, 4);
    ck_assert(bytes_all_zero((struct bytes){record, layout.record_size}));
}
END_TEST

/* One byte for each counter. */
START_TEST(test_byte_coverage)
{
    const struct stub_place place = {.record = 0x9000, .counters = 0x1000, .counters_size = 81};
    uint64_t version = 10 | PROFILE_VARIANT_BYTE_COVERAGE;
    struct profile_record_layout layout;
    uint8_t record[STUB_RECORD_MAX];

    ck_assert(stub_layout(version, 8, &layout));
    ck_assert(stub_encode(&layout, version, &place, id, false, record));
    ck_assert_uint_eq(load_u32(record + layout.num_counters, false), 81);
}
END_TEST

START_TEST(test_no_fit)
{
    static const struct {
        uint64_t version, counters_size, bitmap_size;
        bool fits;
    } rows[] = {
        {10, 8, 0, true},
        {10, 0, 0, false},
        {10, 7, 0, false},
        {10, 12, 0, false},
        {10, UINT64_C(8) * UINT32_MAX, 0, true},
        {10, UINT64_C(8) * UINT32_MAX + 8, 0, false},
        {10 | PROFILE_VARIANT_BYTE_COVERAGE, UINT32_MAX, 0, true},
        {10 | PROFILE_VARIANT_BYTE_COVERAGE, UINT64_C(1) << 32, 0, false},
        {10, 8, UINT32_MAX, true},
        {10, 8, UINT64_C(1) << 32, false},
        {8, 8, 0, true},
        {8, 8, 1, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct stub_place place = {.counters_size = rows[i].counters_size,
                                         .bitmap_size = rows[i].bitmap_size};
        struct profile_record_layout layout;
        uint8_t record[STUB_RECORD_MAX];

        ck_assert(stub_layout(rows[i].version, 8, &layout));
        ck_assert_msg(stub_encode(&layout, rows[i].version, &place, id, false, record) ==
                          rows[i].fits,
                      "row %zu", i);
    }
}
END_TEST

/* A version, a variant and a size of pointers that nobody knows. */
START_TEST(test_unknown)
{
    struct profile_record_layout layout;

    ck_assert(!stub_layout(PROFILE_VERSION_MIN - 1, 8, &layout));
    ck_assert(!stub_layout(PROFILE_VERSION_MAX + 1, 8, &layout));
    ck_assert(!stub_layout(10 | UINT64_C(1) << 40, 8, &layout));
    ck_assert(!stub_layout(10, 2, &layout));
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, 8 * VERSIONS, test_fields);
    suite_tests(all, test_byte_coverage, test_no_fit, test_unknown);
    return suite_main("stub", all);
}
