/*
 * Writing a sidecar: see sidecar.h for what is in it.
 *
 * Every content is compressed first, into memory, because the notes at the front of the file and
 * the section headers at its end need the sizes and digests. Then the file is a list of sections
 * laid out one behind the other, which is walked twice: once for the seal, once to write. libelf
 * encodes each structure for the file's class and byte order.
 */
#include <stdlib.h>
#include <string.h>

#include "common/codec.h"
#include "common/sidecar_compact.h"
#include "common/sidecar_file.h"

/* Each further thread needs memory for its own tables, so it must have enough to do: with this much
 * for each, a split stays within twice the size of what it removes. */
#define CONTENT_PER_THREAD ((uint64_t)48 << 20)

/* The null section, two of notes, one of each kind, the inverse script, the section names. */
#define SECTION_MAX (1 + 2 + SECTION_KIND_MAX + 2)

/* A section of the file to be: its header in the wide form, and its bytes in the file. */
struct part {
    Elf64_Shdr header;
    struct buffer stored;
};

struct writer {
    const struct sidecar_source *source;
    struct codec_options codec;
    const char *name;
    bool wide;              /* ELFCLASS64 */
    unsigned data_encoding; /* ELFDATA2LSB or ELFDATA2MSB */
    struct sidecar_notes notes;
    struct sidecar_compact compact;
    struct part parts[SECTION_MAX];
    size_t part_count;
    struct buffer names;
    uint64_t section_headers_offset;
    struct digest_stream *digest;
    struct error *error;
};

static bool out_of_memory(struct writer *writer, uint64_t size)
{
    return error_out_of_memory(writer->error, writer->name, size);
}

/* ---- structures in the form of the file ---- */

static bool encode(const struct writer *writer, Elf_Type type, const void *structure, size_t size,
                   struct buffer *encoded)
{
    Elf_Data from = {.d_buf = (void *)(uintptr_t)structure,
                     .d_type = type,
                     .d_version = EV_CURRENT,
                     .d_size = size};
    Elf_Data to = {.d_version = EV_CURRENT, .d_size = size};

    if (!buffer_reserve(encoded, size))
        return false;
    to.d_buf = encoded->data + encoded->size;
    if ((writer->wide ? elf64_xlatetof(&to, &from, writer->data_encoding)
                      : elf32_xlatetof(&to, &from, writer->data_encoding)) == NULL)
        return false;
    encoded->size += size;
    return true;
}

/* ELF header and program header: what is in front of the segment. */
static size_t file_header_size(const struct writer *writer)
{
    return writer->wide ? sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr)
                        : sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr);
}

static bool encode_elf_header(const struct writer *writer, struct buffer *encoded)
{
    const struct sidecar_facts *facts = &writer->source->facts;
    Elf64_Ehdr wide = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, facts->elf_class,
                                   facts->elf_data, EV_CURRENT},
                       .e_type = facts->elf_type,
                       .e_machine = facts->machine,
                       .e_version = EV_CURRENT,
                       .e_phoff = sizeof(wide),
                       .e_shoff = writer->section_headers_offset,
                       .e_ehsize = sizeof(wide),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = (Elf64_Half)writer->part_count,
                       .e_shstrndx = (Elf64_Half)(writer->part_count - 1)};
    Elf32_Ehdr narrow = {.e_type = wide.e_type,
                         .e_machine = wide.e_machine,
                         .e_version = EV_CURRENT,
                         .e_phoff = sizeof(narrow),
                         .e_shoff = (Elf32_Off)wide.e_shoff,
                         .e_ehsize = sizeof(narrow),
                         .e_phentsize = sizeof(Elf32_Phdr),
                         .e_phnum = 1,
                         .e_shentsize = sizeof(Elf32_Shdr),
                         .e_shnum = wide.e_shnum,
                         .e_shstrndx = wide.e_shstrndx};

    memcpy(narrow.e_ident, wide.e_ident, EI_NIDENT);
    return writer->wide ? encode(writer, ELF_T_EHDR, &wide, sizeof(wide), encoded)
                        : encode(writer, ELF_T_EHDR, &narrow, sizeof(narrow), encoded);
}

/* The one segment is the build ID's note, for tools that look it up there. It is a copy of the
 * section's, right behind the headers: llvm-objcopy --compress-sections='*=none', which must be
 * able to undo the compression, refuses files that have a section within a segment. */
