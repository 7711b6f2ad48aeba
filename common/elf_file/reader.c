/*
 * Reading small ELF files: see elf_file/reader.h.
 */
#include "common/elf_file/reader.h"

#include <string.h>

#include "common/elf_file/note.h"

/* Decodes one structure from the front of a view; false if it is too short. */
static bool decode(const struct elf_reader *file, Elf_Type type, struct bytes view, void *structure,
                   size_t size)
{
    Elf_Data from = {.d_buf = (void *)(uintptr_t)view.data,
                     .d_type = type,
                     .d_version = EV_CURRENT,
                     .d_size = size};
    Elf_Data to = {.d_buf = structure, .d_version = EV_CURRENT, .d_size = size};

    return view.size >= size &&
           (file->wide ? elf64_xlatetom(&to, &from, file->data_encoding)
                       : elf32_xlatetom(&to, &from, file->data_encoding)) != NULL;
}

static bool decode_elf_header(struct elf_reader *file)
{
    Elf32_Ehdr narrow;

    if (file->wide)
        return decode(file, ELF_T_EHDR, file->bytes, &file->header, sizeof(file->header));
    if (!decode(file, ELF_T_EHDR, file->bytes, &narrow, sizeof(narrow)))
        return false;
    file->header = (GElf_Ehdr){.e_type = narrow.e_type,
                               .e_machine = narrow.e_machine,
                               .e_phoff = narrow.e_phoff,
                               .e_phentsize = narrow.e_phentsize,
                               .e_phnum = narrow.e_phnum,
                               .e_shoff = narrow.e_shoff,
                               .e_shentsize = narrow.e_shentsize,
                               .e_shnum = narrow.e_shnum,
                               .e_shstrndx = narrow.e_shstrndx};
    return true;
}

size_t elf_reader_compression_header_size(const struct elf_reader *file)
{
    return file->wide ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
}

bool elf_reader_compression_header(const struct elf_reader *file, struct bytes view,
                                   GElf_Chdr *header, struct bytes *frame)
{
    Elf32_Chdr narrow;
    size_t size = elf_reader_compression_header_size(file);

    if (!bytes_slice(view, size, view.size < size ? 0 : view.size - size, frame))
        return false;
    if (file->wide)
        return decode(file, ELF_T_CHDR, view, header, sizeof(*header));
    if (!decode(file, ELF_T_CHDR, view, &narrow, sizeof(narrow)))
        return false;
    *header = (GElf_Chdr){
        .ch_type = narrow.ch_type, .ch_size = narrow.ch_size, .ch_addralign = narrow.ch_addralign};
    return true;
}

