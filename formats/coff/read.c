/*
 * Reading and checking the tables of a COFF image: see coff/read.h.
 *
 * No library does the decoding: the structures are few and flat, and every read goes through a
 * bounds-checked view.
 */
#include "formats/coff/read.h"

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
#define DIRECTORIES_PE32          96
#define DIRECTORIES_PE32_PLUS     112

#define PAGE_SIZE                 4096

#define IMAGE_DEBUG_TYPE_CODEVIEW 2
#define RSDS_GUID                 4
#define RSDS_GUID_SIZE            16
#define RSDS_SIZE_MIN             24 /* signature, GUID, age */
/* The most entries of the debug directory; linkers write a handful. */
#define DEBUG_ENTRIES_MAX 64

static bool refuse(const struct coff_image *image, struct error *error, const char *what)
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

    if (image->file.size < DOS_HEADER_SIZE)
        return refuse(image, error, "the file is cut short");
    signature = field_u32(image, DOS_LFANEW);
    image->coff_header = signature + PE_SIGNATURE_SIZE;
    image->optional_header = image->coff_header + COFF_HEADER_SIZE;
    if (!range_within(signature, PE_SIGNATURE_SIZE + COFF_HEADER_SIZE, 0, image->file.size) ||
        memcmp(image->file.data + signature, "PE\0\0", PE_SIGNATURE_SIZE) != 0)
        return refuse(image, error, "its PE header is missing");
    return true;
}

static bool read_machine(struct coff_image *image, struct error *error)
{
    uint16_t machine = field_u16(image, image->coff_header);

    switch (machine) {
    case IMAGE_FILE_MACHINE_AMD64:
        image->machine = EM_X86_64;
        image->pointer_size = 8;
        return true;
    case IMAGE_FILE_MACHINE_ARM64:
        image->machine = EM_AARCH64;
        image->pointer_size = 8;
        return true;
    case IMAGE_FILE_MACHINE_I386:
        image->machine = EM_386;
        image->pointer_size = 4;
        return true;
    default:
        return error_set(error,
                         "%s: a COFF image for a machine other than x86-64, AArch64 and i386 "
                         "(machine 0x%x); this version of covsplit cannot split it",
                         image->path, machine);
    }
}

static bool read_directories(struct coff_image *image, uint64_t end, struct error *error)
{
    uint64_t start = image->optional_header +
                     (image->pointer_size == 8 ? DIRECTORIES_PE32_PLUS : DIRECTORIES_PE32);
    uint32_t count = field_u32(image, start - 4);

    if (count > DIRECTORY_COUNT)
        count = DIRECTORY_COUNT;
    if (!range_within(start, (uint64_t)count * 8, 0, end))
        return refuse(image, error, "its data directories do not fit the optional header");
    image->directories_offset = start;
    for (uint32_t i = 0; i < count; i++)
        image->directories[i] = (struct coff_directory){field_u32(image, start + i * 8),
                                                        field_u32(image, start + i * 8 + 4)};
    return true;
}

static bool read_optional_header(struct coff_image *image, struct error *error)
{
    uint64_t start = image->optional_header;
    uint16_t size = field_u16(image, image->coff_header + HEADER_SIZE_OF_OPTIONAL_HEADER);
    bool plus = image->pointer_size == 8;

    if (size < (plus ? DIRECTORIES_PE32_PLUS : DIRECTORIES_PE32) ||
        !range_within(start, size, 0, image->file.size))
        return refuse(image, error, "its optional header is cut short");
    if (field_u16(image, start) != (plus ? PE32_PLUS_MAGIC : PE32_MAGIC))
        return refuse(image, error, "its optional header does not fit its machine");
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
        return refuse(image, error, "an alignment is not a power of two");
    if (image->image_base > INT64_MAX)
        return refuse(image, error, "its base address is impossible");
    return read_directories(image, start + size, error);
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
        return refuse(image, error, "its symbol table is not inside the file");
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

static void read_section(struct coff_image *image, uint64_t offset, struct coff_section *section)
{
    *section = (struct coff_section){
        .VirtualSize = field_u32(image, offset + COFF_SECTION_VIRTUAL_SIZE),
        .VirtualAddress = field_u32(image, offset + COFF_SECTION_VIRTUAL_ADDRESS),
        .SizeOfRawData = field_u32(image, offset + COFF_SECTION_SIZE_OF_RAW_DATA),
        .PointerToRawData = field_u32(image, offset + COFF_SECTION_POINTER_TO_RAW_DATA),
        .PointerToRelocations = field_u32(image, offset + COFF_SECTION_POINTER_TO_RELOCATIONS),
        .PointerToLinenumbers = field_u32(image, offset + COFF_SECTION_POINTER_TO_LINENUMBERS),
        .Characteristics = field_u32(image, offset + COFF_SECTION_CHARACTERISTICS),
        .header_offset = offset,
    };
    section->address = image->image_base + section->VirtualAddress;
    section->kept_size = section->SizeOfRawData;
    memcpy(section->short_name, image->file.data + offset, 8);
    section->name =
        section->short_name[0] == '/' ? long_name(image, section->short_name) : section->short_name;
}

static bool read_sections(struct coff_image *image, struct error *error)
{
    uint16_t count = field_u16(image, image->coff_header + HEADER_NUMBER_OF_SECTIONS);
    uint64_t start = image->optional_header +
                     field_u16(image, image->coff_header + HEADER_SIZE_OF_OPTIONAL_HEADER);

    if (!range_within(start, (uint64_t)count * COFF_SECTION_HEADER_SIZE, 0, image->file.size))
        return refuse(image, error, "its section table is not inside the file");
    image->sections = calloc((size_t)count + COFF_PARTS_MAX, sizeof(*image->sections));
    if (image->sections == NULL)
        return error_out_of_memory(error, image->path, count * sizeof(*image->sections));
    image->section_count = count;
    for (size_t i = 0; i < count; i++) {
        struct coff_section *section = &image->sections[i];

        read_section(image, start + i * COFF_SECTION_HEADER_SIZE, section);
        if (section->SizeOfRawData != 0 &&
            !range_within(section->PointerToRawData, section->SizeOfRawData, 0, image->file.size))
            return refuse(image, error, "a section is not inside the file");
    }
    return true;
}

bool coff_image_open(struct coff_image *image, const struct input *input, struct error *error)
{
    *image = (struct coff_image){.input = input, .path = input->path, .file = input->bytes};
    if (find_headers(image, error) && read_machine(image, error) &&
        read_optional_header(image, error) && read_symbol_table(image, error) &&
        read_sections(image, error))
        return true;
    coff_image_close(image);
    return false;
}

void coff_image_close(struct coff_image *image)
{
    free(image->sections);
    *image = (struct coff_image){0};
}

/* ---- layout ---- */

/* Whether sections follow each other in memory, behind the headers, as loaders map them. */
static bool addresses_follow(const struct coff_image *image)
{
    uint64_t next = align_up(image->size_of_headers, image->section_alignment);

    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];
        uint64_t size = section->VirtualSize != 0 ? section->VirtualSize : section->SizeOfRawData;

        if (section->VirtualAddress != next)
            return false;
        next = align_up(section->VirtualAddress + size, image->section_alignment);
    }
    return next == align_up(image->size_of_image, image->section_alignment) && next <= UINT32_MAX;
}

