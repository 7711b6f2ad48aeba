/*
 * Bodies of accessor functions: those that real runtimes have are understood and rewritten, and
 * nothing that merely resembles one is.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "formats/machine/machine.h"
#include "tests/support/suite.h"

#define ADDRESS UINT64_C(0x401000)

/* ---- the operations, of a machine ---- */

static bool decode(const struct machine *machine, struct bytes bytes, uint64_t address,
                   struct accessor *accessor)
{
    return machine->decode_accessor(
        &(struct code){.machine = machine, .bytes = bytes, .address = address}, accessor);
}

static bool encode(const struct machine *machine, const struct accessor *accessor,
                   struct bytes bytes, uint64_t address, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    return machine->encode_accessor(
        &(struct code){.machine = machine, .bytes = bytes, .address = address}, accessor, value,
        patch);
}

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

static bool decode_around(const struct machine *machine, struct bytes bytes, uint64_t address,
                          uint64_t position, uint64_t *start, struct accessor *accessor)
{
    return code_decode_around(
        machine, &(struct code){.machine = machine, .bytes = bytes, .address = address}, position,
        start, accessor);
}

/* ---- bodies ---- */

struct body {
    const struct machine *machine;
    const char *what;
    const char *code;
    size_t size;
    enum accessor_form form;
    uint64_t value;
};

/* The value of a PC-relative one is the end of its instruction + the displacement. */
static const struct body known[] = {
    {&machine_x86_64, "lea", "\x48\x8d\x05\x00\x10\x00\x00\xc3", 8, ACCESSOR_PC_RELATIVE,
     ADDRESS + 7 + 0x1000},
    {&machine_x86_64, "lea backwards", "\x48\x8d\x05\xf9\xff\xff\xff\xc3", 8, ACCESSOR_PC_RELATIVE,
     ADDRESS},
    {&machine_x86_64, "mov imm32, sign-extended", "\x48\xc7\xc0\xe0\xb1\x40\x00\xc3", 8,
     ACCESSOR_IMMEDIATE, 0x40b1e0},
    {&machine_x86_64, "mov imm32, negative", "\x48\xc7\xc0\x00\x00\x00\x80\xc3", 8,
     ACCESSOR_IMMEDIATE, UINT64_C(0xffffffff80000000)},
    {&machine_x86_64, "mov imm32 to %eax", "\xb8\x00\x00\x00\x80\xc3", 6, ACCESSOR_IMMEDIATE,
     0x80000000},
    {&machine_x86_64, "movabs", "\x48\xb8\x88\x77\x66\x55\x44\x33\x22\x11\xc3", 11,
     ACCESSOR_IMMEDIATE, UINT64_C(0x1122334455667788)},
    {&machine_x86_64, "load", "\x48\x8b\x05\x10\x00\x00\x00\xc3", 8, ACCESSOR_LOAD,
     ADDRESS + 7 + 0x10},
    {&machine_x86_64, "endbr64", "\xf3\x0f\x1e\xfa\x48\x8d\x05\x00\x00\x00\x00\xc3", 12,
     ACCESSOR_PC_RELATIVE, ADDRESS + 11},
    {&machine_x86_64, "frame", "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\x5d\xc3", 13,
     ACCESSOR_PC_RELATIVE, ADDRESS + 11},
    {&machine_x86_64, "endbr64 and frame",
     "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\xc7\xc0\x01\x00\x00\x00\x5d\xc3", 17, ACCESSOR_IMMEDIATE,
     1},
    {&machine_i386, "mov imm32", "\xb8\x00\x00\x00\x80\xc3", 6, ACCESSOR_IMMEDIATE, 0x80000000},
    {&machine_i386, "endbr32", "\xf3\x0f\x1e\xfb\xb8\x01\x00\x00\x00\xc3", 10, ACCESSOR_IMMEDIATE,
     1},
    {&machine_i386, "frame", "\x55\x89\xe5\xb8\x01\x00\x00\x00\x5d\xc3", 10, ACCESSOR_IMMEDIATE, 1},
    {&machine_i386, "frame by MSVC", "\x55\x8b\xec\xb8\x01\x00\x00\x00\x5d\xc3", 10,
     ACCESSOR_IMMEDIATE, 1},
    {&machine_aarch64, "adrp", "\x00\x00\x00\xb0\x00\x00\x01\x91\xc0\x03\x5f\xd6", 12,
     ACCESSOR_PC_RELATIVE, ADDRESS + 0x1000 + 0x40},
    {&machine_aarch64, "adrp backwards", "\xe0\xff\xff\xf0\x00\xfc\x3f\x91\xc0\x03\x5f\xd6", 12,
     ACCESSOR_PC_RELATIVE, ADDRESS - 1},
    {&machine_aarch64, "adr and nop", "\x40\x00\x00\x10\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", 12,
     ACCESSOR_PC_RELATIVE, ADDRESS + 8},
    {&machine_aarch64, "nop and adr", "\x1f\x20\x03\xd5\x40\x00\x00\x10\xc0\x03\x5f\xd6", 12,
     ACCESSOR_PC_RELATIVE, ADDRESS + 12},
    {&machine_aarch64, "bti", "\x5f\x24\x03\xd5\x00\x00\x00\x90\x00\x00\x00\x91\xc0\x03\x5f\xd6",
     16, ACCESSOR_PC_RELATIVE, ADDRESS},
};

