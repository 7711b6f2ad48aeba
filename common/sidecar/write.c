/*
 * Writing sidecars: see sidecar.h.
 *
 * All contents are compressed into memory first, because the note at the start of the file and the
 * section headers at its end need the sizes and digests. Then the file (elf_file.h) is put together
 * in memory, where readers find the seal, and written.
 */
#include "common/sidecar/sidecar.h"

#include <string.h>

#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"

/* Each thread needs memory for its own tables, so there is at most one for this many bytes. That
 * keeps the memory use of a split within twice the size of what it removes. */
#define CONTENT_PER_THREAD ((uint64_t)48 << 20)

/* The null section, the notes, one of each kind, the inverse script, the section names. */
_Static_assert(1 + 1 + SECTION_KIND_MAX + 2 <= ELF_WRITER_SECTION_MAX, "room for all sections");

struct writer {
    const struct sidecar_source *source;
    const struct sidecar_write_options *options;
    struct codec_options codec;
    struct elf_writer elf;
    struct elf_writer_section *notes;
    size_t seal; /* its offset in the notes */
    struct buffer file;
    /* By kind: the compact form of a section, if one fits. */
    struct {
        const struct transform *transform;
        struct buffer encoded;
    } compact[SECTION_KIND_MAX + 1];
    struct digest digests[SECTION_KIND_MAX + 1]; /* by kind; 0: of the inverse script */
    struct digest_stream digest;
    struct error *error;
};

static bool out_of_memory(const struct writer *writer, uint64_t size)
{
    return error_out_of_memory(writer->error, writer->elf.name, size);
}

/* ---- compact forms ---- */

static const struct section *find(const struct writer *writer, enum section_kind kind)
{
    for (size_t i = 0; i < writer->source->section_count; i++) {
        if (writer->source->sections[i].kind == kind)
            return &writer->source->sections[i];
    }
    return NULL;
}

/* Encodes a section, for which `names` have the names that were encoded before it, and has the
 * sections that are encoded after it use it. */
static bool encode_section(struct writer *writer, const struct section *section,
                           struct transform_context *context, struct names *names)
{
    enum section_kind kind = section->kind;
    const struct transform *transform =
        transform_for(kind, section->content.size > context->block_size);
    struct buffer *encoded = &writer->compact[kind].encoded;
    struct encoded stored;
    bool fits;

    writer->digests[kind] = digest_of(section->content);
    if (kind == SECTION_DATA)
        context->data = section->content;
    else if (kind == SECTION_COVMAP)
        context->covmap = section->content;
    else if (kind == SECTION_COVFUN)
        context->covfun = section->content;
    if (writer->options->proved != NULL)
        writer->options->proved->kinds[kind] =
            (struct proved_section){.digest = writer->digests[kind]};
    if (transform == NULL)
        return true;
    if (!codec_encode(transform, context, section->content, &writer->codec, writer->elf.name,
                      encoded, &fits, writer->error))
        return false;
    if (!fits)
        return true;
    writer->compact[kind].transform = transform;
    if (writer->options->proved != NULL)
        writer->options->proved->kinds[kind] = (struct proved_section){
            digest_of(buffer_view(encoded)), section->content, writer->digests[kind]};
    if ((kind != SECTION_NAMES && kind != SECTION_COVNAMES) || context->names != NULL)
        return true;
    /* Names are read from their encoded form, as a reader will; only the first section counts. */
    stored = (struct encoded){buffer_view(encoded), section->content.size, writer->elf.name,
                              section_kind_name(kind)};
    if (!names_decode(context, &stored, names, NULL, writer->error))
        return false;
    context->names = names;
    return names_index(names, context->threads) || out_of_memory(writer, names->text.size);
}

/* Encodes the sections for which a transform fits, after those that they depend on: names come
 * first, then data, which needs them, then the coverage mapping, which needs both, then the linked
 * one, which needs that. */
