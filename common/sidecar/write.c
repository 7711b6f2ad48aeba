/*
 * Writing a sidecar: see write.h.
 *
 * All contents are compressed into memory first, because the notes at the start of the file and the
 * section headers at its end need the sizes and digests. Then the file (elf_file.h) is
 * walked twice: once to compute the seal, once to write.
 */
#include <stdlib.h>
#include <string.h>

#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"
#include "common/sidecar/file.h"
#include "common/sidecar/pack.h"
#include "common/sidecar/write.h"

/* Each thread needs memory for its own tables, so there is at most one for this many bytes. That
 * keeps the memory use of a split within twice the size of what it removes. */
#define CONTENT_PER_THREAD ((uint64_t)48 << 20)

/* The null section, two with notes, one of each kind, the inverse script, the section names. */
_Static_assert(1 + 2 + SECTION_KIND_MAX + 2 <= ELF_WRITER_SECTION_MAX, "room for all sections");

struct writer {
    const struct sidecar_source *source;
    struct codec_options codec;
    struct elf_writer elf;
    struct sidecar_notes notes;
    struct sidecar_packed packed;
    struct elf_writer_section *notes_section;
    struct digest_stream *digest;
    struct error *error;
};

static bool out_of_memory(struct writer *writer, uint64_t size)
{
    return error_out_of_memory(writer->error, writer->elf.name, size);
}

/* ---- the sections ---- */

static size_t compression_header_size(const struct writer *writer)
{
    return ELF_SIZE(elf_writer_form(&writer->elf).wide, Chdr);
}

static bool encode_compression_header(const struct writer *writer, uint32_t type, uint64_t size,
                                      uint64_t alignment, struct buffer *encoded)
{
    Elf64_Chdr chdr = {.ch_type = type, .ch_size = size, .ch_addralign = alignment};

    elf_put_chdr(encoded, elf_writer_form(&writer->elf), &chdr);
    return !encoded->failed;
}

struct progress {
    struct writer *writer;
    uint64_t image_offset; /* of the next bytes to be consumed */
    bool in_image;
};

static void content_consumed(void *context, struct bytes piece)
{
    struct progress *progress = context;

    digest_stream_add(progress->writer->digest, piece);
    if (progress->in_image)
        input_release_pages(progress->writer->source->image, progress->image_offset, piece.size);
    progress->image_offset += piece.size;
}

/* Compresses a content into a section, and computes its digest at the same time. */
static bool compress_content(struct writer *writer, struct elf_writer_section *section,
                             struct bytes content, uint64_t alignment, struct progress *progress,
                             struct sidecar_note_content *note)
{
    section->header.sh_flags = SHF_COMPRESSED;
    section->header.sh_addralign = elf_writer_form(&writer->elf).wide ? 8 : 4;
    if (!encode_compression_header(writer, ELFCOMPRESS_ZSTD, content.size, alignment,
                                   &section->stored))
        return out_of_memory(writer, sizeof(Elf64_Chdr));
    writer->digest = digest_stream_new();
    if (writer->digest == NULL)
        return out_of_memory(writer, content.size);
    if (!codec_compress(content, &writer->codec, content_consumed, progress, writer->elf.name,
                        &section->stored, writer->error))
        return false;
    note->present = true;
    note->size = content.size;
    note->digest = digest_stream_finish(writer->digest);
    digest_stream_free(writer->digest);
    writer->digest = NULL;
    return true;
}

/* Has readers of earlier versions refuse the sidecar. */
static void require_version(struct writer *writer, uint32_t version)
{
    if (writer->notes.format_version < version)
        writer->notes.format_version = version;
}

/* Adds a section in its packed form. */
static bool add_compact(struct writer *writer, struct elf_writer_section *section,
                        const struct sidecar_section_source *source,
                        struct sidecar_note_content *note)
{
    struct buffer *packed = &writer->packed.sections[source->kind].packed;
    uint32_t type = writer->packed.sections[source->kind].transform->id;