#define KNOWN_COUNT ((int)(sizeof(known) / sizeof(known[0])))

static const struct body unknown[] = {
    {&machine_x86_64, "another register", "\x48\x8d\x0d\x00\x10\x00\x00\xc3", 8, 0, 0},
    {&machine_x86_64, "a prologue before it", "\x50\x48\x8d\x05\x00\x10\x00\x00\xc3", 9, 0, 0},
    {&machine_x86_64, "no return", "\x48\x8d\x05\x00\x10\x00\x00\x90", 8, 0, 0},
    {&machine_x86_64, "a frame that is not left",
     "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\xc3", 12, 0, 0},
    {&machine_x86_64, "arithmetic behind it", "\x48\x8d\x05\x00\x10\x00\x00\x48\x83\xc0\x08\xc3",
     12, 0, 0},
    {&machine_x86_64, "a call", "\xe8\x00\x00\x00\x00\xc3", 6, 0, 0},
};

static struct bytes view_of(const struct body *body)
{
    return (struct bytes){(const uint8_t *)body->code, body->size};
}

START_TEST(test_known_bodies)
{
    const struct body *body = &known[_i];
    struct accessor accessor;

    ck_assert_msg(decode(body->machine, view_of(body), ADDRESS, &accessor), "%s", body->what);
    ck_assert_int_eq(accessor.form, body->form);
    ck_assert_uint_eq(accessor.value, body->value);
    ck_assert_uint_eq(accessor.size, body->size);
}
END_TEST

/* A body that is cut short anywhere is not one. */
START_TEST(test_cut_short)
{
    struct bytes code = view_of(&known[_i]);
    struct accessor accessor;

    for (code.size = 0; code.size < known[_i].size; code.size++)
        ck_assert(!decode(known[_i].machine, code, ADDRESS, &accessor));
}
END_TEST

/* What is written decodes to the new value, and touches nothing but its own instruction. */
START_TEST(test_rewrite)
{
    const uint64_t target = ADDRESS + 0x54321;
    struct bytes code = view_of(&known[_i]);
    uint8_t patch[ACCESSOR_PATCH_MAX], changed[32];
    struct accessor accessor, again;

    ck_assert(decode(known[_i].machine, code, ADDRESS, &accessor));
    ck_assert(encode(known[_i].machine, &accessor, code, ADDRESS, target, patch));
    memcpy(changed, code.data, code.size);
    memcpy(changed + accessor.patch_offset, patch, accessor.patch_size);
    ck_assert(decode(known[_i].machine, (struct bytes){changed, code.size}, ADDRESS, &again));
    ck_assert_uint_eq(again.value, target);
    ck_assert_uint_eq(again.size, accessor.size);
    ck_assert_int_eq(again.form,
                     accessor.form == ACCESSOR_LOAD ? ACCESSOR_PC_RELATIVE : accessor.form);
}
END_TEST

