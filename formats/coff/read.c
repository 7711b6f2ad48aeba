/*
 * Reading and checking the tables of a COFF image.
 *
 * No library does the decoding: the structures are few and flat, and every read goes through a
 * bounds-checked view.
 */
#include "formats/coff/coff.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_FILE_MACHINE_I386  0x014c
#define IMAGE_FILE_MACHINE_AMD64 0x8664
#define IMAGE_FILE_MACHINE_ARM64 0xaa64

#define PE32_MAGIC               0x10b
#define PE32_PLUS_MAGIC          0x20b

/* Offset of the PE signature's offset in the DOS header. */
#define DOS_HEADER_SIZE   64
#define DOS_LFANEW        60
#define PE_SIGNATURE_SIZE 4

/* Offsets of the data directories in the optional header; their number is just before them. */
#define DIRECTORIES_PE32      96
#define DIRECTORIES_PE32_PLUS 112

/* The last directory is reserved, and not every reader knows it. */
#define OUTLINED_DIRECTORIES 15

static bool damaged(const struct coff_image *image, struct error *error, const char *what)
{
    return error_set(error, "%s: damaged COFF image: %s; link it again", image->path, what);
}

static uint16_t field_u16(const struct coff_image *image, uint64_t offset)
{
    return load_u16(image->file.data + offset, false);
}

static uint32_t field_u32(const struct coff_image *image, uint64_t offset)
{
    return load_u32(image->file.data + offset, false);
}

/* ---- headers ---- */

static bool find_headers(struct coff_image *image, struct error *error)
{
    uint64_t signature;
    uint16_t machine;

    if (image->file.size < DOS_HEADER_SIZE)
        return damaged(image, error, "the file is cut short");
    signature = field_u32(image, DOS_LFANEW);
    image->coff_header = signature + PE_SIGNATURE_SIZE;
    image->optional_header = image->coff_header + COFF_HEADER_SIZE;
    if (!range_within(signature, PE_SIGNATURE_SIZE + COFF_HEADER_SIZE, 0, image->file.size) ||
        memcmp(image->file.data + signature, "PE\0\0", PE_SIGNATURE_SIZE) != 0)
        return damaged(image, error, "its PE header is missing");
    machine = field_u16(image, image->coff_header);
    image->machine = machine == IMAGE_FILE_MACHINE_AMD64   ? EM_X86_64
                     : machine == IMAGE_FILE_MACHINE_ARM64 ? EM_AARCH64
                     : machine == IMAGE_FILE_MACHINE_I386  ? EM_386
                                                           : EM_NONE;
    image->pointer_size = image->machine == EM_386 ? 4 : 8;
    return image->machine != EM_NONE ||
           error_set(error,
                     "%s: a COFF image for a machine other than x86-64, AArch64 and i386 "
                     "(machine 0x%x); this version of covsplit cannot split it",
                     image->path, machine);
}

