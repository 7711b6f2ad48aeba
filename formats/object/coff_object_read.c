/*
 * Reading the tables of a COFF object: see coff_object_read.h.
 */
#include "formats/object/coff_object_read.h"

#include <string.h>

#define IMAGE_FILE_MACHINE_I386  0x014c
#define IMAGE_FILE_MACHINE_AMD64 0x8664
#define IMAGE_FILE_MACHINE_ARM64 0xaa64

/* The ordinary header, IMAGE_FILE_HEADER, */
enum {
    HEADER_MACHINE = 0,
    HEADER_NUMBER_OF_SECTIONS = 2,
    HEADER_POINTER_TO_SYMBOL_TABLE = 8,
    HEADER_NUMBER_OF_SYMBOLS = 12,
    HEADER_SIZE_OF_OPTIONAL_HEADER = 16,
    HEADER_SIZE = 20,
};

/* and that of /bigobj, ANON_OBJECT_HEADER_BIGOBJ, whose sections have numbers of 32 bits. */
enum {
    BIG_SIG1 = 0,
    BIG_SIG2 = 2,
    BIG_VERSION = 4,
    BIG_MACHINE = 6,
    BIG_CLASS_ID = 12,
    BIG_NUMBER_OF_SECTIONS = 44,
    BIG_POINTER_TO_SYMBOL_TABLE = 48,
    BIG_NUMBER_OF_SYMBOLS = 52,
    BIG_SIZE = 56,
};

static const uint8_t big_class_id[] = {0xc7, 0xa1, 0xba, 0xd1, 0xee, 0xba, 0xa9, 0x4b,
                                       0xaf, 0x20, 0xfa, 0xf6, 0x6a, 0xa4, 0xdc, 0xb8};

/* Numbers of sections that fit 16 bits; those above are negative. */
#define SECTION_MAX_16  0xfeff

#define SYMBOL_SIZE     18
#define BIG_SYMBOL_SIZE 20

static bool is_big(struct bytes file)
{
    return file.size >= BIG_SIZE && load_u16(file.data + BIG_SIG1, false) == 0 &&
           load_u16(file.data + BIG_SIG2, false) == UINT16_MAX &&
           load_u16(file.data + BIG_VERSION, false) >= 2 &&
           memcmp(file.data + BIG_CLASS_ID, big_class_id, sizeof(big_class_id)) == 0;
}

static bool machine_is_known(uint16_t machine)
{
    return machine == IMAGE_FILE_MACHINE_AMD64 || machine == IMAGE_FILE_MACHINE_ARM64 ||
           machine == IMAGE_FILE_MACHINE_I386;
}

/* An object has no magic number; but it has no optional header either, and few files begin like
 * that by chance. */
bool coff_object_recognize(struct bytes file)
{
    if (is_big(file))
        return machine_is_known(load_u16(file.data + BIG_MACHINE, false));
    return file.size >= HEADER_SIZE &&
           machine_is_known(load_u16(file.data + HEADER_MACHINE, false)) &&
           load_u16(file.data + HEADER_SIZE_OF_OPTIONAL_HEADER, false) == 0;
}

static bool read_header(struct coff_object *object, struct bytes file, uint64_t *symbols_offset)
{
    bool big = is_big(file);
    uint16_t machine = load_u16(file.data + (big ? BIG_MACHINE : HEADER_MACHINE), false);

    *object = (struct coff_object){
        .file = file,
        .is_big = big,
        .is_amd64 = machine == IMAGE_FILE_MACHINE_AMD64,
        .has_underscores = machine == IMAGE_FILE_MACHINE_I386,
        .header_size = big ? BIG_SIZE : HEADER_SIZE,
        .symbol_size = big ? BIG_SYMBOL_SIZE : SYMBOL_SIZE,
        .section_count = big ? load_u32(file.data + BIG_NUMBER_OF_SECTIONS, false)
                             : load_u16(file.data + HEADER_NUMBER_OF_SECTIONS, false),
        .symbol_count =
            load_u32(file.data + (big ? BIG_NUMBER_OF_SYMBOLS : HEADER_NUMBER_OF_SYMBOLS), false),
    };
    *symbols_offset = load_u32(
        file.data + (big ? BIG_POINTER_TO_SYMBOL_TABLE : HEADER_POINTER_TO_SYMBOL_TABLE), false);
    return bytes_slice(file, object->header_size,
                       (uint64_t)object->section_count * COFF_OBJECT_SECTION_SIZE,
                       &object->sections);
}

