/*
 * Reading PE files: see pe_file.h.
 */
#include "tests/support/pe_file.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/text.h"

uint32_t pe_load_u32(const struct pe_file *pe, uint64_t offset)
{
    ck_assert(offset + 4 <= pe->file.size);
    const uint8_t *at = pe->file.data + offset;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

void pe_store_u32(struct pe_file *pe, uint64_t offset, uint32_t value)
{
    ck_assert(offset + 4 <= pe->file.size);
    for (unsigned i = 0; i < 4; i++) {
        pe->file.data[offset + i] = (uint8_t)(value >> 8 * i);
    }
}

static uint32_t load_u16(const struct pe_file *pe, uint64_t offset)
{
    return pe_load_u32(pe, offset) & 0xffff;
}

struct pe_file pe_file_read(const char *path)
{
    struct pe_file pe = {.file = file_read(path)};
    pe.coff_header = pe_load_u32(&pe, 60) + 4;
    pe.optional_header = pe.coff_header + 20;
    ck_assert(memcmp(pe.file.data + pe.coff_header - 4, "PE\0\0", 4) == 0);
    pe.is_64_bit = load_u16(&pe, pe.optional_header) == 0x20b;
    pe.directories = pe.optional_header + (pe.is_64_bit ? 112 : 96);
    pe.file_alignment = pe_load_u32(&pe, pe.optional_header + 36);
    pe.check_sum = pe_load_u32(&pe, pe.optional_header + 64);
    pe.section_count = load_u16(&pe, pe.coff_header + 2);
    ck_assert(pe.section_count <= PE_SECTIONS_MAX);
    uint64_t header = pe.optional_header + load_u16(&pe, pe.coff_header + 16);
    for (size_t i = 0; i < pe.section_count; i++, header += 40) {
        struct pe_section *section = &pe.sections[i];
        ck_assert(header + 40 <= pe.file.size);
        memcpy(section->name, pe.file.data + header, 8);
        section->header = header;
        section->virtual_size = pe_load_u32(&pe, header + 8);
        section->virtual_address = pe_load_u32(&pe, header + 12);
        section->raw_size = pe_load_u32(&pe, header + 16);
        section->raw_pointer = pe_load_u32(&pe, header + 20);
    }
    return pe;
}

void pe_file_free(struct pe_file *pe)
{
    contents_free(&pe->file);
}

const struct pe_section *pe_file_section(const struct pe_file *pe, const char *name)
{
    for (size_t i = 0; i < pe->section_count; i++) {
        if (strcmp(pe->sections[i].name, name) == 0) {
            return &pe->sections[i];
        }
    }
    return NULL;
}

/* " 0003:00004e28 00000040H .lprfd$A  DATA": section, offset and size. */
static uint32_t place_in_map(const char *map, const char *name, uint32_t *section, uint32_t *size)
{
    const char *line = strstr(map, text_format("H %s ", name));
    ck_assert_msg(line != NULL, "%s is not in the map file", name);
    while (line > map && line[-1] != '\n') {
        line--;
    }
    char *end;
    *section = (uint32_t)strtoul(line, &end, 16);
    uint32_t offset = (uint32_t)strtoul(end + 1, &end, 16);
    *size = (uint32_t)strtoul(end, NULL, 16);
    return offset;
}

struct pe_section pe_file_part(const struct pe_file *pe, const char *map_path, const char *name)
{
    struct contents contents = file_read(map_path);
    const char *map = text_format("%.*s", (int)contents.size, (const char *)contents.data);
    contents_free(&contents);
    uint32_t section, size;
    uint32_t start = place_in_map(map, text_format("%s$A", name), &section, &size);
    uint32_t end = place_in_map(map, text_format("%s$Z", name), &section, &size);
    ck_assert(section >= 1 && section <= pe->section_count);
    const struct pe_section *host = &pe->sections[section - 1];
    struct pe_section part = *host;
    memcpy(part.name, name, strlen(name) + 1);
    part.virtual_size = end + size - start;
    part.virtual_address += start;
    part.raw_pointer += start;
    part.raw_size = host->raw_size < start ? 0 : host->raw_size - start;
    return part;
}

uint64_t pe_file_offset(const struct pe_file *pe, uint32_t address)
{
    for (size_t i = 0; i < pe->section_count && address != 0; i++) {
        const struct pe_section *section = &pe->sections[i];
        if (address - section->virtual_address < section->raw_size) {
            return section->raw_pointer + (address - section->virtual_address);
        }
    }
    return pe->file.size;
}

uint64_t pe_file_debug_directory(const struct pe_file *pe)
{
    return pe_file_offset(pe, pe_load_u32(pe, pe->directories + 6 * 8));
}

uint32_t pe_file_check_sum(const struct pe_file *pe)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < pe->file.size; i++) {
        if (i < pe->optional_header + 64 || i >= pe->optional_header + 68) {
            sum += (uint64_t)pe->file.data[i] << (i % 2 == 0 ? 0 : 8);
        }
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint32_t)(sum + pe->file.size);
}