static bool read_elf_header(struct elf_reader *file)
{
    const uint8_t *ident = file->bytes.data;

    if (file->bytes.size < sizeof(Elf32_Ehdr) || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
        (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
        (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB) ||
        ident[EI_VERSION] != EV_CURRENT)
        return false;
    file->wide = ident[EI_CLASS] == ELFCLASS64;
    file->data_encoding = ident[EI_DATA];
    return decode_elf_header(file);
}

/* Sections are read by their headers alone, so it is these that must be there. */
static bool header_is_sound(struct elf_reader *file)
{
    struct bytes table;
    uint64_t entry_size, alignment;

    if (!read_elf_header(file))
        return false;
    entry_size = file->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    alignment = file->wide ? 8 : 4;
    return file->header.e_shentsize == entry_size && file->header.e_shnum != 0 &&
           file->header.e_shnum <= ELF_READER_SECTION_MAX &&
           file->header.e_shstrndx < file->header.e_shnum &&
           file->header.e_shoff % alignment == 0 &&
           bytes_slice(file->bytes, file->header.e_shoff, entry_size * file->header.e_shnum,
                       &table);
}

static bool decode_section_header(const struct elf_reader *file, struct bytes entry,
                                  GElf_Shdr *header)
{
    Elf32_Shdr narrow;

    if (file->wide)
        return decode(file, ELF_T_SHDR, entry, header, sizeof(*header));
    if (!decode(file, ELF_T_SHDR, entry, &narrow, sizeof(narrow)))
        return false;
    *header = (GElf_Shdr){.sh_name = narrow.sh_name,
                          .sh_type = narrow.sh_type,
                          .sh_flags = narrow.sh_flags,
                          .sh_addr = narrow.sh_addr,
                          .sh_offset = narrow.sh_offset,
                          .sh_size = narrow.sh_size,
                          .sh_link = narrow.sh_link,
                          .sh_info = narrow.sh_info,
                          .sh_addralign = narrow.sh_addralign,
                          .sh_entsize = narrow.sh_entsize};
    return true;
}

/* The NUL-terminated text at the offset; NULL if there is none. */
static const char *text_at(struct bytes texts, uint64_t offset)
{
    struct bytes rest;

    if (!bytes_slice(texts, offset, texts.size < offset ? 0 : texts.size - offset, &rest) ||
        rest.size == 0 || memchr(rest.data, '\0', (size_t)rest.size) == NULL)
        return NULL;
    return (const char *)rest.data;
}

/* Reads the section headers, checks each against the file, and then their names. */
static bool read_sections(struct elf_reader *file)
{
    const struct elf_reader_section *names = &file->sections[file->header.e_shstrndx];

    for (size_t i = 0; i < file->header.e_shnum; i++) {
        struct elf_reader_section *section = &file->sections[i];
        struct bytes entry;

        if (!bytes_slice(file->bytes, file->header.e_shoff + i * file->header.e_shentsize,
                         file->header.e_shentsize, &entry) ||
            !decode_section_header(file, entry, &section->header) ||
            (section->header.sh_type != SHT_NOBITS &&
             !bytes_slice(file->bytes, section->header.sh_offset, section->header.sh_size,
                          &section->stored)))
            return false;
    }
    if (names->header.sh_type != SHT_STRTAB || (names->header.sh_flags & SHF_COMPRESSED) != 0)
        return false;
    for (size_t i = 0; i < file->header.e_shnum; i++) {
        struct elf_reader_section *section = &file->sections[i];

        section->name = text_at(names->stored, section->header.sh_name);
        if (section->name == NULL)
            return false;
    }
    file->section_count = file->header.e_shnum;
    return true;
}

bool elf_reader_open(struct elf_reader *file, struct bytes bytes)
{
    *file = (struct elf_reader){.bytes = bytes};
    elf_version(EV_CURRENT);
    return header_is_sound(file) && read_sections(file);
}

const struct elf_reader_section *elf_reader_find(const struct elf_reader *file, const char *name)
{
    const struct elf_reader_section *found = NULL;

    for (size_t i = 1; i < file->section_count; i++) {
        if (strcmp(file->sections[i].name, name) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = &file->sections[i];
    }
    return found;
}

bool elf_reader_notes(const struct elf_reader *file, const char *name, struct elf_note_list *notes)
{
    const struct elf_reader_section *section = elf_reader_find(file, name);

    if (section == NULL || section->header.sh_type != SHT_NOTE ||
        section->header.sh_addralign != ELF_NOTE_ALIGNMENT ||
        (section->header.sh_flags & SHF_COMPRESSED) != 0 || section->stored.size == 0)
        return false;
    *notes = (struct elf_note_list){section->stored, file->data_encoding == ELFDATA2MSB};
    return true;
}

static bool take_build_id(const struct elf_note_list *notes, struct uuid *uuid)
{
    struct elf_note note;
    size_t offset = 0;

    if (!elf_note_next(notes, &offset, &note) || !elf_note_is_of(&note, ELF_NOTE_GNU) ||
        note.type != NT_GNU_BUILD_ID || note.description.size == 0 ||
        note.description.size > UUID_SIZE_MAX)
        return false;
    *uuid = (struct uuid){.size = (size_t)note.description.size};
    memcpy(uuid->bytes, note.description.data, uuid->size);
    return true;
}

bool elf_reader_build_id(const struct elf_reader *file, struct uuid *uuid)
{
    struct elf_note_list notes;

    return elf_reader_notes(file, ELF_BUILD_ID_SECTION, &notes) && take_build_id(&notes, uuid);
}

/* ---- the front alone ---- */

static bool decode_program_header(const struct elf_reader *file, struct bytes entry,
                                  GElf_Phdr *header)
{
    Elf32_Phdr narrow;

    if (file->wide)
        return decode(file, ELF_T_PHDR, entry, header, sizeof(*header));
    if (!decode(file, ELF_T_PHDR, entry, &narrow, sizeof(narrow)))
        return false;
    *header = (GElf_Phdr){
        .p_type = narrow.p_type, .p_offset = narrow.p_offset, .p_filesz = narrow.p_filesz};
    return true;
}

bool elf_front_build_id(struct bytes front, struct uuid *uuid)
{
    struct elf_reader file = {.bytes = front};
    struct elf_note_list notes;
    struct bytes entry;
    GElf_Phdr header;

    elf_version(EV_CURRENT);
    if (!read_elf_header(&file) || file.header.e_phnum == 0 ||
        !bytes_slice(front, file.header.e_phoff, file.header.e_phentsize, &entry) ||
        !decode_program_header(&file, entry, &header) || header.p_type != PT_NOTE ||
        !bytes_slice(front, header.p_offset, header.p_filesz, &notes.bytes))
        return false;
    notes.big_endian = file.data_encoding == ELFDATA2MSB;
    return take_build_id(&notes, uuid);
}