static bool encode_segment(const struct writer *writer, struct buffer *encoded)
{
    const struct buffer *note = &writer->parts[1].stored;
    Elf64_Phdr wide = {.p_type = PT_NOTE,
                       .p_flags = PF_R,
                       .p_offset = file_header_size(writer),
                       .p_filesz = note->size,
                       .p_memsz = note->size,
                       .p_align = SIDECAR_NOTE_ALIGNMENT};
    Elf32_Phdr narrow = {.p_type = PT_NOTE,
                         .p_flags = PF_R,
                         .p_offset = (Elf32_Off)wide.p_offset,
                         .p_filesz = (Elf32_Word)note->size,
                         .p_memsz = (Elf32_Word)note->size,
                         .p_align = SIDECAR_NOTE_ALIGNMENT};

    return (writer->wide ? encode(writer, ELF_T_PHDR, &wide, sizeof(wide), encoded)
                         : encode(writer, ELF_T_PHDR, &narrow, sizeof(narrow), encoded)) &&
           buffer_append(encoded, note->data, note->size);
}

static bool encode_section_header(const struct writer *writer, const Elf64_Shdr *wide,
                                  struct buffer *encoded)
{
    Elf32_Shdr narrow = {.sh_name = wide->sh_name,
                         .sh_type = wide->sh_type,
                         .sh_flags = (Elf32_Word)wide->sh_flags,
                         .sh_addr = (Elf32_Addr)wide->sh_addr,
                         .sh_offset = (Elf32_Off)wide->sh_offset,
                         .sh_size = (Elf32_Word)wide->sh_size,
                         .sh_addralign = (Elf32_Word)wide->sh_addralign};

    return writer->wide ? encode(writer, ELF_T_SHDR, wide, sizeof(*wide), encoded)
                        : encode(writer, ELF_T_SHDR, &narrow, sizeof(narrow), encoded);
}

static size_t compression_header_size(const struct writer *writer)
{
    return writer->wide ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr);
}

static bool encode_compression_header(const struct writer *writer, uint32_t type, uint64_t size,
                                      uint64_t alignment, struct buffer *encoded)
{
    Elf64_Chdr wide = {.ch_type = type, .ch_size = size, .ch_addralign = alignment};
    Elf32_Chdr narrow = {
        .ch_type = type, .ch_size = (Elf32_Word)size, .ch_addralign = (Elf32_Word)alignment};

    return writer->wide ? encode(writer, ELF_T_CHDR, &wide, sizeof(wide), encoded)
                        : encode(writer, ELF_T_CHDR, &narrow, sizeof(narrow), encoded);
}

/* ---- the sections ---- */

/* Starts a section with this name; NULL where there is no memory. */
static struct part *add_part(struct writer *writer, const char *name, Elf64_Word type)
{
    struct part *part = &writer->parts[writer->part_count];

    part->header =
        (Elf64_Shdr){.sh_name = (Elf64_Word)writer->names.size, .sh_type = type, .sh_addralign = 1};
    if (!buffer_append(&writer->names, name, strlen(name) + 1)) {
        out_of_memory(writer, writer->names.size);
        return NULL;
    }
    writer->part_count++;
    return part;
}

struct progress {
    struct writer *writer;
    uint64_t image_offset; /* of what is consumed next */
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

/* Compresses a content into a part, and finds out its digest on the way. */
static bool compress_content(struct writer *writer, struct part *part, struct bytes content,
                             uint64_t alignment, struct progress *progress,
                             struct sidecar_note_content *note)
{
    part->header.sh_flags = SHF_COMPRESSED;
    part->header.sh_addralign = writer->wide ? 8 : 4;
    if (!encode_compression_header(writer, ELFCOMPRESS_ZSTD, content.size, alignment,
                                   &part->stored))
        return out_of_memory(writer, sizeof(Elf64_Chdr));
    writer->digest = digest_stream_new();
    if (writer->digest == NULL)
        return out_of_memory(writer, content.size);
    if (!codec_compress(content, &writer->codec, content_consumed, progress, writer->name,
                        &part->stored, writer->error))
        return false;
    note->present = true;
    note->size = content.size;
    note->digest = digest_stream_finish(writer->digest);
    digest_stream_free(writer->digest);
    writer->digest = NULL;
    return true;
}

/* Puts the packed form of a section into a part. */
static bool add_packed(struct writer *writer, struct part *part,
                       const struct sidecar_section_source *section,
                       struct sidecar_note_content *note)
{
    struct buffer *packed = &writer->compact.sections[section->kind].packed;
    uint32_t type = writer->compact.sections[section->kind].transform->type;

