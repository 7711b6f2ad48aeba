/*
 * Writing ELF files: see elf_file.h.
 */
#include "common/elf_file/elf_file.h"

#include <string.h>

bool elf_note_append(struct buffer *to, bool big_endian, const char *owner, uint32_t type,
                     struct bytes description)
{
    size_t owner_size = strlen(owner) + 1, size = (size_t)description.size;
    uint8_t header[3 * sizeof(Elf32_Word)];

    store_u32(header, (uint32_t)owner_size, big_endian);
    store_u32(header + 4, (uint32_t)size, big_endian);
    store_u32(header + 8, type, big_endian);
    buffer_append(to, header, sizeof(header));
    buffer_append(to, owner, owner_size);
    buffer_append_zeros(to, align_up(owner_size, ELF_NOTE_ALIGNMENT) - owner_size);
    buffer_append(to, description.data, size);
    return buffer_append_zeros(to, align_up(size, ELF_NOTE_ALIGNMENT) - size);
}

/* ---- the sections of small files ---- */

static bool out_of_memory(const struct elf_writer *writer, uint64_t size, struct error *error)
{
    return error_out_of_memory(error, writer->name, size);
}

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

/* ---- the whole file ---- */

/* The size of what precedes the segment, or without one the sections. */
static size_t file_header_size(const struct elf_writer *writer)
{
    bool wide = elf_writer_form(writer).wide;

    return ELF_SIZE(wide, Ehdr) + (writer->has_segment ? ELF_SIZE(wide, Phdr) : 0);
}

/* The only segment contains the build ID's note, for tools that look for it there. It is a copy of
 * the section, right after the headers. It cannot be the section itself, because llvm-objcopy
 * refuses to decompress the sections of a file that has one within a segment. */
static void put_front(const struct elf_writer *writer, struct buffer *front)
{
    struct elf_form form = elf_writer_form(writer);
    const struct buffer *note = &writer->sections[1].stored;
    Elf64_Ehdr ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, writer->elf_class,
                                   writer->elf_data, EV_CURRENT},
                       .e_type = writer->elf_type,
                       .e_machine = writer->machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = writer->has_segment ? ELF_SIZE(form.wide, Ehdr) : 0,
                       .e_shoff = writer->section_headers_offset,
                       .e_ehsize = (Elf64_Half)ELF_SIZE(form.wide, Ehdr),
                       .e_phentsize = (Elf64_Half)ELF_SIZE(form.wide, Phdr),
                       .e_phnum = writer->has_segment,
                       .e_shentsize = (Elf64_Half)ELF_SIZE(form.wide, Shdr),
                       .e_shnum = (Elf64_Half)writer->section_count,
                       .e_shstrndx = (Elf64_Half)(writer->section_count - 1)};
    Elf64_Phdr phdr = {.p_type = PT_NOTE,
                       .p_flags = PF_R,
                       .p_offset = file_header_size(writer),
                       .p_filesz = note->size,
                       .p_memsz = note->size,
                       .p_align = ELF_NOTE_ALIGNMENT};

    elf_put(front, &elf_ehdr, form, &ehdr);
    if (!writer->has_segment)
        return;
    elf_put(front, &elf_phdr, form, &phdr);
    buffer_append(front, note->data, note->size);
}

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
    uint64_t offset =
        file_header_size(writer) + (writer->has_segment ? writer->sections[1].stored.size : 0);

    for (size_t i = 1; i < writer->section_count; i++) {
        struct elf_writer_section *section = &writer->sections[i];
        Elf64_Shdr *header = &section->header;

        if (header->sh_type == SHT_NOBITS) {
            header->sh_offset = offset;
            continue;
        }
        if (!section->streamed)
            header->sh_size = section->stored.size + section->body.size;
        header->sh_offset = align_up(offset, header->sh_addralign);
        if (!add_fits(header->sh_offset, header->sh_size, &offset) || offset > INT64_MAX)
            return false;
    }
    writer->section_headers_offset = align_up(offset, 8);
    return elf_writer_form(writer).wide || fits_32_bits(writer);
}

uint64_t elf_writer_size(const struct elf_writer *writer)
{
    return writer->section_headers_offset +
           writer->section_count * ELF_SIZE(elf_writer_form(writer).wide, Shdr);
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
                  ? sink->bytes(sink->context, buffer_view(&section->stored), error) &&
                        (section->body.size == 0 ||
                         sink->bytes(sink->context, section->body, error))
                  : sink->section(sink->context, section, error)))
            return false;
        position = section->header.sh_offset + section->header.sh_size;
    }
    return walk_padding(position, writer->section_headers_offset, sink, error);
}

bool elf_writer_walk(const struct elf_writer *writer, const struct elf_writer_sink *sink,
                     struct error *error)
{
    struct buffer front = {0}, section_headers = {0};
    bool done;

    put_front(writer, &front);
    for (size_t i = 0; i < writer->section_count; i++)
        elf_put(&section_headers, &elf_shdr, elf_writer_form(writer), &writer->sections[i].header);
    if (front.failed || section_headers.failed)
        done = out_of_memory(writer, front.size + section_headers.size, error);
    else
        done = sink->bytes(sink->context, buffer_view(&front), error) &&
               walk_sections(writer, front.size, sink, error) &&
               sink->bytes(sink->context, buffer_view(&section_headers), error);
    buffer_free(&front);
    buffer_free(&section_headers);
    return done;
}
