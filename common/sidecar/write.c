/*
 * Writing sidecars: see sidecar.h.
 *
 * All contents are compressed into memory first, because the note at the start of the file and the
 * section headers at its end need the sizes and digests.
 */
#include "common/sidecar/sidecar.h"

#include <string.h>

#include "common/base/array.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/zstd.h"
#include "common/edit/edit.h"
#include "common/elf_file/elf_file.h"

/* Each thread needs memory for its own tables, so there is at most one for this many bytes. That
 * keeps the memory use of a split within twice the size of what it removes. */
#define CONTENT_PER_THREAD ((uint64_t)48 << 20)

/* The null section, the notes, one of each kind, the inverse script, the section names. */
_Static_assert(1 + 1 + SECTION_KIND_MAX + 2 <= ELF_WRITER_SECTION_MAX, "room for all sections");

/* The making of what is stored. */
struct encoder {
    const struct sidecar_source *source;
    const struct sidecar_write_options *options;
    struct codec_options codec;
    const char *name;    /* of the output */
    struct sidecar told; /* gets the digests */
    struct sidecar_stored stored;
    struct digest_stream digest;
    struct error *error;
};

/* ---- compact forms ---- */

static void block_consumed(void *context, struct bytes block)
{
    const struct encoder *encoder = context;

    if (encoder->source->image != NULL)
        input_drop_pages(encoder->source->image, block);
}

/* Encodes a section, for which `names` have the names that were encoded before it, and has the
 * sections that are encoded after it use it. */
static bool encode_section(struct encoder *encoder, struct section *section,
                           struct transform_context *context, struct names *names)
{
    enum section_kind kind = section->kind;
    const struct transform *transform =
        transform_for(kind, section->content.size > context->block_size);
    struct buffer *encoded = &encoder->stored.bytes[kind];
    bool fits;

    section->digest = input_digest_of(encoder->source->image, section->content);
    if (kind == SECTION_DATA)
        context->data = section->content;
    else if (kind == SECTION_COVMAP)
        context->covmap = section->content;
    else if (kind == SECTION_COVFUN)
        context->covfun = section->content;
    if (encoder->options->proved != NULL)
        encoder->options->proved->kinds[kind] = (struct proved_section){.digest = section->digest};
    if (transform == NULL)
        return true;
    if (!codec_encode(transform, context, section->content, &encoder->codec, encoder->name, encoded,
                      &fits, encoder->error))
        return false;
    if (!fits)
        return true;
    encoder->stored.types[kind] = transform->id;
    if (encoder->options->proved != NULL)
        encoder->options->proved->kinds[kind] = (struct proved_section){
            digest_of(buffer_view(encoded)), section->content, section->digest};
    if ((kind != SECTION_NAMES && kind != SECTION_COVNAMES) || context->names != NULL)
        return true;
    /* They come from the encoded form, as a reader will have them; only the first section counts.
     */
    context->decoded = NULL;
    context->names = names;
    return names_index(names, context->threads) ||
           error_out_of_memory(encoder->error, encoder->name, names->text.size);
}

/* Encodes the sections for which a transform fits, after those that they depend on: names come
 * first, then data, which needs them, then the coverage mapping, which needs both, then the linked
 * one, which needs that. */
static bool encode_sections(struct encoder *encoder)
{
    static const enum section_kind order[] = {
        SECTION_NAMES,  SECTION_COVNAMES, SECTION_DATA,          SECTION_COVDATA,
        SECTION_COVMAP, SECTION_COVFUN,   SECTION_LINKED_COVMAP, SECTION_LINKED_COVFUN};
    const struct sidecar_write_options *options = encoder->options;
    struct transform_context context = {
        .big_endian = encoder->source->facts.elf_data == ELFDATA2MSB,
        .pointer_size = (unsigned)encoder->source->facts.pointer_size,
        .raw_version = encoder->source->facts.raw_version,
        .block_size = options->block_size != 0 ? options->block_size : TRANSFORM_BLOCK_SIZE,
        .threads = options->threads,
    };
    struct names names = {0};
    bool done = true;

    context.decoded = &names;
    encoder->codec = (struct codec_options){.level = options->level,
                                            .threads = options->threads,
                                            .consumed = block_consumed,
                                            .context = encoder};
    for (size_t i = 0; done && i < sizeof(order) / sizeof(order[0]); i++) {
        for (size_t k = 0; done && k < encoder->told.section_count; k++) {
            struct section *section = &encoder->told.sections[k];

            if (section->kind == order[i] && section->content.size != 0)
                done = encode_section(encoder, section, &context, &names);
        }
    }
    names_free(&names);
    memory_trim();
    return done;
}

