/*
 * AArch64: bodies of accessors, and what refers to data and functions.
 */
#include "tests/unit/machine_suite.h"

#define A       MACHINE_ADDRESS

#define MACHINE machine_aarch64

#define BTI     "\x5f\x24\x03\xd5"
#define PACIASP "\x3f\x23\x03\xd5"
#define PACIBSP "\x7f\x23\x03\xd5"
#define AUTIASP "\xbf\x23\x03\xd5"
#define AUTIBSP "\xff\x23\x03\xd5"
#define RETAA   "\xff\x0b\x5f\xd6"
#define RETAB   "\xff\x0f\x5f\xd6"
#define FRAME   "\xfd\x7b\xbf\xa9\xfd\x03\x00\x91" /* stp x29, x30, [sp, #-16]!; mov x29, sp */
#define LEAVE   "\xfd\x7b\xc1\xa8"                 /* ldp x29, x30, [sp], #16 */
#define NOP     "\x1f\x20\x03\xd5"
#define RET     "\xc0\x03\x5f\xd6"
#define SLOT    "\x00\x00\x00\xb0\x00\x20\x40\xf9" /* adrp x0, A + 0x1000; ldr x0, [x0, #0x40] */

static const struct machine_body known[] = {
    BODY("adrp", "\x00\x00\x00\xb0\x00\x00\x01\x91" RET, ACCESSOR_PC_RELATIVE, A + 0x1000 + 0x40),
    BODY("adrp backwards", "\xe0\xff\xff\xf0\x00\xfc\x3f\x91" RET, ACCESSOR_PC_RELATIVE, A - 1),
    BODY("adr and nop", "\x40\x00\x00\x10" NOP RET, ACCESSOR_PC_RELATIVE, A + 8),
    BODY("nop and adr", NOP "\x40\x00\x00\x10" RET, ACCESSOR_PC_RELATIVE, A + 12),
    BODY("bti", BTI "\x00\x00\x00\x90\x00\x00\x00\x91" RET, ACCESSOR_PC_RELATIVE, A),
    BODY("slot", SLOT RET, ACCESSOR_LOAD, A + 0x1000 + 0x40),
    BODY("slot, bti", BTI SLOT RET, ACCESSOR_LOAD, A + 0x1000 + 0x40),
    BODY("slot, far from the page", "\x00\x00\x00\xb0\x00\xfc\x7f\xf9" RET, ACCESSOR_LOAD,
         A + 0x1000 + 0x7ff8),
    BODY("slot, signed", PACIASP SLOT AUTIASP RET, ACCESSOR_LOAD, A + 0x1000 + 0x40),
    BODY("slot, signed by the other key", PACIBSP SLOT AUTIBSP RET, ACCESSOR_LOAD,
         A + 0x1000 + 0x40),
    BODY("slot, signed, with a frame", PACIASP FRAME SLOT LEAVE AUTIASP RET, ACCESSOR_LOAD,
         A + 0x1000 + 0x40),
    BODY("slot, authenticated by the return", PACIASP FRAME SLOT LEAVE RETAA, ACCESSOR_LOAD,
         A + 0x1000 + 0x40),
    BODY("slot, authenticated by the return, other key", BTI PACIBSP SLOT RETAB, ACCESSOR_LOAD,
         A + 0x1000 + 0x40),
    BODY("slot, with a frame", FRAME SLOT LEAVE RET, ACCESSOR_LOAD, A + 0x1000 + 0x40),
    BODY("adr of a page, slot", "\x00\x80\x00\x10\x00\x20\x40\xf9" RET, ACCESSOR_LOAD,
         A + 0x1000 + 0x40),
    BODY("adr of a page, add", "\x00\x80\x00\x10\x00\x00\x01\x91" RET, ACCESSOR_PC_RELATIVE,
         A + 0x1000 + 0x40),
    BODY("adr", "\x40\x00\x00\x10" RET, ACCESSOR_PC_RELATIVE, A + 8),
    BODY("slot as a literal", "\x40\x00\x00\x58" RET, ACCESSOR_LOAD, A + 8),
    BODY("slot as a literal, bti", BTI "\xe0\xff\xff\x58" RET, ACCESSOR_LOAD, A),
    BODY("four parts",
         "\x00\x3c\x96\xd2\x00\x08\xa0\xf2\xe0\x24\xc2\xf2\x80\x46\xe0\xf2" /* movz, movk */ RET,
         ACCESSOR_IMMEDIATE, UINT64_C(0x023411270040b1e0)),
};

