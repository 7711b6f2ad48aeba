/*
 * The tables of a COFF image, read and checked. Internal to formats/coff.
 *
 * Fields have the names of Microsoft's "PE Format". Addresses are those at which the image prefers
 * to be loaded: ImageBase + RVA. Everything is little-endian.
 */
#ifndef COVSPLIT_FORMATS_COFF_READ_H
#define COVSPLIT_FORMATS_COFF_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "formats/plan.h"

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
    uint32_t kept_size;     /* SizeOfRawData after the split (coff/layout.c) */
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
    struct coff_section *sections; /* room for section_count + COFF_PARTS_MAX */
    size_t section_count;
    /* Parts of sections that are treated like sections; they follow these in `sections`
     * (coff/merged.c). */
    size_t part_count;
    uint64_t symbols_offset;
    uint32_t symbol_count; /* 0: no symbol table */
    struct bytes strings;  /* the string table, starting with its size; empty: none */
};

/* Opens a PE32 or PE32+ image for x86-64, AArch64 or i386. The input must outlive the image. After
 * a failure there is nothing to close. */
bool coff_image_open(struct coff_image *image, const struct input *input, struct error *error);
void coff_image_close(struct coff_image *image);

/* True if the image's sections are laid out as loaders require, one after the other and aligned to
 * pages; otherwise *reason is set to a phrase. Must be true before bytes are cut. */
bool coff_layout_is_sound(const struct coff_image *image, const char **reason);

/* The name that linkers give sections of the kind. */
const char *coff_section_name(enum section_kind kind);
/* Index of the first section of that name behind index `after` (NO_INDEX: from the start); NO_INDEX
 * if there is none. */
size_t coff_section_find(const struct coff_image *image, const char *name, size_t after);
bool coff_section_is_code(const struct coff_section *section);
/* The bytes of a section, or part of one, that are in the file: at most VirtualSize. */
struct bytes coff_section_bytes(const struct coff_image *image, size_t index);
/* Index of the section whose addresses include [address, address + size); NO_INDEX if there is
 * none. */
size_t coff_section_of(const struct coff_image *image, uint64_t address, uint64_t size);
/* The bytes loaded at [address, address + size); false if they are not in the file. */
bool coff_bytes_at(const struct coff_image *image, uint64_t address, uint64_t size,
                   struct bytes *bytes);
/* The bytes from the address to the end of its section. */
bool coff_bytes_from(const struct coff_image *image, uint64_t address, struct bytes *bytes);

/* The GUID of the RSDS record in the debug directory, in the byte order of the file (as LLVM reads
 * it, too); its size is 0 if there is none. */
void coff_guid(const struct coff_image *image, struct uuid *uuid);

/* Appends the outline of an image (coff/outline.c): see image_outline in image.h. */
bool coff_outline(const struct input *input, struct buffer *outline, struct error *error);

#endif
