/*
 * Reading objects: see object.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/elf_file/elf_file.h"
#include "common/sidecar/object_file.h"

/* The note, if it is the first one. */
static bool find_note(const struct elf_reader *file, struct elf_note *note)
{
    struct elf_note_list notes;
    size_t offset = 0;

    return elf_reader_notes(file, SIDECAR_NOTE_SECTION, &notes) &&
           elf_note_next(&notes, &offset, note) && elf_note_is_of(note, SIDECAR_NOTE_OWNER) &&
           note->type == OBJECT_NOTE_TYPE;
}

bool object_recognize(struct bytes bytes)
{
    struct elf_reader file;
    struct elf_note note;

    return elf_reader_open(&file, bytes) && find_note(&file, &note);
}

static bool damaged(const char *name, struct error *error)
{
    return error_set(error, "%s: a damaged object; export it again", name);
}

static bool read_note(const struct elf_reader *file, const char *name, struct object_facts *facts,
                      struct error *error)
{
    bool big = file->elf.big_endian;
    struct elf_note note;
    struct bytes fields, text;
    uint32_t format;

    if (!find_note(file, &note) || note.description.size < sizeof(uint32_t))
        return damaged(name, error);
    facts->format_version = load_u32(note.description.data, big);
    if (facts->format_version != OBJECT_FORMAT_VERSION)
        return error_set(error,
                         "%s: object of format version %" PRIu32
                         "; this covsplit reads %d; use a newer covsplit",
                         name, facts->format_version, OBJECT_FORMAT_VERSION);
    if (!bytes_slice(note.description, 0, OBJECT_NOTE_SIZE, &fields) ||
        !bytes_slice(note.description, OBJECT_NOTE_SIZE, note.description.size - OBJECT_NOTE_SIZE,
                     &text))
        return damaged(name, error);
    format = load_u32(fields.data + 4, big);
    if (format < IMAGE_ELF || format > IMAGE_COFF)
        return damaged(name, error);
    facts->format = (enum image_format)format;
    facts->original_size = load_u64(fields.data + 8, big);
    memcpy(facts->original_digest.bytes, fields.data + 16, DIGEST_SIZE);
    facts->image_name = strndup((const char *)text.data, (size_t)text.size);
    return facts->image_name != NULL || error_out_of_memory(error, name, text.size);
}

static bool read_sections(const struct elf_reader *file, const char *name,
                          struct object_facts *facts, struct error *error)
{
    for (size_t i = 1; i < file->section_count; i++) {
        const struct elf_reader_section *section = &file->sections[i];
        struct object_section *found = &facts->sections[facts->section_count];

        if (!section_kind_of_name(section->name, &found->kind))
            continue;
        if (elf_reader_find(file, section->name) == NULL)
            return damaged(name, error); /* the section occurs twice */
        found->address = section->header.sh_addr;
        found->size = section->header.sh_size;
        facts->section_count++;
        if (facts->section_count == SECTION_KIND_MAX)
            break;
    }
    return true;
}

bool object_read(struct bytes bytes, const char *name, struct object_facts *facts,
                 struct error *error)
{
    struct elf_reader file;
    bool done;

    *facts = (struct object_facts){0};
    done = elf_reader_open(&file, bytes) || damaged(name, error);
    done = done && read_note(&file, name, facts, error) &&
           read_sections(&file, name, facts, error) &&
           (elf_reader_build_id(&file, &facts->uuid) || damaged(name, error));
    facts->elf_class = file.elf.header.e_ident[EI_CLASS];
    facts->elf_data = file.elf.header.e_ident[EI_DATA];
    facts->machine = file.elf.header.e_machine;
    return done;
}

void object_facts_free(struct object_facts *facts)
{
    free(facts->image_name);
    facts->image_name = NULL;
}
