/*
 * Reading ELF files: see elf_file.h.
 */
#include "common/elf_file/elf_file.h"

#include <string.h>

/* ---- files ---- */

bool elf_file_open(struct elf_file *file, struct bytes bytes)
{
    const uint8_t *ident = bytes.data;
    *file = (struct elf_file){.bytes = bytes};
    if (bytes.size < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0 ||
        (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
        (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB) ||
        ident[EI_VERSION] != EV_CURRENT)
        return false;
    file->wide = ident[EI_CLASS] == ELFCLASS64;
    file->big_endian = ident[EI_DATA] == ELFDATA2MSB;
    return elf_load(&elf_ehdr, elf_file_form(file), bytes, 0, &file->header);
}

/* A table of as many entries; *table is empty if it is not inside the file. */
static bool find_table(const struct elf_file *file, uint64_t offset, uint64_t count,
                       size_t entry_size, size_t expected_size, struct bytes *table)
{
    *table = (struct bytes){0};
    return count == 0 || (entry_size == expected_size && count <= file->bytes.size / entry_size &&
                          bytes_slice(file->bytes, offset, count * entry_size, table));
}

/* The first section header, which has the numbers that do not fit the ELF header. */
static Elf64_Shdr first_section(const struct elf_file *file)
{
    Elf64_Shdr first = {0};

    if (file->header.e_shoff != 0)
        elf_load(&elf_shdr, elf_file_form(file), file->bytes, file->header.e_shoff, &first);
    return first;
}

bool elf_file_find_segments(struct elf_file *file)
{
    const Elf64_Ehdr *ehdr = &file->header;

    file->segment_count = ehdr->e_phnum;
    if (ehdr->e_phnum == PN_XNUM && ehdr->e_shoff != 0)
        file->segment_count = first_section(file).sh_info;
    return find_table(file, ehdr->e_phoff, file->segment_count, ehdr->e_phentsize,
                      ELF_SIZE(file->wide, Phdr), &file->segments);
}

bool elf_file_find_sections(struct elf_file *file)
{
    const Elf64_Ehdr *ehdr = &file->header;
    const Elf64_Shdr first = first_section(file);

    file->section_count = ehdr->e_shnum != 0 ? ehdr->e_shnum : first.sh_size;
    file->names = ehdr->e_shstrndx != SHN_XINDEX ? ehdr->e_shstrndx : first.sh_link;
    return find_table(file, ehdr->e_shoff, file->section_count, ehdr->e_shentsize,
                      ELF_SIZE(file->wide, Shdr), &file->sections) &&
           (file->section_count == 0 || file->names < file->section_count);
}

/* Where an entry of a table is; if there is none, outside of any table. */
static uint64_t entry_offset(struct bytes table, uint64_t index, size_t size)
{
    return index < table.size / size ? index * size : UINT64_MAX;
}

Elf64_Phdr elf_file_segment(const struct elf_file *file, uint64_t index)
{
    Elf64_Phdr phdr;

    elf_load(&elf_phdr, elf_file_form(file), file->segments,
             entry_offset(file->segments, index, ELF_SIZE(file->wide, Phdr)), &phdr);
    return phdr;
}

Elf64_Shdr elf_file_section(const struct elf_file *file, uint64_t index)
{
    Elf64_Shdr shdr;

    elf_load(&elf_shdr, elf_file_form(file), file->sections,
             entry_offset(file->sections, index, ELF_SIZE(file->wide, Shdr)), &shdr);
    return shdr;
}

bool elf_file_contents(const struct elf_file *file, const Elf64_Shdr *shdr, struct bytes *contents)
{
    *contents = (struct bytes){0};
    return shdr->sh_type == SHT_NOBITS || shdr->sh_type == SHT_NULL ||
           bytes_slice(file->bytes, shdr->sh_offset, shdr->sh_size, contents);
}

const char *elf_text_at(struct bytes strings, uint64_t offset)
{
    /* A sound table ends with a NUL; only in another one must the text's own end be looked for. */
    if (offset >= strings.size ||
        (strings.data[strings.size - 1] != '\0' &&
         memchr(strings.data + offset, '\0', (size_t)(strings.size - offset)) == NULL))
        return NULL;
    return (const char *)strings.data + offset;
}

/* ---- notes ---- */

/* Takes `size` bytes and the padding behind them, which may be missing at the end of the last note.
 */
static struct bytes take_padded(struct cursor *at, const struct elf_note_list *list, uint64_t size)
{
    struct bytes taken = cursor_bytes(at, size);
    uint64_t alignment = list->alignment == 8 ? 8 : ELF_NOTE_ALIGNMENT;
    uint64_t end = list->bytes.size - cursor_left(at), padding = align_up(end, alignment) - end;

    cursor_skip(at, padding < cursor_left(at) ? padding : cursor_left(at));
    return taken;
}

bool elf_note_next(const struct elf_note_list *list, size_t *offset, struct elf_note *note)
{
    struct cursor at = cursor_open(list->bytes, list->big_endian, false);
    uint32_t owner_size, description_size;

    cursor_skip(&at, *offset);
    owner_size = cursor_u32(&at);
    description_size = cursor_u32(&at);
    note->type = cursor_u32(&at);
    note->owner = take_padded(&at, list, owner_size);
    note->description = take_padded(&at, list, description_size);
    if (at.bad)
        return false;
    note->description_offset = (uint64_t)(note->description.data - list->bytes.data);
    *offset = (size_t)(at.at - list->bytes.data);
    return true;
}

bool elf_note_is_of(const struct elf_note *note, const char *owner)
{
    return bytes_equal(note->owner, (struct bytes){(const uint8_t *)owner, strlen(owner) + 1});
}

static bool take_build_id(const struct elf_note *note, struct uuid *uuid)
{
    if (note->type != NT_GNU_BUILD_ID || !elf_note_is_of(note, ELF_NOTE_GNU) ||
        note->description.size == 0 || note->description.size > UUID_SIZE_MAX)
        return false;
    *uuid = (struct uuid){.size = (size_t)note->description.size};
    memcpy(uuid->bytes, note->description.data, uuid->size);
    return true;
}

bool elf_note_build_id(const struct elf_note_list *list, struct uuid *uuid)
{
    struct elf_note note;
    size_t offset = 0;

    while (elf_note_next(list, &offset, &note)) {
        if (take_build_id(&note, uuid))
            return true;
    }
    return false;
}

/* ---- small files ---- */

/* Sections are read by their headers alone, so it is these that must be there. */
bool elf_reader_open(struct elf_reader *file, struct bytes bytes)
{
    struct elf_file *elf = &file->elf;
    const struct elf_reader_section *names;

    file->section_count = 0;
    if (!elf_file_open(elf, bytes) || elf->header.e_shnum == 0 ||
        elf->header.e_shnum > ELF_READER_SECTION_MAX ||
        elf->header.e_shoff % (elf->wide ? 8 : 4) != 0 || !elf_file_find_sections(elf))
        return false;
    names = &file->sections[elf->names];
    for (size_t i = 0; i < elf->section_count; i++) {
        struct elf_reader_section *section = &file->sections[i];

        section->stored = (struct bytes){0};
        section->header = elf_file_section(elf, i);
        if (section->header.sh_type != SHT_NOBITS &&
            !bytes_slice(bytes, section->header.sh_offset, section->header.sh_size,
                         &section->stored))
            return false;
    }
    if (names->header.sh_type != SHT_STRTAB || (names->header.sh_flags & SHF_COMPRESSED) != 0)
        return false;
    for (size_t i = 0; i < elf->section_count; i++) {
        struct elf_reader_section *section = &file->sections[i];

        section->name = elf_text_at(names->stored, section->header.sh_name);
        if (section->name == NULL)
            return false;
    }
    file->section_count = (size_t)elf->section_count;
    return true;
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
    *notes = (struct elf_note_list){.bytes = section->stored, .big_endian = file->elf.big_endian};
    return true;
}

bool elf_reader_build_id(const struct elf_reader *file, struct uuid *uuid)
{
    struct elf_note_list notes;

    return elf_reader_notes(file, ELF_BUILD_ID_SECTION, &notes) && elf_note_build_id(&notes, uuid);
}

bool elf_file_build_id(struct bytes file, struct uuid *uuid)
{
    struct elf_file elf;
    struct elf_note_list notes;
    struct elf_note note;
    size_t offset = 0;
    uint64_t left = file.size; /* segments that overlap are not read over and over */

    if (!elf_file_open(&elf, file) || !elf_file_find_segments(&elf))
        return false;
    if (elf.segment_count == 0) {
        notes = (struct elf_note_list){.big_endian = elf.big_endian};
        bytes_slice(file, ELF_SIZE(elf.wide, Ehdr), file.size - ELF_SIZE(elf.wide, Ehdr),
                    &notes.bytes);
        return elf_note_next(&notes, &offset, &note) && take_build_id(&note, uuid);
    }
    for (uint64_t i = 0; i < elf.segment_count; i++) {
        const Elf64_Phdr phdr = elf_file_segment(&elf, i);

        notes = (struct elf_note_list){.big_endian = elf.big_endian, .alignment = phdr.p_align};
        if (phdr.p_type != PT_NOTE || phdr.p_filesz > left ||
            !bytes_slice(file, phdr.p_offset, phdr.p_filesz, &notes.bytes))
            continue;
        left -= phdr.p_filesz;
        if (elf_note_build_id(&notes, uuid))
            return true;
    }
    return false;
}

bool elf_reader_compression_header(const struct elf_reader *file, struct bytes stored,
                                   Elf64_Chdr *header, struct bytes *frame)
{
    size_t size = ELF_SIZE(file->elf.wide, Chdr);

    return elf_load(&elf_chdr, elf_file_form(&file->elf), stored, 0, header) &&
           bytes_slice(stored, size, stored.size - size, frame);
}