/* ---- plain forms ---- */

/* Releases the pages of a part of the image, if it is one: the mapping of packed units is not. */
static void release_pages(const struct encoder *encoder, struct bytes part)
{
    const struct input *image = encoder->source->image;
    uint64_t offset = image == NULL ? 0 : (uintptr_t)part.data - (uintptr_t)image->bytes.data;

    if (image != NULL && range_within(offset, part.size, 0, image->bytes.size))
        input_release_pages(image, offset, part.size);
}

static void content_consumed(void *context, struct bytes piece)
{
    struct encoder *encoder = context;

    digest_stream_add(&encoder->digest, piece);
    release_pages(encoder, piece);
}

/* Compresses a section, or the inverse script, unless it has a compact form. */
static bool compress_section(struct encoder *encoder, struct section *section)
{
    if (encoder->stored.types[section->kind] != 0) {
        release_pages(encoder, section->content);
        return true;
    }
    encoder->stored.types[section->kind] = ELFCOMPRESS_ZSTD;
    digest_stream_start(&encoder->digest);
    if (!codec_compress(section->content, &encoder->codec, encoder->name,
                        &encoder->stored.bytes[section->kind], encoder->error))
        return false;
    section->digest = digest_stream_finish(&encoder->digest);
    return true;
}

static bool compress_sections(struct encoder *encoder)
{
    struct sidecar *told = &encoder->told;
    uint64_t content = 0, threads;
    bool done = true;

    for (size_t i = 0; i < told->section_count; i++)
        content += told->sections[i].content.size;
    threads = content / CONTENT_PER_THREAD + 1;
    encoder->codec = (struct codec_options){.level = encoder->options->level,
                                            .threads = encoder->options->threads < threads
                                                           ? encoder->options->threads
                                                           : (unsigned)threads,
                                            .consumed = content_consumed,
                                            .context = encoder};
    for (size_t i = 0; done && i < told->section_count; i++) {
        struct section *section = &told->sections[i];

        done = !section_is_stored(section) || compress_section(encoder, section);
    }
    return done;
}

/* Compresses the inverse script, which is made just for that, since it can be large. */
static bool compress_inverse(struct encoder *encoder)
{
    const struct sidecar_source *source = encoder->source;
    struct section *inverse = &encoder->told.inverse;
    struct buffer made = {0};
    bool done = source->script == NULL ||
                inverse_encode(source->script, source->image->bytes, source->sections,
                               source->section_count, source->image->path, &made, encoder->error);

    inverse->content = source->script == NULL ? source->inverse : buffer_view(&made);
    inverse->size = inverse->content.size;
    done = done && compress_section(encoder, inverse);
    buffer_free(&made);
    return done;
}

/* ---- the file ---- */

struct writer {
    const struct sidecar *told;
    struct elf_writer elf;
    struct elf_writer_section *notes;
    size_t seal; /* its offset in the notes */
    struct digest_stream digest;
    struct error *error;
};

static bool out_of_memory(const struct writer *writer, uint64_t size)
{
    return error_out_of_memory(writer->error, writer->elf.name, size);
}

/* Adds a section with contents, or the inverse script. */
static bool add_section(struct writer *writer, const struct section *section, const char *name,
                        uint32_t type, const struct buffer *stored)
{
    struct elf_writer_section *to = elf_writer_add(&writer->elf, name, SHT_PROGBITS, writer->error);
    const Elf64_Chdr header = {
        .ch_type = type, .ch_size = section->size, .ch_addralign = section->alignment};

    if (to == NULL)
        return false;
    to->header.sh_addr = section->address;
    to->header.sh_flags = SHF_COMPRESSED;
    to->header.sh_addralign = elf_writer_form(&writer->elf).wide ? 8 : 4;
    elf_put(&to->stored, &elf_chdr, elf_writer_form(&writer->elf), &header);
    to->body = buffer_view(stored);
    return !to->stored.failed || out_of_memory(writer, to->stored.size);
}

