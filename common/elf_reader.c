/*
 * Reading small ELF files: see elf_reader.h.
 */
#include "common/elf_reader.h"

#include <string.h>

#include "common/sidecar_note.h"

/* Decodes one structure from the front of a view; false where it is too short. */
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

/* What libelf relies on when it takes up a file, and reads without looking twice. */
static bool header_is_sound(struct elf_reader *file)
{
    const uint8_t *ident = file->bytes.data;
    struct bytes table;
    uint64_t entry_size, alignment;

    if (file->bytes.size < sizeof(Elf32_Ehdr) || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
        (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
        (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB) ||
        ident[EI_VERSION] != EV_CURRENT)
        return false;
    file->wide = ident[EI_CLASS] == ELFCLASS64;
    file->data_encoding = ident[EI_DATA];
    if (!decode_elf_header(file))
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

/* Section headers, each checked against the file; then the names, which libelf looks up in a
 * section that is known to be sound by now. */
static bool read_sections(struct elf_reader *file)
{
    const GElf_Shdr *names;

    for (size_t i = 0; i < file->header.e_shnum; i++) {
        struct elf_reader_section *section = &file->sections[i];

        section->libelf = elf_getscn(file->libelf, i);
        if (gelf_getshdr(section->libelf, &section->header) == NULL ||
            (section->header.sh_type != SHT_NOBITS &&
             !bytes_slice(file->bytes, section->header.sh_offset, section->header.sh_size,
                          &section->stored)))
            return false;
    }
    names = &file->sections[file->header.e_shstrndx].header;
    if (names->sh_type != SHT_STRTAB || (names->sh_flags & SHF_COMPRESSED) != 0)
        return false;
    file->section_count = file->header.e_shnum;
    for (size_t i = 0; i < file->section_count; i++) {
        struct elf_reader_section *section = &file->sections[i];

        section->name = elf_strptr(file->libelf, file->header.e_shstrndx, section->header.sh_name);
        if (section->name == NULL)
            return false;
    }
    return true;
}

/* False where the bytes are no ELF file, a damaged one, or one that no sidecar looks like. Closed
 * with file_close, whatever the result. */
bool elf_reader_open(struct elf_reader *file, struct bytes bytes)
{
    *file = (struct elf_reader){.bytes = bytes};
    elf_version(EV_CURRENT);
    if (!header_is_sound(file))
        return false;
    file->libelf = elf_memory((char *)(uintptr_t)bytes.data, (size_t)bytes.size);
    return file->libelf != NULL && read_sections(file);
}

void elf_reader_close(struct elf_reader *file)
{
    elf_end(file->libelf);
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

Elf_Data *elf_reader_notes(const struct elf_reader *file, const char *name)
{
    const struct elf_reader_section *section = elf_reader_find(file, name);

    if (section == NULL || section->header.sh_type != SHT_NOTE ||
        section->header.sh_addralign != SIDECAR_NOTE_ALIGNMENT ||
        (section->header.sh_flags & SHF_COMPRESSED) != 0 || section->stored.size == 0)
        return NULL;
    return elf_getdata(section->libelf, NULL);
}

bool elf_reader_build_id(const struct elf_reader *file, struct uuid *uuid)
{
    Elf_Data *data = elf_reader_notes(file, SIDECAR_BUILD_ID_SECTION);
    struct sidecar_note note;
    size_t offset = 0;

    if (data == NULL || !sidecar_note_next(data, &offset, &note) ||
        !sidecar_note_is_of(&note, ELF_NOTE_GNU) || note.type != NT_GNU_BUILD_ID ||
        note.description.size == 0 || note.description.size > UUID_SIZE_MAX)
        return false;
    memcpy(uuid->bytes, note.description.data, (size_t)note.description.size);
    uuid->size = (size_t)note.description.size;
    return true;
}