static bool read_optional_header(struct coff_image *image, struct error *error)
{
    uint64_t start = image->optional_header;
    uint16_t size = field_u16(image, image->coff_header + HEADER_SIZE_OF_OPTIONAL_HEADER);
    bool plus = image->pointer_size == 8;
    uint32_t directories = plus ? DIRECTORIES_PE32_PLUS : DIRECTORIES_PE32, count;

    if (size < directories || !range_within(start, size, 0, image->file.size))
        return damaged(image, error, "its optional header is cut short");
    if (field_u16(image, start) != (plus ? PE32_PLUS_MAGIC : PE32_MAGIC))
        return damaged(image, error, "its optional header does not fit its machine");
    image->characteristics = field_u16(image, image->coff_header + HEADER_CHARACTERISTICS);
    image->image_base =
        plus ? load_u64(image->file.data + start + 24, false) : field_u32(image, start + 28);
    image->entry_point = field_u32(image, start + OPTIONAL_ADDRESS_OF_ENTRY_POINT);
    image->section_alignment = field_u32(image, start + OPTIONAL_SECTION_ALIGNMENT);
    image->file_alignment = field_u32(image, start + OPTIONAL_FILE_ALIGNMENT);
    image->size_of_image = field_u32(image, start + OPTIONAL_SIZE_OF_IMAGE);
    image->size_of_headers = field_u32(image, start + OPTIONAL_SIZE_OF_HEADERS);
    image->check_sum = field_u32(image, start + OPTIONAL_CHECK_SUM);
    if (!is_power_of_two(image->section_alignment) || !is_power_of_two(image->file_alignment))
        return damaged(image, error, "an alignment is not a power of two");
    if (image->image_base > INT64_MAX)
        return damaged(image, error, "its base address is impossible");
    image->directories_offset = start + directories;
    count = field_u32(image, image->directories_offset - 4);
    count = count > DIRECTORY_COUNT ? DIRECTORY_COUNT : count;
    if (directories + count * 8 > size)
        return damaged(image, error, "its data directories do not fit the optional header");
    image->directory_count = count;
    for (uint32_t i = 0; i < count; i++)
        image->directories[i] =
            (struct coff_directory){field_u32(image, image->directories_offset + i * 8),
                                    field_u32(image, image->directories_offset + i * 8 + 4)};
    return true;
}

/* ---- symbols and sections ---- */

/* The string table follows the symbols; it exists even if there are only long names and no
 * symbols. */
static bool read_symbol_table(struct coff_image *image, struct error *error)
{
    uint32_t offset = field_u32(image, image->coff_header + HEADER_POINTER_TO_SYMBOL_TABLE);
    uint32_t count = field_u32(image, image->coff_header + HEADER_NUMBER_OF_SYMBOLS);
    uint64_t end = offset + (uint64_t)count * COFF_SYMBOL_SIZE;
    struct bytes size;

    if (offset == 0)
        return true;
    if (!range_within(offset, end - offset, 0, image->file.size))
        return damaged(image, error, "its symbol table is not inside the file");
    image->symbols_offset = offset;
    image->symbol_count = count;
    if (bytes_slice(image->file, end, 4, &size))
        bytes_slice(image->file, end, load_u32(size.data, false), &image->strings);
    return true;
}

/* A name of more than eight bytes is stored as "/" and its decimal offset in the string table. */
static const char *long_name(const struct coff_image *image, const char *short_name)
{
    uint64_t offset = 0;
    struct bytes rest;

    for (const char *digit = short_name + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return short_name;
        offset = offset * 10 + (uint64_t)(*digit - '0');
    }
    if (offset > image->strings.size ||
        !bytes_slice(image->strings, offset, image->strings.size - offset, &rest) ||
        rest.size == 0 || memchr(rest.data, '\0', (size_t)rest.size) == NULL)
        return short_name;
    return (const char *)rest.data;
}

static void take_section(const struct coff_image *image, struct cursor *cursor,
                         struct coff_section *section)
{
    section->header_offset = (uint64_t)(cursor->at - image->file.data);
    memcpy(section->short_name, cursor_bytes(cursor, 8).data, 8);
    section->VirtualSize = cursor_u32(cursor);
    section->VirtualAddress = cursor_u32(cursor);
    section->SizeOfRawData = cursor_u32(cursor);
    section->PointerToRawData = cursor_u32(cursor);
    section->PointerToRelocations = cursor_u32(cursor);
    section->PointerToLinenumbers = cursor_u32(cursor);
    cursor_skip(cursor, 4); /* NumberOfRelocations, NumberOfLinenumbers */
    section->Characteristics = cursor_u32(cursor);
    section->address = image->image_base + section->VirtualAddress;
    section->kept_size = section->SizeOfRawData;
    section->name =
        section->short_name[0] == '/' ? long_name(image, section->short_name) : section->short_name;
}

