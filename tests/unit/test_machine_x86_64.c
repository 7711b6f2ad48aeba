/*
 * x86-64: bodies of accessors, and references to data and functions, in all forms of operands and
 * with all that may be behind them.
 */
#include "tests/unit/machine_suite.h"

#define A       MACHINE_ADDRESS
#define D       "\x00\x20\x00\x00" /* what is added to the address of the next instruction */

#define MACHINE machine_x86_64

/* The value of a PC-relative one is the end of its instruction + the displacement. */
static const struct machine_body known[] = {
    BODY("lea", "\x48\x8d\x05\x00\x10\x00\x00\xc3", ACCESSOR_PC_RELATIVE, A + 7 + 0x1000),
    BODY("lea backwards", "\x48\x8d\x05\xf9\xff\xff\xff\xc3", ACCESSOR_PC_RELATIVE, A),
    BODY("mov imm32, sign-extended", "\x48\xc7\xc0\xe0\xb1\x40\x00\xc3", ACCESSOR_IMMEDIATE,
         0x40b1e0),
    BODY("mov imm32, negative", "\x48\xc7\xc0\x00\x00\x00\x80\xc3", ACCESSOR_IMMEDIATE,
         UINT64_C(0xffffffff80000000)),
    BODY("mov imm32 to %eax", "\xb8\x00\x00\x00\x80\xc3", ACCESSOR_IMMEDIATE, 0x80000000),
    BODY("movabs", "\x48\xb8\x88\x77\x66\x55\x44\x33\x22\x11\xc3", ACCESSOR_IMMEDIATE,
         UINT64_C(0x1122334455667788)),
    BODY("load", "\x48\x8b\x05\x10\x00\x00\x00\xc3", ACCESSOR_LOAD, A + 7 + 0x10),
    BODY("endbr64", "\xf3\x0f\x1e\xfa\x48\x8d\x05\x00\x00\x00\x00\xc3", ACCESSOR_PC_RELATIVE,
         A + 11),
    BODY("frame", "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\x5d\xc3", ACCESSOR_PC_RELATIVE,
         A + 11),
    BODY("endbr64 and frame",
         "\xf3\x0f\x1e\xfa\x55\x48\x89\xe5\x48\xc7\xc0\x01\x00\x00\x00\x5d\xc3", ACCESSOR_IMMEDIATE,
         1),
};

static const struct machine_body unknown[] = {
    BODY("another register", "\x48\x8d\x0d\x00\x10\x00\x00\xc3", 0, 0),
    BODY("a prologue before it", "\x50\x48\x8d\x05\x00\x10\x00\x00\xc3", 0, 0),
    BODY("no return", "\x48\x8d\x05\x00\x10\x00\x00\x90", 0, 0),
    BODY("a frame that is not left", "\x55\x48\x89\xe5\x48\x8d\x05\x00\x00\x00\x00\xc3", 0, 0),
    BODY("arithmetic behind it", "\x48\x8d\x05\x00\x10\x00\x00\x48\x83\xc0\x08\xc3", 0, 0),
    BODY("a call", "\xe8\x00\x00\x00\x00\xc3", 0, 0),
    BODY("code of AArch64", "\x00\x00\x00\xb0\x00\x00\x01\x91\xc0\x03\x5f\xd6", 0, 0),
};

/* The whole code is the instruction. */
#define REFERENCE(what, code)                                                                      \
    {                                                                                              \
        &machine_x86_64, what, code, sizeof(code) - 1, A + sizeof(code) - 1 + 0x2000, false, false \
    }
#define ABSOLUTE(what, code)                                                                       \
    {                                                                                              \
        &machine_x86_64, what, code, sizeof(code) - 1, 0x456780, true, false                       \
    }
#define V "\x80\x67\x45\x00"
/* From an address in a register: of MACHINE_BASE, or of a label. */
#define FROM(what, code)                                                                           \
    {                                                                                              \
        &machine_x86_64, what, code, sizeof(code) - 1, 0x456780, false, false                      \
    }