static const struct machine_body unknown[] = {
    BODY("another register", "\x01\x00\x00\xb0\x20\x00\x01\x91" RET, 0, 0),
    BODY("adr of another register", "\x41\x00\x00\x10" NOP RET, 0, 0),
    BODY("a shifted add", "\x00\x00\x00\xb0\x00\x00\x41\x91" RET, 0, 0),
    BODY("two adds", "\x00\x00\x00\xb0\x00\x00\x01\x91\x00\x00\x01\x91" RET, 0, 0),
    BODY("no return", "\x00\x00\x00\xb0\x00\x00\x01\x91" NOP, 0, 0),
    BODY("half a slot", "\x00\x00\x00\xb0\x00\x20\x40\xb9" RET, 0, 0),
    BODY("slot in another register", "\x00\x00\x00\xb0\x01\x20\x40\xf9" RET, 0, 0),
    BODY("literal in another register", "\x41\x00\x00\x58" RET, 0, 0),
    BODY("half a literal", "\x40\x00\x00\x18" RET, 0, 0),
    BODY("signed, not authenticated", PACIASP SLOT RET, 0, 0),
    BODY("authenticated by another key", PACIASP SLOT AUTIBSP RET, 0, 0),
    BODY("returned by another key", PACIASP SLOT RETAB, 0, 0),
    BODY("authenticated, not signed", SLOT AUTIASP RET, 0, 0),
    BODY("a frame that is not left", FRAME SLOT RET, 0, 0),
    BODY("three parts", "\x00\x3c\x96\xd2\x00\x08\xa0\xf2\xe0\x24\xc2\xf2" RET, 0, 0),
    BODY("parts in another order",
         "\x00\x3c\x96\xd2\xe0\x24\xc2\xf2\x00\x08\xa0\xf2\x80\x46\xe0\xf2" RET, 0, 0),
};

#define REFERENCE(what, code, target, absolute, called)                                            \
    {                                                                                              \
        &machine_aarch64, what, code, sizeof(code) - 1, target, absolute, called                   \
    }

static const struct machine_reference references[] = {
    REFERENCE("adrp and add", NOP "\x08\x00\x00\xb0" NOP "\x09\x61\x00\x91", A + 0x1018, false,
              false),
    REFERENCE("adrp and load", NOP "\x08\x00\x00\xb0" NOP "\x09\x0d\x40\xf9" RET, A + 0x1018, false,
              false),
    REFERENCE("adrp and load behind a jump", /* b 2f; 1: ldr; ret; 2: cbz x0, 1b; ret */
              "\x08\x00\x00\xb0\x03\x00\x00\x14\x09\x0d\x40\xf9" RET "\xc0\xff\xff\xb4" RET,
              A + 0x1018, false, false),
    REFERENCE("adr", "\x08\x10\x00\x10", A + 0x200, false, false),
    REFERENCE("adr of a page, with ldp", "\x08\x80\x00\x10" NOP "\x09\x29\x40\xa9" RET, A + 0x1000,
              false, false),
    REFERENCE("adr of a page, passed on", "\x00\x80\x00\x10" NOP RET, A + 0x1000, false, false),
    REFERENCE("literal", "\x08\x10\x00\x58", A + 0x200, false, false),
    REFERENCE("literal of 4 bytes", "\x08\x10\x00\x18", A + 0x200, false, false),
    REFERENCE("literal for a vector", "\x08\x10\x00\x9c", A + 0x200, false, false),
    REFERENCE("movz and movk", "\x09\x3c\x96\xd2" NOP "\x09\x08\xa0\xf2", 0x40b1e0, true, false),
    REFERENCE("movz and movk of 32 bits", "\x09\x3c\x96\x52\x09\x08\xa0\x72", 0x40b1e0, true,
              false),
    REFERENCE("movz of the high part", "\x09\x08\xa0\xd2\x09\x3c\x96\xf2", 0x40b1e0, true, false),
    REFERENCE("a word", NOP "\xe0\xb1\x40\x00\x00\x00\x00\x00", 0x40b1e0, true, false),
    REFERENCE("bl", NOP "\x02\x00\x00\x94", A + 4 + 8, false, true),
    REFERENCE("b", NOP "\xfe\xff\xff\x17", A - 4, false, true),
    REFERENCE("b with a condition", "\x00\x10\x00\x54", A + 0x200, false, true),
    REFERENCE("cbnz", "\x03\x10\x00\xb5", A + 0x200, false, true),
};

/* Only there is an adr what a linker made of an adrp. */
static const struct machine_reference late_references[] = {
    REFERENCE("adr of a page, with a load", /* adr x8, A + 0x2000; ldr x9, [x8, #0x118] */
              "\x48\x80\x00\x10" NOP NOP "\x09\x8d\x40\xf9" RET, A + 0x2118, false, false),
    REFERENCE("adr that is no page", "\x08\x10\x00\x10", MACHINE_LATE_ADDRESS + 0x200, false,
              false),
};

int main(void)
{
    const struct machine_suite suite = {
        .name = "AArch64",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
        MACHINE_TABLE(late_references),
    };
    return machine_suite_main(&suite);
}
