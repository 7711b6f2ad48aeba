/*
 * The small things that everything stands on: bounds, numbers, UUIDs, digests, sorted arrays.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/uuid.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

/* ---- views and buffers ---- */

START_TEST(test_slice_stays_inside)
{
    const uint8_t data[16] = {0};
    const struct bytes whole = {data, sizeof(data)};
    const uint64_t huge[] = {17, UINT32_MAX, UINT64_MAX - 15, UINT64_MAX};
    struct bytes part;

    ck_assert(bytes_slice(whole, 4, 12, &part));
    ck_assert_ptr_eq(part.data, data + 4);
    ck_assert_uint_eq(part.size, 12);
    ck_assert(bytes_slice(whole, 16, 0, &part));
    ck_assert(!bytes_slice(whole, 4, 13, &part));
    ck_assert(!bytes_slice(whole, 17, 0, &part));
    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        part = (struct bytes){data, 3};
        ck_assert(!bytes_slice(whole, huge[i], 1, &part));
        ck_assert(!bytes_slice(whole, 1, huge[i], &part));
        ck_assert(!bytes_slice(whole, huge[i], huge[i], &part));
        ck_assert_uint_eq(part.size, 3);
    }
    ck_assert(bytes_slice((struct bytes){0}, 0, 0, &part));
    ck_assert(!bytes_slice((struct bytes){0}, 0, 1, &part));
}
END_TEST

START_TEST(test_ranges)
{
    uint64_t sum;

    ck_assert(range_within(4, 4, 0, 8));
    ck_assert(range_within(8, 0, 0, 8));
    ck_assert(!range_within(5, 4, 0, 8));
    ck_assert(!range_within(3, 1, 4, 8));
    ck_assert(!range_within(8, UINT64_MAX, 0, UINT64_MAX));
    ck_assert(range_within(UINT64_MAX, 0, 0, UINT64_MAX));
    ck_assert(ranges_overlap(0, 4, 3, 1));
    ck_assert(!ranges_overlap(0, 4, 4, 1));
    ck_assert(!ranges_overlap(0, 4, 2, 0));
    ck_assert(add_fits(UINT64_MAX - 1, 1, &sum) && sum == UINT64_MAX);
    ck_assert(!add_fits(UINT64_MAX, 1, &sum));
    ck_assert(is_power_of_two(1) && is_power_of_two(UINT64_C(1) << 63));
    ck_assert(!is_power_of_two(0) && !is_power_of_two(6));
    ck_assert_uint_eq(align_up(13, 8), 16);
    ck_assert_uint_eq(align_up(16, 8), 16);
    ck_assert_uint_eq(align_down(15, 8), 8);
}
END_TEST

START_TEST(test_all_zero)
{
    uint8_t data[300] = {0};

    ck_assert(bytes_all_zero((struct bytes){0}));
    for (size_t size = 0; size <= sizeof(data); size++)
        ck_assert(bytes_all_zero((struct bytes){data, size}));
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = 1;
        ck_assert(!bytes_all_zero((struct bytes){data, sizeof(data)}));
        ck_assert(bytes_all_zero((struct bytes){data, i}));
        data[i] = 0;
    }
    memset(data, 7, sizeof(data));
    ck_assert(!bytes_all_zero((struct bytes){data, sizeof(data)}));
}
END_TEST

START_TEST(test_buffer)
{
    struct buffer buffer = {0};
    struct random_state random = random_start(1);
    uint8_t expected[5000];
    size_t size = 0;

    while (size < sizeof(expected)) {
        size_t part = (size_t)random_below(&random, 200);

        if (part > sizeof(expected) - size)
            part = sizeof(expected) - size;
        if (random_below(&random, 4) == 0) {
            memset(expected + size, 0, part);
            ck_assert(buffer_append_zeros(&buffer, part));
        } else {
            memset(expected + size, (int)random_below(&random, 256), part);
            ck_assert(buffer_append(&buffer, expected + size, part));
        }
        size += part;
    }
    ck_assert(bytes_equal(buffer_view(&buffer), (struct bytes){expected, size}));
    ck_assert(!buffer_reserve(&buffer, SIZE_MAX));
    ck_assert_uint_eq(buffer.size, size);
    buffer_free(&buffer);
    ck_assert_ptr_null(buffer.data);
}
END_TEST

/* ---- numbers ---- */

START_TEST(test_byte_orders)
{
    uint8_t to[9] = {0};

    store_u16(to + 1, 0x0102, true);
    ck_assert(to[1] == 1 && to[2] == 2);
    ck_assert_uint_eq(load_u16(to + 1, true), 0x0102);
    ck_assert_uint_eq(load_u16(to + 1, false), 0x0201);
    store_u32(to + 1, 0x01020304, false);
    ck_assert(to[1] == 4 && to[4] == 1);
    ck_assert_uint_eq(load_u32(to + 1, true), 0x04030201);
    store_u64(to + 1, UINT64_C(0xfedcba9876543210), true);
    ck_assert(to[1] == 0xfe && to[8] == 0x10);
    ck_assert_uint_eq(load_u64(to + 1, true), UINT64_C(0xfedcba9876543210));
    ck_assert_uint_eq(load_u64(to + 1, false), UINT64_C(0x1032547698badcfe));
}
END_TEST

