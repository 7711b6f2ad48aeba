/*
 * Mach-O images made by hand, for what no linker at hand makes: a header, load commands, and bytes
 * that the tests put behind them.
 *
 * Each image for x86-64 has four segments, one behind the other in memory and in the file: __TEXT
 * (a page), __DATA, __LLVM_COV (a page) and __LINKEDIT (a page, of which a part is in the file).
 */
#ifndef COVSPLIT_TESTS_UNIT_MACHO_MAKER_H
#define COVSPLIT_TESTS_UNIT_MACHO_MAKER_H

#include "formats/macho/macho.h"
#include "tests/support/freed.h"

#define MAKER_PAGE        4096u
#define MAKER_BASE        UINT64_C(0x100000000)
#define MAKER_DATA        MAKER_PAGE
#define MAKER_DATA_PAGES  4u
#define MAKER_COVERAGE    (MAKER_DATA + MAKER_DATA_PAGES * MAKER_PAGE)
#define MAKER_LINKEDIT    (MAKER_COVERAGE + MAKER_PAGE)
#define MAKER_SIZE        (MAKER_LINKEDIT + 1024u)

#define MAKER_DATA_INDEX  1
#define MAKER_COVER_INDEX 2

#define MAKER_ROOM        0x10000u

struct macho_maker {
    uint8_t file[MAKER_ROOM]; /* of which the tests write what they want */
    uint64_t size;
    uint32_t command_count;
    uint32_t commands_end;
    uint32_t segment; /* where the last segment's command is */
    /* After macho_maker_open: a copy of the file. */
    struct input input;
    struct image_options options;
    struct macho_state state;
};

/* A new image with the four segments, or one of `size` bytes with none; freed by macho_maker_free.
 */
struct macho_maker *macho_maker_new(void);
struct macho_maker *macho_maker_bare(uint64_t size);
void macho_maker_free(struct macho_maker *maker);

/* Appends a load command whose other fields are zero; returns where it is in the file. */
uint8_t *macho_maker_command(struct macho_maker *maker, uint32_t cmd, uint32_t size);
/* Appends one that points to `size` bytes at the offset in the file. */
uint8_t *macho_maker_table(struct macho_maker *maker, uint32_t cmd, uint32_t offset, uint32_t size);

/* Appends a segment, whatever is in its place; and a section to the last segment, at the place in
 * memory that its offset has in the file. */
void macho_maker_segment(struct macho_maker *maker, const char *name, uint64_t address,
                         uint32_t offset, uint32_t size);
void macho_maker_section(struct macho_maker *maker, const char *name, uint32_t offset,
                         uint32_t size, uint32_t flags);

/* Opens the image, which must be sound, and begins a plan in which nothing is removed and no
 * segment is split. */
void macho_maker_open(struct macho_maker *maker);

/* Plans the removal of a section of that kind: bytes of __DATA, without a header. */
void macho_maker_remove(struct macho_maker *maker, enum section_kind kind, uint32_t offset,
                        uint32_t size);
/* Plans to cut bytes of __DATA, and to split the segment behind them. */
void macho_maker_split(struct macho_maker *maker, uint32_t offset, uint32_t size);

/* Finishes the edits, and applies them. */
struct buffer macho_maker_apply(struct macho_maker *maker);

/* For FREED_BY. */
DEFINE_DROP(drop_maker, struct macho_maker, macho_maker_free)

#endif