static const struct machine_reference references[] = {
    FROM("movabs from the GOT", "\x48\xb9\x80\x67\xfd\xff\xff\xff\xff\xff"),
    FROM("movabs from the GOT, to a high register", "\x49\xbe\x80\x67\xfd\xff\xff\xff\xff\xff"),
    FROM("movabs from a label in front",
         "\x48\x8d\x05\xf9\xff\xff\xff\x48\xb9\x80\x57\x05\x00\x00\x00\x00\x00"),
    FROM("movabs from a label behind",
         "\x48\xb9\x76\x57\x05\x00\x00\x00\x00\x00\x4c\x8d\x1d\xf9\xff\xff\xff"),
    FROM("movabs from where a call returns",
         "\xe8\x00\x00\x00\x00\x58\x48\xb9\x7b\x57\x05\x00\x00\x00\x00\x00"),
    REFERENCE("lea", "\x48\x8d\x0d" D),
    REFERENCE("load", "\x8b\x05" D),
    REFERENCE("store", "\x48\x89\x05" D),
    REFERENCE("store of an immediate", "\xc7\x05" D "\x01\x02\x03\x04"),
    REFERENCE("store of a short immediate", "\x66\xc7\x05" D "\x01\x02"),
    REFERENCE("movzx", "\x0f\xb6\x05" D),
    REFERENCE("movsxd", "\x48\x63\x0d" D),
    REFERENCE("cmpb $imm8", "\x80\x3d" D "\x01"),
    REFERENCE("cmpw $imm16", "\x66\x81\x3d" D "\x01\x02"),
    REFERENCE("cmpl $imm32", "\x81\x3d" D "\x01\x02\x03\x04"),
    REFERENCE("cmpq $imm8", "\x48\x83\x3d" D "\x00"),
    REFERENCE("cmpq $imm32", "\x48\x81\x3d" D "\x01\x02\x03\x04"),
    REFERENCE("cmp to a byte", "\x3a\x05" D),
    REFERENCE("testb $imm8", "\xf6\x05" D "\x04"),
    REFERENCE("testl $imm32", "\xf7\x05" D "\x01\x02\x03\x04"),
    REFERENCE("not", "\xf7\x15" D),
    REFERENCE("test", "\x84\x05" D),
    REFERENCE("add", "\x03\x05" D),
    REFERENCE("and of a byte", "\x22\x05" D),
    REFERENCE("or with REX", "\x4c\x0b\x05" D),
    REFERENCE("sub", "\x2b\x05" D),
    REFERENCE("xor", "\x33\x05" D),
    REFERENCE("inc", "\xff\x05" D),
    REFERENCE("push", "\xff\x35" D),
    REFERENCE("call", "\xff\x15" D),
    REFERENCE("jmp", "\xff\x25" D),
    REFERENCE("imul", "\x0f\xaf\x05" D),
    REFERENCE("imul $imm8", "\x6b\x05" D "\x07"),
    REFERENCE("imul $imm32", "\x69\x05" D "\x01\x02\x03\x04"),
    REFERENCE("bt $imm8", "\x0f\xba\x25" D "\x03"),
    REFERENCE("shl $imm8", "\xc1\x25" D "\x03"),
    REFERENCE("shl", "\xd1\x25" D),
    REFERENCE("shrd $imm8", "\x0f\xac\x05" D "\x03"),
    REFERENCE("cmov", "\x48\x0f\x44\x05" D),
    REFERENCE("sete", "\x0f\x94\x05" D),
    REFERENCE("lock cmpxchg", "\xf0\x0f\xb1\x0d" D),
    REFERENCE("popcnt", "\xf3\x48\x0f\xb8\x05" D),
    REFERENCE("movbe", "\x0f\x38\xf0\x05" D),
    REFERENCE("crc32", "\xf2\x0f\x38\xf1\x05" D),
    REFERENCE("fld", "\xdd\x05" D),
    REFERENCE("movups", "\x0f\x10\x05" D),
    REFERENCE("cvtsi2sd", "\xf2\x48\x0f\x2a\x05" D),
    REFERENCE("mulsd", "\xf2\x0f\x59\x05" D),
    REFERENCE("pxor", "\x66\x0f\xef\x05" D),
    REFERENCE("pshufd $imm8", "\x66\x0f\x70\x05" D "\x1b"),
    REFERENCE("cmpps $imm8", "\x0f\xc2\x05" D "\x02"),
    REFERENCE("pinsrw $imm8", "\x66\x0f\xc4\x05" D "\x02"),
    REFERENCE("pshufb", "\x66\x0f\x38\x00\x05" D),
    REFERENCE("palignr $imm8", "\x66\x0f\x3a\x0f\x05" D "\x08"),
    REFERENCE("vmovdqa, VEX of two bytes", "\xc5\xf9\x6f\x05" D),
    REFERENCE("vpshufd $imm8, VEX of two bytes", "\xc5\xf9\x70\x05" D "\x1b"),
    REFERENCE("vpshufb, VEX of three bytes", "\xc4\xe2\x79\x00\x05" D),
    REFERENCE("vperm2f128 $imm8", "\xc4\xe3\x7d\x06\x05" D "\x20"),
    REFERENCE("vmovdqu64, EVEX", "\x62\xf1\xfe\x48\x6f\x05" D),
    REFERENCE("vpternlogd $imm8, EVEX", "\x62\xf3\x7d\x48\x25\x05" D "\x96"),
    REFERENCE("vaddph, EVEX, map 5", "\x62\xf5\x7c\x48\x58\x05" D),
    REFERENCE("vpcomb $imm8, XOP", "\x8f\xe8\x78\xcc\x05" D "\x01"),
    REFERENCE("relative to %eip", "\x67\x8b\x05" D),
    ABSOLUTE("mov to a register", "\xbf" V),
    ABSOLUTE("mov to a register, sign-extended", "\x48\xc7\xc7" V),
    ABSOLUTE("movabs", "\x48\xb8" V "\x00\x00\x00\x00"),
    ABSOLUTE("movabs from memory", "\x48\xa1" V "\x00\x00\x00\x00"),
    ABSOLUTE("push", "\x68" V),
    ABSOLUTE("cmp with %rax", "\x48\x3d" V),
    ABSOLUTE("cmp with %rdi", "\x48\x81\xff" V),
    ABSOLUTE("add", "\x48\x81\xc7" V),
    ABSOLUTE("mov to memory", "\x48\xc7\x44\x24\x08" V),
    ABSOLUTE("load at a fixed address", "\x8b\x04\x25" V),
    ABSOLUTE("cmpb at a fixed address", "\x80\x3c\x25" V "\x01"),
    ABSOLUTE("load with an index", "\x8b\x04\x85" V),
    ABSOLUTE("load from a register and it", "\x0f\xb6\x87" V),
    {&machine_x86_64, "call", "\x90\xe8" D, 6, A + 6 + 0x2000, false, true},
    {&machine_x86_64, "jump", "\x90\xe9" D, 6, A + 6 + 0x2000, false, true},
    {&machine_x86_64, "jump if equal", "\x0f\x84" D, 6, A + 6 + 0x2000, false, true},
};

static const struct machine_suite suite = {
    .name = "machine x86-64",
    MACHINE_TABLE(known),
    MACHINE_TABLE(unknown),
    MACHINE_TABLE(references),
};

int main(void)
{
    return machine_suite_main(&suite);
}
