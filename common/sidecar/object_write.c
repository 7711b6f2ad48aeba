/*
 * Writing objects: see object.h.
 *
 * The names are decompressed first, since their size must be known before the file can be laid out.
 * All other sections are decompressed while the file is written, and go to the sink piece by piece.
 */
#include <stdlib.h>
#include <string.h>

#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/object_file.h"

/* LLVM's tools map the file into memory and require the coverage mapping to be aligned to 8 bytes.
 */
#define CONTENT_ALIGNMENT 8

static const char debug_text[] = "covsplit";

struct object_writer {
    const struct sidecar *sidecar;
    struct object_coverage *coverage; /* NULL: the sidecar's own */
    struct elf_writer elf;
    /* For each section that is streamed, the sidecar's section; NULL: the coverage's records. */
    const struct sidecar_section *sources[ELF_WRITER_SECTION_MAX];
    bytes_sink sink;
    void *context;
    struct error *error;
};

/* ---- what the sidecar holds ---- */

static bool holds(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section != NULL && section->has_content;
}

static bool has_coverage(const struct sidecar *sidecar)
{
    return holds(sidecar, SECTION_COVMAP) && holds(sidecar, SECTION_COVFUN) &&
           (holds(sidecar, SECTION_NAMES) || holds(sidecar, SECTION_COVNAMES));
}

static bool has_correlation(const struct sidecar *sidecar)
{
    return holds(sidecar, SECTION_COVDATA) && holds(sidecar, SECTION_COVNAMES) &&
           sidecar_find(sidecar, SECTION_COUNTERS) != NULL;
}

static bool check_useful(const struct sidecar *sidecar, struct error *error)
{
    const char *name = sidecar_name(sidecar);

    if (!sidecar_is_real(sidecar, error))
        return false;
    if (has_coverage(sidecar) || has_correlation(sidecar))
        return true;
    if (holds(sidecar, SECTION_COVMAP) || holds(sidecar, SECTION_COVFUN))
        return error_set(error,
                         "%s: holds only a part of the coverage mapping and names, which no tool "
                         "can use; give the tools the image, or split the original without "
                         "--sections",
                         name);
    return error_set(error,
                     "%s: holds no coverage mapping; if the image has some, give the tools the "
                     "image, or split the original without --sections",
                     name);
}

/* ---- the sections ---- */

static bool add_note(struct object_writer *writer)
{
    const struct sidecar_facts *facts = sidecar_facts(writer->sidecar);
    const char *image_name = sidecar_image_name(writer->sidecar);
    bool big = facts->elf_data == ELFDATA2MSB;
    uint8_t fields[OBJECT_NOTE_SIZE] = {0};
    struct buffer description = {0};
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, SIDECAR_NOTE_SECTION, SHT_NOTE, writer->error);
    bool done;

    if (section == NULL)
        return false;
    section->header.sh_addralign = ELF_NOTE_ALIGNMENT;
    store_u32(fields, OBJECT_FORMAT_VERSION, big);
    store_u32(fields + 4, facts->format, big);
    store_u64(fields + 8, facts->original_size, big);
    memcpy(fields + 16, facts->original_digest.bytes, DIGEST_SIZE);
    done = buffer_append(&description, fields, sizeof(fields)) &&
           buffer_append(&description, image_name, strlen(image_name)) &&
           elf_note_append(&section->stored, big, SIDECAR_NOTE_OWNER, OBJECT_NOTE_TYPE,
                           buffer_view(&description));
    buffer_free(&description);
    return done || error_out_of_memory(writer->error, writer->elf.name, strlen(image_name));
}

/* Adds a section with the same contents as in the image, which are decompressed when the file is
 * written. */
static bool add_streamed(struct object_writer *writer, const struct sidecar_section *source)
{
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, source->name, SHT_PROGBITS, writer->error);

    if (section == NULL)
        return false;
    section->header.sh_addralign = CONTENT_ALIGNMENT;
    section->header.sh_size = source->size;
    section->streamed = true;
    writer->sources[section - writer->elf.sections] = source;
    return true;
}

/* The same, with its address: the entries of XRay's tables are relative to their own addresses. */
static bool add_placed(struct object_writer *writer, const struct sidecar_section *source)
{
    size_t index = writer->elf.section_count;

    if (!add_streamed(writer, source))
        return false;
    writer->elf.sections[index].header.sh_addr = source->address;
    return true;
}

static bool add_names(struct object_writer *writer, const struct sidecar_section *source)
{
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, source->name, SHT_PROGBITS, writer->error);
    struct names set = {0};
    bool done =
        section != NULL && sidecar_read_names(writer->sidecar, source, true, &set, writer->error);

    if (done && !names_encode(&set, &section->stored))
        done = error_out_of_memory(writer->error, writer->elf.name, set.text.size);
    names_free(&set);
    return done;
}

/* Adds a section without contents: only its address and size in the program's memory. */
static bool add_place(struct object_writer *writer, const struct sidecar_section *source)
{
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, source->name, SHT_NOBITS, writer->error);

    if (section == NULL)
        return false;
    section->header.sh_flags = SHF_ALLOC | SHF_WRITE;
    section->header.sh_addr = source->address;
    section->header.sh_size = source->size;
    if (is_power_of_two(source->alignment) && source->address % source->alignment == 0)
        section->header.sh_addralign = source->alignment;
    return true;
}