static void check_leb128(uint64_t value)
{
    struct buffer buffer = {0};
    struct bytes view;
    uint64_t taken = ~value;

    ck_assert(buffer_append_uleb128(&buffer, value));
    ck_assert_uint_le(buffer.size, 10);
    for (size_t size = 0; size < buffer.size; size++) {
        view = (struct bytes){buffer.data, size};
        ck_assert(!bytes_take_uleb128(&view, &taken));
        ck_assert_uint_eq(view.size, size);
    }
    ck_assert(buffer_append_zeros(&buffer, 3));
    view = buffer_view(&buffer);
    ck_assert(bytes_take_uleb128(&view, &taken));
    ck_assert_uint_eq(taken, value);
    ck_assert_uint_eq(view.size, 3);
    buffer_free(&buffer);
}

START_TEST(test_leb128)
{
    const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    const uint8_t too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};
    struct bytes view = {too_large, sizeof(too_large)};
    struct random_state random = random_start(2);
    uint64_t value;

    ck_assert(!bytes_take_uleb128(&view, &value));
    view = (struct bytes){too_long, sizeof(too_long)};
    ck_assert(!bytes_take_uleb128(&view, &value));
    for (unsigned shift = 0; shift < 64; shift++) {
        check_leb128(UINT64_C(1) << shift);
        check_leb128((UINT64_C(1) << shift) - 1);
        check_leb128(random_next(&random) >> shift);
    }
    check_leb128(UINT64_MAX);
}
END_TEST

/* ---- cursors, and buffers that failed ---- */

START_TEST(test_cursor)
{
    const uint8_t data[] = {1, 2, 3, 0x80, 1, 4, 5, 6, 7, 0xff, 0xff, 0xff, 0xff, 0x1f};
    struct bytes bytes = {data, sizeof(data)};
    struct cursor cursor = cursor_open(bytes, true, false), fresh = cursor;

    ck_assert_uint_eq(cursor_u8(&cursor), 1);
    ck_assert_uint_eq(cursor_u16(&cursor), 0x0203);
    ck_assert_uint_eq(cursor_uleb128(&cursor), 128);
    ck_assert_uint_eq(cursor_word(&cursor), 0x04050607);
    ck_assert(!cursor.bad && cursor_left(&cursor) == 5 && !cursor_finished(&cursor));
    /* 33 bits do not fit 32. */
    ck_assert_uint_eq(cursor_uleb128_32(&cursor), 0);
    ck_assert(cursor.bad && cursor_left(&cursor) == 0 && !cursor_finished(&cursor));

    fresh.wide = true;
    ck_assert_uint_eq(cursor_word(&fresh), UINT64_C(0x0102038001040506));
    ck_assert_uint_eq(cursor_rest(&fresh).size, 6);
    ck_assert(cursor_finished(&fresh));
    ck_assert_uint_eq(cursor_bytes(&fresh, 0).size, 0);
    ck_assert(cursor_finished(&fresh));
    /* One byte too many: zeros from then on, whatever is asked for. */
    ck_assert_uint_eq(cursor_u8(&fresh), 0);
    ck_assert(fresh.bad);

    fresh = cursor_open(bytes, false, true);
    ck_assert_uint_eq(cursor_bytes(&fresh, UINT64_MAX).size, 0);
    ck_assert_uint_eq(cursor_u64(&fresh), 0);
    ck_assert_uint_eq(cursor_uleb128(&fresh), 0);
    ck_assert(fresh.bad && !cursor_finished(&fresh));

    fresh = cursor_open((struct bytes){0}, false, true);
    ck_assert(cursor_finished(&fresh));
    ck_assert_uint_eq(cursor_uleb128(&fresh), 0);
    ck_assert(fresh.bad);
}
END_TEST

START_TEST(test_buffer_stays_failed)
{
    struct buffer buffer = {0};

    ck_assert(buffer_append(&buffer, "abc", 3));
    ck_assert(!buffer_reserve(&buffer, SIZE_MAX));
    ck_assert(buffer.failed);
    ck_assert(!buffer_append_zeros(&buffer, 1));
    ck_assert(!buffer_append_uleb128(&buffer, 1));
    ck_assert(!buffer_append(&buffer, "d", 0));
    ck_assert_uint_eq(buffer.size, 3);
    buffer_free(&buffer);
    ck_assert(buffer_append(&buffer, "e", 1));
    buffer_free(&buffer);
}
END_TEST

/* ---- UUIDs ---- */

START_TEST(test_uuid_text)
{
    char text[UUID_HEX_MAX];
    struct uuid uuid, other;

    ck_assert(uuid_parse("00AAbbCCddEEff10", &uuid));
    ck_assert_uint_eq(uuid.size, 8);
    ck_assert_str_eq(uuid_format(&uuid, text), "00aabbccddeeff10");
    ck_assert(uuid_parse("00aabbcc-ddee-ff10", &other));
    ck_assert(uuid_equal(&uuid, &other));
    ck_assert(uuid_parse("00aabbccddeeff", &other));
    ck_assert(!uuid_equal(&uuid, &other));
}
END_TEST

