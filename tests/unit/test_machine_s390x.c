/*
 * s390x: bodies of accessors, and instructions that refer.
 */
#include "tests/unit/machine_suite.h"

#define MACHINE     machine_s390x

#define ALL(text)   text, sizeof(text) - 1

#define CLANG_FRAME "\xeb\xbf\xf0\x58\x00\x24\xb9\x04\x00\xbf"
#define CLANG_LEAVE "\xeb\xbf\xb0\x58\x00\x04"
#define GCC_FRAME   "\xb3\xc1\x00\x0b\xb9\x04\x00\xbf"
#define GCC_LEAVE   "\xb3\xcd\x00\xb0"
#define RETURN      "\x07\xfe"

static const struct machine_body known[] = {
    BODY("GNU ld", "\xc4\x28\x00\x00\x24\x70" RETURN, ACCESSOR_LOAD, MACHINE_ADDRESS + 0x48e0),
    BODY("lld", "\xc0\x20\xff\xff\xff\xf0" RETURN, ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS - 0x20),
    BODY("clang -O0", CLANG_FRAME "\xc0\x20\x00\x01\x00\x00" CLANG_LEAVE RETURN,
         ACCESSOR_PC_RELATIVE, MACHINE_ADDRESS + 10 + 0x20000),
    BODY("clang -O0, GOT", CLANG_FRAME "\xc4\x28\x00\x01\x00\x00" CLANG_LEAVE RETURN, ACCESSOR_LOAD,
         MACHINE_ADDRESS + 10 + 0x20000),
    BODY("gcc -fno-omit-frame-pointer", GCC_FRAME "\xc4\x28\x00\x00\x00\x10" GCC_LEAVE RETURN,
         ACCESSOR_LOAD, MACHINE_ADDRESS + 8 + 0x20),
    BODY("gcc -O0", GCC_FRAME "\xc4\x18\x00\x00\x00\x10\xb9\x04\x00\x21" GCC_LEAVE RETURN,
         ACCESSOR_LOAD, MACHINE_ADDRESS + 8 + 0x20),
};

static const struct machine_body unknown[] = {
    NO_BODY("another register", "\xc4\x38\x00\x00\x24\x70" RETURN),
    NO_BODY("%r1 alone", "\xc4\x18\x00\x00\x24\x70" RETURN),
    NO_BODY("lrl", "\xc4\x2d\x00\x00\x24\x70" RETURN),
    NO_BODY("no return", "\xc0\x20\x00\x00\x24\x70\x07\xff"),
    NO_BODY("a frame that is not left", CLANG_FRAME "\xc0\x20\x00\x01\x00\x00" RETURN),
    NO_BODY("two frames", CLANG_FRAME "\xc0\x20\x00\x01\x00\x00" GCC_LEAVE RETURN),
    NO_BODY("something in between", "\xc0\x20\x00\x01\x00\x00\x07\x07" RETURN),
};

/* Behind an instruction of 2 bytes. */
#define TO MACHINE_ADDRESS + 2
#define RIL(a, b, what)                                                                            \
    {                                                                                              \
        &machine_s390x, what, ALL("\x07\x07" a b "\x00\x01\x00\x10"), TO + 0x20020, false, false   \
    }

static const struct machine_reference references[] = {
    RIL("\xc0", "\x10", "larl"),
    RIL("\xc4", "\x12", "llhrl"),
    RIL("\xc4", "\xf4", "lghrl"),
    RIL("\xc4", "\x15", "lhrl"),
    RIL("\xc4", "\x16", "llghrl"),
    RIL("\xc4", "\x17", "sthrl"),
    RIL("\xc4", "\x18", "lgrl"),
    RIL("\xc4", "\x1b", "stgrl"),
    RIL("\xc4", "\x1c", "lgfrl"),
    RIL("\xc4", "\x1d", "lrl"),
    RIL("\xc4", "\x1e", "llgfrl"),
    RIL("\xc4", "\x1f", "strl"),
    RIL("\xc6", "\x10", "exrl"),
    RIL("\xc6", "\x12", "pfdrl"),
    RIL("\xc6", "\x14", "cghrl"),
    RIL("\xc6", "\x15", "chrl"),
    RIL("\xc6", "\x16", "clghrl"),
    RIL("\xc6", "\x17", "clhrl"),
    RIL("\xc6", "\x18", "cgrl"),
    RIL("\xc6", "\x1a", "clgrl"),
    RIL("\xc6", "\x1c", "cgfrl"),
    RIL("\xc6", "\x1d", "crl"),
    RIL("\xc6", "\x1e", "clgfrl"),
    RIL("\xc6", "\x1f", "clrl"),
    REFERENCE_TO("backwards", "\xc0\x10\xff\xff\xff\x00", MACHINE_ADDRESS - 0x200),
    CALL_TO("brasl", "\xc0\xe5\x00\x00\x01\x00", MACHINE_ADDRESS + 0x200),
    CALL_TO("jg", "\xc0\xf4\xff\xff\xff\x00", MACHINE_ADDRESS - 0x200),
    CALL_TO("bras", "\xa7\xe5\xff\x00", MACHINE_ADDRESS - 0x200),
    CALL_TO("j", "\xa7\xf4\x01\x00", MACHINE_ADDRESS + 0x200),
};

int main(void)
{
    static const struct machine_suite suite = {
        .name = "machine_s390x",
        MACHINE_TABLE(known),
        MACHINE_TABLE(unknown),
        MACHINE_TABLE(references),
    };

    return machine_suite_main(&suite);
}
