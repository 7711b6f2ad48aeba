/*
 * Tables of tests with coff_program.h: a change each, what stays then of the four sections that can
 * go, and why.
 */
#ifndef COVSPLIT_TESTS_UNIT_COFF_ROWS_H
#define COVSPLIT_TESTS_UNIT_COFF_ROWS_H

#include "formats/image.h"
#include "tests/unit/coff_program.h"

/* Where a number is: from the start of the file, of a header, or at an address. */
enum where { IN_FILE, IN_COFF, IN_OPTIONAL, IN_DIRECTORIES, IN_SECTION, AT_ADDRESS };

struct change {
    enum where where;
    unsigned section; /* for IN_SECTION */
    uint32_t offset;
    unsigned width; /* 0: no change */
    uint64_t value;
};

#define CHANGE(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define FILE_U32(offset, value)             CHANGE(IN_FILE, 0, offset, 4, value)
#define COFF_U16(offset, value)             CHANGE(IN_COFF, 0, offset, 2, value)
#define COFF_U32(offset, value)             CHANGE(IN_COFF, 0, offset, 4, value)
#define OPTIONAL_U16(offset, value)         CHANGE(IN_OPTIONAL, 0, offset, 2, value)
#define OPTIONAL_U32(offset, value)         CHANGE(IN_OPTIONAL, 0, offset, 4, value)
#define OPTIONAL_U64(offset, value)         CHANGE(IN_OPTIONAL, 0, offset, 8, value)
#define DIRECTORY(number, address)          CHANGE(IN_DIRECTORIES, 0, 8 * (number), 4, address)
#define DIRECTORY_SIZE(number, size)        CHANGE(IN_DIRECTORIES, 0, 8 * (number) + 4, 4, size)
#define SECTION_U32(section, offset, value) CHANGE(IN_SECTION, section, offset, 4, value)
#define SECTION_NAME(section, value)        CHANGE(IN_SECTION, section, 0, 8, value)
#define BYTE_AT(address, value)             CHANGE(AT_ADDRESS, 0, address, 1, value)
#define U32_AT(address, value)              CHANGE(AT_ADDRESS, 0, address, 4, value)
#define U64_AT(address, value)              CHANGE(AT_ADDRESS, 0, address, 8, value)

#define COFF_CHANGES                        4

struct coff_row {
    const char *what;
    void (*prepare)(struct coff_program *program); /* or NULL */
    struct change changes[COFF_CHANGES];
    /* A part of the reason to stay; NULL: it goes. */
    const char *names, *data, *covmap, *covfun;
};

#define COFF_NAMES_STAY "the names stay, so nothing would show that a profile lacks its records"

extern const struct image_options coff_all;

/* The code of a function of the runtime, which must be there. */
uint8_t *coff_code_of_symbol(struct coff_program *program, enum runtime_symbol symbol);

/* Makes all changes of a row. */
void coff_change(struct coff_program *program, const struct change *changes);

/* Changes the program, finishes it, and plans its split. */
struct image_plan *coff_plan(struct coff_program *program, const struct change *changes,
                             const struct image_options *options, struct error *error);

/* Whether a section goes, or stays for this reason. */
void coff_assert_reason(struct image_plan *plan, enum section_kind kind, const char *reason,
                        const char *what);
void coff_assert_row(struct image_plan *plan, const struct coff_row *row);

/* A new program, with the row's changes. */
void coff_check_row(const struct coff_row *row);

#endif
