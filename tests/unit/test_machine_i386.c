/*
 * i386: bodies of accessors, as ELF images have them, and what refers to data and functions.
 */
#include "tests/unit/machine_suite.h"

#define A       MACHINE_ADDRESS
#define B       MACHINE_BASE

#define MACHINE machine_i386

#define HERE    "\xe8\x00\x00\x00\x00\x58" /* call 1f; 1: pop %eax */

static const struct machine_body known[] = {
    BODY("mov imm32", "\xb8\x00\x00\x00\x80\xc3", ACCESSOR_IMMEDIATE, 0x80000000),
    BODY("mov imm32, 6 bytes", "\xc7\xc0\x00\x00\x00\x80\xc3", ACCESSOR_IMMEDIATE, 0x80000000),
    BODY("lea, -O0", "\x55\x89\xe5\x8d\x05\xe0\xb1\x40\x00\x5d\xc3", ACCESSOR_IMMEDIATE, 0x40b1e0),
    BODY("load of a slot", "\x8b\x05\xe0\xb1\x40\x00\xc3", ACCESSOR_LOAD, 0x40b1e0),
    BODY("endbr32", "\xf3\x0f\x1e\xfb\xb8\x01\x00\x00\x00\xc3", ACCESSOR_IMMEDIATE, 1),
    BODY("frame", "\x55\x89\xe5\xb8\x01\x00\x00\x00\x5d\xc3", ACCESSOR_IMMEDIATE, 1),
    BODY("frame by MSVC", "\x55\x8b\xec\xb8\x01\x00\x00\x00\x5d\xc3", ACCESSOR_IMMEDIATE, 1),
    BODY("load from the GOT", HERE "\x81\xc0\x00\x20\x00\x00\x8b\x80\x40\x00\x00\x00\xc3",
         ACCESSOR_LOAD, A + 5 + 0x2000 + 0x40),
    BODY("load in front of the GOT", HERE "\x81\xc0\x00\x20\x00\x00\x8b\x80\xc0\xff\xff\xff\xc3",
         ACCESSOR_LOAD, A + 5 + 0x2000 - 0x40),
    BODY("lea from the GOT", HERE "\x81\xc0\x00\x20\x00\x00\x8d\x80\x40\x10\x00\x00\xc3",
         ACCESSOR_PC_RELATIVE, A + 5 + 0x2000 + 0x1040),
    BODY("GOT in front of it", HERE "\x81\xc0\x00\xf0\xff\xff\x8d\x80\x40\x00\x00\x00\xc3",
         ACCESSOR_PC_RELATIVE, A + 5 - 0x1000 + 0x40),
    BODY("immediate where a load was", HERE "\x81\xc0\x00\x20\x00\x00\xc7\xc0\x00\x00\x00\x00\xc3",
         ACCESSOR_IMMEDIATE, 0),
    BODY("GOT by a short add", HERE "\x05\x00\x20\x00\x00\x8d\x80\x40\x10\x00\x00\xc3",
         ACCESSOR_PC_RELATIVE, A + 5 + 0x2000 + 0x1040),
    BODY("everything around it",
         "\xf3\x0f\x1e\xfb\x55\x89\xe5" HERE "\x81\xc0\x00\x20\x00\x00\x8b\x80\x40\x00\x00\x00"
         "\x5d\xc3",
         ACCESSOR_LOAD, A + 12 + 0x2000 + 0x40),
    /* The sum is MACHINE_BASE: what is called gives the address behind the call. */
    BODY("gcc's thunk", "\xe8\x00\x40\x00\x00\x05\xfb\xef\x07\x00\x8b\x80\x40\x00\x00\x00\xc3",
         ACCESSOR_LOAD, B + 0x40),
    BODY("gcc's thunk, with a frame",
         "\x55\x89\xe5\xe8\x00\x40\x00\x00\x05\xf8\xef\x07\x00\x8d\x80\x40\x00\x00\x00\x5d\xc3",
         ACCESSOR_PC_RELATIVE, B + 0x40),
};

