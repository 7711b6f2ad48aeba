/*
 * Arm: bodies of accessors in both instruction sets, and what refers to data and functions.
 */
#include "tests/unit/machine_suite.h"

#define A MACHINE_ADDRESS
#define B MACHINE_BASE

#define A32(what, code, form, value)                                                               \
    {                                                                                              \
        &machine_arm, what ", A32", code, sizeof(code) - 1, form, value, false                     \
    }
#define T32(what, code, form, value)                                                               \
    {                                                                                              \
        &machine_arm, what ", T32", code, sizeof(code) - 1, form, value, true                      \
    }

static const struct machine_body known[] = {
    A32("load of a slot",
        "\x04\x00\x9f\xe5" /* ldr r0, [pc, #4] */
        "\x00\x00\x9f\xe7" /* ldr r0, [pc, r0] */
        "\x1e\xff\x2f\xe1" /* bx lr */
        "\x00\x10\x00\x00",
        ACCESSOR_LOAD, A + 12 + 0x1000),
    A32("sum with pc",
        "\x04\x00\x9f\xe5\x00\x00\x8f\xe0\x1e\xff\x2f\xe1" /* ldr; add r0, pc, r0; bx lr */
        "\xf4\xff\xff\xff",
        ACCESSOR_PC_RELATIVE, A),
    A32("literal", "\x00\x00\x9f\xe5\x1e\xff\x2f\xe1\xe0\xb1\x40\x00", ACCESSOR_IMMEDIATE,
        0x40b1e0),
    A32("literal, old return", "\x00\x00\x9f\xe5\x0e\xf0\xa0\xe1\xe0\xb1\x40\x80",
        ACCESSOR_IMMEDIATE, 0x8040b1e0),
    A32("two halves",
        "\xe0\x01\x0b\xe3" /* movw r0, #0xb1e0 */
        "\x40\x00\x40\xe3" /* movt r0, #0x40 */
        "\x1e\xff\x2f\xe1",
        ACCESSOR_IMMEDIATE, 0x40b1e0),
    A32("two halves and pc", "\xe0\x01\x0b\xe3\x40\x00\x40\xe3\x00\x00\x8f\xe0\x1e\xff\x2f\xe1",
        ACCESSOR_PC_RELATIVE, A + 16 + 0x40b1e0),
    A32("gcc, with a frame",
        "\x04\xb0\x2d\xe5\x00\xb0\x8d\xe2" /* push {fp}; add fp, sp, #0 */
        "\x18\x20\x9f\xe5\x02\x20\x8f\xe0" /* ldr r2, [pc, #24]; add r2, pc, r2 */
        "\x14\x30\x9f\xe5\x03\x30\x92\xe7" /* ldr r3, [pc, #20]; ldr r3, [r2, r3] */
        "\x03\x00\xa0\xe1\x00\xd0\x8b\xe2" /* mov r0, r3; add sp, fp, #0 */
        "\x04\xb0\x9d\xe4\x1e\xff\x2f\xe1" /* pop {fp}; bx lr */
        "\x00\x20\x00\x00\x40\x00\x00\x00",
        ACCESSOR_LOAD, A + 0x14 + 0x2000 + 0x40),
    A32("gcc, with a variable",
        "\x1c\x30\x9f\xe5\x08\xd0\x4d\xe2" /* ldr r3, [pc, #28]; sub sp, sp, #8 */
        "\x18\x20\x9f\xe5\x03\x30\x8f\xe0" /* ldr r2, [pc, #24]; add r3, pc, r3 */
        "\x02\x30\x93\xe7\x04\x30\x8d\xe5" /* ldr r3, [r3, r2]; str r3, [sp, #4] */
        "\x03\x00\xa0\xe1\x08\xd0\x8d\xe2" /* mov r0, r3; add sp, sp, #8 */
        "\x1e\xff\x2f\xe1\x00\x20\x00\x00\x40\x00\x00\x00",
        ACCESSOR_LOAD, A + 0x14 + 0x2000 + 0x40),
    A32("gcc's halves with a frame",
        "\x04\xb0\x2d\xe5\x00\xb0\x8d\xe2\xe0\x31\x0b\xe3\x40\x30\x40\xe3" /* ... in r3 */
        "\x03\x00\xa0\xe1\x00\xd0\x8b\xe2\x04\xb0\x9d\xe4\x1e\xff\x2f\xe1",
        ACCESSOR_IMMEDIATE, 0x40b1e0),
    T32("load of a slot",
        "\x01\x48\x78\x44\x00\x68\x70\x47" /* ldr r0, [pc, #4]; add r0, pc; ldr r0, [r0]; bx lr */
        "\x00\x10\x00\x00",
        ACCESSOR_LOAD, A + 6 + 0x1000),
    T32("sum with pc", "\x01\x48\x78\x44\x70\x47\x00\xbf\xfa\xff\xff\xff", /* nop behind it */
        ACCESSOR_PC_RELATIVE, A),
    T32("literal", "\x00\x48\x70\x47\xe0\xb1\x40\x00", ACCESSOR_IMMEDIATE, 0x40b1e0),
    T32("two halves",
        "\x4b\xf2\xe0\x10" /* movw r0, #0xb1e0 */
        "\xc0\xf2\x40\x00" /* movt r0, #0x40 */
        "\x70\x47",
        ACCESSOR_IMMEDIATE, 0x40b1e0),
    T32("two halves, all bits", "\x4f\xf6\xff\x70\xc0\xf6\xff\x70\x70\x47", ACCESSOR_IMMEDIATE,
        0xfffffff),
    T32("gcc, with a frame",
        "\x80\xb4\x00\xaf\x04\x4a\x7a\x44" /* push {r7}; add r7, sp, #0; ldr r2, =; add r2, pc */
        "\x04\x4b\xd3\x58\x18\x46\xbd\x46" /* ldr r3, =; ldr r3, [r2, r3]; mov r0, r3; mov sp, r7 */
        "\x5d\xf8\x04\x7b\x70\x47\x00\xbf" /* ldr r7, [sp], #4; bx lr; nop */
        "\x00\x20\x00\x00\x40\x00\x00\x00",
        ACCESSOR_LOAD, A + 10 + 0x2000 + 0x40),
    T32("gcc, with a variable",
        "\x04\x4b\x82\xb0\x04\x4a\x7b\x44\x9b\x58\x01\x93\x18\x46\x02\xb0\x70\x47\x00\xbf"
        "\x00\x20\x00\x00\x40\x00\x00\x00",
        ACCESSOR_LOAD, A + 10 + 0x2000 + 0x40),
};

