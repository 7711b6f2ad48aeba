/*
 * ppc64le: bodies of accessors, and instructions that refer.
 */
#include "tests/unit/machine_suite.h"

#define ALL(text) text, sizeof(text) - 1

static const struct machine_body known[] = {
    {&machine_ppc64le, "global entry, addis and addi",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x01\x00\x62\x3c\xf0\xff\x63\x38\x20\x00\x80\x4e"),
     ACCESSOR_PC_RELATIVE, MACHINE_BASE + 0xfff0, false},
    {&machine_ppc64le, "local entry alone", ALL("\xfe\xff\x62\x3c\x96\x19\x63\x38\x20\x00\x80\x4e"),
     ACCESSOR_PC_RELATIVE, MACHINE_BASE - 0x1e66a, false},
    {&machine_ppc64le, "near the TOC",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x00\x00\x00\x60\x00\x84\x62\x38\x20\x00\x80\x4e"),
     ACCESSOR_PC_RELATIVE, MACHINE_BASE - 0x7c00, false},
    {&machine_ppc64le, "at a fixed address",
     ALL("\x48\x00\x40\x3c\x00\x00\x42\x38\x00\x00\x00\x60\x00\x84\x62\x38\x20\x00\x80\x4e"),
     ACCESSOR_PC_RELATIVE, MACHINE_BASE - 0x7c00, false},
    {&machine_ppc64le, "large model",
     ALL("\xf8\xff\x4c\xe8\x14\x62\x42\x7c\x01\x00\x62\x3c\xf0\xff\x63\xe8\x20\x00\x80\x4e"),
     ACCESSOR_LOAD, MACHINE_BASE + 0xfff0, false},
    {&machine_ppc64le, "TOC",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x01\x00\x62\x3c\xf0\xff\x63\xe8\x20\x00\x80\x4e"),
     ACCESSOR_LOAD, MACHINE_BASE + 0xfff0, false},
    {&machine_ppc64le, "TOC near",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x00\x00\x00\x60\x60\x80\x62\xe8\x20\x00\x80\x4e"),
     ACCESSOR_LOAD, MACHINE_BASE - 0x7fa0, false},
    {&machine_ppc64le, "POWER10", ALL("\xff\xff\x13\x06\xe0\xff\x60\x38\x20\x00\x80\x4e"),
     ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 0x20, false},
    {&machine_ppc64le, "POWER10, GOT", ALL("\x01\x00\x10\x04\x40\x23\x60\xe4\x20\x00\x80\x4e"),
     ACCESSOR_LOAD, MACHINE_ADDRESS + 0x12340, false},
    {&machine_ppc64le, "gcc with a frame",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\xf8\xff\xe1\xfb\xd1\xff\x21\xf8\x01\x00\x62\x3c\x08\x00"
         "\x63\xe8\x78\x0b\x3f\x7c\x30\x00\x3f\x38\x00\x00\x42\x60\xf8\xff\xe1\xeb\x20\x00\x80"
         "\x4e"),
     ACCESSOR_LOAD, MACHINE_BASE + 0x10008, false},
    {&machine_ppc64le, "gcc -O0",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\xf8\xff\xe1\xfb\xd1\xff\x21\xf8\x78\x0b\x3f\x7c\x01\x00"
         "\x22\x3d\x08\x00\x29\xe9\x78\x4b\x23\x7d\x30\x00\x3f\x38\xf8\xff\xe1\xeb\x20\x00\x80"
         "\x4e"),
     ACCESSOR_LOAD, MACHINE_BASE + 0x10008, false},
    {&machine_ppc64le, "gcc -O0, POWER10",
     ALL("\xf8\xff\xe1\xfb\xd1\xff\x21\xf8\x78\x0b\x3f\x7c\x00\x00\x00\x60\x00\x00\x10\x04\x00\x01"
         "\x20\xe5\x78\x4b\x23\x7d\x30\x00\x3f\x38\xf8\xff\xe1\xeb\x20\x00\x80\x4e"),
     ACCESSOR_LOAD, MACHINE_ADDRESS + 0x110, false},
};

static const struct machine_body unknown[] = {
    {&machine_ppc64le, "another register", ALL("\x01\x00\x82\x3c\x00\x00\x84\x38\x20\x00\x80\x4e"),
     0, 0, false},
    {&machine_ppc64le, "two registers", ALL("\x01\x00\x62\x3c\x00\x00\x64\x38\x20\x00\x80\x4e"), 0,
     0, false},
    {&machine_ppc64le, "r9 alone", ALL("\x01\x00\x22\x3d\x00\x00\x29\x39\x20\x00\x80\x4e"), 0, 0,
     false},
    {&machine_ppc64le, "no address", ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x20\x00\x80\x4e"), 0, 0,
     false},
    {&machine_ppc64le, "a load of 4 bytes",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x01\x00\x62\x3c\x00\x00\x63\x80\x20\x00\x80\x4e"), 0, 0,
     false},
    {&machine_ppc64le, "something in between",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x01\x00\x62\x3c\x00\x00\x63\x38\x01\x00\x63\x38\x20\x00"
         "\x80\x4e"),
     0, 0, false},
    {&machine_ppc64le, "a call",
     ALL("\x08\x00\x4c\x3c\x00\xf0\x42\x38\x01\x00\x62\x3c\x00\x00\x63\x38\x01\x00\x00\x48\x20\x00"
         "\x80\x4e"),
     0, 0, false},
    {&machine_ppc64le, "POWER10, not relative",
     ALL("\x00\x00\x00\x06\x08\x00\x60\x38\x20\x00\x80\x4e"), 0, 0, false},
};