    section->header.sh_flags = SHF_COMPRESSED;
    section->header.sh_addralign = elf_writer_form(&writer->elf).wide ? 8 : 4;
    if (!encode_compression_header(writer, type, source->size, source->alignment,
                                   &section->stored) ||
        !buffer_append(&section->stored, packed->data, packed->size))
        return out_of_memory(writer, packed->size);
    buffer_free(packed);
    note->present = true;
    note->size = source->size;
    note->digest = digest_of(source->content);
    require_version(writer, SIDECAR_FORMAT_VERSION_COMPACT);
    if (writer->source->image != NULL && !source->made)
        input_release_pages(writer->source->image, source->image_offset, source->size);
    return true;
}

static bool add_section(struct writer *writer, const struct sidecar_section_source *source)
{
    bool stays = (SECTION_BIT(source->kind) & SECTION_STORED) == 0;
    struct progress progress = {writer, source->image_offset,
                                writer->source->image != NULL && !source->made};
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, section_kind_name(source->kind),
                       stays ? SHT_NOBITS : SHT_PROGBITS, writer->error);

    if (section == NULL)
        return false;
    if ((SECTION_BIT(source->kind) & SECTION_LINKED) != 0)
        require_version(writer, SIDECAR_FORMAT_VERSION_LINKED);
    section->header.sh_addr = source->address;
    writer->notes.removed[source->kind].copied = source->copied;
    if (!stays && writer->packed.sections[source->kind].transform != NULL)
        return add_compact(writer, section, source, &writer->notes.removed[source->kind]);
    if (!stays)
        return compress_content(writer, section, source->content, source->alignment, &progress,
                                &writer->notes.removed[source->kind]);
    section->header.sh_flags = SHF_ALLOC | SHF_WRITE;
    section->header.sh_size = source->size;
    section->header.sh_addralign = source->alignment;
    return true;
}

static bool add_inverse(struct writer *writer)
{
    struct progress progress = {writer, 0, false};
    struct elf_writer_section *section =
        elf_writer_add(&writer->elf, SIDECAR_INVERSE_SECTION, SHT_PROGBITS, writer->error);

    return section != NULL && compress_content(writer, section, writer->source->inverse, 1,
                                               &progress, &writer->notes.inverse);
}

static bool add_all(struct writer *writer)
{
    struct elf_writer_section *notes;

    if (!elf_writer_start(&writer->elf, &writer->source->facts.uuid, writer->error))
        return false;
    notes = elf_writer_add(&writer->elf, SIDECAR_NOTE_SECTION, SHT_NOTE, writer->error);
    if (notes == NULL)
        return false;
    writer->notes_section = notes;
    for (size_t i = 0; i < writer->source->section_count; i++) {
        if (!add_section(writer, &writer->source->sections[i]))
            return false;
    }
    if (!add_inverse(writer) || !elf_writer_add_names(&writer->elf, writer->error))
        return false;
    /* Added last, when all digests are known. */
    notes->header.sh_addralign = ELF_NOTE_ALIGNMENT;
    return sidecar_notes_encode(&writer->notes, writer->elf.name, &notes->stored, writer->error);
}

/* ---- the file ---- */

/* True if a size in a compression header needs more than 32 bits. */
static bool needs_wide_sizes(const struct sidecar_source *source)
{
    uint64_t all = source->inverse.size;

    for (size_t i = 0; i < source->section_count; i++)
        all |= source->sections[i].alignment | source->sections[i].size;
    return all > UINT32_MAX;
}

static bool lay_out(struct writer *writer)
{
    return (elf_writer_lay_out(&writer->elf) &&
            (elf_writer_form(&writer->elf).wide || !needs_wide_sizes(writer->source))) ||
           error_set(writer->error,
                     "%s: what was removed does not fit the 32-bit sidecar of a 32-bit image; "
                     "remove less with --sections",
                     writer->elf.name);
}

static bool add_to_seal(void *context, struct bytes bytes, struct error *error)
{
    struct writer *writer = context;

    (void)error;
    digest_stream_add(writer->digest, bytes);
    return true;
}

/* Of a compressed section, the seal only covers the compression header. */
static bool add_section_to_seal(void *context, const struct elf_writer_section *section,
                                struct error *error)
{
    struct bytes covered = buffer_view(&section->stored);

