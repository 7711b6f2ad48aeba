/*
 * RISC-V: bodies of accessors, and references, as clang, gcc and linkers make them.
 */
#include "tests/unit/machine_suite.h"

#define MACHINE machine_riscv64

static const struct machine_body known[] = {
    BODY("auipc and addi", "\x17\x15\x00\x00\x13\x05\x05\x04\x67\x80\x00\x00", ACCESSOR_PC_RELATIVE,
         MACHINE_ADDRESS + 0x1040),
    BODY("auipc and addi, backwards", "\x17\xf5\xff\xff\x13\x05\xf5\xfb\x82\x80",
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 0x1041),
    BODY("auipc and ld", "\x17\x15\x00\x00\x03\x35\x05\xff\x82\x80", ACCESSOR_LOAD,
         MACHINE_ADDRESS + 0xff0),
    {&machine_riscv32, "auipc and lw", "\x17\x15\x00\x00\x03\x25\x05\xff\x82\x80", 10,
     ACCESSOR_LOAD, MACHINE_ADDRESS + 0xff0, false},
    {&machine_riscv32, "auipc that wraps around",
     "\x17\x05\x00\x80\x13\x05\x05\x04\x67\x80\x00\x00", 12, ACCESSOR_PC_RELATIVE,
     MACHINE_ADDRESS + 0x80000040, false},
    BODY("lui and addi", "\x37\x15\x41\x00\x13\x05\x05\x86\x67\x80\x00\x00", ACCESSOR_IMMEDIATE,
         0x410860),
    BODY("lui, negative", "\x37\x05\x00\x80\x13\x05\x15\x04\x82\x80", ACCESSOR_IMMEDIATE,
         UINT64_C(0xffffffff80000041)),
    {&machine_riscv32, "lui, in the upper half", "\x37\x05\x00\x80\x13\x05\x15\x04\x82\x80", 10,
     ACCESSOR_IMMEDIATE, 0x80000041, false},
    BODY("near gp", "\x13\x85\x01\x80\x82\x80", ACCESSOR_PC_RELATIVE, MACHINE_BASE - 2048),
    {&machine_riscv32, "near gp", "\x13\x85\xf1\x7f\x67\x80\x00\x00", 8, ACCESSOR_PC_RELATIVE,
     MACHINE_BASE + 2047, false},
    BODY("lpad", "\x17\x00\x00\x00\x17\x15\x00\x00\x13\x05\x05\x04\x82\x80", ACCESSOR_PC_RELATIVE,
         MACHINE_ADDRESS + 0x1044),
    BODY("a frame",
         "\x13\x01\x01\xff\x23\x34\x11\x00\x23\x30\x81\x00\x13\x04\x01\x01\x17\x05\x00\x00\x03\x35"
         "\x85"
         "\xff\x83\x30\x81\x00\x03\x34\x01\x00\x13\x01\x01\x01\x67\x80\x00\x00",
         ACCESSOR_LOAD, MACHINE_ADDRESS + 0x8),
    BODY("a compressed frame",
         "\x41\x11\x06\xe4\x22\xe0\x00\x08\x17\x05\x00\x00\x03\x35\x85\xff\xa2\x60\x02\x64\x41\x01"
         "\x82"
         "\x80",
         ACCESSOR_LOAD, MACHINE_ADDRESS),
    {&machine_riscv32, "a compressed frame",
     "\x41\x11\x06\xc6\x22\xc0\x00\x08\x17\x05\x00\x00\x03\x25\x85\xff\xb2\x40\x02\x44\x41\x01\x82"
     "\x80",
     24, ACCESSOR_LOAD, MACHINE_ADDRESS, false},
    BODY("a frame by gcc",
         "\x41\x11\x22\xe4\x00\x08\x97\x07\x00\x00\x93\x87\xa7\xfb\x3e\x85\x22\x64\x41\x01\x82\x80",
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 0x40),
    BODY("a copy", "\xb7\x17\x00\x00\x93\x87\x07\x00\x13\x85\x07\x00\x67\x80\x00\x00",
         ACCESSOR_IMMEDIATE, 0x1000),
};