static bool read_sections(struct coff_image *image, struct error *error)
{
    uint16_t count = field_u16(image, image->coff_header + HEADER_NUMBER_OF_SECTIONS);
    uint64_t start = image->optional_header +
                     field_u16(image, image->coff_header + HEADER_SIZE_OF_OPTIONAL_HEADER);
    struct bytes headers;
    struct cursor cursor;

    if (!bytes_slice(image->file, start, (uint64_t)count * COFF_SECTION_HEADER_SIZE, &headers))
        return damaged(image, error, "its section table is not inside the file");
    image->sections = calloc((size_t)count + COFF_PARTS_MAX, sizeof(*image->sections));
    if (image->sections == NULL)
        return error_out_of_memory(error, image->path, count * sizeof(*image->sections));
    image->section_count = count;
    cursor = cursor_open(headers, false, false);
    for (size_t i = 0; i < count; i++) {
        struct coff_section *section = &image->sections[i];

        take_section(image, &cursor, section);
        if (section->SizeOfRawData != 0 &&
            !range_within(section->PointerToRawData, section->SizeOfRawData, 0, image->file.size))
            return damaged(image, error, "a section is not inside the file");
    }
    return true;
}

/* What a split has emptied is not counted, whatever the flags of a coverage section say of code. */
static bool has_only_debug(const struct coff_image *image)
{
    bool has_code = false;

    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];

        if (!coff_section_is_code(section) || section->VirtualSize == 0 ||
            strncmp(section->name, ".lcov", 5) == 0 || strncmp(section->name, ".lprf", 5) == 0)
            continue;
        if (section->SizeOfRawData != 0)
            return false;
        has_code = true;
    }
    return has_code;
}

static bool read_tables(struct coff_image *image, const struct input *input, struct error *error)
{
    *image = (struct coff_image){.input = input, .path = input->path, .file = input->bytes};
    if (find_headers(image, error) && read_optional_header(image, error) &&
        read_symbol_table(image, error) && read_sections(image, error))
        return true;
    coff_image_close(image);
    return false;
}

bool coff_is_linked(struct bytes bytes)
{
    const struct input input = {.path = "", .bytes = bytes};
    struct coff_image image;
    struct error ignored;
    bool is_linked;

    if (!read_tables(&image, &input, &ignored))
        return true;
    is_linked = !has_only_debug(&image);
    coff_image_close(&image);
    return is_linked;
}

bool coff_image_open(struct coff_image *image, const struct input *input, struct error *error)
{
    if (!read_tables(image, input, error))
        return false;
    if (!has_only_debug(image))
        return true;
    coff_image_close(image);
    return error_set(error,
                     "%s: a separate debug file, which has neither code nor data; name the image "
                     "that it is of",
                     input->path);
}

void coff_image_close(struct coff_image *image)
{
    free(image->sections);
    *image = (struct coff_image){0};
}

/* ---- lookups ---- */

size_t coff_section_find(const struct coff_image *image, const char *name, size_t after)
{
    for (size_t i = after == NO_INDEX ? 0 : after + 1; i < image->section_count; i++) {
        if (strcmp(image->sections[i].name, name) == 0)
            return i;
    }
    return NO_INDEX;
}

bool coff_section_is_code(const struct coff_section *section)
{
    return (section->Characteristics & (IMAGE_SCN_MEM_EXECUTE | IMAGE_SCN_CNT_CODE)) != 0;
}

struct bytes coff_section_bytes(const struct coff_image *image, size_t index)
{
    const struct coff_section *section = &image->sections[index];
    uint32_t size = section->SizeOfRawData;
    struct bytes bytes = {0};

    if (section->VirtualSize != 0 && section->VirtualSize < size)
        size = section->VirtualSize;
    if (size != 0)
        bytes_slice(image->file, section->PointerToRawData, size, &bytes);
    return bytes;
}