static bool encode_sections(struct writer *writer)
{
    static const enum section_kind order[] = {
        SECTION_NAMES,  SECTION_COVNAMES, SECTION_DATA,          SECTION_COVDATA,
        SECTION_COVMAP, SECTION_COVFUN,   SECTION_LINKED_COVMAP, SECTION_LINKED_COVFUN};
    const struct sidecar_write_options *options = writer->options;
    struct transform_context context = {
        .big_endian = writer->source->facts.elf_data == ELFDATA2MSB,
        .pointer_size = (unsigned)writer->source->facts.pointer_size,
        .raw_version = writer->source->facts.raw_version,
        .block_size = options->block_size != 0 ? options->block_size : TRANSFORM_BLOCK_SIZE,
        .threads = options->threads,
    };
    struct names names = {0};
    bool done = true;

    writer->codec = (struct codec_options){.level = options->level, .threads = options->threads};
    for (size_t i = 0; done && i < sizeof(order) / sizeof(order[0]); i++) {
        const struct section *section = find(writer, order[i]);

        if (section != NULL && section->content.size != 0)
            done = encode_section(writer, section, &context, &names);
    }
    names_free(&names);
    return done;
}

/* ---- sections ---- */

/* Releases the pages of a part of the image, if it is one: the mapping of packed units is not. */
static void release(const struct writer *writer, struct bytes part)
{
    const struct input *image = writer->source->image;
    uint64_t offset = image == NULL ? 0 : (uintptr_t)part.data - (uintptr_t)image->bytes.data;

    if (image != NULL && range_within(offset, part.size, 0, image->bytes.size))
        input_release_pages(image, offset, part.size);
}

static void content_consumed(void *context, struct bytes piece)
{
    struct writer *writer = context;

    digest_stream_add(&writer->digest, piece);
    release(writer, piece);
}

/* Adds a section with contents, or the inverse script, whose kind is 0. */
static bool add_section(struct writer *writer, const struct section *section, const char *name)
{
    const struct transform *transform = writer->compact[section->kind].transform;
    struct buffer *encoded = &writer->compact[section->kind].encoded;
    struct elf_writer_section *to = elf_writer_add(&writer->elf, name, SHT_PROGBITS, writer->error);
    const struct sidecar_delta *delta = writer->source->delta;
    Elf64_Chdr header = {.ch_type = delta != NULL       ? SIDECAR_DELTA_TYPE
                                    : transform == NULL ? ELFCOMPRESS_ZSTD
                                                        : transform->id,
                         .ch_size = section->size,
                         .ch_addralign = section->alignment};

    if (to == NULL)
        return false;
    to->header.sh_addr = section->address;
    to->header.sh_flags = SHF_COMPRESSED;
    to->header.sh_addralign = elf_writer_form(&writer->elf).wide ? 8 : 4;
    elf_put(&to->stored, &elf_chdr, elf_writer_form(&writer->elf), &header);
    if (to->stored.failed)
        return out_of_memory(writer, sizeof(header));
    if (delta != NULL) {
        const struct buffer *stored = &delta->stored[section->kind];

        writer->digests[section->kind] = section->digest;
        return buffer_append(&to->stored, stored->data, stored->size) ||
               out_of_memory(writer, stored->size);
    }
    if (transform != NULL) {
        if (!buffer_append(&to->stored, encoded->data, encoded->size))
            return out_of_memory(writer, encoded->size);
        buffer_free(encoded);
        release(writer, section->content);
        return true;
    }
    digest_stream_start(&writer->digest);
    if (!codec_compress(section->content, &writer->codec, content_consumed, writer,
                        writer->elf.name, &to->stored, writer->error))
        return false;
    writer->digests[section->kind] = digest_stream_finish(&writer->digest);
    return true;
}

/* ---- the note ---- */

/* Mapping that was not to go is noted, too: without it, nobody would know that there is some. */
static bool is_noted(const struct writer *writer, const struct section *kept)
{
    bool is_mapping = kept->kind == SECTION_COVMAP || kept->kind == SECTION_COVFUN;

    return !section_goes(kept) && (kept->reason[0] != '\0' || (is_mapping && kept->size != 0 &&
                                                               find(writer, kept->kind) == NULL));
}

