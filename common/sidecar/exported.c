/*
 * Writing and reading exports: see exported.h.
 *
 * The names are decompressed first, since their size must be known before the file can be laid out.
 * All other sections are decompressed while the file is written, and go to the sink piece by piece.
 */
#include "common/sidecar/exported.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cursor.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/sidecar.h"

/* Different from the note types in sidecars, so that an export is not taken for a sidecar. */
#define EXPORT_NOTE_SECTION ".note.covsplit"
#define EXPORT_NOTE_TYPE    0x1010
#define EXPORT_NOTE_SIZE    32 /* without the text */

/* LLVM's tools map the file into memory and require the coverage mapping to be aligned to 8 bytes.
 */
#define CONTENT_ALIGNMENT 8

/* ---- writing ---- */

struct writer {
    const struct sidecar *sidecar;
    struct export_coverage *coverage; /* NULL: the sidecar's own */
    struct elf_writer elf;
    /* For each section that is streamed, the sidecar's section. */
    const struct section *sources[ELF_WRITER_SECTION_MAX];
    bytes_sink sink;
    void *context;
    struct error *error;
};

static bool check_useful(const struct sidecar *sidecar, struct error *error)
{
    bool has_covmap = sidecar_find(sidecar, SECTION_COVMAP) != NULL;
    bool has_covfun = sidecar_find(sidecar, SECTION_COVFUN) != NULL;
    bool has_covnames = sidecar_find(sidecar, SECTION_COVNAMES) != NULL;
    bool has_names = has_covnames || sidecar_find(sidecar, SECTION_NAMES) != NULL;

    if (!sidecar_is_real(sidecar, error))
        return false;
    if ((has_covmap && has_covfun && has_names) ||
        (has_covnames && sidecar_find(sidecar, SECTION_COVDATA) != NULL &&
         sidecar_find(sidecar, SECTION_COUNTERS) != NULL))
        return true;
    if (has_covmap || has_covfun)
        return error_set(error,
                         "%s: holds only a part of the coverage mapping and names, which no tool "
                         "can use; give the tools the image, or split the original without "
                         "--sections",
                         sidecar->name);
    return sidecar_mapping(sidecar) == MAPPING_IS_ABSENT
               ? sidecar_report_no_mapping(sidecar, error)
               : error_set(error,
                           "%s: holds no coverage mapping; give the tools the image, or split the "
                           "original without --sections",
                           sidecar->name);
}

static bool add_note(struct writer *writer)
{
    const struct sidecar_facts *facts = &writer->sidecar->facts;
    const char *image_name = writer->sidecar->image_name;
    bool big = facts->elf_data == ELFDATA2MSB;
    uint8_t fields[EXPORT_NOTE_SIZE] = {0};
    struct buffer description = {0};
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, EXPORT_NOTE_SECTION, SHT_NOTE, writer->error);
    bool done;

    if (section == NULL)
        return false;
    section->header.sh_addralign = ELF_NOTE_ALIGNMENT;
    store_u32(fields, EXPORT_FORMAT_VERSION, big);
    store_u32(fields + 4, facts->format, big);
    store_u64(fields + 8, facts->original_size, big);
    memcpy(fields + 16, facts->original_digest.bytes, DIGEST_SIZE);
    buffer_append(&description, fields, sizeof(fields));
    done = buffer_append(&description, image_name, strlen(image_name)) &&
           elf_note_append(&section->stored, big, SIDECAR_NOTE_OWNER, EXPORT_NOTE_TYPE,
                           buffer_view(&description));
    buffer_free(&description);
    return done || error_out_of_memory(writer->error, writer->elf.name, strlen(image_name));
}

static bool add_names(struct writer *writer, const struct section *source, struct buffer *stored)
{
    struct names set = {0};
    bool done = sidecar_read_names(writer->sidecar, source, &set, writer->error) &&
                (names_encode(&set, stored) ||
                 error_out_of_memory(writer->error, writer->elf.name, set.text.size));

    names_free(&set);
    return done;
}