size_t coff_section_of(const struct coff_image *image, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];

        if (range_within(address, size, section->address, section->VirtualSize))
            return i;
    }
    return NO_INDEX;
}

bool coff_is_code(const struct coff_image *image, uint64_t address)
{
    size_t index = coff_section_of(image, address, 1);

    return index != NO_INDEX && coff_section_is_code(&image->sections[index]);
}

bool coff_bytes_at(const struct coff_image *image, uint64_t address, uint64_t size,
                   struct bytes *bytes)
{
    size_t index = coff_section_of(image, address, size);

    return index != NO_INDEX && bytes_slice(coff_section_bytes(image, index),
                                            address - image->sections[index].address, size, bytes);
}

bool coff_directory_bytes(const struct coff_image *image, enum coff_directory_index index,
                          struct bytes *bytes)
{
    const struct coff_directory *directory = &image->directories[index];

    *bytes = (struct bytes){image->file.data, 0};
    return directory->size == 0 ||
           coff_bytes_at(image, image->image_base + directory->rva, directory->size, bytes);
}

/* ---- base relocations ---- */

/*
 * They list every absolute address in the image. The table is a list of blocks, one for each page.
 * A block has the page's RVA, its own size, and 16 bits for each relocation: a type and an offset
 * in the page.
 */

#define BLOCK_HEADER_SIZE        8
#define BLOCK_ALIGNMENT          4

#define IMAGE_REL_BASED_ABSOLUTE 0 /* padding */
#define IMAGE_REL_BASED_HIGHLOW  3
#define IMAGE_REL_BASED_DIR64    10

static const char unreadable[] = "its base relocations cannot be read";

/* Takes the header of a block off the table; *entries then has what follows it. */
static uint32_t take_block(struct cursor *table, struct cursor *entries)
{
    uint32_t page = cursor_u32(table), size = cursor_u32(table);

    if (size < BLOCK_HEADER_SIZE || size % sizeof(uint16_t) != 0)
        cursor_spoil(table);
    *entries = cursor_open(cursor_bytes(table, size - BLOCK_HEADER_SIZE), false, false);
    return page;
}

static uint64_t entry_address(const struct coff_image *image, uint32_t page, uint16_t entry)
{
    return image->image_base + page + (entry & 0xfff);
}

struct coff_relocations coff_relocations_open(const struct coff_image *image)
{
    struct coff_relocations relocations = {.image = image};

