/*
 * Writing small ELF files: see elf_file/writer.h.
 */
#include "common/elf_file/writer.h"

#include <string.h>

#include "common/elf_file/encode.h"
#include "common/elf_file/note.h"

static bool out_of_memory(const struct elf_writer *writer, uint64_t size, struct error *error)
{
    return error_out_of_memory(error, writer->name, size);
}

/* ---- structures in the form of the file ---- */

bool elf_writer_encode(const struct elf_writer *writer, Elf_Type type, const void *structure,
                       struct buffer *encoded)
{
    return elf_encode(writer->elf_class, writer->elf_data, type, structure, 1, encoded);
}

static size_t size_of(const struct elf_writer *writer, Elf_Type type)
{
    return elf_encoded_size(writer->elf_class, type);
}

/* The size of the ELF header and the program header, which precede the segment. */
static size_t file_header_size(const struct elf_writer *writer)
{
    return size_of(writer, ELF_T_EHDR) + size_of(writer, ELF_T_PHDR);
}

static bool encode_elf_header(const struct elf_writer *writer, struct buffer *encoded)
{
    Elf64_Ehdr ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, writer->elf_class,
                                   writer->elf_data, EV_CURRENT},
                       .e_type = writer->elf_type,
                       .e_machine = writer->machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = size_of(writer, ELF_T_EHDR),
                       .e_shoff = writer->section_headers_offset,
                       .e_ehsize = (Elf64_Half)size_of(writer, ELF_T_EHDR),
                       .e_phentsize = (Elf64_Half)size_of(writer, ELF_T_PHDR),
                       .e_phnum = 1,
                       .e_shentsize = (Elf64_Half)size_of(writer, ELF_T_SHDR),
                       .e_shnum = (Elf64_Half)writer->section_count,
                       .e_shstrndx = (Elf64_Half)(writer->section_count - 1)};

    return elf_writer_encode(writer, ELF_T_EHDR, &ehdr, encoded);
}

/* The only segment contains the build ID's note, for tools that look for it there. It is a copy of
 * the section, right after the headers. It cannot be the section itself, because `llvm-objcopy
 * --compress-sections='*=none'`, which must be able to decompress sidecars, refuses files that have
 * a section within a segment. */
static bool encode_segment(const struct elf_writer *writer, struct buffer *encoded)
{
    const struct buffer *note = &writer->sections[1].stored;
    Elf64_Phdr phdr = {.p_type = PT_NOTE,
                       .p_flags = PF_R,
                       .p_offset = file_header_size(writer),
                       .p_filesz = note->size,
                       .p_memsz = note->size,
                       .p_align = ELF_NOTE_ALIGNMENT};

    return elf_writer_encode(writer, ELF_T_PHDR, &phdr, encoded) &&
           buffer_append(encoded, note->data, note->size);
}

/* ---- the sections ---- */

struct elf_writer_section *elf_writer_add(struct elf_writer *writer, const char *name,
                                          Elf64_Word type, struct error *error)
{
    struct elf_writer_section *section;
    size_t name_offset = writer->names.size;

    if (writer->section_count == ELF_WRITER_SECTION_MAX ||
        !buffer_append(&writer->names, name, strlen(name) + 1)) {
        out_of_memory(writer, name_offset, error);
        return NULL;
    }
    section = &writer->sections[writer->section_count++];
    section->header =
        (Elf64_Shdr){.sh_name = (Elf64_Word)name_offset, .sh_type = type, .sh_addralign = 1};
    return section;
}

bool elf_writer_start(struct elf_writer *writer, const struct uuid *uuid, struct error *error)
{
    struct elf_writer_section *build_id;

    elf_version(EV_CURRENT);
    writer->section_count = 1; /* the null section */
    if (!buffer_append_zeros(&writer->names, 1))
        return out_of_memory(writer, 1, error);
    build_id = elf_writer_add(writer, ELF_BUILD_ID_SECTION, SHT_NOTE, error);
    if (build_id == NULL)
        return false;
    build_id->header.sh_addralign = ELF_NOTE_ALIGNMENT;
    return elf_note_append(&build_id->stored, writer->elf_data == ELFDATA2MSB, ELF_NOTE_GNU,
                           NT_GNU_BUILD_ID, (struct bytes){uuid->bytes, uuid->size}) ||
           out_of_memory(writer, uuid->size, error);
}

