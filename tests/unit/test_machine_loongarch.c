/*
 * LoongArch: bodies of accessors, and references, as clang and lld make them.
 */
#include "tests/unit/machine_suite.h"

#define MACHINE machine_loongarch64

static const struct machine_body known[] = {
    BODY("pcalau12i and addi.d", "\x24\x00\x00\x1a\x84\x00\xc1\x02\x20\x00\x00\x4c",
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS + 0x1040),
    BODY("pcalau12i, backwards", "\xe4\xff\xff\x1b\x84\xfc\xff\x02\x20\x00\x00\x4c",
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 0x1001),
    BODY("pcalau12i and ld.d", "\x04\x02\x00\x1a\x84\xc0\xff\x28\x20\x00\x00\x4c", ACCESSOR_LOAD,
         MACHINE_ADDRESS + 0xfff0),
    BODY("pcaddi", "\xa4\xff\xff\x19\x20\x00\x00\x4c", ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 12),
    BODY("a frame",
         "\x63\xc0\xff\x02\x61\x20\xc0\x29\x76\x00\xc0\x29\x76\x40\xc0\x02\x24\x00\x00\x1a\x84\x00"
         "\xc1"
         "\x28\x76\x00\xc0\x28\x61\x20\xc0\x28\x63\x40\xc0\x02\x20\x00\x00\x4c",
         ACCESSOR_LOAD, MACHINE_ADDRESS + 0x1040),
    BODY("a frame, and pcaddi",
         "\x63\xc0\xff\x02\x61\x20\xc0\x29\x76\x00\xc0\x29\x76\x40\xc0\x02\x84\x00\x00\x18\x76\x00"
         "\xc0"
         "\x28\x61\x20\xc0\x28\x63\x40\xc0\x02\x20\x00\x00\x4c",
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS + 0x20),
};

static const struct machine_body unknown[] = {
    NO_BODY("another register", "\x25\x00\x00\x1a\xa5\x00\xc1\x02\x20\x00\x00\x4c"),
    NO_BODY("pcaddi of another register", "\x25\x00\x00\x18\x20\x00\x00\x4c"),
    NO_BODY("an add to another register", "\x24\x00\x00\x1a\xa4\x00\xc1\x02\x20\x00\x00\x4c"),
    NO_BODY("no return", "\x24\x00\x00\x1a\x84\x00\xc1\x02\x00\x00\x40\x03"),
    NO_BODY("a return to another register", "\x24\x00\x00\x1a\x84\x00\xc1\x02\x80\x01\x00\x4c"),
    NO_BODY("arithmetic behind it",
            "\x24\x00\x00\x1a\x84\x00\xc1\x02\x84\x20\xc0\x02\x20\x00\x00\x4c"),
    NO_BODY("a load of 32 bits", "\x24\x00\x00\x1a\x84\x00\x81\x28\x20\x00\x00\x4c"),
    NO_BODY("pcaddu12i", "\x24\x00\x00\x1c\x84\x00\xc1\x02\x20\x00\x00\x4c"),
    NO_BODY("a far address", "\x24\x00\x00\x1a\x05\x00\xc1\x02\x05\x00\x00\x16\xa5\x00\x00\x03\x84"
                             "\x94\x10\x00\x20\x00\x00"
                             "\x4c"),
    NO_BODY("a call", "\x00\x40\x00\x54\x20\x00\x00\x4c"),
    NO_BODY("nothing but zeros", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
};

static const struct machine_reference references[] = {
    REFERENCE_TO("addi.d", "\x0c\x02\x00\x1a\x84\x81\xc0\x02\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("ld.d", "\x0c\x02\x00\x1a\x84\x81\xff\x28\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0xffe0),
    REFERENCE_TO("st.b", "\x0c\x02\x00\x1a\x84\x7d\x3f\x29\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0xffdf),
    REFERENCE_TO("ld.hu", "\x0c\x02\x00\x1a\x84\x89\x40\x2a\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10022),
    REFERENCE_TO("fst.d", "\x0c\x02\x00\x1a\x80\xa1\xc0\x2b\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10028),
    REFERENCE_TO("vld", "\x0c\x02\x00\x1a\x80\xc1\x00\x2c\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10030),
    REFERENCE_TO("xvst", "\x0c\x02\x00\x1a\x80\xc1\xc0\x2c\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10030),
    REFERENCE_TO("pcaddu12i", "\x00\x00\x40\x03\x0c\x02\x00\x1c\x84\x81\xc0\x02\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10024),
    REFERENCE_TO("pcaddi", "\x0c\x01\x08\x18\x20\x00\x00\x4c", MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("others between",
                 "\x0c\x02\x00\x1a\xc5\x04\xc0\x02\x6c\x00\xc0\x29\x84\x81\xc0\x02\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("a branch between",
                 "\x0c\x02\x00\x1a\x80\x08\x00\x40\x0c\x00\xc0\x02\x84\x81\xc0\x28\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10020),
    REFERENCE_TO("a jump back",
                 "\x0c\x02\x00\x1a\x00\x0c\x00\x50\x84\x81\xd0\x28\x20\x00\x00\x4c\x9f\xf8\xff\x47"
                 "\x20\x00\x00"
                 "\x4c",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a comparison",
                 "\x0c\x02\x00\x1a\x85\x08\x00\x68\x20\x00\x00\x4c\x84\x81\xd0\x28\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a jump table",
                 "\x0c\x02\x00\x1a\x80\x00\x00\x4c\x0c\x00\x15\x00\x84\x81\xd0\x28\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a handler of exceptions",
                 "\x18\x02\x00\x1a\x00\x20\x00\x54\x20\x00\x00\x4c\x04\x83\xd0\x28\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10420),
    REFERENCE_TO("a second store",
                 "\x0c\x02\x00\x1a\x84\xc1\xe0\x29\x85\x81\xc0\x29\x20\x00\x00\x4c",
                 MACHINE_ADDRESS + 0x10020),
    ABSOLUTE_TO("ori", "\xac\x68\x24\x14\x8c\xe1\xa9\x03\x20\x00\x00\x4c", 0x12345a78),
    ABSOLUTE_TO("lu32i.d",
                "\xac\x68\x24\x15\x8c\xe1\xa9\x03\x4c\x02\x00\x16\x8c\x01\x00\x03\x20\x00\x00\x4c",
                UINT64_C(0x1292345a78)),
    ABSOLUTE_TO("lu32i.d behind others",
                "\xac\x68\x24\x15\x8c\xe1\xa9\x03\xa4\x00\x15\x00\x4c\x02\x00\x16\x20\x00\x00\x4c",
                UINT64_C(0x1292345a78)),
    CALL_TO("b", "\xfe\xe3\xbc\x52", MACHINE_ADDRESS - 0x54320),
    CALL_TO("bl", "\x01\x20\x43\x55", MACHINE_ADDRESS + 0x54320),
    CALL_TO("far call", "\x21\x00\x00\x1e\x21\xe0\xfc\x4f", MACHINE_ADDRESS + 0x3fce0),
    CALL_TO("far jump", "\x2c\x00\x00\x1e\x80\x21\x03\x4c", MACHINE_ADDRESS + 0x40320),
};

int main(void)
{
    static const struct machine_suite suite = {
        "LoongArch",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
        NULL,
        0,
        0,
    };

    return machine_suite_main(&suite);
}
