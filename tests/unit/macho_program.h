/*
 * A whole program for Darwin on x86-64, made by hand: the functions of the profile runtime, their
 * symbols, and coverage sections that all can go. Tests change one thing before it is finished.
 */
#ifndef COVSPLIT_TESTS_UNIT_MACHO_PROGRAM_H
#define COVSPLIT_TESTS_UNIT_MACHO_PROGRAM_H

#include "formats/image.h"
#include "formats/runtime/runtime.h"
#include "tests/unit/macho_maker.h"

/* The same offsets in the file and, from MAKER_BASE on, in memory. */
#define PROGRAM_CODE        0xc00u
#define PROGRAM_VERSION     0xf00u
#define PROGRAM_COUNTERS    0x1000u
#define PROGRAM_DATA        0x1800u
#define PROGRAM_NAMES       0x4400u
#define PROGRAM_COVFUN      0x8000u
#define PROGRAM_COVMAP      0x9000u
#define PROGRAM_LINKEDIT    0xa000u
#define PROGRAM_RECORD      64u
#define PROGRAM_VALUE_SITES 52u /* NumValueSites in it */
#define PROGRAM_RECORDS     176u
#define PROGRAM_NAMES_SIZE  0x3c00u

#define PROGRAM_CODE_SIZE   0x300u

/* Load commands and headers that tests change, by where they are in the file. */
enum program_part {
    PROGRAM_FILE,
    PROGRAM_TEXT,
    PROGRAM_DATA_SEGMENT,
    PROGRAM_COVERAGE,
    PROGRAM_LINKEDIT_SEGMENT,
    PROGRAM_CODE_SECTION,
    PROGRAM_VERSION_SECTION,
    PROGRAM_COUNTERS_SECTION,
    PROGRAM_DATA_SECTION,
    PROGRAM_NAMES_SECTION,
    PROGRAM_COVFUN_SECTION,
    PROGRAM_COVMAP_SECTION,
    PROGRAM_UUID,
    PROGRAM_SYMTAB,
    PROGRAM_DYSYMTAB,
    PROGRAM_DYLD_INFO,
    PROGRAM_PARTS,
};

#define PROGRAM_SYMBOLS_MAX 400

struct program_symbol {
    char name[48]; /* with the prefix of C */
    uint64_t address;
    uint8_t section; /* from 1 on */
};

struct macho_program {
    struct macho_maker *maker;
    uint8_t *parts[PROGRAM_PARTS];
    uint32_t code_end;
    struct program_symbol symbols[PROGRAM_SYMBOLS_MAX];
    size_t symbol_count;
};

/* The code of a function that returns an address, in 16 bytes; its offset in the file. */
uint32_t macho_program_code(struct macho_program *program, uint64_t address);
/* A symbol of the runtime, or another one, in the code. */
void macho_program_symbol(struct macho_program *program, const char *name, uint32_t offset);
/* The symbol of that name, which must be there. */
struct program_symbol *macho_program_find(struct macho_program *program, const char *name);

/* Fixups: opcodes of a table, by the field of the load command. */
void macho_program_opcodes(struct macho_program *program, uint32_t field, const uint8_t *opcodes,
                           size_t size);

/* A program that is whole but for its symbols, and these are written last. */
void macho_program_begin(struct macho_program *program);
void macho_program_finish(struct macho_program *program);

/* A number that is changed, in a finished program. */
struct program_change {
    enum program_part part;
    uint32_t offset;
    unsigned width; /* 0: no change */
    uint64_t value;
};

#define PROGRAM_CHANGES 3

/* Finishes and changes the program, and plans its split. After that, or a failure, it is ended with
 * its plan. */
struct image_plan *macho_program_plan(struct macho_program *program,
                                      const struct program_change *changes, unsigned sections,
                                      struct error *error);
void macho_program_end(struct macho_program *program, struct image_plan *plan);

#endif
