/*
 * Reading and splitting COFF images (Microsoft's PE format). Internal to formats/coff.
 *
 * read.c reads the tables and base relocations; coff.c describes and checks sections; symbols.c
 * finds the runtime's functions, with and without symbols; layout.c cuts bytes out of the file, and
 * writes the headers that tell where things are.
 *
 * Fields have the names of Microsoft's "PE Format". Addresses are those at which the image prefers
 * to be loaded: ImageBase + RVA. Everything is little-endian.
 *
 * Markers: the runtime puts a marker of its own before and behind what
 * the compiler puts into a section: a zero byte for names, counters and bitmap, a record of zeros
 * for data. The functions that return the bounds return those of the bytes between the markers;
 * these bytes go into profiles, and the sidecar stores them as the section. (llvm-cov skips the
 * first byte of .lprfn in a linked COFF image, and treats zeros at the end as padding, so an ELF
 * file with only the bytes between the markers means the same to it.) The counters are aligned to 8
 * bytes, but the marker before them is one byte: the bound that the runtime returns is 7 bytes
 * before the first counter, and profiles begin with these 7 bytes. The other sections have no
 * markers.
 *
 * Data and bitmap need not be sections of their own: merged.c finds them among other data.
 */
#ifndef COVSPLIT_FORMATS_COFF_COFF_H
#define COVSPLIT_FORMATS_COFF_COFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/cursor.h"
#include "formats/format.h"

/* ---- the file format ---- */

/* Characteristics of the file, and those of a section. */
#define IMAGE_FILE_RELOCS_STRIPPED       0x0001u
#define IMAGE_FILE_DLL                   0x2000u
#define IMAGE_SCN_CNT_CODE               0x00000020u
#define IMAGE_SCN_CNT_INITIALIZED_DATA   0x00000040u
#define IMAGE_SCN_CNT_UNINITIALIZED_DATA 0x00000080u
#define IMAGE_SCN_MEM_DISCARDABLE        0x02000000u
#define IMAGE_SCN_MEM_EXECUTE            0x20000000u

/* The most parts of sections that are treated like sections: records and bitmap. */
#define COFF_PARTS_MAX 2

/* Data directories. */
enum coff_directory_index {
    DIRECTORY_EXPORT = 0,
    DIRECTORY_IMPORT = 1,
    DIRECTORY_CERTIFICATE = 4, /* holds a file offset; all others hold an RVA */
    DIRECTORY_BASE_RELOCATION = 5,
    DIRECTORY_DEBUG = 6,
    DIRECTORY_CLR = 14,
    DIRECTORY_COUNT = 16,
};

/* Sizes of the structures in the file, in bytes. */
#define COFF_HEADER_SIZE         20
#define COFF_SECTION_HEADER_SIZE 40
#define COFF_SYMBOL_SIZE         18
#define COFF_DEBUG_ENTRY_SIZE    28

/* Offsets of fields in bytes: in a section header, */
#define COFF_SECTION_VIRTUAL_SIZE           8
#define COFF_SECTION_VIRTUAL_ADDRESS        12
#define COFF_SECTION_SIZE_OF_RAW_DATA       16
#define COFF_SECTION_POINTER_TO_RAW_DATA    20
#define COFF_SECTION_POINTER_TO_RELOCATIONS 24
#define COFF_SECTION_POINTER_TO_LINENUMBERS 28
#define COFF_SECTION_CHARACTERISTICS        36
/* in the COFF header, */
#define HEADER_NUMBER_OF_SECTIONS      2
#define HEADER_POINTER_TO_SYMBOL_TABLE 8
#define HEADER_NUMBER_OF_SYMBOLS       12
#define HEADER_SIZE_OF_OPTIONAL_HEADER 16
#define HEADER_CHARACTERISTICS         18
/* in the optional header (the same in PE32 and PE32+), */
#define OPTIONAL_SIZE_OF_INITIALIZED_DATA 8
#define OPTIONAL_ADDRESS_OF_ENTRY_POINT   16
#define OPTIONAL_SECTION_ALIGNMENT        32
#define OPTIONAL_FILE_ALIGNMENT           36
#define OPTIONAL_SIZE_OF_IMAGE            56
#define OPTIONAL_SIZE_OF_HEADERS          60
#define OPTIONAL_CHECK_SUM                64
/* and in an entry of the debug directory. */
#define DEBUG_TYPE                12
#define DEBUG_SIZE_OF_DATA        16
#define DEBUG_POINTER_TO_RAW_DATA 24

