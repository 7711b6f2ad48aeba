/*
 * A whole program for Windows on x86-64, made by hand: the functions of the profile runtime, their
 * symbols, and coverage sections that all can go. Tests change one thing before it is finished.
 */
#ifndef COVSPLIT_TESTS_UNIT_COFF_PROGRAM_H
#define COVSPLIT_TESTS_UNIT_COFF_PROGRAM_H

#include "common/base/file.h"
#include "formats/coff/coff.h"
#include "formats/runtime/runtime.h"
#include "tests/support/freed.h"

#define PROGRAM_BASE        UINT64_C(0x140000000)
#define PROGRAM_COFF_HEADER 0x84u
#define PROGRAM_OPTIONAL    0x98u
#define PROGRAM_DIRECTORIES 0x108u
#define PROGRAM_SECTIONS    0x188u

/* Addresses from PROGRAM_BASE on. */
#define PROGRAM_VERSION      0x2000u
#define PROGRAM_DEBUG        0x2040u
#define PROGRAM_RSDS         0x2080u
#define PROGRAM_DATA         0x3000u
#define PROGRAM_COUNTERS     0x4000u
#define PROGRAM_RECORDS      0x5000u
#define PROGRAM_NAMES        0x6000u
#define PROGRAM_COVFUN       0x7000u
#define PROGRAM_COVMAP       0x8000u
#define PROGRAM_RELOCATIONS  0x9000u

#define PROGRAM_RECORD       64u
#define PROGRAM_RECORD_COUNT 40u
/* With the markers. */
#define PROGRAM_RECORDS_SIZE  ((PROGRAM_RECORD_COUNT + 2) * PROGRAM_RECORD)
#define PROGRAM_COUNTERS_SIZE 0x809u
#define PROGRAM_NAMES_SIZE    0x402u

/* The sections, by their numbers from 0 on. */
enum { TEXT, RDATA, DATA, LPRFC, LPRFD, LPRFN, LCOVFUN, LCOVMAP, RELOC, PROGRAM_SECTION_COUNT };

#define PROGRAM_FILE_MAX    0x10000u
#define PROGRAM_SYMBOLS_MAX 400

struct coff_symbol {
    char name[48];
    uint32_t address;
};

struct coff_program {
    uint8_t file[PROGRAM_FILE_MAX];
    uint32_t size;
    uint32_t code_end; /* address */
    struct coff_symbol symbols[PROGRAM_SYMBOLS_MAX];
    size_t symbol_count;
    struct input input; /* after coff_program_finish: a copy of the file */
};

/* A program that is whole but for its symbols; freed by coff_program_free. */
struct coff_program *coff_program_new(void);
void coff_program_free(struct coff_program *program);

/* The byte at an address, in the file. */
uint8_t *coff_program_at(struct coff_program *program, uint32_t address);
/* The header of a section, and a data directory. */
uint8_t *coff_program_section(struct coff_program *program, unsigned number);
void coff_program_directory(struct coff_program *program, unsigned number, uint32_t address,
                            uint32_t size);

/* The code of a function that returns an address, in 16 bytes; its own address. */
uint32_t coff_program_code(struct coff_program *program, uint32_t address);
void coff_program_symbol(struct coff_program *program, const char *name, uint32_t address);
struct coff_symbol *coff_program_find(struct coff_program *program, const char *name);

/* Appends bytes to the file; returns where they are. */
uint32_t coff_program_append(struct coff_program *program, const void *bytes, uint32_t size);

/* Appends the symbols, if there are any. */
void coff_program_add_symbols(struct coff_program *program);
/* Makes the input. */
void coff_program_finish(struct coff_program *program);

/* For FREED_BY. */
DEFINE_DROP(drop_program, struct coff_program, coff_program_free)
DEFINE_DROP(drop_plan, struct image_plan, image_plan_free)

#endif