START_TEST(test_unknown_bodies)
{
    struct accessor accessor;

    ck_assert_msg(!decode(unknown[_i].machine, view_of(&unknown[_i]), ADDRESS, &accessor), "%s",
                  unknown[_i].what);
}
END_TEST

START_TEST(test_other_machine)
{
    struct accessor accessor;

    ck_assert(!decode(&machine_aarch64, view_of(&known[0]), ADDRESS, &accessor));
}
END_TEST

/* An address that does not fit its field is refused, not cut. */
START_TEST(test_out_of_reach)
{
    static const uint64_t far_away = UINT64_C(0x700000000000);
    uint8_t patch[ACCESSOR_PATCH_MAX];
    struct accessor accessor;
    struct bytes code = view_of(&known[0]);

    ck_assert(decode(&machine_x86_64, code, ADDRESS, &accessor));
    ck_assert(!encode(&machine_x86_64, &accessor, code, ADDRESS, far_away, patch));
    code = view_of(&known[2]);
    ck_assert(decode(&machine_x86_64, code, ADDRESS, &accessor));
    ck_assert(!encode(&machine_x86_64, &accessor, code, ADDRESS, far_away, patch));
    /* Sign extension would make another address of it. */
    ck_assert(!encode(&machine_x86_64, &accessor, code, ADDRESS, 0x80000000, patch));
    code = view_of(&known[4]);
    ck_assert(decode(&machine_x86_64, code, ADDRESS, &accessor));
    ck_assert(encode(&machine_x86_64, &accessor, code, ADDRESS, 0x80000000, patch));
}
END_TEST

/* ---- references ---- */

static bool finds(const char *code, size_t size, uint64_t first, uint64_t range, bool absolute)
{
    struct reference_target target = {.first = first, .size = range, .absolute = absolute};
    uint64_t position = 0;

    return find_reference(&machine_x86_64, (struct bytes){(const uint8_t *)code, (uint64_t)size},
                          ADDRESS, &target, &position);
}

START_TEST(test_references)
{
    /* nop; lea 0x1000(%rip),%r9 */
    static const char lea[] = "\x90\x4c\x8d\x0d\x00\x10\x00\x00\x90";
    /* nop; mov $0x40b1e0,%edi */
    static const char immediate[] = "\x90\xbf\xe0\xb1\x40\x00";
    const uint64_t target = ADDRESS + 8 + 0x1000;

    ck_assert(finds(lea, 9, target, 1, false));
    ck_assert(finds(lea, 9, target - 99, 100, false));
    ck_assert(!finds(lea, 9, target + 1, 100, false));
    ck_assert(!finds(lea, 9, target - 100, 100, false));
    ck_assert(!finds(lea, 7, target, 1, false));
    ck_assert(finds(immediate, 6, 0x40b1e0, 1, true));
    ck_assert(!finds(immediate, 6, 0x40b1e0, 1, false));
    ck_assert(!finds(immediate, 3, 0x40b1e0, 1, true));
}
END_TEST

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