static const struct machine_body unknown[] = {
    NO_BODY("another register", "\x97\x15\x00\x00\x93\x85\x05\x04\x67\x80\x00\x00"),
    NO_BODY("an add to another register", "\x17\x15\x00\x00\x13\x85\x05\x04\x67\x80\x00\x00"),
    NO_BODY("no return", "\x17\x15\x00\x00\x13\x05\x05\x04\x13\x00\x00\x00"),
    NO_BODY("a return to another register", "\x17\x15\x00\x00\x13\x05\x05\x04\x67\x80\x02\x00"),
    NO_BODY("arithmetic behind it",
            "\x17\x15\x00\x00\x13\x05\x05\x04\x13\x05\x85\x00\x67\x80\x00\x00"),
    NO_BODY("a load of 32 bits", "\x17\x15\x00\x00\x03\x25\x05\x04\x67\x80\x00\x00"),
    {&machine_riscv32, "a load of 16 bits", "\x17\x15\x00\x00\x03\x15\x05\x04\x67\x80\x00\x00", 12,
     0, 0, false},
    NO_BODY("an add of 32 bits", "\x37\x15\x00\x00\x1b\x05\x05\x04\x67\x80\x00\x00"),
    NO_BODY("the zero register", "\x17\x10\x00\x00\x13\x05\x00\x04\x67\x80\x00\x00"),
    NO_BODY("the difference to another register", "\x13\x05\x02\x04\x82\x80"),
    NO_BODY("a call", "\xef\x00\x00\x04\x82\x80"),
    NO_BODY("nothing but zeros", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
};

static const struct machine_reference references[] = {
    REFERENCE_TO("addi", "\x17\x07\x01\x00\x13\x05\x07\x02\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("ld", "\x17\x07\x01\x00\x03\x35\x07\xfe\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0xffe0),
    REFERENCE_TO("sb", "\x17\x07\x01\x00\xa3\x0f\xa7\xfc\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0xffdf),
    REFERENCE_TO("fld", "\x17\x07\x01\x00\x07\x35\x87\x02\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("a comparison into the register",
                 "\x17\x07\x01\x00\x07\x37\x87\x02\x53\x07\xf7\xa2\x83\x47\x97\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("a conversion into the register",
                 "\x17\x07\x01\x00\x07\x37\x87\x02\x53\x97\x27\xc2\x83\x47\x97\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("a move into the register",
                 "\x17\x07\x01\x00\x07\x37\x87\x02\x53\x87\x07\xe2\x83\x47\x97\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("a status into the register",
                 "\x17\x07\x01\x00\x07\x37\x87\x02\x73\x27\x30\x00\x83\x47\x97\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("fsw", "\x17\x07\x01\x00\x27\x24\xa7\x02\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0x10028),
    {&machine_riscv32, "lhu", "\x17\x07\x01\x00\x03\x55\x27\x02\x82\x80", 10,
     MACHINE_ADDRESS + 0x10022, false, false},
    {&machine_riscv32, "an address that wraps around",
     "\x17\x07\xb0\xff\x13\x05\x07\x02\x67\x80\x00\x00", 12, UINT64_C(0xfff01020), false, false},
    REFERENCE_TO("an odd place", "\x01\x00\x17\x07\x01\x00\x13\x05\x07\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10022),
    REFERENCE_TO("others between",
                 "\x17\x07\x01\x00\x85\x45\x2e\x86\x3a\xe0\xd4\x41\x13\x05\x07\x02\x82\x80",
                 MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("a branch between",
                 "\x17\x07\x01\x00\x63\x03\x05\x00\x01\x47\x03\x35\x07\x42\x82\x80",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a jump back", "\x17\x07\x01\x00\x21\xa0\x03\x35\x07\x42\x82\x80\x6d\xfd\x82\x80",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a jump table", "\x17\x07\x01\x00\x02\x85\x01\x00\x03\x35\x07\x42\x82\x80",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a handler of exceptions",
                 "\x97\x04\x01\x00\xef\x00\x00\x00\x82\x80\x03\xb5\x04\x42\x82\x80",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a second store",
                 "\x17\x07\x01\x00\x23\x38\xa7\x82\x23\x30\xb7\x02\x67\x80\x00\x00",
                 MACHINE_ADDRESS + 0x10020),
    ABSOLUTE_TO("lui", "\x37\x57\x34\x12\x03\x35\x87\x67\x82\x80", 0x12345678),
    ABSOLUTE_TO("compressed lui", "\x7d\x67\x03\x35\x87\x67\x82\x80", 0x1f678),
    {&machine_riscv32, "lui, in the upper half", "\x37\x57\x34\x82\x03\x25\x87\xff\x67\x80\x00\x00",
     12, 0x82344ff8, true, false},
    REFERENCE_TO("near gp", "\x93\x87\x81\xff\x67\x80\x00\x00", MACHINE_BASE - 8),
    REFERENCE_TO("a load near gp", "\x83\xb7\x81\x7f\x82\x80", MACHINE_BASE + 0x7f8),
    {&machine_riscv32, "a store near gp", "\x23\xa4\xf1\x80\x82\x80", 6, MACHINE_BASE - 0x7f8,
     false, false},
    CALL_TO("jal", "\xef\x40\x05\x32", MACHINE_ADDRESS + 0x54320),
    CALL_TO("jal, backwards", "\x6f\xf0\xfd\xff", MACHINE_ADDRESS - 0x20002),
    CALL_TO("compressed jump", "\x75\xa5", MACHINE_ADDRESS + 0x6ac),
    CALL_TO("compressed jump, backwards", "\x75\xb4", MACHINE_ADDRESS - 0x554),
    {&machine_riscv32, "compressed call", "\x75\x25", 2, MACHINE_ADDRESS + 0x6ac, false, true},
    CALL_TO("far call", "\x97\x40\x05\x00\xe7\x80\x00\x32", MACHINE_ADDRESS + 0x54320),
    CALL_TO("far jump", "\x17\x43\x05\x00\x67\x00\x03\xce", MACHINE_ADDRESS + 0x53ce0),
};

int main(void)
{
    static const struct machine_suite suite = {
        "RISC-V", MACHINE_TABLE(known), MACHINE_TABLE(unknown), MACHINE_TABLE(references), NULL,
        0,        MACHINE_BASE + 0x540,
    };

    return machine_suite_main(&suite);
}