/* Appends the note to that with the UUID; in place of the seal there are zeros. */
static bool add_note(struct writer *writer)
{
    const struct sidecar_source *source = writer->source;
    struct sidecar told = {.name = writer->elf.name,
                           .image_name = source->image_name,
                           .facts = source->facts,
                           .section_count = source->section_count,
                           .inverse.digest = writer->digests[0]};
    bool big = source->facts.elf_data == ELFDATA2MSB, done;
    uint8_t version[sizeof(uint32_t)];
    struct buffer note = {0}, *to = &writer->notes->stored;

    if (source->delta != NULL)
        told.base = source->delta->base;
    for (size_t i = 0; i < source->section_count; i++) {
        told.sections[i] = source->sections[i];
        told.sections[i].digest = writer->digests[source->sections[i].kind];
    }
    for (size_t i = 0; i < source->kept_count; i++) {
        if (is_noted(writer, &source->kept[i]))
            told.kept[told.kept_count++] = source->kept[i];
    }
    store_u32(version, SIDECAR_FORMAT_VERSION, big);
    buffer_append(&note, version, sizeof(version));
    buffer_append_zeros(&note, DIGEST_SIZE);
    done = sidecar_code_note(&told, &(struct coder){.to = &note}, writer->error);
    if (note.failed)
        to->failed = true;
    elf_note_append(to, big, SIDECAR_NOTE_OWNER, SIDECAR_NOTE_TYPE, buffer_view(&note));
    writer->seal = to->size - align_up(note.size, ELF_NOTE_ALIGNMENT) + sizeof(version);
    buffer_free(&note);
    return done && (!to->failed || out_of_memory(writer, to->size));
}

/* ---- the file ---- */

static bool append_part(void *context, struct bytes part, struct error *error)
{
    struct writer *writer = context;

    (void)error;
    return buffer_append(&writer->file, part.data, (size_t)part.size) ||
           out_of_memory(writer, writer->file.size + part.size);
}

/* Puts the file together and writes the seal into its note, in place of zeros. */
static bool make_file(struct writer *writer)
{
    const struct elf_writer_sink sink = {append_part, NULL, writer};
    struct elf_reader reader;
    struct digest seal;

    if (!elf_writer_walk(&writer->elf, &sink, writer->error))
        return false;
    if (!elf_reader_open(&reader, buffer_view(&writer->file)) ||
        !sidecar_make_seal(&reader, writer->notes->header.sh_offset + writer->seal, &seal))
        return error_set(writer->error,
                         "%s: what was removed does not fit a sidecar; remove less with --sections",
                         writer->elf.name);
    memcpy(writer->file.data + writer->notes->header.sh_offset + writer->seal, seal.bytes,
           DIGEST_SIZE);
    return true;
}

/* Writes everything once the compact forms are made. */
static bool write_file(struct writer *writer, struct output *output)
{
    const struct sidecar_source *source = writer->source;
    struct section inverse = {
        .size = source->inverse.size, .content = source->inverse, .alignment = 1};
    const struct sidecar_delta *delta = source->delta;
    uint64_t content = 0, sizes = source->inverse.size, threads;

    for (size_t i = 0; i < source->section_count; i++) {
        content += source->sections[i].content.size;
        sizes |= source->sections[i].alignment | source->sections[i].size;
    }
    if (delta != NULL) {
        inverse.size = delta->inverse_size;
        inverse.digest = delta->inverse_digest;
    }
    threads = content / CONTENT_PER_THREAD + 1;
    writer->codec.level = writer->options->level;
    writer->codec.threads =
        writer->options->threads < threads ? writer->options->threads : (unsigned)threads;
    if (!elf_writer_start(&writer->elf, &source->facts.uuid, writer->error))
        return false;
    writer->notes = &writer->elf.sections[1];
    for (size_t i = 0; i < source->section_count; i++) {
        const struct section *section = &source->sections[i];

        if (section_is_stored(section) &&
            !add_section(writer, section, section_kind_name(section->kind)))
            return false;
    }
    /* The note is written when all digests are known. */
    if (!add_section(writer, &inverse, SIDECAR_INVERSE_SECTION) ||
        !elf_writer_add_names(&writer->elf, writer->error) || !add_note(writer))
        return false;
    if (!elf_writer_lay_out(&writer->elf) ||
        (!elf_writer_form(&writer->elf).wide && sizes > UINT32_MAX))
        return error_set(writer->error,
                         "%s: what was removed does not fit the 32-bit sidecar of a 32-bit image; "
                         "remove less with --sections",
                         writer->elf.name);
    return make_file(writer) && output_write(output, buffer_view(&writer->file), writer->error);
}

