/*
 * Chained fixups (LC_DYLD_CHAINED_FIXUPS), as <mach-o/fixup-chains.h> has them.
 *
 * A header points to a table of segments, which points to a list of pages for each of them: the
 * offset of the first fixup in each page. A fixup is 64 bits, some of which say how far away the
 * next one is.
 */
#ifndef COVSPLIT_FORMATS_MACHO_CHAINS_H
#define COVSPLIT_FORMATS_MACHO_CHAINS_H

#include "formats/macho/fixups.h"

#define DYLD_CHAINED_PTR_START_NONE  0xffffu
#define DYLD_CHAINED_PTR_START_MULTI 0x8000u

/* struct dyld_chained_fixups_header */
#define CHAINS_STARTS_OFFSET  4
#define CHAINS_IMPORTS_OFFSET 8
#define CHAINS_SYMBOLS_OFFSET 12
#define CHAINS_HEADER_SIZE    28

/* struct dyld_chained_starts_in_image: a count, and that many offsets */
#define STARTS_SEG_COUNT       0
#define STARTS_SEG_INFO_OFFSET 4

/* struct dyld_chained_starts_in_segment */
#define CHAIN_SIZE           0
#define CHAIN_PAGE_SIZE      4
#define CHAIN_POINTER_FORMAT 6
#define CHAIN_SEGMENT_OFFSET 8
#define CHAIN_PAGE_COUNT     20
#define CHAIN_PAGE_START     22

struct chains_table {
    struct bytes blob; /* the contents of LC_DYLD_CHAINED_FIXUPS; empty: there are none */
    uint64_t starts;   /* offset of dyld_chained_starts_in_image in the blob */
    uint64_t imports;  /* offset of the imports, which follow the starts */
    uint32_t seg_count;
};

/* How to read the 64 bits of a fixup. */
struct chain_format {
    unsigned stride;     /* bytes for each unit of `next` */
    unsigned next_shift; /* position of `next`, and its width */
    unsigned next_bits;
    bool target_is_offset; /* the target is an offset from the image's start, not an address */
    bool has_auth;         /* bit 63 is "authenticated" and bit 62 "bind"; else bit 63 is "bind" */
};

struct chain_segment {
    uint64_t offset; /* in the blob */
    uint32_t size;
    uint32_t page_size;
    uint32_t page_count;
    uint16_t pointer_format;
    struct bytes page_starts; /* page_count numbers of 16 bits */
};

/* False if the table is malformed. */
bool chains_table_open(const struct macho_image *image, struct chains_table *table);
/* False if the segment has no fixups (*reason is then NULL), or they cannot be read. */
bool chains_segment_open(const struct macho_image *image, const struct chains_table *table,
                         size_t segment, struct chain_segment *chain, const char **reason);
/* False if the format is not known. */
bool chain_format_find(uint16_t pointer_format, struct chain_format *format);

/* Distance in bytes to the next fixup, 0 for the last one; and the word with another distance. */
uint64_t chain_next(const struct chain_format *format, uint64_t word);
uint64_t chain_with_next(const struct chain_format *format, uint64_t word, uint64_t distance);

#endif