    if ((section->header.sh_flags & SHF_COMPRESSED) != 0)
        covered.size = compression_header_size(context);
    return add_to_seal(context, covered, error);
}

/* Writes the seal at the end of the notes, in place of zeros. */
static bool put_seal(struct writer *writer)
{
    const struct elf_writer_sink sink = {add_to_seal, add_section_to_seal, writer};
    struct buffer *notes = &writer->notes_section->stored;
    struct digest seal;

    writer->digest = digest_stream_new();
    if (writer->digest == NULL)
        return out_of_memory(writer, notes->size);
    if (!elf_writer_walk(&writer->elf, &sink, writer->error))
        return false;
    seal = digest_stream_finish(writer->digest);
    memcpy(notes->data + notes->size - DIGEST_SIZE, seal.bytes, DIGEST_SIZE);
    return true;
}

static bool write_file(struct writer *writer, struct output *output)
{
    const struct elf_writer_sink sink = {output_sink, NULL, output};

    return put_seal(writer) && elf_writer_walk(&writer->elf, &sink, writer->error);
}

/* ---- the whole ---- */

static void set_up(struct writer *writer, const struct sidecar_write_options *options)
{
    const struct sidecar_source *source = writer->source;
    uint64_t content = 0;
    uint64_t threads;

    for (size_t i = 0; i < source->section_count; i++)
        content += source->sections[i].content.size;
    threads = content / CONTENT_PER_THREAD + 1;
    writer->codec.level = options->level;
    writer->codec.threads = options->threads < threads ? options->threads : (unsigned)threads;
    writer->elf.elf_class = source->facts.elf_class;
    writer->elf.elf_data = source->facts.elf_data;
    writer->elf.elf_type = source->facts.elf_type;
    writer->elf.machine = source->facts.machine;
    writer->notes.format_version = SIDECAR_FORMAT_VERSION;
    writer->notes.facts = source->facts;
    writer->notes.image_name = (char *)(uintptr_t)source->image_name;
    for (size_t i = 0; i < source->kept_count; i++)
        writer->notes.kept[i] = source->kept[i];
    writer->notes.kept_count = source->kept_count;
}

/* Checks requirements on the source whose violation would result in an unreadable sidecar or
 * overrun an array here. */
static bool source_is_sound(const struct sidecar_source *source)
{
    unsigned seen = 0;

    if (source->section_count > SECTION_KIND_MAX || source->kept_count > SECTION_KIND_MAX ||
        source->facts.uuid.size == 0 || source->facts.uuid.size > UUID_SIZE_MAX)
        return false;
    for (size_t i = 0; i < source->section_count; i++) {
        const struct sidecar_section_source *section = &source->sections[i];
        bool removed;

        if (section_kind_name(section->kind) == NULL)
            return false;
        removed = (SECTION_BIT(section->kind) & SECTION_STORED) != 0;
        if ((seen & SECTION_BIT(section->kind)) != 0 ||
            (section->alignment != 0 && !is_power_of_two(section->alignment)) ||
            section->content.size != (removed ? section->size : 0))
            return false;
        seen |= SECTION_BIT(section->kind);
    }
    return true;
}

bool sidecar_write(const struct sidecar_source *source, const struct sidecar_write_options *options,
                   struct output *output, struct error *error)
{
    struct writer *writer;
    bool done;

    if (!source_is_sound(source))
        return error_set(error,
                         "%s: the image's sections do not fit a sidecar (one occurs twice, or has "
                         "an invalid alignment); leave some out with --sections",
                         output->path);
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return error_out_of_memory(error, output->path, sizeof(*writer));
    writer->source = source;
    writer->elf.name = output->path;
    writer->error = error;
    set_up(writer, options);
    done = (options->portable ||
            sidecar_pack(&writer->packed, source, options, output->path, error)) &&
           add_all(writer) && lay_out(writer) && write_file(writer, output);
    sidecar_packed_free(&writer->packed);
    elf_writer_free(&writer->elf);
    digest_stream_free(writer->digest);
    free(writer);
    return done;
}