/* Mapping that was not to go is noted, too: without it, nobody would know that there is some. */
static bool is_noted(const struct sidecar *told, const struct section *kept)
{
    bool is_mapping = kept->kind == SECTION_COVMAP || kept->kind == SECTION_COVFUN;

    return !section_goes(kept) &&
           (kept->reason[0] != '\0' ||
            (is_mapping && kept->size != 0 && sidecar_find(told, kept->kind) == NULL));
}

/* Appends the note to that with the UUID; in place of the seal there are zeros. */
static bool add_note(struct writer *writer)
{
    bool big = writer->told->facts.elf_data == ELFDATA2MSB, done;
    struct sidecar noted = *writer->told;
    uint8_t version[sizeof(uint32_t)];
    struct buffer note = {0}, *to = &writer->notes->stored;

    noted.kept_count = 0;
    for (size_t i = 0; i < writer->told->kept_count; i++) {
        if (is_noted(&noted, &writer->told->kept[i]))
            noted.kept[noted.kept_count++] = writer->told->kept[i];
    }
    store_u32(version, SIDECAR_FORMAT_VERSION, big);
    buffer_append(&note, version, sizeof(version));
    buffer_append_zeros(&note, DIGEST_SIZE);
    done = sidecar_code_note(&noted, &(struct coder){.to = &note}, writer->error);
    if (note.failed)
        to->failed = true;
    elf_note_append(to, big, SIDECAR_NOTE_OWNER, SIDECAR_NOTE_TYPE, buffer_view(&note));
    writer->seal = to->size - align_up(note.size, ELF_NOTE_ALIGNMENT) + sizeof(version);
    buffer_free(&note);
    return done && (!to->failed || out_of_memory(writer, to->size));
}

static bool add_to_seal(void *context, struct bytes part, struct error *error)
{
    struct writer *writer = context;

    (void)error;
    digest_stream_add(&writer->digest, part);
    return true;
}

/* Bodies have digests of their own. */
static bool add_section_to_seal(void *context, const struct elf_writer_section *section,
                                struct error *error)
{
    return add_to_seal(context, buffer_view(&section->stored), error);
}

/* Writes the seal, as sidecar_open finds it, into the note, in place of zeros. */
static bool put_seal(struct writer *writer)
{
    const struct elf_writer_sink sink = {add_to_seal, add_section_to_seal, writer};
    struct digest seal;

    digest_stream_start(&writer->digest);
    if (!elf_writer_walk(&writer->elf, &sink, writer->error))
        return false;
    seal = digest_stream_finish(&writer->digest);
    memcpy(writer->notes->stored.data + writer->seal, seal.bytes, DIGEST_SIZE);
    return true;
}

static bool write_file(struct writer *writer, const struct sidecar_stored *stored,
                       struct output *output)
{
    const struct sidecar *told = writer->told;
    const struct elf_writer_sink sink = {output_sink, NULL, output};
    const struct section inverse = {.size = told->inverse.size, .alignment = 1};
    uint64_t sizes = inverse.size;

    if (!elf_writer_start(&writer->elf, &told->facts.uuid, writer->error))
        return false;
    writer->notes = &writer->elf.sections[1];
    for (size_t i = 0; i < told->section_count; i++) {
        const struct section *section = &told->sections[i];

        sizes |= section->alignment | section->size;
        if (section_is_stored(section) &&
            !add_section(writer, section, section_kind_name(section->kind),
                         stored->types[section->kind], &stored->bytes[section->kind]))
            return false;
    }
    if (!add_section(writer, &inverse, SIDECAR_INVERSE_SECTION, stored->types[0],
                     &stored->bytes[0]) ||
        !elf_writer_add_names(&writer->elf, writer->error) || !add_note(writer))
        return false;
    if (!elf_writer_lay_out(&writer->elf) ||
        (!elf_writer_form(&writer->elf).wide && sizes > UINT32_MAX))
        return error_set(writer->error,
                         "%s: what was removed does not fit the 32-bit sidecar of a 32-bit image; "
                         "remove less with --sections",
                         writer->elf.name);
    return put_seal(writer) && elf_writer_walk(&writer->elf, &sink, writer->error);
}