static bool add_debug_section(struct object_writer *writer)
{
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, ".debug_str", SHT_PROGBITS, writer->error);

    if (section == NULL)
        return false;
    section->header.sh_flags = SHF_MERGE | SHF_STRINGS;
    section->header.sh_entsize = 1;
    return buffer_append(&section->stored, debug_text, sizeof(debug_text)) ||
           error_out_of_memory(writer->error, writer->elf.name, sizeof(debug_text));
}

/* The sections of a union's member. */
static bool add_coverage(struct object_writer *writer)
{
    static const enum section_kind kinds[] = {SECTION_COVMAP, SECTION_COVFUN, SECTION_NAMES,
                                              SECTION_COVNAMES};
    struct object_coverage *coverage = writer->coverage;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        enum section_kind kind = kinds[i];
        struct elf_writer_section *section;

        if (!holds(writer->sidecar, kind) ||
            (kind >= SECTION_NAMES && kind != coverage->names_kind))
            continue;
        section =
            elf_writer_add(&writer->elf, section_kind_name(kind), SHT_PROGBITS, writer->error);
        if (section == NULL)
            return false;
        section->header.sh_addralign = CONTENT_ALIGNMENT;
        if (kind == SECTION_COVFUN) {
            section->streamed = true;
            section->header.sh_size = coverage->covfun_size;
        } else {
            struct buffer *content = kind == SECTION_COVMAP ? &coverage->covmap : &coverage->names;

            section->stored = *content;
            *content = (struct buffer){0};
        }
    }
    return true;
}

static bool add_sidecars_own(struct object_writer *writer)
{
    static const struct {
        enum section_kind kind;
        bool (*add)(struct object_writer *writer, const struct sidecar_section *source);
    } kinds[] = {
        {SECTION_COVMAP, add_streamed},   {SECTION_COVFUN, add_streamed},
        {SECTION_NAMES, add_names},       {SECTION_COVDATA, add_streamed},
        {SECTION_COVNAMES, add_names},    {SECTION_COUNTERS, add_place},
        {SECTION_BITMAP, add_place},      {SECTION_XRAY_MAP, add_placed},
        {SECTION_XRAY_INDEX, add_placed},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct sidecar_section *source = sidecar_find(writer->sidecar, kinds[i].kind);
        if (source != NULL && !kinds[i].add(writer, source))
            return false;
    }
    return true;
}

static bool add_all(struct object_writer *writer)
{
    return elf_writer_start(&writer->elf, &sidecar_facts(writer->sidecar)->uuid, writer->error) &&
           add_note(writer) &&
           (writer->coverage != NULL ? add_coverage(writer) : add_sidecars_own(writer)) &&
           add_debug_section(writer) && elf_writer_add_names(&writer->elf, writer->error);
}

/* ---- the file ---- */

static bool put_bytes(void *context, struct bytes bytes, struct error *error)
{
    const struct object_writer *writer = context;

    return writer->sink(writer->context, bytes, error);
}

static bool put_section(void *context, const struct elf_writer_section *section,
                        struct error *error)
{
    const struct object_writer *writer = context;
    const struct sidecar_section *source = writer->sources[section - writer->elf.sections];

    if (section->streamed && source == NULL)
        return writer->coverage->write_covfun(writer->coverage->records, writer->sink,
                                              writer->context, error);
    if (section->streamed)
        return sidecar_stream_section(writer->sidecar, source, writer->sink, writer->context,
                                      error);
    return section->stored.size == 0 || put_bytes(context, buffer_view(&section->stored), error);
}

static bool lay_out(struct object_writer *writer)
{
    return elf_writer_lay_out(&writer->elf) ||
           error_set(writer->error,
                     "%s: its sections do not fit an ELF file of the image's class; get an "
                     "intact copy",
                     writer->elf.name);
}

struct object_writer *object_writer_new(const struct sidecar *sidecar,
                                        struct object_coverage *coverage, struct error *error)
{
    const struct sidecar_facts *facts = sidecar_facts(sidecar);
    struct object_writer *writer;

    if (!check_useful(sidecar, error))
        return NULL;
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        error_out_of_memory(error, sidecar_name(sidecar), sizeof(*writer));
        return NULL;
    }
    *writer = (struct object_writer){
        .sidecar = sidecar,
        .coverage = coverage,
        .elf = {.name = sidecar_name(sidecar),
                .elf_class = facts->elf_class,
                .elf_data = facts->elf_data,
                .elf_type = facts->elf_type,
                .machine = facts->machine},
        .error = error,
    };
    if (add_all(writer) && lay_out(writer))
        return writer;
    object_writer_free(writer);
    return NULL;
}

uint64_t object_writer_size(const struct object_writer *writer)
{
    return elf_writer_size(&writer->elf);
}

bool object_writer_write(struct object_writer *writer, bytes_sink sink, void *context)
{
    const struct elf_writer_sink parts = {put_bytes, put_section, writer};

    writer->sink = sink;
    writer->context = context;
    return elf_writer_walk(&writer->elf, &parts, writer->error);
}

void object_writer_free(struct object_writer *writer)
{
    if (writer == NULL)
        return;
    elf_writer_free(&writer->elf);
    free(writer);
}

bool object_write(const struct sidecar *sidecar, bytes_sink sink, void *context,
                  struct error *error)
{
    struct object_writer *writer = object_writer_new(sidecar, NULL, error);
    bool done = writer != NULL && object_writer_write(writer, sink, context);

    object_writer_free(writer);
    return done;
}
