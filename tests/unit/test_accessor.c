/*
 * Code of x86-64 and AArch64, beyond the tables of their suites: many places that are looked at
 * together, operands that are cut, addresses of which some count, loads, and jumps.
 */
#include <string.h>

#include "formats/machine/machine.h"
#include "tests/support/suite.h"

#define ADDRESS UINT64_C(0x401000)

/* ---- the operations, of a machine ---- */

static bool find_reference(const struct machine *machine, struct bytes bytes, uint64_t address,
                           const struct reference_target *target, uint64_t *position)
{
    return machine->find_reference(
        &(struct code){.machine = machine, .bytes = bytes, .address = address}, target, position);
}

static bool find_load(const struct machine *machine, struct bytes bytes, uint64_t address,
                      uint64_t *position, uint64_t *target)
{
    return machine->find_load != NULL &&
           machine->find_load(
               &(struct code){.machine = machine, .bytes = bytes, .address = address}, position,
               target);
}

static bool follow_jump(const struct machine *machine, struct bytes bytes, uint64_t address,
                        uint64_t *target)
{
    return machine->follow_jump(
        &(struct code){.machine = machine, .bytes = bytes, .address = address}, target);
}

/* ---- references ---- */

static bool finds(const char *code, size_t size, uint64_t first, uint64_t range, bool absolute)
{
    struct reference_target target = {.first = first, .size = range, .absolute = absolute};
    uint64_t position = 0;

    return find_reference(&machine_x86_64, (struct bytes){(const uint8_t *)code, (uint64_t)size},
                          ADDRESS, &target, &position);
}

/* Instructions that load or compare, or have an address as their operand; and with less in front of
 * the operand, other instructions with one, until there is none. */
START_TEST(test_forms)
{
    static const struct {
        const char *what;
        uint8_t code[12];
        size_t before; /* bytes without which it is still an instruction with that operand */
        bool absolute;
    } forms[] = {
        {"movzx", {0x90, 0x0f, 0xb6, 0x05}, 1, false},
        {"movups, adc", {0x90, 0x0f, 0x10, 0x05}, 2, false},
        {"movaps, sub", {0x90, 0x0f, 0x28, 0x05}, 2, false},
        {"movdqa", {0x66, 0x0f, 0x6f, 0x05}, 1, false},
        {"cmp with memory", {0x90, 0x48, 0x39, 0x05}, 2, false},
        {"cmp of memory", {0x90, 0x48, 0x3b, 0x05}, 2, false},
        {"push", {0x90, 0x90, 0x90, 0x68}, 3, true},
        {"cmp of rax", {0x90, 0x90, 0x48, 0x3d}, 3, true},
        {"mov from an address, and", {0x48, 0x8b, 0x04, 0x25}, 3, true},
        {"mov", {0x90, 0x48, 0xc7, 0xc0}, 2, true},
        {"cmp", {0x90, 0x48, 0x81, 0xf9}, 2, true},
    };
    uint8_t code[12];
    uint64_t target = forms[_i].absolute ? 0x40b1e0 : ADDRESS + 8 + 0x1000;

    memcpy(code, forms[_i].code, sizeof(code));
    store_u32(code + 4, forms[_i].absolute ? 0x40b1e0 : 0x1000, false);
    /* One more than the first of the range: that one is found by its value alone. */
    ck_assert_msg(finds((const char *)code, 9, target - 1, 2, forms[_i].absolute), "%s",
                  forms[_i].what);
    ck_assert(!finds((const char *)code, 9, target + 1, 2, forms[_i].absolute));
    for (size_t cut = 0; cut <= 4; cut++) {
        uint64_t moved = target - (forms[_i].absolute ? 0 : cut);
        bool is_whole = cut <= forms[_i].before;

        ck_assert_msg(finds((const char *)code + cut, 9 - cut, moved - 1, 2, forms[_i].absolute) ==
                          is_whole,
                      "%s, cut by %zu", forms[_i].what, cut);
    }
}
END_TEST