struct coff_directory {
    uint32_t rva;
    uint32_t size;
};

struct coff_section {
    const char *name; /* short_name, a view of the file, or static */
    char short_name[9];
    uint64_t address; /* ImageBase + VirtualAddress */
    uint32_t VirtualAddress;
    uint32_t VirtualSize;
    uint32_t SizeOfRawData;
    uint32_t PointerToRawData;
    uint32_t PointerToRelocations;
    uint32_t PointerToLinenumbers;
    uint32_t Characteristics;
    uint64_t header_offset; /* of the section header in the file */
    uint32_t kept_size;     /* SizeOfRawData after the split (layout.c) */
};

struct coff_image {
    const struct input *input;
    const char *path; /* of the input, for messages */
    struct bytes file;
    uint16_t machine; /* as an ELF machine number */
    size_t pointer_size;
    uint64_t coff_header;     /* offsets in the file */
    uint64_t optional_header; /* of PE32 or PE32+ */
    uint64_t directories_offset;
    uint16_t characteristics;
    uint32_t entry_point;
    uint64_t image_base;
    uint32_t section_alignment;
    uint32_t file_alignment;
    uint32_t size_of_image;
    uint32_t size_of_headers;
    uint32_t check_sum;
    struct coff_directory directories[DIRECTORY_COUNT]; /* {0, 0} if the image has none */
    uint32_t directory_count;                           /* of the image */
    struct coff_section *sections; /* room for section_count + COFF_PARTS_MAX */
    size_t section_count;
    /* Parts of sections that are treated like sections; they follow these in `sections`
     * (merged.c). */
    size_t part_count;
    uint64_t symbols_offset;
    uint32_t symbol_count; /* 0: no symbol table */
    struct bytes strings;  /* the string table, starting with its size; empty: none */
};

/* ---- read.c ---- */

/* False for a file with what a debugger needs of an image, and nothing else: its code has no bytes
 * (objcopy --only-keep-debug). True also if its headers cannot be read. */
bool coff_is_linked(struct bytes bytes);

/* Opens a PE32 or PE32+ image for x86-64, AArch64 or i386. The input must outlive the image. After
 * a failure there is nothing to close. */
bool coff_image_open(struct coff_image *image, const struct input *input, struct error *error);
void coff_image_close(struct coff_image *image);

/* Index of the first section of that name behind index `after` (NO_INDEX: from the start); NO_INDEX
 * if there is none. */
size_t coff_section_find(const struct coff_image *image, const char *name, size_t after);
bool coff_section_is_code(const struct coff_section *section);
/* The bytes of a section, or part of one, that are in the file: at most VirtualSize. */
struct bytes coff_section_bytes(const struct coff_image *image, size_t index);
/* Index of the section whose addresses include [address, address + size); NO_INDEX if there is
 * none. */
size_t coff_section_of(const struct coff_image *image, uint64_t address, uint64_t size);
/* True for an address in a section with code. */
bool coff_is_code(const struct coff_image *image, uint64_t address);
/* The bytes loaded at [address, address + size); false if they are not in the file. */
bool coff_bytes_at(const struct coff_image *image, uint64_t address, uint64_t size,
                   struct bytes *bytes);
/* The contents of a data directory; empty if the image has none. False if they are not in the file.
 */
bool coff_directory_bytes(const struct coff_image *image, enum coff_directory_index index,
                          struct bytes *bytes);

/* Appends the outline of an image: see image_outline in image.h. */
bool coff_outline(const struct input *input, struct buffer *outline, struct error *error);