static const struct machine_body unknown[] = {
    A32("another register", "\x00\x10\x9f\xe5\x1e\xff\x2f\xe1\xe0\xb1\x40\x00", 0, 0),
    A32("low half alone", "\xe0\x01\x0b\xe3\x1e\xff\x2f\xe1", 0, 0),
    A32("high half alone", "\x40\x00\x40\xe3\x1e\xff\x2f\xe1", 0, 0),
    A32("halves of two registers", "\xe0\x01\x0b\xe3\x40\x10\x40\xe3\x1e\xff\x2f\xe1", 0, 0),
    A32("another high half", "\xe0\x01\x0b\xe3\x40\x00\x40\xe3\x40\x00\x40\xe3\x1e\xff\x2f\xe1", 0,
        0),
    A32("a condition", "\x00\x00\x9f\x15\x1e\xff\x2f\xe1\xe0\xb1\x40\x00", 0, 0),
    A32("a conditional return", "\x00\x00\x9f\xe5\x1e\xff\x2f\x11\xe0\xb1\x40\x00", 0, 0),
    A32("no return", "\x00\x00\x9f\xe5\x00\xf0\x20\xe3\xe0\xb1\x40\x00", 0, 0),
    A32("a sum with what was loaded",
        "\x08\x00\x9f\xe5\x00\x00\x9f\xe7\x00\x00\x8f\xe0\x1e\xff\x2f\xe1\x00\x10\x00\x00", 0, 0),
    A32("a frame that is not left",
        "\x04\xb0\x2d\xe5\x00\x00\x9f\xe5\x1e\xff\x2f\xe1\xe0\xb1\x40\x00", 0, 0),
    A32("a byte", "\x04\x00\x9f\xe5\x00\x00\xdf\xe7\x1e\xff\x2f\xe1\x00\x10\x00\x00", 0, 0),
    A32("pc twice", "\x0f\x00\x8f\xe0\x1e\xff\x2f\xe1", 0, 0),
    A32("nothing", "\x1e\xff\x2f\xe1", 0, 0),
    A32("T32", "\x01\x48\x78\x44\x00\x68\x70\x47\x00\x10\x00\x00", 0, 0),
    T32("A32", "\x04\x00\x9f\xe5\x00\x00\x9f\xe7\x1e\xff\x2f\xe1\x00\x10\x00\x00", 0, 0),
    T32("another register", "\x00\x49\x70\x47\xe0\xb1\x40\x00", 0, 0),
    T32("not at the address", "\x01\x48\x78\x44\x40\x68\x70\x47\x00\x10\x00\x00", 0, 0),
    T32("a frame that is not left", "\x80\xb4\x00\x48\x70\x47\xe0\xb1\x40\x00\x00\x00", 0, 0),
};