static bool add_section(struct writer *writer, const struct section *source)
{
    struct export_coverage *coverage = writer->coverage;
    bool is_recorded = !section_is_stored(source);
    bool is_names = source->kind == SECTION_NAMES || source->kind == SECTION_COVNAMES;
    struct elf_writer_section *section = elf_writer_add(
        &writer->elf, source->name, is_recorded ? SHT_NOBITS : SHT_PROGBITS, writer->error);

    if (section == NULL)
        return false;
    if (is_recorded) {
        section->header.sh_flags = SHF_ALLOC | SHF_WRITE;
        section->header.sh_addr = source->address;
        section->header.sh_size = source->size;
        if (is_power_of_two(source->alignment) && source->address % source->alignment == 0)
            section->header.sh_addralign = source->alignment;
        return true;
    }
    if (is_names && coverage == NULL)
        return add_names(writer, source, &section->stored);
    section->header.sh_addralign = CONTENT_ALIGNMENT;
    if (coverage != NULL && source->kind != SECTION_COVFUN) {
        struct buffer *content = is_names ? &coverage->names : &coverage->covmap;

        section->stored = *content;
        *content = (struct buffer){0};
        return true;
    }
    /* Entries of XRay's tables are relative to their own addresses. */
    if ((SECTION_BIT(source->kind) & SECTION_ARCHIVED) != 0)
        section->header.sh_addr = source->address;
    section->header.sh_size = coverage != NULL ? coverage->covfun_size : source->size;
    section->streamed = true;
    writer->sources[section - writer->elf.sections] = source;
    return true;
}

static bool add_sections(struct writer *writer)
{
    static const enum section_kind kinds[] = {
        SECTION_COVMAP,   SECTION_COVFUN, SECTION_NAMES,    SECTION_COVDATA,    SECTION_COVNAMES,
        SECTION_COUNTERS, SECTION_BITMAP, SECTION_XRAY_MAP, SECTION_XRAY_INDEX,
    };
    const struct export_coverage *coverage = writer->coverage;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct section *source = sidecar_find(writer->sidecar, kinds[i]);
        bool is_wanted = coverage == NULL || kinds[i] == SECTION_COVMAP ||
                         kinds[i] == SECTION_COVFUN || kinds[i] == coverage->names_kind;

        if (source != NULL && is_wanted && !add_section(writer, source))
            return false;
    }
    return true;
}

static bool add_debug_section(struct writer *writer)
{
    static const char text[] = "covsplit";
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, ".debug_str", SHT_PROGBITS, writer->error);

    if (section == NULL)
        return false;
    section->header.sh_flags = SHF_MERGE | SHF_STRINGS;
    section->header.sh_entsize = 1;
    return buffer_append(&section->stored, text, sizeof(text)) ||
           error_out_of_memory(writer->error, writer->elf.name, sizeof(text));
}

static bool put_bytes(void *context, struct bytes bytes, struct error *error)
{
    const struct writer *writer = context;

    return writer->sink(writer->context, bytes, error);
}

static bool put_section(void *context, const struct elf_writer_section *section,
                        struct error *error)
{
    const struct writer *writer = context;
    const struct export_coverage *coverage = writer->coverage;

    if (!section->streamed)
        return section->stored.size == 0 ||
               put_bytes(context, buffer_view(&section->stored), error);
    if (coverage == NULL)
        return sidecar_stream_section(writer->sidecar,
                                      writer->sources[section - writer->elf.sections], writer->sink,
                                      writer->context, error);
    for (size_t i = 0; i < coverage->covfun_count; i++) {
        if (!put_bytes(context, coverage->covfun[i], error))
            return false;
    }
    return true;
}

