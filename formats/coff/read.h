/*
 * The tables of a COFF image, read and checked. Internal to formats/coff.
 *
 * Names of fields are those of Microsoft's "PE Format". Addresses are the ones at which the image
 * would like to be loaded: ImageBase + RVA. Everything here is little-endian.
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

/* Characteristics of the file, and of a section. */
#define IMAGE_FILE_RELOCS_STRIPPED     0x0001u
#define IMAGE_FILE_DLL                 0x2000u
#define IMAGE_SCN_CNT_CODE             0x00000020u
#define IMAGE_SCN_CNT_INITIALIZED_DATA 0x00000040u
#define IMAGE_SCN_MEM_EXECUTE          0x20000000u

/* Parts of sections: records and bitmap. */
#define COFF_PARTS_MAX 2

/* Data directories. */
enum coff_directory_index {
    DIRECTORY_EXPORT = 0,
    DIRECTORY_CERTIFICATE = 4, /* a file offset where others have an RVA */
    DIRECTORY_BASE_RELOCATION = 5,
    DIRECTORY_DEBUG = 6,
    DIRECTORY_CLR = 14,
    DIRECTORY_COUNT = 16,
};

/* Sizes of the structures in the file. */
#define COFF_HEADER_SIZE         20
#define COFF_SECTION_HEADER_SIZE 40
#define COFF_SYMBOL_SIZE         18
#define COFF_DEBUG_ENTRY_SIZE    28

/* Where fields are, in bytes: of a section header, */
#define COFF_SECTION_VIRTUAL_SIZE           8
#define COFF_SECTION_VIRTUAL_ADDRESS        12
#define COFF_SECTION_SIZE_OF_RAW_DATA       16
#define COFF_SECTION_POINTER_TO_RAW_DATA    20
#define COFF_SECTION_POINTER_TO_RELOCATIONS 24
#define COFF_SECTION_POINTER_TO_LINENUMBERS 28
#define COFF_SECTION_CHARACTERISTICS        36
/* of the COFF header, */
#define HEADER_NUMBER_OF_SECTIONS      2
#define HEADER_POINTER_TO_SYMBOL_TABLE 8
#define HEADER_NUMBER_OF_SYMBOLS       12
#define HEADER_SIZE_OF_OPTIONAL_HEADER 16
#define HEADER_CHARACTERISTICS         18
/* of the optional header; these are the same in PE32 and PE32+, */
#define OPTIONAL_SIZE_OF_INITIALIZED_DATA 8
#define OPTIONAL_ADDRESS_OF_ENTRY_POINT   16
#define OPTIONAL_SECTION_ALIGNMENT        32
#define OPTIONAL_FILE_ALIGNMENT           36
#define OPTIONAL_SIZE_OF_IMAGE            56
#define OPTIONAL_SIZE_OF_HEADERS          60
#define OPTIONAL_CHECK_SUM                64
/* and of an entry of the debug directory. */
#define DEBUG_TYPE                12
#define DEBUG_SIZE_OF_DATA        16
#define DEBUG_POINTER_TO_RAW_DATA 24

struct coff_directory {
    uint32_t rva;
    uint32_t size;
};

struct coff_section {
    const char *name; /* lives as long as the image's file is mapped, or forever */
    char short_name[9];
    uint64_t address; /* ImageBase + VirtualAddress */
    uint32_t VirtualAddress;
    uint32_t VirtualSize;
    uint32_t SizeOfRawData;
    uint32_t PointerToRawData;
    uint32_t PointerToRelocations;
    uint32_t PointerToLinenumbers;
    uint32_t Characteristics;
    uint64_t header_offset; /* in the file */
};

struct coff_image {
    const struct input *input;
    const char *path; /* the input's, for messages */
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
    struct coff_directory directories[DIRECTORY_COUNT]; /* {0, 0} where the image has none */
    struct coff_section *sections;                      /* section_count + COFF_PARTS_MAX of them */
    size_t section_count;
    /* Parts of sections that are treated like sections, behind the others: coff/merged.c. */
    size_t part_count;
    uint64_t symbols_offset;
    uint32_t symbol_count; /* 0: no symbol table */
    struct bytes strings;  /* of the symbol table, with their size in front; empty: none */
};

/* Opens a PE32 or PE32+ image for x86-64, AArch64 or i386. The input must outlive the image. On
 * failure nothing is left to close. */
bool coff_image_open(struct coff_image *image, const struct input *input, struct error *error);
void coff_image_close(struct coff_image *image);

/* True where the image's sections are laid out as loaders want it, one after the other and aligned
 * to pages; *reason is a phrase otherwise. What must hold before bytes are cut. */
bool coff_layout_is_sound(const struct coff_image *image, const char **reason);

/* What linkers call sections of the kind. */
const char *coff_section_name(enum section_kind kind);
/* Index of the first section of that name behind `after` (NO_INDEX: from the start); NO_INDEX:
 * none. */
size_t coff_section_find(const struct coff_image *image, const char *name, size_t after);
bool coff_section_is_code(const struct coff_section *section);
/* The bytes that the file has of a section, or of a part: not more than VirtualSize. */
struct bytes coff_section_bytes(const struct coff_image *image, size_t index);
/* Index of the section whose address range has [address, address + size); NO_INDEX: none. */
size_t coff_section_of(const struct coff_image *image, uint64_t address, uint64_t size);
/* The bytes loaded at [address, address + size); false where the file does not have them. */
bool coff_bytes_at(const struct coff_image *image, uint64_t address, uint64_t size,
                   struct bytes *bytes);
/* The bytes from the address to the end of its section. */
bool coff_bytes_from(const struct coff_image *image, uint64_t address, struct bytes *bytes);

/* The GUID of the RSDS record of the debug directory, as its bytes are in the file (that is how
 * LLVM reads it too); size 0 where there is none. */
void coff_guid(const struct coff_image *image, struct uuid *uuid);

/* Appends the outline of an image (coff/outline.c): see image_outline in image.h. */
bool coff_outline(const struct input *input, struct buffer *outline, struct error *error);

#endif
