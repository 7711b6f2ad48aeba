/*
 * The suite of a machine: bodies of accessors and instructions with references, as tables. What is
 * asked of each is the same for every machine.
 */
#ifndef COVSPLIT_TESTS_UNIT_MACHINE_SUITE_H
#define COVSPLIT_TESTS_UNIT_MACHINE_SUITE_H

#include "formats/machine/machine.h"

/* All code is at this address; for one of less than 8 bytes, or of 32 bits. */
#define MACHINE_ADDRESS      UINT64_C(0x401000)
#define MACHINE_LATE_ADDRESS (MACHINE_ADDRESS + 0xff8)
#define MACHINE_BASE         UINT64_C(0x480000) /* what the base register holds */
/* Of machines with a GOT whose slots code is judged by: where it starts, and what is in its third
 * and fourth slot, a multiple of 64 KiB and another address. */
#define MACHINE_GOT         (MACHINE_BASE - 0x7ff0)
#define MACHINE_GOT_PAGE    UINT64_C(0x430000)
#define MACHINE_GOT_ADDRESS UINT64_C(0x451238)

/* A function; one that is no accessor has no form and value. */
struct machine_body {
    const struct machine *machine;
    const char *what;
    const char *code;
    size_t size;
    enum accessor_form form;
    uint64_t value;
    bool is_thumb;
};

/* Code with one reference. */
struct machine_reference {
    const struct machine *machine;
    const char *what;
    const char *code;
    size_t size;
    uint64_t target;
    bool absolute; /* it is there only where code may hold addresses */
    bool called;   /* it is there only where what is looked for is code */
};

/* Rows for what a suite defines as its MACHINE. */
#define BODY(what, code, form, value)                                                              \
    {                                                                                              \
        &MACHINE, what, code, sizeof(code) - 1, form, value, false                                 \
    }
#define NO_BODY(what, code) BODY(what, code, 0, 0)
#define REFERENCE_ROW(what, code, target, absolute, called)                                        \
    {                                                                                              \
        &MACHINE, what, code, sizeof(code) - 1, target, absolute, called                           \
    }
#define REFERENCE_TO(what, code, target) REFERENCE_ROW(what, code, target, false, false)
#define ABSOLUTE_TO(what, code, target)  REFERENCE_ROW(what, code, target, true, false)
#define CALL_TO(what, code, target)      REFERENCE_ROW(what, code, target, false, true)

struct machine_suite {
    const char *name;
    const struct machine_body *known;
    size_t known_count;
    const struct machine_body *unknown;
    size_t unknown_count;
    const struct machine_reference *references;
    size_t reference_count;
    /* The same, where the code begins 8 bytes before the end of a page of 4 KiB. */
    const struct machine_reference *late_references;
    size_t late_reference_count;
    /* Where a body is made to lead, which all can reach: 0 for MACHINE_ADDRESS + 0x54320. */
    uint64_t new_value;
};

#define MACHINE_TABLE(table) table, sizeof(table) / sizeof((table)[0])

/* Runs it: what main returns. */
int machine_suite_main(const struct machine_suite *suite);

#endif