static bool is_even(const void *context, uint64_t address)
{
    (void)context;
    return address % 2 == 0;
}

/* Of the addresses in the range only some count, in every form. */
START_TEST(test_counted)
{
    static const char lea[] = "\x48\x8d\x0d\x00\x10\x00\x00"; /* lea 0x1000(%rip),%rcx */
    static const char other[] = "\x48\x8d\x0d\x01\x10\x00\x00";
    static const char immediate[] = "\x90\xbf\xe1\xb1\x40\x00"; /* mov $0x40b1e1,%edi */
    struct reference_target target = {.size = 0x100000, .absolute = true, .counts = is_even};
    struct bytes codes[] = {
        {(const uint8_t *)lea, 7}, {(const uint8_t *)other, 7}, {(const uint8_t *)immediate, 6}};
    const bool found[] = {false, true, false};
    uint64_t position;

    for (size_t i = 0; i < 3; i++) {
        position = 0;
        target.first = i < 2 ? ADDRESS : 0x40b000;
        ck_assert_msg(find_reference(&machine_x86_64, codes[i], ADDRESS, &target, &position) ==
                          found[i],
                      "code %zu", i);
    }
}
END_TEST

/* The place of the first operand at `from` or behind it, or the size of the code. */
static uint64_t place_of(const uint8_t *code, uint64_t size, uint64_t from, uint64_t first,
                         uint64_t range, bool absolute)
{
    struct reference_target target = {.first = first, .size = range, .absolute = absolute};
    uint64_t position = from;

    return find_reference(&machine_x86_64, (struct bytes){code, size}, ADDRESS, &target, &position)
               ? position
               : size;
}

/* Many places are looked at together: none may be missed or moved, wherever the code begins and
 * ends, whether the target is near or ends where addresses do. */
START_TEST(test_each_place)
{
    enum { SIZE = 75 };
    const uint64_t targets[] = {ADDRESS + 0x1000, ADDRESS - 0x70000000, 0, UINT64_MAX - 99};
    uint8_t code[SIZE];

    for (uint64_t at = 3; at + 4 <= SIZE; at++) {
        for (size_t i = 0; i < 4; i++) {
            uint64_t offset = targets[i] - (ADDRESS + at + 4);
            bool reached = offset == (uint64_t)(int64_t)(int32_t)offset;

            memset(code, 0x90, SIZE);
            memcpy(code + at - 3, "\x48\x8d\x05", 3);
            store_u32(code + at, (uint32_t)offset, false);
            for (uint64_t from = 0; from <= at; from += 7)
                ck_assert_uint_eq(place_of(code, SIZE, from, targets[i] - 50, 100, false),
                                  reached ? at : SIZE);
            ck_assert_uint_eq(place_of(code, SIZE, at + 1, targets[i] - 50, 100, false), SIZE);
            ck_assert_uint_eq(place_of(code, at + 3, 0, targets[i] - 50, 100, false), at + 3);
            ck_assert_uint_eq(place_of(code, SIZE, 0, targets[i], 1, false), reached ? at : SIZE);
            ck_assert_uint_eq(place_of(code, SIZE, 0, targets[i] + 1, 100, false), SIZE);
            ck_assert_uint_eq(place_of(code, SIZE, 0, 0, UINT64_MAX, false), at);
        }
        memset(code, 0x90, SIZE);
        code[at - 1] = 0xbf; /* mov $0x40b1e0,%edi */
        store_u32(code + at, 0x40b1e0, false);
        ck_assert_uint_eq(place_of(code, SIZE, 0, 0x40b1e0 - 50, 100, true), at);
        ck_assert_uint_eq(place_of(code, SIZE, 0, 0x40b1e0 - 50, 50, true), SIZE);
    }
}
END_TEST

/* ---- AArch64 ---- */