/* Checks requirements on the source whose violation would result in an unreadable sidecar. */
static bool is_sound(const struct sidecar_source *source)
{
    unsigned seen = 0;

    if (source->section_count > SECTION_KIND_MAX || source->kept_count > SECTION_KIND_MAX ||
        source->facts.uuid.size == 0 || source->facts.uuid.size > UUID_SIZE_MAX)
        return false;
    for (size_t i = 0; i < source->section_count; i++) {
        const struct section *section = &source->sections[i];

        if (section_kind_name(section->kind) == NULL || (seen & SECTION_BIT(section->kind)) != 0 ||
            (section->alignment != 0 && !is_power_of_two(section->alignment)) ||
            (source->delta == NULL &&
             section->content.size != (section_is_stored(section) ? section->size : 0)))
            return false;
        seen |= SECTION_BIT(section->kind);
    }
    return true;
}

bool sidecar_write(const struct sidecar_source *source, const struct sidecar_write_options *options,
                   struct output *output, struct error *error)
{
    const struct sidecar_facts *facts = &source->facts;
    struct writer writer = {
        .source = source,
        .options = options,
        .elf = {.name = output->path,
                .elf_class = facts->elf_class,
                .elf_data = facts->elf_data,
                .elf_type = facts->elf_type,
                .machine = facts->machine},
        .error = error,
    };
    bool done;

    if (!is_sound(source))
        return error_set(error,
                         "%s: the image's sections do not fit a sidecar (one occurs twice, or has "
                         "an invalid alignment); leave some out with --sections",
                         output->path);
    done = (options->portable || source->delta != NULL || encode_sections(&writer)) &&
           write_file(&writer, output);
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&writer.compact[kind].encoded);
    buffer_free(&writer.file);
    elf_writer_free(&writer.elf);
    return done;
}

/* ---- repacking ---- */

/* Reads what was written, which must be what the sidecar holds. */
static bool check_output(const struct sidecar *sidecar, struct output *output, unsigned threads,
                         const struct proved_sections *proved, struct error *error)
{
    struct input input = {.fd = -1};
    struct sidecar *written = NULL;
    bool done = false;

    if (output_map(output, &input, error))
        written = sidecar_open(input.bytes, output->path, error);
    if (written != NULL) {
        sidecar_limit_memory(written, UINT64_MAX); /* what is in it has been in memory */
        sidecar_help_restore(written, threads, proved);
        done = sidecar_holds_same(sidecar, written)
                   ? sidecar_verify(written, error)
                   : error_set(error, "%s: does not come out as it was; it stays as it is",
                               sidecar->name);
    }
    sidecar_close(written);
    input_close(&input);
    return done;
}

/* A sidecar has all that a split gives to sidecar_write, so writing that again gives the bytes of
 * the split. The image is not needed for the proof: if the facts and all contents are the same,
 * joining gives what it gave before. */
bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error)
{
    struct section sections[SECTION_KIND_MAX];
    struct buffer contents[SECTION_KIND_MAX] = {{0}}, inverse = {0};
    struct sidecar_source source = {
        .facts = sidecar->facts,
        .image_name = sidecar->image_name,
        .sections = sections,
        .section_count = sidecar->section_count,
        .kept = sidecar->kept,
        .kept_count = sidecar->kept_count,
    };
    struct sidecar_write_options proving = *options;
    struct proved_sections proved = {0};
    bool done = true;

    for (size_t i = 0; done && i < sidecar->section_count; i++) {
        sections[i] = sidecar->sections[i];
        if (section_is_stored(&sections[i]))
            done = sidecar_read_section(sidecar, &sidecar->sections[i], &contents[i], error);
        sections[i].content = buffer_view(&contents[i]);
    }
    done = done && sidecar_read_section(sidecar, &sidecar->inverse, &inverse, error);
    source.inverse = buffer_view(&inverse);
    proving.proved = &proved;
    done = done && sidecar_write(&source, &proving, output, error) &&
           check_output(sidecar, output, options->threads, &proved, error);
    for (size_t i = 0; i < sidecar->section_count; i++)
        buffer_free(&contents[i]);
    buffer_free(&inverse);
    return done;
}
