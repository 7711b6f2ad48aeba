/*
 * The small things that everything stands on: bounds, numbers, UUIDs, digests, sorted arrays,
 * pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/file.h"
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

/* ---- numbers ---- */

static void check_leb128(uint64_t value)
{
    FREED_BY(buffer_free) struct buffer buffer = {0};
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
    FREED_BY(buffer_free) struct buffer buffer = {0};

    ck_assert(buffer_append(&buffer, "abc", 3));
    ck_assert(!buffer_reserve(&buffer, SIZE_MAX));
    ck_assert(buffer.failed);
    ck_assert(!buffer_append_zeros(&buffer, 1));
    ck_assert(!buffer_append_uleb128(&buffer, 1));
    ck_assert(!buffer_append(&buffer, "d", 0));
    ck_assert_uint_eq(buffer.size, 3);
    buffer_free(&buffer);
    ck_assert(buffer_append(&buffer, "e", 1));
}
END_TEST

/* ---- UUIDs ---- */

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

/* Digits are told and read in one form alone: what others may write in another is no name of ours.
 */
START_TEST(test_hex)
{
    static const char *const refused[] = {"",   "0",  "000", "0000", "0g",
                                          "0A", "0/", "0:",  "0`",   " 0"};
    uint8_t bytes[256], again[256];
    char text[2 * sizeof(bytes) + 1];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    ck_assert_str_eq(hex_format((struct bytes){bytes + 8, 3}, text), "08090a");
    hex_format((struct bytes){bytes, sizeof(bytes)}, text);
    ck_assert(hex_parse(text, strlen(text), again, sizeof(again)));
    ck_assert_mem_eq(bytes, again, sizeof(bytes));
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        ck_assert(!hex_parse(refused[i], strlen(refused[i]), again, 1));
}
END_TEST

/* The same function writes and reads. */
START_TEST(test_coder)
{
    uint8_t bytes[] = {1, 2, 3}, other[] = {9, 9, 9};
    FREED_BY(buffer_free) struct buffer made = {0};
    struct coder coder = {.to = &made};

    ck_assert_uint_eq(code_uleb128(&coder, 300), 300);
    code_bytes(&coder, bytes, sizeof(bytes));
    coder = (struct coder){.from = cursor_open(buffer_view(&made), false, false)};
    ck_assert_uint_eq(code_uleb128(&coder, 7), 300);
    code_bytes(&coder, other, sizeof(other));
    ck_assert_mem_eq(bytes, other, sizeof(bytes));
    ck_assert(cursor_finished(&coder.from));
    code_bytes(&coder, bytes, 1);
    ck_assert(coder.from.bad && bytes[0] == 1);
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
    FREED_BY(arena_free) struct arena arena = {0};
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
}
END_TEST

/* A file may choose keys that differ in a few bits only, wherever these are. If they were in the
 * same places of the table, this would not end. */
#define KEYS 262144

START_TEST(test_chosen_keys)
{
    struct intern_table table = {0};
    uint64_t number, wanted = 0;

    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = i << (4 * _i);

        ck_assert(intern_table_add(&table, key, &number));
        wanted += number == wanted;
    }
    ck_assert_uint_eq(wanted, 4 * _i < 47 ? KEYS : UINT64_C(1) << (64 - 4 * _i));
    ck_assert_uint_eq(table.count, wanted);
    intern_table_free(&table);
}
END_TEST

/* Pages of files that are in memory. */
static long file_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long all, resident, shared;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld %ld", &all, &resident, &shared), 3);
    fclose(file);
    return shared;
}

/* Pages of a mapped file go while it is read, and come back as they were; what is elsewhere stays.
 */
START_TEST(test_dropped_pages)
{
    static uint8_t block[8 << 20];
    char path[] = "/tmp/covsplit-pages-XXXXXX";
    int fd = mkstemp(path);
    struct bytes part = {block + 1000, sizeof(block) - 3000};
    struct input input;
    struct error error;
    struct digest digest, expected;
    long before, page = sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (uint8_t)(i * 7 + i / 4096);
    expected = digest_of(part);
    ck_assert_int_eq(write(fd, block, sizeof(block)), (ssize_t)sizeof(block));
    close(fd);
    ck_assert_msg(input_open(&input, path, &error), "%s", error.message);
    unlink(path);
    before = file_pages();
    digest = input_digest_of(&input, (struct bytes){input.bytes.data + 1000, part.size});
    ck_assert(digest_equal(&digest, &expected));
    ck_assert_int_lt(file_pages() - before, (2 << 20) / page);
    ck_assert_mem_eq(input.bytes.data, block, sizeof(block));
    ck_assert_int_gt(file_pages() - before, (4 << 20) / page);
    digest = input_digest_of(&input, part);
    ck_assert(digest_equal(&digest, &expected));
    digest = input_digest_of(NULL, part);
    ck_assert(digest_equal(&digest, &expected));
    input_close(&input);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_slice_stays_inside, test_ranges, test_all_zero, test_leb128, test_cursor,
                test_buffer_stays_failed, test_uuid_refuses, test_hex, test_coder, test_count_up_to,
                test_arena, test_dropped_pages);
    suite_loops(all, 16, test_chosen_keys);
    return suite_main("bytes", all);
}