#define REFERENCE(what, code, target, absolute, called)                                            \
    {                                                                                              \
        &machine_arm, what, code, sizeof(code) - 1, target, absolute, called                       \
    }

static const struct machine_reference references[] = {
    /* Words, halves and sums with pc. */
    REFERENCE("a literal, A32", "\x00\x90\x9f\xe5\x00\x00\xa0\xe1\xe0\xb1\x40\x00", 0x40b1e0, true,
              false),
    REFERENCE("a literal, T32", "\x00\x4b\x00\xbf\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("a veneer's literal, A32", "\x04\xf0\x1f\xe5\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("halves, A32", "\xe0\x71\x0b\xe3\x00\x00\xa0\xe1\x40\x70\x40\xe3", 0x40b1e0, true,
              false),
    REFERENCE("halves, T32", "\x00\xbf\x4b\xf2\xe0\x13\x00\xbf\xc0\xf2\x40\x03\x00\xbf", 0x40b1e0,
              true, false),
    REFERENCE("a sum, A32", "\x04\x10\x9f\xe5\x00\x00\xa0\xe1\x01\x20\x8f\xe0\x00\x10\x00\x00",
              A + 16 + 0x1000, false, false),
    REFERENCE("a load, A32", "\x04\x10\x9f\xe5\x01\x20\x9f\xe7\x00\x00\xa0\xe1\x00\x10\x00\x00",
              A + 12 + 0x1000, false, false),
    REFERENCE("a load of a byte, A32", "\x00\x10\x9f\xe5\x01\x20\xdf\xe7\x00\x10\x00\x00",
              A + 12 + 0x1000, false, false),
    REFERENCE("a load of a halfword, A32", "\x00\x10\x9f\xe5\xb1\x20\x9f\xe1\x00\x10\x00\x00",
              A + 12 + 0x1000, false, false),
    REFERENCE("a store, A32", "\x00\x10\x9f\xe5\x01\x20\x8f\xe7\x00\x10\x00\x00", A + 12 + 0x1000,
              false, false),
    REFERENCE("under a condition, A32",
              "\x04\x10\x9f\x15\x00\x10\xa0\x03\x01\x20\x8f\x10\x00\x10\x00\x00", A + 16 + 0x1000,
              false, false),
    REFERENCE("a literal in front, A32",
              "\x00\x10\x00\x00\x0c\x10\x1f\xe5\x01\x10\x8f\xe0", /* ldr r1, [pc, #-12] */
              A + 16 + 0x1000, false, false),
    REFERENCE("a sum, T32", "\x01\x49\x00\xbf\x79\x44\x70\x47\x00\x10\x00\x00", A + 8 + 0x1000,
              false, false),
    REFERENCE("a sum of a high register, T32",
              "\xdf\xf8\x04\x90\xf9\x44\x70\x47\x00\x10\x00\x00", /* ldr.w r9, [pc, #4] */
              A + 8 + 0x1000, false, false),
    REFERENCE("a sum of halves, A32", "\xe0\x11\x0b\xe3\x40\x10\x40\xe3\x01\x20\x8f\xe0",
              A + 16 + 0x40b1e0, false, false),
    REFERENCE("a sum of halves, T32", "\x4b\xf2\xe0\x13\xc0\xf2\x40\x03\x7b\x44", A + 12 + 0x40b1e0,
              false, false),
    REFERENCE("behind a branch, A32",
              "\x0c\x10\x9f\xe5\x00\x00\x00\x0a\x00\x10\xa0\xe3\x01\x20\x8f\xe0\x00\x00\xa0\xe1"
              "\x00\x10\x00\x00",
              A + 20 + 0x1000, false, false),
    /* From the GOT. */
    REFERENCE("a sum with the GOT, A32", "\x00\x10\x9f\xe5\x04\x20\x81\xe0\x00\x10\x00\x00",
              B + 0x1000, false, false),
    REFERENCE("a load beside the GOT, A32", "\x00\x10\x9f\xe5\x01\x20\x94\xe7\x00\xf0\xff\xff",
              B - 0x1000, false, false),
    REFERENCE("a sum with the GOT, T32", "\x00\x49\x0a\x19\x00\x10\x00\x00", B + 0x1000, false,
              false),
    REFERENCE("a load beside the GOT, T32", "\x00\x49\x62\x58\x00\x10\x00\x00", B + 0x1000, false,
              false),
    REFERENCE("a load of 4 bytes beside the GOT, T32",
              "\x01\x49\x54\xf8\x01\x20\x00\xbf\x00\x10\x00\x00", B + 0x1000, false, false),
    /* Near. */
    REFERENCE("adr, A32", "\x40\x00\x8f\xe2", A + 8 + 0x40, false, false),
    REFERENCE("adr backwards, A32", "\x01\x1c\x4f\xe2", A + 8 - 0x100, false, false),
    REFERENCE("adr, T32", "\x10\xa0", A + 4 + 0x40, false, false),
    REFERENCE("adr of 4 bytes, T32", "\xaf\xf2\x40\x00", A + 4 - 0x40, false, false),
    /* Calls. */
    REFERENCE("bl, A32", "\x00\x04\x00\xeb", A + 8 + 0x1000, false, true),
    REFERENCE("b with a condition, A32", "\xfe\xff\xff\x0a", A, false, true),
    REFERENCE("blx, A32", "\x00\x04\x00\xfb", A + 8 + 0x1002, false, true),
    REFERENCE("bl, T32", "\x01\xf0\x00\xf8", A + 4 + 0x1000, false, true),
    REFERENCE("bl backwards, T32", "\xff\xf7\xfe\xff", A, false, true),
    REFERENCE("blx, T32", "\x01\xf0\x00\xe8", A + 4 + 0x1000, false, true),
    REFERENCE("b of 4 bytes, T32", "\x01\xf0\x00\xb8", A + 4 + 0x1000, false, true),
    REFERENCE("b with a condition, 4 bytes, T32", "\x01\xf0\x00\x80", A + 4 + 0x1000, false, true),
    /* Veneers: ldr ip, [pc]; add pc, pc, ip */
    REFERENCE("a veneer, A32", "\x00\xc0\x9f\xe5\x0c\xf0\x8f\xe0\x00\x10\x00\x00", A + 12 + 0x1000,
              false, false),
};

int main(void)
{
    const struct machine_suite suite = {
        .name = "Arm",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
    };
    return machine_suite_main(&suite);
}