    part->header.sh_flags = SHF_COMPRESSED;
    part->header.sh_addralign = writer->wide ? 8 : 4;
    if (!encode_compression_header(writer, type, section->size, section->alignment,
                                   &part->stored) ||
        !buffer_append(&part->stored, packed->data, packed->size))
        return out_of_memory(writer, packed->size);
    buffer_free(packed);
    *note = (struct sidecar_note_content){
        .present = true, .size = section->size, .digest = digest_of(section->content)};
    writer->notes.format_version = SIDECAR_FORMAT_VERSION_COMPACT;
    if (writer->source->image != NULL)
        input_release_pages(writer->source->image, section->image_offset, section->size);
    return true;
}

static bool add_section(struct writer *writer, const struct sidecar_section_source *section)
{
    bool stays = (SECTION_BIT(section->kind) & SECTION_REMOVABLE) == 0;
    struct progress progress = {writer, section->image_offset, writer->source->image != NULL};
    struct part *part =
        add_part(writer, section_kind_name(section->kind), stays ? SHT_NOBITS : SHT_PROGBITS);

    if (part == NULL)
        return false;
    part->header.sh_addr = section->address;
    if (!stays && writer->compact.sections[section->kind].transform != NULL)
        return add_packed(writer, part, section, &writer->notes.removed[section->kind]);
    if (!stays)
        return compress_content(writer, part, section->content, section->alignment, &progress,
                                &writer->notes.removed[section->kind]);
    part->header.sh_flags = SHF_ALLOC | SHF_WRITE;
    part->header.sh_size = section->size;
    part->header.sh_addralign = section->alignment;
    return true;
}

static bool add_inverse(struct writer *writer)
{
    struct progress progress = {writer, 0, false};
    struct part *part = add_part(writer, SIDECAR_INVERSE_SECTION, SHT_PROGBITS);

    return part != NULL && compress_content(writer, part, writer->source->inverse, 1, &progress,
                                            &writer->notes.inverse);
}

static bool add_build_id(struct writer *writer)
{
    const struct uuid *uuid = &writer->source->facts.uuid;
    struct part *part = add_part(writer, SIDECAR_BUILD_ID_SECTION, SHT_NOTE);

    if (part == NULL)
        return false;
    part->header.sh_addralign = SIDECAR_NOTE_ALIGNMENT;
    return sidecar_note_append(&part->stored, writer->data_encoding == ELFDATA2MSB, ELF_NOTE_GNU,
                               NT_GNU_BUILD_ID, (struct bytes){uuid->bytes, uuid->size}) ||
           out_of_memory(writer, uuid->size);
}

static bool add_all(struct writer *writer)
{
    struct part *notes;

    writer->part_count = 1; /* the null section */
    if (!buffer_append_zeros(&writer->names, 1))
        return out_of_memory(writer, 1);
    if (!add_build_id(writer))
        return false;
    notes = add_part(writer, SIDECAR_NOTE_SECTION, SHT_NOTE);
    if (notes == NULL)
        return false;
    for (size_t i = 0; i < writer->source->section_count; i++) {
        if (!add_section(writer, &writer->source->sections[i]))
            return false;
    }
    if (!add_inverse(writer) || add_part(writer, ".shstrtab", SHT_STRTAB) == NULL)
        return false;
    writer->parts[writer->part_count - 1].stored = writer->names;
    writer->names = (struct buffer){0};
    /* Only now are all digests known. */
    notes->header.sh_addralign = SIDECAR_NOTE_ALIGNMENT;
    return sidecar_notes_encode(&writer->notes, writer->name, &notes->stored, writer->error);
}

/* ---- the file ---- */

/* True where some number of the file needs more than 32 bits. */
static bool needs_wide(const struct writer *writer)
{
    const struct sidecar_source *source = writer->source;
    uint64_t all = writer->section_headers_offset | source->inverse.size;

    for (size_t i = 0; i < source->section_count; i++)
        all |=
            source->sections[i].address | source->sections[i].alignment | source->sections[i].size;
    return all > UINT32_MAX;
}

/* Where everything goes. False where that is more than 32 bits can say and the file has no more. */
static bool lay_out(struct writer *writer)
{
    uint64_t offset = file_header_size(writer) + writer->parts[1].stored.size;

    for (size_t i = 1; i < writer->part_count; i++) {
        struct part *part = &writer->parts[i];

        if (part->header.sh_type == SHT_NOBITS) {
            part->header.sh_offset = offset;
        } else {
            part->header.sh_size = part->stored.size;
            part->header.sh_offset = align_up(offset, part->header.sh_addralign);
            offset = part->header.sh_offset + part->header.sh_size;
        }
    }
    writer->section_headers_offset = align_up(offset, 8);
    return writer->wide || !needs_wide(writer) ||
           error_set(writer->error,
                     "%s: what was removed does not fit the 32-bit sidecar of a 32-bit image; "
                     "remove less with --sections",
                     writer->name);
}

typedef bool (*file_sink)(struct writer *writer, struct bytes part, bool compressed, void *context);

static bool add_to_seal(struct writer *writer, struct bytes part, bool compressed, void *context)
{
    (void)context;
    if (!compressed)
        digest_stream_add(writer->digest, part);
    return true;
}

static bool add_to_output(struct writer *writer, struct bytes part, bool compressed, void *context)
{
    (void)compressed;
    return output_write(context, part, writer->error);
}

static bool walk_padding(struct writer *writer, uint64_t from, uint64_t to, file_sink sink,
                         void *context)
{
    static const uint8_t zeros[8];

    return sink(writer, (struct bytes){zeros, to - from}, false, context);
}

/* The bytes of a section: of a compressed one, the header is not compressed itself. */
static bool walk_part(struct writer *writer, const struct part *part, file_sink sink, void *context)
{
    struct bytes stored = buffer_view(&part->stored), header, frame;
    uint64_t header_size = compression_header_size(writer);

    if ((part->header.sh_flags & SHF_COMPRESSED) == 0)
        return sink(writer, stored, false, context);
    return bytes_slice(stored, 0, header_size, &header) &&
           bytes_slice(stored, header_size, stored.size - header_size, &frame) &&
           sink(writer, header, false, context) && sink(writer, frame, true, context);
}

/* Hands the bytes of the whole file to the sink, in order. `headers` is what is in front of the
 * first section, `section_headers` what is behind the last. */
static bool walk_file(struct writer *writer, struct bytes headers, struct bytes section_headers,
                      file_sink sink, void *context)
{
    uint64_t position = headers.size;

    if (!sink(writer, headers, false, context))
        return false;
    for (size_t i = 1; i < writer->part_count; i++) {
        const struct part *part = &writer->parts[i];

        if (part->header.sh_type == SHT_NOBITS)
            continue;
        if (!walk_padding(writer, position, part->header.sh_offset, sink, context) ||
            !walk_part(writer, part, sink, context))
            return false;
        position = part->header.sh_offset + part->header.sh_size;
    }
    return walk_padding(writer, position, writer->section_headers_offset, sink, context) &&
           sink(writer, section_headers, false, context);
}

/* Puts the seal at the end of the notes, where zeros have been up to now. */
static bool put_seal(struct writer *writer, struct bytes headers, struct bytes section_headers)
{
    struct buffer *notes = &writer->parts[2].stored;
    struct digest seal;

    writer->digest = digest_stream_new();
    if (writer->digest == NULL)
        return out_of_memory(writer, headers.size);
    walk_file(writer, headers, section_headers, add_to_seal, NULL);
    seal = digest_stream_finish(writer->digest);
    memcpy(notes->data + notes->size - DIGEST_SIZE, seal.bytes, DIGEST_SIZE);
    return true;
}

static bool write_file(struct writer *writer, struct output *output)
{
    struct buffer headers = {0}, section_headers = {0};
    bool done = encode_elf_header(writer, &headers) && encode_segment(writer, &headers);

    for (size_t i = 0; done && i < writer->part_count; i++)
        done = encode_section_header(writer, &writer->parts[i].header, &section_headers);
    if (!done)
        out_of_memory(writer, headers.size + section_headers.size);
    done = done && put_seal(writer, buffer_view(&headers), buffer_view(&section_headers)) &&
           walk_file(writer, buffer_view(&headers), buffer_view(&section_headers), add_to_output,
                     output);
    buffer_free(&headers);
    buffer_free(&section_headers);
    return done;
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
    writer->wide = source->facts.elf_class == ELFCLASS64;
    writer->data_encoding = source->facts.elf_data;
    writer->notes.format_version = SIDECAR_FORMAT_VERSION;
    writer->notes.facts = source->facts;
    writer->notes.image_name = (char *)(uintptr_t)source->image_name;
    for (size_t i = 0; i < source->kept_count; i++)
        writer->notes.kept[i] = source->kept[i];
    writer->notes.kept_count = source->kept_count;
}

/* What the caller has promised, as far as breaking it would write a sidecar that no one can read or
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
        removed = (SECTION_BIT(section->kind) & SECTION_REMOVABLE) != 0;
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

    elf_version(EV_CURRENT);
    if (!source_is_sound(source))
        return error_set(error,
                         "%s: the image's sections make no sidecar (one comes twice, or has no "
                         "proper alignment); leave some out with --sections",
                         output->path);
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return error_out_of_memory(error, output->path, sizeof(*writer));
    writer->source = source;
    writer->name = output->path;
    writer->error = error;
    set_up(writer, options);
    done = (options->portable ||
            sidecar_compact_encode(&writer->compact, source, options, writer->name, error)) &&
           add_all(writer) && lay_out(writer) && write_file(writer, output);
    for (size_t i = 0; i < writer->part_count; i++)
        buffer_free(&writer->parts[i].stored);
    buffer_free(&writer->names);
    sidecar_compact_free(&writer->compact);
    digest_stream_free(writer->digest);
    free(writer);
    return done;
}
