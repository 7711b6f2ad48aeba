/*
 * The tables of a COFF object, with the ordinary header or that of /bigobj, read and checked.
 * Internal to formats/object.
 *
 * Fields have the names of Microsoft's "PE Format". Everything is little-endian.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_READ_H
#define COVSPLIT_FORMATS_OBJECT_COFF_OBJECT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

/* Sizes in bytes. */
#define COFF_OBJECT_SECTION_SIZE    40
#define COFF_OBJECT_RELOCATION_SIZE 10
#define COFF_OBJECT_LINE_SIZE       6

/* Offsets of fields: in a section header, */
enum {
    COFF_OBJECT_SIZE_OF_RAW_DATA = 16,
    COFF_OBJECT_POINTER_TO_RAW_DATA = 20,
    COFF_OBJECT_POINTER_TO_RELOCATIONS = 24,
    COFF_OBJECT_POINTER_TO_LINENUMBERS = 28,
    COFF_OBJECT_NUMBER_OF_RELOCATIONS = 32,
    COFF_OBJECT_NUMBER_OF_LINENUMBERS = 34,
    COFF_OBJECT_CHARACTERISTICS = 36,
};

/* in a relocation and a line number, */
enum {
    COFF_RELOCATION_SYMBOL = 4,
    COFF_RELOCATION_TYPE = 8,
    COFF_LINE_SYMBOL = 0,
    COFF_LINE_NUMBER = 4,
};

/* in a symbol, */
enum {
    COFF_SYMBOL_STRING = 4,
    COFF_SYMBOL_SECTION = 12,
};

/* and in the auxiliary record of a section's definition. */
enum {
    COFF_DEFINITION_LENGTH = 0,
    COFF_DEFINITION_CHECK_SUM = 8,
    COFF_DEFINITION_NUMBER = 12,
    COFF_DEFINITION_SELECTION = 14,
    COFF_DEFINITION_HIGH_NUMBER = 16, /* /bigobj alone */
    COFF_DEFINITION_SIZE = 18,
};

/* The string table starts with its size. */
#define COFF_STRINGS_FIRST            4

#define IMAGE_SCN_LNK_INFO            0x00000200u
#define IMAGE_SCN_LNK_REMOVE          0x00000800u
#define IMAGE_SCN_LNK_COMDAT          0x00001000u
#define IMAGE_SCN_LNK_NRELOC_OVFL     0x01000000u

#define IMAGE_SYM_CLASS_EXTERNAL      2
#define IMAGE_SYM_CLASS_STATIC        3
#define IMAGE_SYM_CLASS_FUNCTION      101
#define IMAGE_SYM_CLASS_FILE          103
#define IMAGE_SYM_CLASS_WEAK_EXTERNAL 105
#define IMAGE_SYM_TYPE_FUNCTION       0x20

#define IMAGE_COMDAT_SELECT_ANY       2

struct coff_object {
    struct bytes file;
    bool is_big;
    bool is_amd64;
    bool has_underscores; /* before names of C: i386 */
    size_t header_size;
    size_t symbol_size; /* also of an auxiliary record */
    uint32_t section_count;
    uint32_t symbol_count; /* with auxiliary records */
    struct bytes sections; /* their headers */
    struct bytes symbols;
    struct bytes strings; /* with their size in front; its last byte is 0. Empty: no symbols */
};

/* A section, as far as its bytes are in the file. */
struct coff_object_section {
    const uint8_t *header;
    uint32_t characteristics;
    struct bytes name; /* no more of it than COFF_NAME_MAX bytes */
    struct bytes contents;
    struct bytes relocations; /* with the one that only has their number, if there are many */
    struct bytes line_numbers;
};

struct coff_object_symbol {
    const uint8_t *bytes;
    const uint8_t *aux; /* its auxiliary records, of symbol_size bytes each */
    uint32_t value;
    int32_t section; /* from 1; 0: undefined; negative: in none */
    uint16_t type;
    uint8_t storage_class;
    uint8_t aux_count;
};

/* Names are looked at, not kept, and those of interest are short. */
#define COFF_NAME_MAX 64

/* Whether the file begins like a COFF object for one of the machines whose images can be split. */
bool coff_object_recognize(struct bytes file);

/* Each returns false if the object is damaged. */
bool coff_object_open(struct coff_object *object, struct bytes file);
bool coff_object_section_read(const struct coff_object *object, uint32_t index,
                              struct coff_object_section *section);
/* The index must not be that of an auxiliary record. */
bool coff_object_symbol_read(const struct coff_object *object, uint32_t index,
                             struct coff_object_symbol *symbol);

/* The name of a symbol or of a section at its offset in the string table; no more of it than
 * COFF_NAME_MAX bytes. */
bool coff_object_symbol_name(const struct coff_object *object,
                             const struct coff_object_symbol *symbol, struct bytes *name);
/* Whether the name of the symbol, or of the section with this header, is in the string table, and
 * where. */
bool coff_symbol_has_string(const uint8_t *symbol, uint32_t *offset);
bool coff_section_has_string(const uint8_t *header, uint32_t *offset);
/* Writes such a name of a section. */
void coff_section_set_string(uint8_t *header, uint32_t offset);

/* The first relocation of a section only tells how many there are if that is too many for the
 * header. */
static inline bool coff_relocations_overflow(const struct coff_object_section *section)
{
    return (section->characteristics & IMAGE_SCN_LNK_NRELOC_OVFL) != 0 &&
           load_u16(section->header + COFF_OBJECT_NUMBER_OF_RELOCATIONS, false) == UINT16_MAX;
}

/* Writes what changes in the header of the object. */
void coff_header_set(const struct coff_object *object, uint8_t *header, uint32_t section_count,
                     uint32_t symbols_offset, uint32_t symbol_count);

/* The Number of a section's definition. */
uint32_t coff_definition_number(const struct coff_object *object, const uint8_t *aux);
void coff_definition_set_number(const struct coff_object *object, uint8_t *aux, uint32_t number);

#endif