bool elf_writer_add_names(struct elf_writer *writer, struct error *error)
{
    struct elf_writer_section *section = elf_writer_add(writer, ".shstrtab", SHT_STRTAB, error);

    if (section == NULL)
        return false;
    section->stored = writer->names;
    writer->names = (struct buffer){0};
    return true;
}

void elf_writer_free(struct elf_writer *writer)
{
    for (size_t i = 0; i < writer->section_count; i++)
        buffer_free(&writer->sections[i].stored);
    buffer_free(&writer->names);
}

/* ---- the file ---- */

static bool fits_32_bits(const struct elf_writer *writer)
{
    uint64_t all = writer->section_headers_offset;

    for (size_t i = 1; i < writer->section_count; i++) {
        const Elf64_Shdr *header = &writer->sections[i].header;
        all |= header->sh_addr | header->sh_size | header->sh_addralign;
    }
    return all <= UINT32_MAX;
}

bool elf_writer_lay_out(struct elf_writer *writer)
{
    uint64_t offset = file_header_size(writer) + writer->sections[1].stored.size;

    for (size_t i = 1; i < writer->section_count; i++) {
        struct elf_writer_section *section = &writer->sections[i];
        Elf64_Shdr *header = &section->header;

        if (header->sh_type == SHT_NOBITS) {
            header->sh_offset = offset;
            continue;
        }
        if (!section->streamed)
            header->sh_size = section->stored.size;
        header->sh_offset = align_up(offset, header->sh_addralign);
        if (!add_fits(header->sh_offset, header->sh_size, &offset) || offset > INT64_MAX)
            return false;
    }
    writer->section_headers_offset = align_up(offset, 8);
    return elf_writer_is_wide(writer) || fits_32_bits(writer);
}

uint64_t elf_writer_size(const struct elf_writer *writer)
{
    return writer->section_headers_offset + writer->section_count * size_of(writer, ELF_T_SHDR);
}

static bool walk_padding(uint64_t from, uint64_t to, const struct elf_writer_sink *sink,
                         struct error *error)
{
    static const uint8_t zeros[8];

    return from == to || sink->bytes(sink->context, (struct bytes){zeros, to - from}, error);
}

static bool walk_sections(const struct elf_writer *writer, uint64_t position,
                          const struct elf_writer_sink *sink, struct error *error)
{
    for (size_t i = 1; i < writer->section_count; i++) {
        const struct elf_writer_section *section = &writer->sections[i];

        if (section->header.sh_type == SHT_NOBITS)
            continue;
        if (!walk_padding(position, section->header.sh_offset, sink, error) ||
            !(sink->section == NULL
                  ? sink->bytes(sink->context, buffer_view(&section->stored), error)
                  : sink->section(sink->context, section, error)))
            return false;
        position = section->header.sh_offset + section->header.sh_size;
    }
    return walk_padding(position, writer->section_headers_offset, sink, error);
}

bool elf_writer_walk(const struct elf_writer *writer, const struct elf_writer_sink *sink,
                     struct error *error)
{
    struct buffer headers = {0}, section_headers = {0};
    bool done = encode_elf_header(writer, &headers) && encode_segment(writer, &headers);

    for (size_t i = 0; done && i < writer->section_count; i++)
        done = elf_writer_encode(writer, ELF_T_SHDR, &writer->sections[i].header, &section_headers);
    if (!done)
        out_of_memory(writer, headers.size + section_headers.size, error);
    done = done && sink->bytes(sink->context, buffer_view(&headers), error) &&
           walk_sections(writer, headers.size, sink, error) &&
           sink->bytes(sink->context, buffer_view(&section_headers), error);
    buffer_free(&headers);
    buffer_free(&section_headers);
    return done;
}