START_TEST(test_uuid_refuses)
{
    static const char *const bad[] = {"",   "0",  "0x12", "12 34", "-12", "12-",
                                      "zz", "1g", "1-2",  "12345", "12\n"};
    char text[UUID_HEX_MAX + 2];
    struct uuid uuid = {.size = 99};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_msg(!uuid_parse(bad[i], &uuid), "took \"%s\"", bad[i]);
    ck_assert_uint_eq(uuid.size, 99);
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    ck_assert(!uuid_parse(text, &uuid));
    text[UUID_HEX_MAX - 1] = '\0';
    ck_assert(uuid_parse(text, &uuid));
    ck_assert_uint_eq(uuid.size, UUID_SIZE_MAX);
    ck_assert_uint_eq(strlen(uuid_format(&uuid, text)), 2 * UUID_SIZE_MAX);
}
END_TEST

/* ---- digests ---- */

START_TEST(test_digest_is_canonical)
{
    char text[DIGEST_HEX_MAX];
    struct digest digest = digest_of((struct bytes){0});

    /* XXH3-128 of nothing with seed 0, as its specification and `xxhsum -H2` have it. */
    ck_assert_str_eq(digest_format(&digest, text), "99aa06d3014798d86001c324468d497f");
}
END_TEST

START_TEST(test_digest_in_parts)
{
    struct random_state random = random_start(3);
    uint8_t data[4096];
    struct digest whole, parts;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)random_next(&random);
    whole = digest_of((struct bytes){data, sizeof(data)});
    for (int round = 0; round < 50; round++) {
        struct digest_stream stream;
        size_t done = 0;

        digest_stream_start(&stream);
        while (done < sizeof(data)) {
            size_t part = (size_t)random_below(&random, sizeof(data) - done + 1);
            digest_stream_add(&stream, (struct bytes){data + done, part});
            done += part;
        }
        parts = digest_stream_finish(&stream);
        ck_assert(digest_equal(&whole, &parts));
    }
    data[100] ^= 1;
    parts = digest_of((struct bytes){data, sizeof(data)});
    ck_assert(!digest_equal(&whole, &parts));
}
END_TEST

/* Of every number of items, whose keys are 10, 20 and so on, and of every key near these. */
START_TEST(test_count_up_to)
{
    struct {
        uint64_t key;
        char rest[5];
    } items[9] = {{0}};

    for (size_t i = 0; i < 9; i++)
        items[i].key = 10 * (i + 1);
    for (size_t count = 0; count <= 9; count++) {
        for (uint64_t key = 0; key <= 110; key++) {
            size_t expected = (size_t)key / 10 < count ? (size_t)key / 10 : count;

            ck_assert_uint_eq(array_count_up_to(items, count, sizeof(items[0]), key), expected);
        }
        ck_assert_uint_eq(array_count_up_to(items, count, sizeof(items[0]), UINT64_MAX), count);
    }
    ck_assert_uint_eq(array_count_up_to(NULL, 0, sizeof(items[0]), 1), 0);
}
END_TEST

/* Objects of sizes around what shares a block, in several orders. */
START_TEST(test_arena)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 16384, 16385, 65536, 200000};
    struct arena arena = {0};
    uint8_t *objects[9 * 9] = {0};

    for (size_t i = 0; i < 81; i++) {
        size_t size = sizes[(i * (1 + i / 9)) % 9];

        objects[i] = arena_allocate(&arena, size);
        ck_assert_ptr_nonnull(objects[i]);
        ck_assert_uint_eq((uintptr_t)objects[i] % sizeof(long double), 0);
        ck_assert(bytes_all_zero((struct bytes){objects[i], size}));
        memset(objects[i], (int)i + 1, size);
    }
    for (size_t i = 0; i < 81; i++) {
        for (size_t at = 0; at < sizes[(i * (1 + i / 9)) % 9]; at++)
            ck_assert_uint_eq(objects[i][at], i + 1);
    }
    ck_assert_str_eq(arena_text(&arena, "%s %d", "text", 7), "text 7");
    ck_assert_str_eq(arena_copy(&arena, (struct bytes){(const uint8_t *)"copied", 4}), "copi");
    ck_assert_ptr_null(arena_array(&arena, SIZE_MAX / 4, 8));
    ck_assert(arena.failed);
    ck_assert_ptr_null(arena_allocate(&arena, 1));
    arena_free(&arena);
    ck_assert(!arena.failed);
    ck_assert_ptr_nonnull(arena_allocate(&arena, 1));
    arena_free(&arena);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_slice_stays_inside, test_ranges, test_all_zero, test_buffer,
                test_byte_orders, test_leb128, test_cursor, test_buffer_stays_failed,
                test_uuid_text, test_uuid_refuses, test_digest_is_canonical, test_digest_in_parts,
                test_count_up_to, test_arena);
    return suite_main("bytes", all);
}