/* The string table follows the symbols, and ends the file. */
static bool read_strings(struct coff_object *object, uint64_t offset)
{
    struct bytes rest;

    if (!bytes_slice(object->file, offset, object->file.size - offset, &rest) ||
        rest.size < COFF_STRINGS_FIRST || load_u32(rest.data, false) != rest.size ||
        (rest.size > COFF_STRINGS_FIRST && rest.data[rest.size - 1] != '\0'))
        return false;
    object->strings = rest;
    return true;
}

bool coff_object_open(struct coff_object *object, struct bytes file)
{
    uint64_t offset, size;

    if (!read_header(object, file, &offset))
        return false;
    if (offset == 0)
        return object->symbol_count == 0;
    size = (uint64_t)object->symbol_count * object->symbol_size;
    return bytes_slice(file, offset, size, &object->symbols) && read_strings(object, offset + size);
}

void coff_header_set(const struct coff_object *object, uint8_t *header, uint32_t section_count,
                     uint32_t symbols_offset, uint32_t symbol_count)
{
    bool big = object->is_big;

    if (big)
        store_u32(header + BIG_NUMBER_OF_SECTIONS, section_count, false);
    else
        store_u16(header + HEADER_NUMBER_OF_SECTIONS, (uint16_t)section_count, false);
    store_u32(header + (big ? BIG_POINTER_TO_SYMBOL_TABLE : HEADER_POINTER_TO_SYMBOL_TABLE),
              symbols_offset, false);
    store_u32(header + (big ? BIG_NUMBER_OF_SYMBOLS : HEADER_NUMBER_OF_SYMBOLS), symbol_count,
              false);
}

/* ---- names ---- */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The digits of an offset as a section header has them: "/1234567", or six digits in base 64 behind
 * two slashes, if it is too large for that. */
#define DECIMAL_MAX   9999999
#define BASE64_DIGITS 6

bool coff_section_has_string(const uint8_t *header, uint32_t *offset)
{
    unsigned start = header[1] == '/' ? 2 : 1;
    uint64_t value = 0;

    if (header[0] != '/')
        return false;
    for (unsigned i = start; i < 8 && (header[i] != '\0' || i == start); i++) {
        const char *digit = header[i] == '\0' ? NULL : strchr(base64, header[i]);

        if (digit == NULL || (start == 1 && (header[i] < '0' || header[i] > '9')))
            return false;
        value = start == 1 ? value * 10 + (header[i] - (unsigned)'0')
                           : value * 64 + (uint64_t)(digit - base64);
    }
    *offset = (uint32_t)value;
    return value <= UINT32_MAX;
}

void coff_section_set_string(uint8_t *header, uint32_t offset)
{
    uint8_t digits[10];
    unsigned count = 0;

    memset(header, 0, 8);
    header[0] = '/';
    if (offset <= DECIMAL_MAX) {
        do
            digits[count++] = (uint8_t)('0' + offset % 10);
        while ((offset /= 10) != 0);
        while (count != 0)
            *++header = digits[--count];
        return;
    }
    header[1] = '/';
    for (unsigned i = BASE64_DIGITS; i-- != 0; offset /= 64)
        header[2 + i] = (uint8_t)base64[offset % 64];
}

bool coff_symbol_has_string(const uint8_t *symbol, uint32_t *offset)
{
    *offset = load_u32(symbol + COFF_SYMBOL_STRING, false);
    return load_u32(symbol, false) == 0;
}

static struct bytes up_to_zero(const uint8_t *text, uint64_t size)
{
    const uint8_t *zero;

    size = size < COFF_NAME_MAX ? size : COFF_NAME_MAX;
    zero = memchr(text, '\0', (size_t)size);
    return (struct bytes){text, zero == NULL ? size : (uint64_t)(zero - text)};
}

static bool string_at(const struct coff_object *object, uint32_t offset, struct bytes *name)
{
    if (offset < COFF_STRINGS_FIRST || offset >= object->strings.size)
        return false;
    *name = up_to_zero(object->strings.data + offset, object->strings.size - offset);
    return true;
}