/* Calls and jumps to a function, which is the target only where it is said to be code. */
START_TEST(test_calls)
{
    static const struct {
        const struct machine *machine;
        uint8_t code[8];
        uint64_t target; /* from the code's address */
    } calls[] = {
        {&machine_x86_64, {0x90, 0xe8, 0x00, 0x10, 0x00, 0x00}, 6 + 0x1000},     /* call */
        {&machine_x86_64, {0x90, 0xe9, 0x00, 0x10, 0x00, 0x00}, 6 + 0x1000},     /* jmp */
        {&machine_x86_64, {0x0f, 0x84, 0x00, 0x10, 0x00, 0x00}, 6 + 0x1000},     /* je */
        {&machine_i386, {0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff}, UINT64_C(0) - 10}, /* call */
        {&machine_aarch64, {0x1f, 0x20, 0x03, 0xd5, 0x02, 0, 0, 0x94}, 4 + 8},   /* bl */
        {&machine_aarch64,
         {0x1f, 0x20, 0x03, 0xd5, 0xfe, 0xff, 0xff, 0x17},
         UINT64_C(0) - 4}, /* b */
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct bytes code = {calls[i].code, calls[i].machine == &machine_aarch64 ? 8 : 6};
        struct reference_target target = {
            .first = ADDRESS + calls[i].target, .size = 1, .called = true};
        uint64_t position = 0;

        ck_assert_msg(find_reference(calls[i].machine, code, ADDRESS, &target, &position),
                      "call %zu", i);
        position = 0;
        target.first++;
        ck_assert(!find_reference(calls[i].machine, code, ADDRESS, &target, &position));
        target.first--;
        target.called = false;
        ck_assert(!find_reference(calls[i].machine, code, ADDRESS, &target, &position));
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

static bool finds_aarch64(uint64_t first, uint64_t range, uint64_t *position)
{
    struct bytes code = {(const uint8_t *)load, LOAD_SIZE};
    struct reference_target target = {.first = first, .size = range};

    *position = 0;
    return find_reference(&machine_aarch64, code, ADDRESS, &target, position);
}

START_TEST(test_references_aarch64)
{
    uint64_t position;

    ck_assert(finds_aarch64(ADDRESS + 0x1018, 1, &position));
    ck_assert_uint_eq(position, 4);
    ck_assert(finds_aarch64(ADDRESS + 0x1000, 0x1000, &position));
    ck_assert(!finds_aarch64(ADDRESS + 0x1019, 0x1000, &position));
    ck_assert(!finds_aarch64(ADDRESS + 0x1000, 0x18, &position));
    ck_assert(!finds_aarch64(ADDRESS, 0x1000, &position));
}
END_TEST

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

/* A body is found from a byte of its patch, with what belongs to it in front. */
START_TEST(test_around)
{
    const struct body *body = &known[_i];
    uint8_t code[64];
    struct accessor accessor, around;
    uint64_t start;

    ck_assert(decode(body->machine, view_of(body), ADDRESS + 20, &accessor));
    memset(code, 0x90, sizeof(code));
    memcpy(code + 20, body->code, body->size);
    ck_assert(decode_around(body->machine, (struct bytes){code, sizeof(code)}, ADDRESS,
                            20 + accessor.patch_offset, &start, &around));
    ck_assert_uint_eq(start, 20);
    ck_assert_uint_eq(around.value, accessor.value);
    ck_assert(!decode_around(body->machine, (struct bytes){code, sizeof(code)}, ADDRESS,
                             20 + body->size - 1, &start, &around));
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
    ck_assert(!follow_jump(&machine_x86_64, view_of(&known[0]), ADDRESS, &target));
    x86.size = 4;
    ck_assert(!follow_jump(&machine_x86_64, x86, ADDRESS, &target));
}
END_TEST

int main(void)
{
    TCase *bodies = tcase_create("bodies");
    suite_loops(bodies, KNOWN_COUNT, test_known_bodies, test_cut_short, test_rewrite);
    suite_loops(bodies, sizeof(unknown) / sizeof(unknown[0]), test_unknown_bodies);
    suite_loops(bodies, 11, test_forms);
    suite_tests(bodies, test_other_machine, test_out_of_reach, test_references, test_each_place,
                test_calls, test_counted, test_references_aarch64, test_lone_adrp, test_loads);
    suite_loops(bodies, KNOWN_COUNT, test_around);
    tcase_add_test(bodies, test_jumps);
    return suite_main("accessor", bodies);
}
