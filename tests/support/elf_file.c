/*
 * The ELF files behind elf_file.h. Tables are used in place: the tests run on the machines whose
 * images they look at.
 */
#include "tests/support/elf_file.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool inside(const struct elf_file *elf, uint64_t offset, uint64_t size)
{
    return offset <= elf->file.size && size <= elf->file.size - offset;
}

struct elf_file elf_file_read(const char *path)
{
    struct elf_file elf = {.file = file_read(path)};
    elf.header = (const Elf64_Ehdr *)(const void *)elf.file.data;
    if (elf.file.size < sizeof *elf.header || memcmp(elf.file.data, ELFMAG, SELFMAG) != 0 ||
        elf.header->e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.header->e_ident[EI_DATA] != ELFDATA2LSB) {
        ck_abort_msg("%s is no ELF64 little-endian file", path);
    }
    if (!inside(&elf, elf.header->e_phoff, elf.header->e_phnum * sizeof *elf.segments) ||
        !inside(&elf, elf.header->e_shoff, elf.header->e_shnum * sizeof *elf.sections) ||
        elf.header->e_shstrndx >= elf.header->e_shnum) {
        ck_abort_msg("%s: a header table is outside the file", path);
    }
    elf.segments = (const Elf64_Phdr *)(const void *)(elf.file.data + elf.header->e_phoff);
    elf.sections = (const Elf64_Shdr *)(const void *)(elf.file.data + elf.header->e_shoff);
    const Elf64_Shdr *names = &elf.sections[elf.header->e_shstrndx];
    if (!inside(&elf, names->sh_offset, names->sh_size) || names->sh_size == 0 ||
        elf.file.data[names->sh_offset + names->sh_size - 1] != 0) {
        ck_abort_msg("%s: no section names", path);
    }
    return elf;
}

void elf_file_free(struct elf_file *elf)
{
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

const char *elf_file_build_id(const struct elf_file *elf)
{
    const Elf64_Shdr *section = elf_file_section(elf, ".note.gnu.build-id");
    if (section == NULL || !inside(elf, section->sh_offset, section->sh_size) ||
        section->sh_size < sizeof(Elf64_Nhdr)) {
        return NULL;
    }
    const uint8_t *note = elf->file.data + section->sh_offset;
    Elf64_Nhdr header;
    memcpy(&header, note, sizeof header);
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