/* Whether the bytes of sections are behind the headers, do not overlap, and come in multiples of
 * the alignment, so that cutting them keeps what follows aligned. */
static bool offsets_follow(const struct coff_image *image)
{
    for (size_t i = 0; i < image->section_count; i++) {
        const struct coff_section *section = &image->sections[i];

        if (section->SizeOfRawData == 0)
            continue;
        if (section->PointerToRawData < image->size_of_headers ||
            section->PointerToRawData % image->file_alignment != 0 ||
            section->SizeOfRawData % image->file_alignment != 0)
            return false;
        for (size_t j = 0; j < i; j++) {
            if (ranges_overlap(section->PointerToRawData, section->SizeOfRawData,
                               image->sections[j].PointerToRawData,
                               image->sections[j].SizeOfRawData))
                return false;
        }
    }
    return true;
}

bool coff_layout_is_sound(const struct coff_image *image, const char **reason)
{
    *reason = NULL;
    if (image->section_alignment < PAGE_SIZE)
        *reason = "the image's sections are not aligned to pages";
    else if (!addresses_follow(image))
        *reason = "the image's sections do not follow each other in memory; link it with lld, or "
                  "with a GNU ld that knows .lcovfun";
    else if (!offsets_follow(image))
        *reason = "the image's sections overlap, or are not aligned, in the file";
    return *reason == NULL;
}

/* ---- lookups ---- */

const char *coff_section_name(enum section_kind kind)
{
    static const char *const section_names[SECTION_KIND_MAX + 1] = {
        [SECTION_COVMAP] = ".lcovmap", [SECTION_COVFUN] = ".lcovfun", [SECTION_NAMES] = ".lprfn",
        [SECTION_DATA] = ".lprfd",     [SECTION_COVNAMES] = ".lcovn", [SECTION_COVDATA] = ".lcovd",
        [SECTION_COUNTERS] = ".lprfc", [SECTION_BITMAP] = ".lprfb",
    };

    return section_names[kind];
}

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

bool coff_bytes_at(const struct coff_image *image, uint64_t address, uint64_t size,
                   struct bytes *bytes)
{
    size_t index = coff_section_of(image, address, size);

    return index != NO_INDEX && bytes_slice(coff_section_bytes(image, index),
                                            address - image->sections[index].address, size, bytes);
}

bool coff_bytes_from(const struct coff_image *image, uint64_t address, struct bytes *bytes)
{
    size_t index = coff_section_of(image, address, 1);
    struct bytes whole;
    uint64_t inside;

    if (index == NO_INDEX)
        return false;
    whole = coff_section_bytes(image, index);
    inside = address - image->sections[index].address;
    return inside < whole.size && bytes_slice(whole, inside, whole.size - inside, bytes);
}

/* ---- the UUID ---- */

void coff_guid(const struct coff_image *image, struct uuid *uuid)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    uint32_t count = directory->size / COFF_DEBUG_ENTRY_SIZE;
    struct bytes entry, record;

    uuid->size = 0;
    for (uint32_t i = 0; i < count && i < DEBUG_ENTRIES_MAX; i++) {
        if (!coff_bytes_at(image,
                           image->image_base + directory->rva + i * (uint64_t)COFF_DEBUG_ENTRY_SIZE,
                           COFF_DEBUG_ENTRY_SIZE, &entry))
            return;
        if (load_u32(entry.data + DEBUG_TYPE, false) != IMAGE_DEBUG_TYPE_CODEVIEW ||
            load_u32(entry.data + DEBUG_SIZE_OF_DATA, false) < RSDS_SIZE_MIN ||
            !bytes_slice(image->file, load_u32(entry.data + DEBUG_POINTER_TO_RAW_DATA, false),
                         RSDS_SIZE_MIN, &record) ||
            memcmp(record.data, "RSDS", 4) != 0)
            continue;
        memcpy(uuid->bytes, record.data + RSDS_GUID, RSDS_GUID_SIZE);
        if (!bytes_all_zero((struct bytes){uuid->bytes, RSDS_GUID_SIZE}))
            uuid->size = RSDS_GUID_SIZE;
        return;
    }
}