/* ---- base relocations (read.c) ---- */

struct coff_relocation {
    uint64_t address; /* of the word to which it applies, */
    uint64_t target;  /* which holds this address */
};

/* The base relocations that were not taken yet. */
struct coff_relocations {
    const struct coff_image *image;
    struct bytes bytes; /* the table; empty if the image has none */
    struct cursor table, entries;
    uint32_t page;
    const char *reason; /* the table is not complete, or the rest of it cannot be read; or NULL */
};

/* Takes base relocations one after the other, in the order of the table. False if there is none
 * left, or the member `reason` says why not. */
struct coff_relocations coff_relocations_open(const struct coff_image *image);
bool coff_relocations_next(struct coff_relocations *relocations,
                           struct coff_relocation *relocation);

struct coff_range {
    uint64_t address;
    uint64_t size;
};

/* Adds the edits that take out the relocations that apply to the ranges. The remaining blocks are
 * written at the start of the table, the rest of it is zeroed, and *size is the new size of the
 * table in bytes. False if that is impossible; *reason is NULL if memory ran out. */
bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason);

/* ---- the state of a split ---- */

struct coff_state {
    struct planning base;
    struct coff_image image;

    size_t data_host;        /* section into which the linker merged data; NO_INDEX: none */
    size_t dropped_sections; /* at the end of the table, removed with their headers */
    uint32_t base_relocation_size;
    bool drops_certificates;
    size_t check_sum_literal; /* offset in the edits' literals; SIZE_MAX: no checksum */
};

static inline struct coff_state *coff_state_of(struct planning *planning)
{
    return (struct coff_state *)planning;
}

static inline const struct coff_image *coff_image_of(const struct planning *planning)
{
    return &((const struct coff_state *)planning)->image;
}

/* ---- symbols.c ---- */

/* Finds the runtime's symbols in the symbol table and in the map file, if there are any. False if
 * either is damaged. */
bool coff_symbols_find(struct coff_state *state, struct error *error);
/* Takes the next symbol of both (an operation of struct code_operations). */
bool coff_symbols_next(const struct planning *planning, struct symbol_walk *walk,
                       struct image_symbol *symbol);

/* Looks for the runtime's functions if there are no symbols: functions that only return a bound. A
 * function counts only if no other one does the same. */
void coff_search_functions(struct coff_state *state);
/* Looks for the variable with the profiles' version in the same way. */
void coff_search_version(struct coff_state *state);

/* ---- merged.c ---- */

/* Finds the records in .data if the image has no section for them: they then become a part, and
 * data_host is set. False if memory runs out. */
bool coff_merged_find_records(struct coff_state *state, struct error *error);
/* Gives the reason why records stay that must be somewhere but were not found. */
void coff_merged_explain(struct coff_state *state);
/* Finds the bitmap of these records there, too. Requires the layout of records to be known. */
void coff_merged_find_bitmap(struct coff_state *state);
/* Finds the stub record of a stripped image in .data if no records are known: the stub and the
 * marker before it become one part, and its bitmap another. */
void coff_merged_find_stub(struct planning *planning);
/* Sets *nameless to whether the image has names, but none that belongs to the record. False if
 * memory runs out. */
bool coff_merged_is_nameless(const struct coff_state *state, struct bytes record, bool *nameless,
                             struct error *error);
/* The stub of a stripped image, whose runtime no longer tells the size of records: in its section
 * it follows a marker of zeros of its own size, and only zeros follow it. */
bool coff_find_stub(const struct coff_state *state, struct bytes *stub);

/* ---- layout.c ---- */

/* True if only the section itself uses its bytes; if not, the section is kept. */
bool coff_check_claims(struct coff_state *state, enum section_kind kind);
/* Operations of struct format. */
bool coff_layout(struct planning *planning, struct error *error);
bool coff_write(struct planning *planning, struct error *error);
bool coff_seal(struct planning *planning, struct error *error);

#endif