static bool sections_misfit(const struct output *output, struct error *error)
{
    return error_set(error,
                     "%s: the image's sections do not fit a sidecar (one occurs twice, or has an "
                     "invalid alignment); leave some out with --sections",
                     output->path);
}

/* Checks requirements whose violation would result in an unreadable sidecar. */
static bool is_sound(const struct sidecar *told)
{
    unsigned seen = 0;

    for (size_t i = 0; i < told->section_count; i++) {
        const struct section *section = &told->sections[i];

        if (section_kind_name(section->kind) == NULL || (seen & SECTION_BIT(section->kind)) != 0 ||
            (section->alignment != 0 && !is_power_of_two(section->alignment)))
            return false;
        seen |= SECTION_BIT(section->kind);
    }
    return told->facts.uuid.size != 0 && told->facts.uuid.size <= UUID_SIZE_MAX;
}

bool sidecar_write_stored(const struct sidecar *told, const struct sidecar_stored *stored,
                          struct output *output, struct error *error)
{
    const struct sidecar_facts *facts = &told->facts;
    struct writer writer = {
        .told = told,
        .elf = {.name = output->path,
                .elf_class = facts->elf_class,
                .elf_data = facts->elf_data,
                .elf_type = facts->elf_type,
                .machine = facts->machine},
        .error = error,
    };
    bool done =
        is_sound(told) ? write_file(&writer, stored, output) : sections_misfit(output, error);

    elf_writer_free(&writer.elf);
    return done;
}

bool sidecar_write(const struct sidecar_source *source, const struct sidecar_write_options *options,
                   struct output *output, struct error *error)
{
    struct encoder encoder = {
        .source = source,
        .options = options,
        .name = output->path,
        .told = {.name = output->path, .image_name = source->image_name, .facts = source->facts},
        .error = error};
    struct sidecar *told = &encoder.told;
    bool done = source->section_count <= SECTION_KIND_MAX && source->kept_count <= SECTION_KIND_MAX;

    for (size_t i = 0; done && i < source->section_count; i++) {
        const struct section *section = told->sections + told->section_count;

        told->sections[told->section_count++] = source->sections[i];
        done = section->content.size == (section_is_stored(section) ? section->size : 0);
    }
    for (size_t i = 0; done && i < source->kept_count; i++)
        told->kept[told->kept_count++] = source->kept[i];
    if (!done || !is_sound(told))
        return sections_misfit(output, error);
    done = (options->portable || encode_sections(&encoder)) && compress_sections(&encoder) &&
           compress_inverse(&encoder) && sidecar_write_stored(told, &encoder.stored, output, error);
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&encoder.stored.bytes[kind]);
    return done;
}

/* ---- repacking ---- */

struct sidecar *sidecar_open_again(const struct sidecar *sidecar, struct output *output,
                                   unsigned threads, const struct proved_sections *proved,
                                   struct error *error)
{
    struct sidecar *written = sidecar_read_back(output, error);

    if (written == NULL)
        return NULL;
    sidecar_help_restore(written, threads, proved);
    if (sidecar_holds_same(sidecar, written))
        return written;
    error_set(error, "%s: does not come out as it was; it stays as it is", sidecar->name);
    sidecar_close(written);
    return NULL;
}

/* A sidecar has all that a split gives to sidecar_write, so writing that again gives the bytes of
 * the split. The image is not needed for the proof: if the facts and all contents are the same,
 * joining gives what it gave before. */
bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error)
{
    struct section sections[SECTION_KIND_MAX];
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
    struct sidecar *written = NULL;
    bool done = true;

    for (size_t i = 0; done && i < sidecar->section_count; i++) {
        sections[i] = sidecar->sections[i];
        sections[i].content = (struct bytes){0};
        if (section_is_stored(&sections[i]))
            done =
                sidecar_hold_section(sidecar, &sidecar->sections[i], &sections[i].content, error);
    }
    done = done && sidecar_hold_section(sidecar, &sidecar->inverse, &source.inverse, error);
    proving.proved = &proved;
    if (done && sidecar_write(&source, &proving, output, error))
        written = sidecar_open_again(sidecar, output, options->threads, &proved, error);
    done = written != NULL && sidecar_verify(written, error);
    sidecar_close(written);
    sidecar_drop_cached(sidecar);
    return done;
}