bool coff_object_symbol_name(const struct coff_object *object,
                             const struct coff_object_symbol *symbol, struct bytes *name)
{
    uint32_t offset;

    if (coff_symbol_has_string(symbol->bytes, &offset))
        return string_at(object, offset, name);
    *name = up_to_zero(symbol->bytes, 8);
    return true;
}

/* ---- sections and symbols ---- */

static bool section_name(const struct coff_object *object, const uint8_t *header,
                         struct bytes *name)
{
    uint32_t offset;

    if (coff_section_has_string(header, &offset))
        return string_at(object, offset, name);
    *name = up_to_zero(header, 8);
    return true;
}

/* A piece of a section: `count` records behind each other. A pointer of 0 means that there are
 * none. */
static bool find_records(const struct coff_object *object, uint64_t offset, uint64_t count,
                         uint64_t size, struct bytes *records)
{
    return count == 0 || (offset != 0 && bytes_slice(object->file, offset, count * size, records));
}

/* The relocations; their number is in the first one if the header has no room for it. */
static bool find_relocations(const struct coff_object *object, struct coff_object_section *section)
{
    uint64_t offset = load_u32(section->header + COFF_OBJECT_POINTER_TO_RELOCATIONS, false);
    uint64_t count = load_u16(section->header + COFF_OBJECT_NUMBER_OF_RELOCATIONS, false);
    struct bytes first;

    if (coff_relocations_overflow(section)) {
        if (!bytes_slice(object->file, offset, COFF_OBJECT_RELOCATION_SIZE, &first))
            return false;
        count = load_u32(first.data, false);
        if (count == 0)
            return false;
    }
    return find_records(object, offset, count, COFF_OBJECT_RELOCATION_SIZE, &section->relocations);
}

bool coff_object_section_read(const struct coff_object *object, uint32_t index,
                              struct coff_object_section *section)
{
    const uint8_t *header = object->sections.data + (uint64_t)index * COFF_OBJECT_SECTION_SIZE;
    uint64_t offset = load_u32(header + COFF_OBJECT_POINTER_TO_RAW_DATA, false);
    uint64_t size = load_u32(header + COFF_OBJECT_SIZE_OF_RAW_DATA, false);

    *section = (struct coff_object_section){
        .header = header,
        .characteristics = load_u32(header + COFF_OBJECT_CHARACTERISTICS, false),
    };
    return section_name(object, header, &section->name) &&
           (offset == 0 || bytes_slice(object->file, offset, size, &section->contents)) &&
           find_relocations(object, section) &&
           find_records(object, load_u32(header + COFF_OBJECT_POINTER_TO_LINENUMBERS, false),
                        load_u16(header + COFF_OBJECT_NUMBER_OF_LINENUMBERS, false),
                        COFF_OBJECT_LINE_SIZE, &section->line_numbers);
}

bool coff_object_symbol_read(const struct coff_object *object, uint32_t index,
                             struct coff_object_symbol *symbol)
{
    const uint8_t *bytes = object->symbols.data + (uint64_t)index * object->symbol_size;
    const uint8_t *end = bytes + object->symbol_size;
    uint16_t section = load_u16(bytes + COFF_SYMBOL_SECTION, false);

    *symbol = (struct coff_object_symbol){
        .bytes = bytes,
        .aux = end,
        .value = load_u32(bytes + 8, false),
        .section = object->is_big ? (int32_t)load_u32(bytes + COFF_SYMBOL_SECTION, false)
                   : section <= SECTION_MAX_16 ? section
                                               : (int16_t)section,
        .type = load_u16(end - 4, false),
        .storage_class = end[-2],
        .aux_count = end[-1],
    };
    return symbol->aux_count < object->symbol_count - index &&
           symbol->section <= (int64_t)object->section_count;
}

uint32_t coff_definition_number(const struct coff_object *object, const uint8_t *aux)
{
    uint32_t low = load_u16(aux + COFF_DEFINITION_NUMBER, false);

    return object->is_big ? low | (uint32_t)load_u16(aux + COFF_DEFINITION_HIGH_NUMBER, false) << 16
                          : low;
}

void coff_definition_set_number(const struct coff_object *object, uint8_t *aux, uint32_t number)
{
    store_u16(aux + COFF_DEFINITION_NUMBER, (uint16_t)number, false);
    if (object->is_big)
        store_u16(aux + COFF_DEFINITION_HIGH_NUMBER, (uint16_t)(number >> 16), false);
}