/* nop; adrp x8, ADDRESS + 0x1000; nop; ldr x9, [x8, #0x18]; ret */
static const char load[] = "\x1f\x20\x03\xd5\x08\x00\x00\xb0\x1f\x20\x03\xd5\x09\x0d\x40\xf9"
                           "\xc0\x03\x5f\xd6";

#define LOAD_SIZE (sizeof(load) - 1)

/* An adrp alone stands for its whole page. */
START_TEST(test_lone_adrp)
{
    struct bytes code = {(const uint8_t *)load, 12};
    struct reference_target target = {.first = ADDRESS + 0x1fff, .size = 1};
    uint64_t position = 0;

    ck_assert(find_reference(&machine_aarch64, code, ADDRESS, &target, &position));
    position = 0;
    target = (struct reference_target){.first = ADDRESS + 0x2000, .size = 0x1000};
    ck_assert(!find_reference(&machine_aarch64, code, ADDRESS, &target, &position));
}
END_TEST

/* ---- searching without symbols ---- */

START_TEST(test_loads)
{
    /* mov 0x10(%rip),%rcx; mov 0x10(%rip),%r9; lea 0x10(%rip),%rcx */
    static const char loads[] = "\x48\x8b\x0d\x10\x00\x00\x00\x4c\x8b\x0d\x10\x00\x00\x00"
                                "\x48\x8d\x0d\x10\x00\x00\x00";
    struct bytes code = {(const uint8_t *)loads, sizeof(loads) - 1};
    struct bytes aarch64 = {(const uint8_t *)load, LOAD_SIZE};
    uint64_t position = 0, target;

    ck_assert(find_load(&machine_x86_64, code, ADDRESS, &position, &target));
    ck_assert_uint_eq(target, ADDRESS + 7 + 0x10);
    ck_assert(find_load(&machine_x86_64, code, ADDRESS, &position, &target));
    ck_assert_uint_eq(target, ADDRESS + 14 + 0x10);
    ck_assert(!find_load(&machine_x86_64, code, ADDRESS, &position, &target));
    position = 0;
    ck_assert(find_load(&machine_aarch64, aarch64, ADDRESS, &position, &target));
    ck_assert_uint_eq(target, ADDRESS + 0x1018);
    ck_assert(!find_load(&machine_aarch64, aarch64, ADDRESS, &position, &target));
    position = 0;
    ck_assert(!find_load(&machine_i386, code, ADDRESS, &position, &target));
}
END_TEST

START_TEST(test_jumps)
{
    struct bytes x86 = {(const uint8_t *)"\xe9\xfb\xff\xff\xff", 5};
    struct bytes aarch64 = {(const uint8_t *)"\xff\xff\xff\x17", 4};
    struct bytes other = {(const uint8_t *)"\x08\x00\x40\x39", 4}; /* ldrb w8,[x0] */
    uint64_t target;

    ck_assert(follow_jump(&machine_x86_64, x86, ADDRESS, &target));
    ck_assert_uint_eq(target, ADDRESS);
    ck_assert(follow_jump(&machine_i386, x86, ADDRESS, &target));
    ck_assert_uint_eq(target, ADDRESS);
    ck_assert(follow_jump(&machine_aarch64, aarch64, ADDRESS, &target));
    ck_assert_uint_eq(target, ADDRESS - 4);
    /* Who follows what is no jump stays where he was. */
    ck_assert(!follow_jump(&machine_aarch64, other, ADDRESS, &target));
    ck_assert_uint_eq(target, ADDRESS - 4);
    ck_assert(!follow_jump(&machine_x86_64, aarch64, ADDRESS, &target));
    x86.size = 4;
    ck_assert(!follow_jump(&machine_x86_64, x86, ADDRESS, &target));
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_loops(all, 11, test_forms);
    suite_tests(all, test_each_place, test_counted, test_lone_adrp, test_loads, test_jumps);
    return suite_main("accessor", all);
}
