/*
 * Containers: that universal images are read only where they can be made again, byte for byte, and
 * that anything else is one slice.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"
#include "tests/support/suite.h"

#define MAGIC        0xcafebabeu
#define CPU_X86_64   0x01000007u
#define CPU_ARM64    0x0100000cu
#define FILE_SIZE    0x400
#define FIRST_OFFSET 0x100
#define FIRST_SIZE   0x123
#define LAST_OFFSET  0x300

static uint8_t file[FILE_SIZE];
static struct input input;
static struct container container;

static void put(size_t offset, uint32_t value)
{
    store_u32(file + offset, value, true);
}

/* Two slices at multiples of 256. */
static void make_file(void)
{
    static const uint32_t table[] = {MAGIC,
                                     2,
                                     CPU_ARM64,
                                     0,
                                     FIRST_OFFSET,
                                     FIRST_SIZE,
                                     8,
                                     CPU_X86_64,
                                     3,
                                     LAST_OFFSET,
                                     FILE_SIZE - LAST_OFFSET,
                                     8};

    memset(file, 0, sizeof(file));
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        put(4 * i, table[i]);
    memset(file + FIRST_OFFSET, 'a', FIRST_SIZE);
    memset(file + LAST_OFFSET, 'b', FILE_SIZE - LAST_OFFSET);
    input =
        (struct input){.path = (char *)(uintptr_t) "image", .fd = -1, .bytes = {file, FILE_SIZE}};
}

static bool open_file(void)
{
    struct error error;

    return container_open(&container, &input, &error);
}

START_TEST(test_slices)
{
    make_file();
    ck_assert(open_file());
    ck_assert(container.is_universal);
    ck_assert_uint_eq(container.count, 2);
    ck_assert_str_eq(container.slices[0].name, "arm64");
    ck_assert_str_eq(container.slices[1].input.path, "image.x86_64");
    ck_assert_uint_eq(container.slices[0].input.bytes.size, FIRST_SIZE);
    ck_assert_ptr_eq(container.slices[1].input.bytes.data, file + LAST_OFFSET);
    container_close(&container);
}
END_TEST

START_TEST(test_anything_else_is_one_slice)
{
    make_file();
    for (int step = 0; step < 3; step++) {
        if (step == 0)
            put(0, 0x7f454c46);
        else if (step == 1)
            input.bytes.size = 7;
        else
            input.bytes.size = 0;
        ck_assert(open_file());
        ck_assert(!container.is_universal);
        ck_assert_uint_eq(container.count, 1);
        ck_assert_str_eq(container.slices[0].input.path, "image");
        ck_assert_uint_eq(container.slices[0].input.bytes.size, input.bytes.size);
        container_close(&container);
    }
}
END_TEST

/* What could not be made again of its slices. */
START_TEST(test_other_layouts_are_refused)
{
    static const struct {
        size_t offset;
        uint32_t value;
    } changes[] = {
        {4, 0},                  /* no slice */
        {4, 17},                 /* more than there may be */
        {16, FIRST_OFFSET * 2},  /* over the other one, and not where it belongs */
        {16, 0xffffff00},        /* beyond the end */
        {20, 0},                 /* empty */
        {20, 0xffffffff},        /* larger than the file */
        {24, 16},                /* an alignment that nobody has */
        {24, 9},                 /* not the alignment */
        {28, CPU_ARM64},         /* another architecture; below, the same twice */
        {40, LAST_OFFSET - 256}, /* bytes behind the end */
        {FIRST_OFFSET - 4, 1},   /* something in a gap */
    };

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        make_file();
        put(changes[i].offset, changes[i].value);
        if (changes[i].value == CPU_ARM64)
            put(changes[i].offset + 4, 0);
        ck_assert_msg(!open_file(), "%zu", i);
        container_close(&container);
    }
    make_file();
    input.bytes.size--;
    ck_assert(!open_file());
    container_close(&container);
}
END_TEST

/* ---- writing ---- */

START_TEST(test_sizes_that_do_not_fit)
{
    struct error error;

    make_file();
    ck_assert(open_file());
    container.slices[0].size = 0x123456;
    ck_assert(container_lay_out(&container, "image", &error));
    ck_assert_uint_eq(container.slices[1].offset, 0x123600);
    container.slices[0].size = UINT32_MAX;
    ck_assert(!container_lay_out(&container, "image", &error));
    container.is_64 = true;
    ck_assert(container_lay_out(&container, "image", &error));
    container.slices[0].size = UINT64_MAX - 0x80;
    ck_assert(!container_lay_out(&container, "image", &error));
    container_close(&container);
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("container");
    suite_tests(test_case, test_slices, test_anything_else_is_one_slice,
                test_other_layouts_are_refused);
    tcase_add_test(test_case, test_sizes_that_do_not_fit);
    return suite_main("container", test_case);
}
