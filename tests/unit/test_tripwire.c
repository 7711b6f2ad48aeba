/*
 * The tripwire: what it looks like for UUIDs of all sizes, what is recognized as one and what is
 * not, and that nothing but the UUID that was written is read from it.
 */
#include <string.h>
#include <zlib.h>

#include "common/llvm/tripwire.h"
#include "tests/support/suite.h"

#define PLENTY 1000

static struct uuid uuid_of(size_t size)
{
    struct uuid uuid = {.size = size};

    for (size_t i = 0; i < size; i++)
        uuid.bytes[i] = (uint8_t)(0xf1 - 7 * i);
    return uuid;
}

START_TEST(test_text)
{
    struct uuid uuid = {.bytes = {0xab, 0xcd, 0xef, 0x01}, .size = 4};
    static const char wanted[] = "\x7f\x41\ncovsplit lightweight profile, UUID abcdef01"
                                 ": use covsplit merge\n";
    uint8_t bytes[TRIPWIRE_SIZE_MAX];

    ck_assert_uint_eq(tripwire_size(PLENTY, 4, 1), sizeof(wanted) - 1);
    tripwire_write(bytes, sizeof(wanted) - 1, &uuid);
    ck_assert_mem_eq(bytes, wanted, sizeof(wanted) - 1);
}
END_TEST

/* Whatever is read from it, LLVM's readers must find no stream in it. */
static void assert_no_stream(struct bytes tripwire)
{
    uint8_t text[0x7f];
    uLongf size = sizeof(text);

    ck_assert_uint_eq(tripwire.data[0], sizeof(text));
    ck_assert_uint_eq(tripwire.data[1], tripwire.size - 2);
    ck_assert_int_ne(uncompress(text, &size, tripwire.data + 2, (uLong)tripwire.size - 2), Z_OK);
}

START_TEST(test_each_uuid)
{
    struct uuid uuid = uuid_of((size_t)_i), found;
    uint8_t bytes[TRIPWIRE_SIZE_MAX];
    size_t size = tripwire_size(PLENTY, uuid.size, 1);
    struct bytes tripwire = {bytes, size};
    bool is_prefix;

    ck_assert_uint_le(size, sizeof(bytes));
    ck_assert_uint_eq(tripwire_size(size, uuid.size, 1), size);
    tripwire_write(bytes, size, &uuid);
    assert_no_stream(tripwire);
    ck_assert(tripwire_recognize(tripwire));
    ck_assert(tripwire_read_uuid(tripwire, &found, &is_prefix));
    ck_assert_int_eq(is_prefix, uuid.size > TRIPWIRE_UUID_MAX);
    ck_assert_uint_eq(found.size, is_prefix ? TRIPWIRE_UUID_MAX : uuid.size);
    ck_assert_mem_eq(found.bytes, uuid.bytes, found.size);
}
END_TEST

START_TEST(test_short)
{
    struct uuid uuid = uuid_of(20), found;
    uint8_t bytes[TRIPWIRE_SIZE_MAX];
    struct bytes tripwire = {bytes, 3};
    bool is_prefix;

    ck_assert_uint_eq(tripwire_size(tripwire_size(PLENTY, 20, 1) - 1, 20, 1), 3);
    ck_assert_uint_eq(tripwire_size(3, 20, 1), 3);
    ck_assert_uint_eq(tripwire_size(2, 20, 1), 0);
    tripwire_write(bytes, 3, &uuid);
    assert_no_stream(tripwire);
    ck_assert(tripwire_recognize(tripwire));
    ck_assert(!tripwire_read_uuid(tripwire, &found, &is_prefix));
}
END_TEST

/* One that is cut, longer, or has another byte anywhere but in the UUID is none; in the UUID it is
 * none or that of another UUID. */
START_TEST(test_damaged)
{
    struct uuid uuid = uuid_of(40), found;
    uint8_t bytes[TRIPWIRE_SIZE_MAX + 1] = {0};
    size_t size = tripwire_size(PLENTY, uuid.size, 1);
    bool is_prefix;

    tripwire_write(bytes, size, &uuid);
    for (size_t i = 0; i <= sizeof(bytes); i++)
        ck_assert_int_eq(tripwire_recognize((struct bytes){bytes, i}), i == size);
    for (size_t i = 0; i < size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1u << bit);
            if (tripwire_recognize((struct bytes){bytes, size})) {
                ck_assert(tripwire_read_uuid((struct bytes){bytes, size}, &found, &is_prefix));
                /* The case of a hexadecimal digit does not matter. */
                ck_assert(memcmp(found.bytes, uuid.bytes, found.size) != 0 || bit == 5);
            }
            bytes[i] ^= (uint8_t)(1u << bit);
        }
    }
}
END_TEST

/* In units of 2 and 4 bytes: the same text or short one, with bytes ff behind. */
START_TEST(test_unit)
{
    size_t unit = (size_t)1 << _i, size;
    struct uuid uuid = uuid_of(20), found;
    uint8_t bytes[TRIPWIRE_SIZE_MAX + 1];
    bool is_prefix;

    for (uint64_t names = 0; names <= TRIPWIRE_SIZE_MAX; names++) {
        size = tripwire_size(names, uuid.size, unit);
        ck_assert_uint_eq(size % unit, 0);
        ck_assert_uint_le(size, names);
        ck_assert_uint_eq(size == 0, names < align_up(3, unit));
        if (size == 0)
            continue;
        memset(bytes, 0xff, sizeof(bytes));
        tripwire_write(bytes, size, &uuid);
        assert_no_stream((struct bytes){bytes, size});
        for (size_t i = 0; i <= sizeof(bytes); i++)
            ck_assert_int_eq(tripwire_recognize((struct bytes){bytes, i}), i == size);
    }
    ck_assert_uint_eq(size, 100);
    ck_assert(tripwire_read_uuid((struct bytes){bytes, size}, &found, &is_prefix));
    ck_assert(!is_prefix && found.size == 20 && memcmp(found.bytes, uuid.bytes, 20) == 0);
    ck_assert_mem_eq(bytes + size - 2, "\n\xff", 2);
    bytes[size - 1] ^= 1;
    ck_assert(!tripwire_recognize((struct bytes){bytes, size}));
}
END_TEST

START_TEST(test_mapping)
{
    uint8_t bytes[TRIPWIRE_MAPPING_SIZE];

    tripwire_write_mapping(bytes, _i != 0);
    ck_assert(tripwire_recognize_mapping((struct bytes){bytes, sizeof(bytes)}, _i != 0));
    ck_assert(!tripwire_recognize_mapping((struct bytes){bytes, sizeof(bytes)}, _i == 0));
    ck_assert(!tripwire_recognize_mapping((struct bytes){bytes, sizeof(bytes) - 1}, _i != 0));
    ck_assert_uint_eq(load_u32(bytes + 12, _i != 0), 0x7fffffff);
    ck_assert(bytes_all_zero((struct bytes){bytes, 12}));
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_test(all, test_text);
    tcase_add_loop_test(all, test_each_uuid, 1, UUID_SIZE_MAX + 1);
    suite_tests(all, test_short, test_damaged);
    tcase_add_loop_test(all, test_unit, 1, 3);
    suite_loops(all, 2, test_mapping);
    return suite_main("tripwire", all);
}