bool export_write_member(const struct sidecar *sidecar, struct export_coverage *coverage,
                         bool (*begin)(void *context, uint64_t size, struct error *error),
                         bytes_sink sink, void *context, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    struct writer writer = {
        .sidecar = sidecar,
        .coverage = coverage,
        .elf = {.name = sidecar->name,
                .elf_class = facts->elf_class,
                .elf_data = facts->elf_data,
                .elf_type = facts->elf_type,
                .machine = facts->machine,
                .has_segment = true},
        .sink = sink,
        .context = context,
        .error = error,
    };
    const struct elf_writer_sink parts = {put_bytes, put_section, &writer};
    bool done = check_useful(sidecar, error) &&
                elf_writer_start(&writer.elf, &facts->uuid, error) && add_note(&writer) &&
                add_sections(&writer) && add_debug_section(&writer) &&
                elf_writer_add_names(&writer.elf, error) &&
                (elf_writer_lay_out(&writer.elf) ||
                 error_set(error,
                           "%s: its sections do not fit an ELF file of the image's class; get an "
                           "intact copy",
                           sidecar->name));

    done = done && (begin == NULL || begin(context, elf_writer_size(&writer.elf), error)) &&
           elf_writer_walk(&writer.elf, &parts, error);
    elf_writer_free(&writer.elf);
    return done;
}

bool export_write(const struct sidecar *sidecar, bytes_sink sink, void *context,
                  struct error *error)
{
    return export_write_member(sidecar, NULL, NULL, sink, context, error);
}

/* ---- reading ---- */

/* The note, if it is the first one. */
static bool find_note(const struct elf_reader *file, struct elf_note *note)
{
    struct elf_note_list notes;
    size_t offset = 0;

    return elf_reader_notes(file, EXPORT_NOTE_SECTION, &notes) &&
           elf_note_next(&notes, &offset, note) && elf_note_is_of(note, SIDECAR_NOTE_OWNER) &&
           note->type == EXPORT_NOTE_TYPE;
}

bool export_recognize(struct bytes bytes)
{
    struct elf_reader file;
    struct elf_note note;

    return elf_reader_open(&file, bytes) && find_note(&file, &note);
}

static bool export_damaged(const char *name, struct error *error)
{
    return error_set(error, "%s: a damaged object; export it again", name);
}

bool export_read(struct bytes bytes, const char *name, struct export_facts *facts,
                 struct error *error)
{
    struct sidecar_facts *image = &facts->image;
    struct bytes digest, text;
    struct cursor fields;
    struct elf_reader file;
    struct elf_note note;
    uint32_t format;

    *facts = (struct export_facts){0};
    if (!elf_reader_open(&file, bytes) || !find_note(&file, &note))
        return export_damaged(name, error);
    fields = cursor_open(note.description, file.elf.big_endian, false);
    facts->format_version = cursor_u32(&fields);
    if (!fields.bad && facts->format_version != EXPORT_FORMAT_VERSION)
        return error_set(error,
                         "%s: object of format version %" PRIu32
                         "; this covsplit reads %d; use a newer covsplit",
                         name, facts->format_version, EXPORT_FORMAT_VERSION);
    format = cursor_u32(&fields);
    image->original_size = cursor_u64(&fields);
    digest = cursor_bytes(&fields, DIGEST_SIZE);
    text = cursor_rest(&fields);
    if (fields.bad || format < IMAGE_ELF || format > IMAGE_COFF ||
        !elf_reader_build_id(&file, &image->uuid))
        return export_damaged(name, error);
    memcpy(image->original_digest.bytes, digest.data, DIGEST_SIZE);
    snprintf(facts->image_name, sizeof(facts->image_name), "%.*s",
             (int)(text.size < sizeof(facts->image_name) ? text.size : sizeof(facts->image_name)),
             (const char *)text.data);
    image->format = (enum image_format)format;
    image->elf_class = file.elf.header.e_ident[EI_CLASS];
    image->elf_data = file.elf.header.e_ident[EI_DATA];
    image->machine = file.elf.header.e_machine;
    for (size_t i = 1; i < file.section_count && facts->section_count < SECTION_KIND_MAX; i++) {
        const struct elf_reader_section *section = &file.sections[i];
        enum section_kind kind;

        if (!section_kind_of_name(section->name, &kind))
            continue;
        if (elf_reader_find(&file, section->name) == NULL)
            return export_damaged(name, error); /* the section occurs twice */
        facts->sections[facts->section_count++] = (struct section){
            .kind = kind,
            .name = section_kind_name(kind),
            .address = section->header.sh_addr,
            .size = section->header.sh_size,
        };
    }
    return true;
}