static const struct machine_body unknown[] = {
    BODY("a 64-bit body", "\x48\x8d\x05\x00\x10\x00\x00\xc3", 0, 0),
    BODY("a frame that is not left", "\x55\x89\xe5\xb8\x01\x00\x00\x00\xc3", 0, 0),
    BODY("another register", "\xb9\x01\x00\x00\x00\xc3", 0, 0),
    BODY("lea of another register", "\x8d\x0d\xe0\xb1\x40\x00\xc3", 0, 0),
    BODY("the GOT in another register",
         "\xe8\x00\x00\x00\x00\x59\x81\xc1\x00\x20\x00\x00\x8d\x81\x40\x10\x00\x00\xc3", 0, 0),
    BODY("lea of another register from the GOT",
         HERE "\x81\xc0\x00\x20\x00\x00\x8d\x88\x40\x10\x00\x00\xc3", 0, 0),
    BODY("nothing added", HERE "\x8d\x80\x40\x10\x00\x00\xc3", 0, 0),
    BODY("a call of something else",
         "\xe8\x00\x40\x00\x00\x05\xfc\xef\x07\x00\x8b\x80\x40\x00\x00\x00\xc3", 0, 0),
    BODY("a call alone", "\xe8\x00\x40\x00\x00\xc3", 0, 0),
};

#define REFERENCE(what, code, target, absolute, called)                                            \
    {                                                                                              \
        &machine_i386, what, code, sizeof(code) - 1, target, absolute, called                      \
    }

static const struct machine_reference references[] = {
    REFERENCE("mov imm32", "\x90\xbf\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("push", "\x68\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("mov to the stack", "\xc7\x44\x24\x04\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("load", "\xa1\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("load with an index", "\x8b\x04\x8d\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("lea from the GOT", "\x8d\x83\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("lea in front of the GOT", "\x8d\x86\x00\xf0\xff\xff", B - 0x1000, false, false),
    REFERENCE("load from the GOT", "\x90\x8b\x9e\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("load with an index", "\x8b\x84\x8b\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("movzx from the GOT", "\x0f\xb6\x83\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("addl to beside the GOT", "\x83\x80\x00\x10\x00\x00\x01", B + 0x1000, false, false),
    REFERENCE("push from beside the GOT", "\xff\xb3\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("lea of what the GOT is added to", "\x8d\x35\x00\x10\x00\x00", B + 0x1000, false,
              false),
    REFERENCE("the GOT as an index", "\x8b\x04\x1d\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("mov to an address", "\xc7\x05\x00\x90\x04\x08\xe0\xb1\x40\x00", 0x40b1e0, true,
              false),
    REFERENCE("mov to an array", "\xc7\x04\x8d\x00\x90\x04\x08\xe0\xb1\x40\x00", 0x40b1e0, true,
              false),
    REFERENCE("mov to where a register points", "\xc7\x00\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("cmp of a register", "\x81\xf9\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("test of a register", "\xf7\xc1\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("test of eax", "\xa9\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("imul", "\x69\xc1\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("mov from an address", "\x8b\x0d\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("cmp of a byte", "\x38\x83\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("imul of what is beside the GOT", "\x69\x83\x00\x10\x00\x00\x05\x00\x00\x00",
              B + 0x1000, false, false),
    REFERENCE("imul by a byte", "\x6b\x83\x00\x10\x00\x00\x05", B + 0x1000, false, false),
    REFERENCE("shll", "\xc1\xa3\x00\x10\x00\x00\x02", B + 0x1000, false, false),
    REFERENCE("flds", "\xd9\x83\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("notl", "\xf7\x93\x00\x10\x00\x00", B + 0x1000, false, false),
    REFERENCE("vmovups of an array", "\xc5\xf8\x10\x83\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("vbroadcastss of an array", "\xc4\xe2\x7d\x18\x83\xe0\xb1\x40\x00", 0x40b1e0, true,
              false),
    REFERENCE("vmovups of 512 bits of an array", "\x62\xf1\x7c\x48\x10\x83\xe0\xb1\x40\x00",
              0x40b1e0, true, false),
    REFERENCE("pabsb of an array", "\x66\x0f\x38\x1c\x83\xe0\xb1\x40\x00", 0x40b1e0, true, false),
    REFERENCE("call", "\x90\xe8\xf0\xff\xff\xff", A + 6 - 0x10, false, true),
    REFERENCE("jmp", "\xe9\x00\x10\x00\x00", A + 5 + 0x1000, false, true),
    REFERENCE("je", "\x0f\x84\x00\x10\x00\x00", A + 6 + 0x1000, false, true),
};

int main(void)
{
    const struct machine_suite suite = {
        .name = "i386",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
    };
    return machine_suite_main(&suite);
}