static const struct machine_reference references[] = {
    {&machine_ppc64le, "addis, addi", ALL("\x01\x00\x82\x3c\x00\x00\x00\x60\xfc\xff\xa4\x38"),
     MACHINE_BASE + 0xfffc, false, false},
    {&machine_ppc64le, "lwz", ALL("\xff\xff\x82\x3c\x08\x00\xa4\x80"), MACHINE_BASE - 0xfff8, false,
     false},
    {&machine_ppc64le, "std", ALL("\xff\xff\x82\x3c\x10\x00\xa4\xf8"), MACHINE_BASE - 0xfff0, false,
     false},
    {&machine_ppc64le, "lfd", ALL("\xff\xff\x82\x3c\x10\x00\xa4\xc8"), MACHINE_BASE - 0xfff0, false,
     false},
    {&machine_ppc64le, "lxv", ALL("\xff\xff\x82\x3c\x21\x00\xa4\xf4"), MACHINE_BASE - 0xffe0, false,
     false},
    {&machine_ppc64le, "lxsd", ALL("\xff\xff\x82\x3c\x22\x00\xa4\xe4"), MACHINE_BASE - 0xffe0,
     false, false},
    {&machine_ppc64le, "lq", ALL("\xff\xff\x82\x3c\x20\x00\xc4\xe0"), MACHINE_BASE - 0xffe0, false,
     false},
    {&machine_ppc64le, "near the TOC", ALL("\x00\x00\x00\x60\x00\x90\x62\x38"),
     MACHINE_BASE - 0x7000, false, false},
    {&machine_ppc64le, "a load near the TOC", ALL("\x00\x70\x62\x88"), MACHINE_BASE + 0x7000, false,
     false},
    {&machine_ppc64le, "a copy",
     ALL("\x01\x00\x82\x3c\x78\x23\x86\x7c\x00\x00\x80\x38\x08\x00\xa6\x38"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "stored and loaded",
     ALL("\x01\x00\x82\x3c\x60\x00\x81\xf8\x00\x00\x80\x38\x60\x00\xe1\xe8\x08\x00\xe7\xe8"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "behind a branch",
     ALL("\x01\x00\x82\x3c\x08\x00\x82\x41\x00\x00\x80\x38\x08\x00\xa4\x38"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "where a branch goes back",
     ALL("\x0c\x00\x00\x48\x08\x00\xbe\x38\x20\x00\x80\x4e\x01\x00\xc2\x3f\xf4\xff\xff\x4b"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "over a call", ALL("\x01\x00\xc2\x3f\x01\x10\x00\x48\x08\x00\xbe\x38"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "behind a jump by a table",
     ALL("\x01\x00\xc2\x3f\x20\x04\x80\x4e\x00\x00\x00\x60\x08\x00\xbe\x38"),
     MACHINE_BASE + 0x10008, false, false},
    {&machine_ppc64le, "another TOC", ALL("\x01\x00\x4c\x3c\x00\x00\x42\x38\x08\x00\x62\x38"),
     MACHINE_ADDRESS + 0x10008, false, false},
    {&machine_ppc64le, "pla", ALL("\x00\x00\x00\x60\x01\x00\x10\x06\x44\x23\x60\x38"),
     MACHINE_ADDRESS + 0x12348, false, false},
    {&machine_ppc64le, "plwz", ALL("\x01\x00\x10\x06\x08\x00\x60\x80"), MACHINE_ADDRESS + 0x10008,
     false, false},
    {&machine_ppc64le, "pstd", ALL("\x01\x00\x10\x04\x08\x00\x60\xf4"), MACHINE_ADDRESS + 0x10008,
     false, false},
    {&machine_ppc64le, "lis, addi", ALL("\x41\x00\x80\x3c\xf8\xff\x84\x38"),
     MACHINE_ADDRESS + 0xeff8, true, false},
    {&machine_ppc64le, "lis, ori", ALL("\x41\x00\x80\x3c\xf8\xff\x84\x60"),
     MACHINE_ADDRESS + 0x1eff8, true, false},
    {&machine_ppc64le, "lis", ALL("\x41\x00\x80\x3c\x20\x00\x80\x4e"), MACHINE_ADDRESS + 0xf000,
     true, false},
    {&machine_ppc64le, "pli", ALL("\x41\x00\x00\x06\x08\x00\x60\x38"), MACHINE_ADDRESS + 0xf008,
     true, false},
    {&machine_ppc64le, "bl", ALL("\x00\x00\x00\x60\x01\x10\x00\x48"), MACHINE_ADDRESS + 0x1004,
     false, true},
    {&machine_ppc64le, "b", ALL("\x00\xf0\xff\x4b"), MACHINE_ADDRESS - 0x1000, false, true},
    {&machine_ppc64le, "bc", ALL("\x00\x02\x82\x41"), MACHINE_ADDRESS + 0x200, false, true},
};

int main(void)
{
    static const struct machine_suite suite = {
        .name = "machine_ppc64",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
    };

    return machine_suite_main(&suite);
}