    if ((image->characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        relocations.reason = "the image has no base relocations, which tell where addresses are; "
                             "link it without /fixed (GNU ld: with --dynamicbase)";
    else if (!coff_directory_bytes(image, DIRECTORY_BASE_RELOCATION, &relocations.bytes))
        relocations.reason = unreadable;
    else
        relocations.table = cursor_open(relocations.bytes, false, false);
    return relocations;
}

bool coff_relocations_next(struct coff_relocations *relocations, struct coff_relocation *relocation)
{
    const struct coff_image *image = relocations->image;

    while (relocations->reason == NULL) {
        uint16_t entry;
        size_t size;
        struct bytes word;

        if (cursor_left(&relocations->entries) == 0) {
            if (cursor_left(&relocations->table) == 0)
                return false;
            relocations->page = take_block(&relocations->table, &relocations->entries);
            relocations->reason = relocations->table.bad ? unreadable : NULL;
            continue;
        }
        entry = cursor_u16(&relocations->entries);
        if (entry >> 12 == IMAGE_REL_BASED_ABSOLUTE)
            continue;
        /* In 64-bit images GNU ld writes a few of 32 bits, for addresses of which only one half is
         * stored. */
        size = entry >> 12 == IMAGE_REL_BASED_DIR64 ? 8 : 4;
        relocation->address = entry_address(image, relocations->page, entry);
        if ((size == 4 && entry >> 12 != IMAGE_REL_BASED_HIGHLOW) || size > image->pointer_size ||
            !coff_bytes_at(image, relocation->address, size, &word)) {
            relocations->reason = "its base relocations are of a kind that covsplit does not know";
            return false;
        }
        relocation->target =
            size == 8 ? load_u64(word.data, false)
                      : (image->image_base & ~(uint64_t)UINT32_MAX) | load_u32(word.data, false);
        return true;
    }
    return false;
}

static bool in_ranges(uint64_t address, const struct coff_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (range_within(address, 1, ranges[i].address, ranges[i].size))
            return true;
    }
    return false;
}

/* Appends the block without the entries in the ranges; appends nothing if no entry stays. True if
 * entries were left out. */
static bool append_block(const struct coff_image *image, uint32_t page, struct cursor entries,
                         const struct coff_range *ranges, size_t count, struct buffer *result)
{
    static const uint8_t padding[2];
    size_t start = result->size;
    bool removed = false;

    buffer_append_zeros(result, BLOCK_HEADER_SIZE);
    while (cursor_left(&entries) != 0) {
        const uint8_t *at = entries.at;
        uint16_t entry = cursor_u16(&entries);

        if (entry >> 12 == IMAGE_REL_BASED_ABSOLUTE)
            continue;
        if (in_ranges(entry_address(image, page, entry), ranges, count))
            removed = true;
        else
            buffer_append(result, at, sizeof(entry));
    }
    if (result->size == start + BLOCK_HEADER_SIZE) {
        result->size = start;
        return removed;
    }
    if ((result->size - start) % BLOCK_ALIGNMENT != 0)
        buffer_append(result, padding, sizeof(padding));
    if (!result->failed) {
        store_u32(result->data + start, page, false);
        store_u32(result->data + start + 4, (uint32_t)(result->size - start), false);
    }
    return removed;
}

bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason)
{
    struct coff_relocations all = coff_relocations_open(image);
    struct buffer result = {0};
    bool removed = false;

    *size = image->directories[DIRECTORY_BASE_RELOCATION].size;
    *reason = all.reason;
    while (cursor_left(&all.table) != 0) {
        all.page = take_block(&all.table, &all.entries);
        if (!all.table.bad)
            removed |= append_block(image, all.page, all.entries, ranges, count, &result);
    }
    /* Blocks never grow if the linker padded them correctly. */
    if (removed && !result.failed && (all.table.bad || result.size > all.bytes.size))
        *reason = "its base relocations cannot be rewritten";
    if (removed && !result.failed && *reason == NULL) {
        *size = (uint32_t)result.size;
        buffer_append_zeros(&result, (size_t)all.bytes.size - result.size);
        edit_overwrite_differences(edits, image->file,
                                   (uint64_t)(all.bytes.data - image->file.data),
                                   buffer_view(&result));
    }
    edits->has_no_memory |= removed && result.failed;
    buffer_free(&result);
    return *reason == NULL && !edits->has_no_memory;
}

/* ---- the outline ---- */

bool coff_outline(const struct input *input, struct buffer *outline, struct error *error)
{
    struct coff_image image;

    if (!coff_image_open(&image, input, error))
        return false;
    outline_append(outline, COFF_OUTLINE, image.entry_point, image.image_base, image.size_of_image);
    for (size_t i = 0; i < OUTLINED_DIRECTORIES && i < image.directory_count; i++)
        outline_append(outline, COFF_DIRECTORY_LINE, i, image.directories[i].rva,
                       image.directories[i].size);
    for (size_t i = 0; i < image.section_count; i++) {
        const struct coff_section *section = &image.sections[i];

        outline_append(outline, COFF_SECTION_LINE, section->short_name,
                       (uint64_t)section->VirtualAddress, section->VirtualSize,
                       (uint64_t)section->PointerToRawData, (uint64_t)section->SizeOfRawData,
                       section->Characteristics);
    }
    coff_image_close(&image);
    return !outline->failed || error_out_of_memory(error, input->path, outline->size);
}
