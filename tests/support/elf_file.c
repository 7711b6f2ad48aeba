/*
 * The ELF files behind elf_file.h. Tables of 64-bit little-endian files are used in place, so that
 * tests can change them; those of other files are read by libelf.
 */
#include "tests/support/elf_file.h"

#include <check.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

static bool inside(const struct elf_file *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->file.size && size <= elf->file.size - offset;
}

/* Copies of all headers, in this machine's form. False where one cannot be read. */
static bool convert(struct elf_file *elf)
{
    Elf64_Ehdr header;
    elf_version(EV_CURRENT);
    Elf *file = elf_memory((char *)elf->file.data, elf->file.size);
    if (file == NULL || gelf_getehdr(file, &header) == NULL) {
        return false;
    }
    Elf64_Phdr *segments = calloc(header.e_phnum + 1U, sizeof *segments);
    Elf64_Shdr *sections = calloc(header.e_shnum + 1U, sizeof *sections);
    Elf64_Ehdr *copy = calloc(1, sizeof *copy);
    bool good = segments != NULL && sections != NULL && copy != NULL;
    for (int i = 0; good && i < header.e_phnum; i++) {
        good = gelf_getphdr(file, i, &segments[i]) != NULL;
    }
    for (size_t i = 0; good && i < header.e_shnum; i++) {
        good = gelf_getshdr(elf_getscn(file, i), &sections[i]) != NULL;
    }
    if (good) {
        *copy = header;
        elf->header = copy;
        elf->segments = segments;
        elf->sections = sections;
    }
    elf_end(file);
    return good;
}

static void use_in_place(struct elf_file *elf, const char *path)
{
    elf->header = (const Elf64_Ehdr *)(const void *)elf->file.data;
    if (elf->file.size < sizeof *elf->header ||
        !inside(elf, elf->header->e_phoff, elf->header->e_phnum * sizeof *elf->segments) ||
        !inside(elf, elf->header->e_shoff, elf->header->e_shnum * sizeof *elf->sections)) {
        ck_abort_msg("%s: a header table is outside the file", path);
    }
    elf->segments = (const Elf64_Phdr *)(const void *)(elf->file.data + elf->header->e_phoff);
    elf->sections = (const Elf64_Shdr *)(const void *)(elf->file.data + elf->header->e_shoff);
}

struct elf_file elf_file_read(const char *path)
{
    struct elf_file elf = {.file = file_read(path)};
    if (elf.file.size < EI_NIDENT || memcmp(elf.file.data, ELFMAG, SELFMAG) != 0) {
        ck_abort_msg("%s is no ELF file", path);
    }
    elf.is_32_bit = elf.file.data[EI_CLASS] == ELFCLASS32;
    elf.is_big_endian = elf.file.data[EI_DATA] == ELFDATA2MSB;
    if (!elf.is_32_bit && !elf.is_big_endian) {
        use_in_place(&elf, path);
    } else if (!convert(&elf)) {
        ck_abort_msg("%s: %s", path, elf_errmsg(-1));
    }
    if (elf.header->e_shstrndx >= elf.header->e_shnum) {
        ck_abort_msg("%s: the section of names is not there", path);
    }
    const Elf64_Shdr *names = &elf.sections[elf.header->e_shstrndx];
    if (!inside(&elf, names->sh_offset, names->sh_size) || names->sh_size == 0 ||
        elf.file.data[names->sh_offset + names->sh_size - 1] != 0) {
        ck_abort_msg("%s: no section names", path);
    }
    return elf;
}

void elf_file_free(struct elf_file *elf)
{
    if (elf->is_32_bit || elf->is_big_endian) { /* these are copies */
        free((void *)(uintptr_t)elf->header);
        free((void *)(uintptr_t)elf->segments);
        free((void *)(uintptr_t)elf->sections);
    }
    contents_free(&elf->file);
    *elf = (struct elf_file){0};
}

const Elf64_Shdr *elf_file_section(const struct elf_file *elf, const char *name)
{
    const Elf64_Shdr *names = &elf->sections[elf->header->e_shstrndx];
    for (unsigned i = 1; i < elf->header->e_shnum; i++) {
        const Elf64_Shdr *section = &elf->sections[i];
        if (section->sh_name < names->sh_size &&
            strcmp((const char *)elf->file.data + names->sh_offset + section->sh_name, name) == 0) {
            return section;
        }
    }
    return NULL;
}

uint64_t elf_file_section_size(const struct elf_file *elf, const char *name)
{
    const Elf64_Shdr *section = elf_file_section(elf, name);
    return section != NULL ? section->sh_size : 0;
}

uint64_t elf_file_section_file_size(const struct elf_file *elf, const char *name)
{
    const Elf64_Shdr *section = elf_file_section(elf, name);
    return section != NULL && section->sh_type != SHT_NOBITS ? section->sh_size : 0;
}

uint64_t elf_file_number(const struct elf_file *elf, uint64_t offset, size_t size)
{
    uint64_t value = 0;
    ck_assert(inside(elf, offset, size));
    for (size_t i = 0; i < size; i++) {
        size_t place = elf->is_big_endian ? size - 1 - i : i;
        value |= (uint64_t)elf->file.data[offset + place] << 8 * i;
    }
    return value;
}

const char *elf_file_build_id(const struct elf_file *elf)
{
    const Elf64_Shdr *section = elf_file_section(elf, ".note.gnu.build-id");
    if (section == NULL || !inside(elf, section->sh_offset, section->sh_size) ||
        section->sh_size < sizeof(Elf64_Nhdr)) {
        return NULL;
    }
    const uint8_t *note = elf->file.data + section->sh_offset;
    const Elf64_Nhdr header = {
        .n_namesz = (uint32_t)elf_file_number(elf, section->sh_offset, 4),
        .n_descsz = (uint32_t)elf_file_number(elf, section->sh_offset + 4, 4),
        .n_type = (uint32_t)elf_file_number(elf, section->sh_offset + 8, 4),
    };
    uint64_t name_size = (header.n_namesz + UINT64_C(3)) & ~UINT64_C(3);
    if (header.n_type != NT_GNU_BUILD_ID ||
        sizeof header + name_size + header.n_descsz > section->sh_size) {
        return NULL;
    }
    char *digits = text_format("%s", "");
    for (uint32_t i = 0; i < header.n_descsz; i++) {
        char *longer = text_format("%s%02x", digits, note[sizeof header + name_size + i]);
        free(digits);
        digits = longer;
    }
    return digits;
}

uint64_t elf_file_page_size(const struct elf_file *elf)
{
    uint64_t largest = 1;
    for (unsigned i = 0; i < elf->header->e_phnum; i++) {
        if (elf->segments[i].p_type == PT_LOAD && elf->segments[i].p_align > largest) {
            largest = elf->segments[i].p_align;
        }
    }
    return largest;
}

void elf_files_assert_same_section(const char *path, const char *other, const char *name)
{
    struct elf_file file = elf_file_read(path);
    struct elf_file expected = elf_file_read(other);
    const Elf64_Shdr *section = elf_file_section(&file, name);
    const Elf64_Shdr *wanted = elf_file_section(&expected, name);
    ck_assert_msg(section != NULL && wanted != NULL && wanted->sh_size != 0, "no %s", name);
    ck_assert_msg(section->sh_size == wanted->sh_size &&
                      memcmp(file.file.data + section->sh_offset,
                             expected.file.data + wanted->sh_offset, wanted->sh_size) == 0,
                  "%s: %s is not that of %s", path, name, other);
    elf_file_free(&file);
    elf_file_free(&expected);
}
