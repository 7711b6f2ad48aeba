/*
 * Bodies of accessor functions: those that real runtimes have are understood and rewritten, and
 * nothing that merely resembles one is.
 */
#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "formats/accessor.h"

#define ADDRESS UINT64_C(0x401000)

struct body {
    const char *what;
    const char *code;
    size_t size;
    enum accessor_form form;
    uint64_t value;
};

/* The value of a PC-relative one is the end of its instruction + the displacement. */
static const struct body known[] = {
    {"lea", "\x48\x8d\x05\x00\x10\x00\x00\xc3", 8, ACCESSOR_PC_RELATIVE, ADDRESS + 7 + 0x1000},
    {"lea backwards", "\x48\x8d\x05\xf9\xff\xff\xff\xc3", 8, ACCESSOR_PC_RELATIVE, ADDRESS},
    {"mov imm32, sign-extended", "\x48\xc7\xc0\xe0\xb1\x40\x00\xc3", 8, ACCESSOR_IMMEDIATE,
     0x40b1e0},
    {"mov imm32, negative", "\x48\xc7\xc0\x00\x00\x00\x80\xc3", 8, ACCESSOR_IMMEDIATE,
     UINT64_C(0xffffffff80000000)},
    {"mov imm32 to %eax", "\xb8\x00\x00\x00\x80\xc3", 6, ACCESSOR_IMMEDIATE, 0x80000000},
    {"movabs", "\x48\xb8\x88\x77\x66\x55\x44\x33\x22\x11\xc3", 11, ACCESSOR_IMMEDIATE,
     UINT64_C(0x1122334455667788)},
    {"load", "\x48\x8b\x05\x10\x00\x00\x00\xc3", 8, ACCESSOR_LOAD, ADDRESS + 7 + 0x10},
    {"endbr64", "\xf3\x0f\x1e\xfa\x48\x8d\x05\x00\x00\x00\x00\xc3", 12, ACCESSOR_PC_RELATIVE,
     ADDRESS + 11},
    {"frame", "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\x5d\xc3", 13, ACCESSOR_PC_RELATIVE,
     ADDRESS + 11},
    {"endbr64 and frame", "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\xc7\xc0\x01\x00\x00\x00\x5d\xc3",
     17, ACCESSOR_IMMEDIATE, 1},
};

#define KNOWN_COUNT ((int)(sizeof(known) / sizeof(known[0])))

static const struct body unknown[] = {
    {"another register", "\x48\x8d\x0d\x00\x10\x00\x00\xc3", 8, 0, 0},
    {"a prologue before it", "\x50\x48\x8d\x05\x00\x10\x00\x00\xc3", 9, 0, 0},
    {"no return", "\x48\x8d\x05\x00\x10\x00\x00\x90", 8, 0, 0},
    {"a frame that is not left", "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\xc3", 12, 0, 0},
    {"arithmetic behind it", "\x48\x8d\x05\x00\x10\x00\x00\x48\x83\xc0\x08\xc3", 12, 0, 0},
    {"a call", "\xe8\x00\x00\x00\x00\xc3", 6, 0, 0},
};

static struct bytes view_of(const struct body *body)
{
    return (struct bytes){(const uint8_t *)body->code, body->size};
}

START_TEST(test_known_bodies)
{
    const struct body *body = &known[_i];
    struct accessor accessor;

    ck_assert_msg(accessor_decode(EM_X86_64, view_of(body), ADDRESS, &accessor), "%s", body->what);
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
        ck_assert(!accessor_decode(EM_X86_64, code, ADDRESS, &accessor));
}
END_TEST

/* What is written decodes to the new value, and touches nothing but its own instruction. */
START_TEST(test_rewrite)
{
    const uint64_t target = ADDRESS + 0x54321;
    struct bytes code = view_of(&known[_i]);
    uint8_t instruction[ACCESSOR_INSTRUCTION_MAX], changed[32];
    struct accessor accessor, again;

    ck_assert(accessor_decode(EM_X86_64, code, ADDRESS, &accessor));
    ck_assert(accessor_encode(EM_X86_64, &accessor, code, ADDRESS, target, instruction));
    memcpy(changed, code.data, code.size);
    memcpy(changed + accessor.instruction_offset, instruction, accessor.instruction_size);
    ck_assert(accessor_decode(EM_X86_64, (struct bytes){changed, code.size}, ADDRESS, &again));
    ck_assert_uint_eq(again.value, target);
    ck_assert_uint_eq(again.size, accessor.size);
    ck_assert_int_eq(again.form,
                     accessor.form == ACCESSOR_LOAD ? ACCESSOR_PC_RELATIVE : accessor.form);
}
END_TEST

START_TEST(test_unknown_bodies)
{
    struct accessor accessor;

    ck_assert_msg(!accessor_decode(EM_X86_64, view_of(&unknown[_i]), ADDRESS, &accessor), "%s",
                  unknown[_i].what);
}
END_TEST

START_TEST(test_other_machine)
{
    struct accessor accessor;

    ck_assert(!accessor_decode(EM_AARCH64, view_of(&known[0]), ADDRESS, &accessor));
}
END_TEST

/* An address that does not fit its field is refused, not cut. */
START_TEST(test_out_of_reach)
{
    static const uint64_t far_away = UINT64_C(0x700000000000);
    uint8_t instruction[ACCESSOR_INSTRUCTION_MAX];
    struct accessor accessor;
    struct bytes code = view_of(&known[0]);

    ck_assert(accessor_decode(EM_X86_64, code, ADDRESS, &accessor));
    ck_assert(!accessor_encode(EM_X86_64, &accessor, code, ADDRESS, far_away, instruction));
    code = view_of(&known[2]);
    ck_assert(accessor_decode(EM_X86_64, code, ADDRESS, &accessor));
    ck_assert(!accessor_encode(EM_X86_64, &accessor, code, ADDRESS, far_away, instruction));
    /* Sign extension would make another address of it. */
    ck_assert(!accessor_encode(EM_X86_64, &accessor, code, ADDRESS, 0x80000000, instruction));
    code = view_of(&known[4]);
    ck_assert(accessor_decode(EM_X86_64, code, ADDRESS, &accessor));
    ck_assert(accessor_encode(EM_X86_64, &accessor, code, ADDRESS, 0x80000000, instruction));
}
END_TEST

/* ---- references ---- */

static bool finds(const char *code, size_t size, uint64_t first, uint64_t range, bool absolute)
{
    uint64_t position = 0;

    return accessor_find_reference(EM_X86_64, (struct bytes){(const uint8_t *)code, (uint64_t)size},
                                   ADDRESS, first, range, absolute, &position);
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

int main(void)
{
    Suite *suite = suite_create("accessor");
    TCase *bodies = tcase_create("bodies");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(bodies, test_known_bodies, 0, KNOWN_COUNT);
    tcase_add_loop_test(bodies, test_cut_short, 0, KNOWN_COUNT);
    tcase_add_loop_test(bodies, test_rewrite, 0, KNOWN_COUNT);
    tcase_add_loop_test(bodies, test_unknown_bodies, 0,
                        (int)(sizeof(unknown) / sizeof(unknown[0])));
    tcase_add_test(bodies, test_other_machine);
    tcase_add_test(bodies, test_out_of_reach);
    tcase_add_test(bodies, test_references);
    suite_add_tcase(suite, bodies);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
