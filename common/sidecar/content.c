/*
 * Decompressing what a sidecar holds, and checking it against its digests: see content.h.
 *
 * A size in a sidecar is not trusted. Memory is allocated as decompressed bytes fill it; if the
 * bytes themselves are not needed, only a buffer of fixed size is used.
 *
 * Sections in compact forms depend on each other: data needs names, the coverage mapping needs
 * both, and the linked one needs the coverage mapping. When a section is read, only what it needs
 * is decoded with it. Of the names that is only their text, so no zlib stream is ever recreated for
 * another section.
 */
#include "common/sidecar/content.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory_limit.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/zstd.h"
#include "common/llvm/names.h"

/* How much of a zstd frame is decompressed at a time. */
#define STREAM_STEP ((size_t)256 << 10)

/* ---- checks ---- */

static bool check_digest(const struct sidecar_content *content, struct digest found,
                         struct error *error)
{
    return digest_equal(&found, &content->digest) ||
           packed_damaged(&content->packed, "its digest is not the one recorded", error);
}

/* ---- what compact forms need from other sections ---- */

/* NULL if the sidecar holds no contents of this kind. */
static const struct sidecar_content *content_of_kind(const struct sidecar *sidecar,
                                                     enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section == NULL || !section->has_content
               ? NULL
               : &sidecar->contents[section - sidecar->sections];
}

/* The section whose names the other sections need; NULL if there is none. */
static const struct sidecar_content *names_content(const struct sidecar *sidecar)
{
    const struct sidecar_content *content = content_of_kind(sidecar, SECTION_NAMES);

    if (content == NULL || content->transform == NULL)
        content = content_of_kind(sidecar, SECTION_COVNAMES);
    return content == NULL || content->transform == NULL ? NULL : content;
}

/* Keeps the NameRefs of the names for other sections; moves them out of `names`. */
static bool keep_references(const struct sidecar *sidecar, struct names *names, struct error *error)
{
    struct names *kept, *known = atomic_load(&sidecar->references->known);

    if (known != NULL)
        return true;
    kept = calloc(1, sizeof(*kept));
    if (kept == NULL || !names_hash(names, sidecar->threads)) {
        free(kept);
        return error_out_of_memory(error, sidecar->name, names->text.size);
    }
    kept->references = names->references;
    kept->count = names->count;
    names->references = NULL;
    /* Another thread may have stored them first. */
    if (!atomic_compare_exchange_strong(&sidecar->references->known, &known, kept)) {
        names_free(kept);
        free(kept);
    }
    return true;
}

/* Loads the names that the form needs, without their text. */
static bool load_names(const struct sidecar *sidecar, const struct transform *transform,
                       struct transform_context *context, struct error *error)
{
    const struct sidecar_content *content = names_content(sidecar);
    struct names names;
    bool done = true;

    if (content == NULL || !transform->needs_names)
        return true;
    if (atomic_load(&sidecar->references->known) == NULL) {
        done = names_decode(context, &content->packed, &names, NULL, error) &&
               keep_references(sidecar, &names, error);
        names_free(&names);
    }
    context->names = atomic_load(&sidecar->references->known);
    return done;
}

/* Other sections that a form needs. */
struct needed {
    struct buffer data, covmap, covfun;
};

static void free_needed(struct needed *needed)
{
    buffer_free(&needed->data);
    buffer_free(&needed->covmap);
    buffer_free(&needed->covfun);
}

/* Loads a section of this kind, if there is one, and sets *view to it. */
static bool load_kind(const struct sidecar *sidecar, enum section_kind kind, struct buffer *loaded,
                      struct bytes *view, struct error *error)
{
    const struct sidecar_content *content = content_of_kind(sidecar, kind);

    if (content == NULL)
        return true;
    if (!content_load(sidecar, content, loaded, error))
        return false;
    *view = buffer_view(loaded);
    return true;
}

/* Loads what the form needs, except for names. */
static bool load_sections(const struct sidecar *sidecar, const struct transform *transform,
                          struct transform_context *context, struct needed *needed,
                          struct error *error)
{
    return (!transform->needs_data ||
            load_kind(sidecar, SECTION_DATA, &needed->data, &context->data, error)) &&
           (!transform->needs_mapping ||
            (load_kind(sidecar, SECTION_COVMAP, &needed->covmap, &context->covmap, error) &&
             load_kind(sidecar, SECTION_COVFUN, &needed->covfun, &context->covfun, error)));
}

/* The context without the contents of other sections. */
static struct transform_context reader_context(const struct sidecar *sidecar)
{
    const struct sidecar_facts *facts = &sidecar->notes.facts;

    return (struct transform_context){.big_endian = facts->elf_data == ELFDATA2MSB,
                                      .pointer_size = (unsigned)facts->pointer_size,
                                      .raw_version = facts->raw_version,
                                      .threads = sidecar->threads,
                                      .memory_limit = sidecar->memory_limit};
}

/* True if the sidecar has just been made, and the content was shown to come back then. */
static bool is_proved(const struct sidecar *sidecar, const struct sidecar_content *content,
                      struct bytes *section)
{
    const struct proved_section *proved;
    struct digest digest;

    if (sidecar->proved == NULL || content->transform == NULL)
        return false;
    proved = &sidecar->proved->kinds[sidecar->sections[content - sidecar->contents].kind];
    digest = digest_of(content->packed.bytes);
    *section = proved->content;
    return proved->content.size == content->packed.size && digest_equal(&digest, &proved->packed);
}

/* ---- as a whole ---- */

static bool load_compact(const struct sidecar *sidecar, const struct sidecar_content *content,
                         struct buffer *loaded, struct error *error)
{
    const struct transform *transform = content->transform;
    struct transform_context context = reader_context(sidecar);
    struct needed needed = {0};
    struct bytes known;
    bool done;

    if (is_proved(sidecar, content, &known))
        return buffer_append(loaded, known.data, (size_t)known.size) ||
               error_out_of_memory(error, sidecar->name, known.size);
    done = load_sections(sidecar, transform, &context, &needed, error) &&
           load_names(sidecar, transform, &context, error) &&
           codec_decode(transform, &context, &content->packed, loaded, error);
    free_needed(&needed);
    return done;
}

bool content_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                  struct buffer *loaded, struct error *error)
{
    size_t start = loaded->size;
    bool done = memory_limit_allows(sidecar->memory_limit, content->packed.size, sidecar->name,
                                    content->packed.what, error);

    if (done)
        done = content->transform != NULL ? load_compact(sidecar, content, loaded, error)
                                          : codec_decompress(&content->packed, loaded, error);
    if (done) {
        struct bytes view = {loaded->data == NULL ? NULL : loaded->data + start,
                             loaded->size - start};

        done = check_digest(content, digest_of(view), error);
    }
    if (!done)
        loaded->size = start;
    return done;
}

/* ---- as streams ---- */

struct content_stream {
    const struct sidecar *sidecar;
    const struct sidecar_content *content;
    struct error *error;
    uint64_t left;
    struct bytes rest;         /* the part of `loaded` that has not been taken yet */
    struct buffer loaded;      /* the content, or a piece of it */
    struct codec_stream *zstd; /* NULL for a compact form */
    /* For a section in blocks: those from `next` on are not decoded yet. */
    struct blocks blocks;
    size_t next;
    struct needed needed; /* what the blocks need */
};

static bool open_blocks(struct content_stream *stream)
{
    const struct sidecar *sidecar = stream->sidecar;
    const struct sidecar_content *content = stream->content;
    struct transform_context context = reader_context(sidecar);

    return load_names(sidecar, content->transform, &context, stream->error) &&
           load_sections(sidecar, content->transform, &context, &stream->needed, stream->error) &&
           blocks_open(&stream->blocks, content->transform, &context, &content->packed,
                       stream->error);
}

static bool open_content(struct content_stream *stream)
{
    const struct sidecar_content *content = stream->content;

    if (is_proved(stream->sidecar, content, &stream->rest))
        return true;
    if (content->transform != NULL && content->transform->block != NULL)
        return open_blocks(stream);
    if (content->transform != NULL) {
        if (!content_load(stream->sidecar, content, &stream->loaded, stream->error))
            return false;
        stream->rest = buffer_view(&stream->loaded);
        return true;
    }
    if (!buffer_reserve(&stream->loaded, STREAM_STEP))
        return error_out_of_memory(stream->error, stream->sidecar->name, STREAM_STEP);
    stream->zstd = codec_stream_open(&content->packed, stream->error);
    return stream->zstd != NULL;
}

struct content_stream *content_stream_open(const struct sidecar *sidecar,
                                           const struct sidecar_content *content,
                                           struct error *error)
{
    struct content_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        error_out_of_memory(error, sidecar->name, sizeof(*stream));
        return NULL;
    }
    *stream = (struct content_stream){
        .sidecar = sidecar, .content = content, .error = error, .left = content->packed.size};
    if (!open_content(stream)) {
        content_stream_free(stream);
        return NULL;
    }
    return stream;
}

void content_stream_free(struct content_stream *stream)
{
    if (stream == NULL)
        return;
    codec_stream_free(stream->zstd);
    blocks_close(&stream->blocks);
    free_needed(&stream->needed);
    buffer_free(&stream->loaded);
    free(stream);
}

uint64_t content_stream_left(const struct content_stream *stream)
{
    return stream->left;
}

/* Decodes a piece of the frame, or as many blocks as there are threads. */
static bool decode_more(struct content_stream *stream)
{
    size_t count = stream->blocks.count - stream->next;
    size_t threads = stream->blocks.context.threads;

    if (stream->zstd != NULL) {
        stream->loaded.size = stream->left < STREAM_STEP ? (size_t)stream->left : STREAM_STEP;
        if (!codec_stream_read(stream->zstd, stream->loaded.data, stream->loaded.size,
                               stream->error))
            return false;
    } else {
        if (count > threads)
            count = threads == 0 ? 1 : threads;
        stream->loaded.size = 0;
        if (!blocks_decode(&stream->blocks, stream->next, count, &stream->loaded, stream->error))
            return false;
        stream->next += count;
    }
    stream->rest = buffer_view(&stream->loaded);
    return true;
}

static bool check_left(const struct content_stream *stream, uint64_t size)
{
    return size <= stream->left ||
           packed_damaged(&stream->content->packed, "it is shorter than what refers to it",
                          stream->error);
}

bool content_stream_take(struct content_stream *stream, uint64_t most, struct bytes *part)
{
    if (!check_left(stream, most) || (stream->rest.size == 0 && most != 0 && !decode_more(stream)))
        return false;
    *part = stream->rest;
    if (part->size > most)
        part->size = most;
    stream->left -= part->size;
    stream->rest.size -= part->size;
    if (part->size != 0)
        stream->rest.data += part->size;
    return true;
}

/* Skips whole blocks without decoding them. */
static uint64_t skip_blocks(struct content_stream *stream, uint64_t size)
{
    uint64_t skipped = 0;

    while (stream->rest.size == 0 && stream->next < stream->blocks.count &&
           stream->blocks.blocks[stream->next].size <= size - skipped)
        skipped += stream->blocks.blocks[stream->next++].size;
    stream->left -= skipped;
    return skipped;
}

bool content_stream_skip(struct content_stream *stream, uint64_t size)
{
    struct bytes part;

    if (!check_left(stream, size))
        return false;
    while ((size -= skip_blocks(stream, size)) != 0) {
        if (!content_stream_take(stream, size, &part))
            return false;
        size -= part.size;
    }
    return true;
}

static bool pass_stream(struct content_stream *stream, struct digest_stream *digest,
                        bytes_sink sink, void *context)
{
    struct bytes part;

    while (stream->left != 0) {
        if (!content_stream_take(stream, stream->left, &part))
            return false;
        digest_stream_add(digest, part);
        if (sink != NULL && !sink(context, part, stream->error))
            return false;
    }
    return (stream->zstd == NULL || codec_stream_finish(stream->zstd, stream->error)) &&
           check_digest(stream->content, digest_stream_finish(digest), stream->error);
}

bool content_pass(const struct sidecar *sidecar, const struct sidecar_content *content,
                  bytes_sink sink, void *context, struct error *error)
{
    struct content_stream *stream = content_stream_open(sidecar, content, error);
    struct digest_stream *digest = stream == NULL ? NULL : digest_stream_new();
    bool done = false;

    if (digest != NULL)
        done = pass_stream(stream, digest, sink, context);
    else if (stream != NULL)
        error_out_of_memory(error, sidecar->name, STREAM_STEP);
    digest_stream_free(digest);
    content_stream_free(stream);
    return done;
}

/* ---- sections ---- */

/* NULL if only address and size are recorded. */
static const struct sidecar_content *content_of(const struct sidecar *sidecar,
                                                const struct sidecar_section *section,
                                                struct error *error)
{
    if (section->has_content)
        return &sidecar->contents[section - sidecar->sections];
    error_set(error, "%s: only address and size of %s are recorded; read it from the image",
              sidecar->name, section->name);
    return NULL;
}

bool sidecar_read_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                          struct buffer *content, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);

    return stored != NULL && content_load(sidecar, stored, content, error);
}

bool sidecar_stream_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                            bytes_sink sink, void *context, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);

    return stored != NULL && content_pass(sidecar, stored, sink, context, error);
}

/* The digest of a zstd frame can only be checked at its end, so the whole frame is checked before
 * its first part is returned. The other forms are checked as they are decoded. */
static bool check_frame(const struct sidecar *sidecar, const struct sidecar_section *section,
                        const struct sidecar_content *stored, struct error *error)
{
    atomic_uint *checked = &sidecar->references->checked;

    if (stored->transform != NULL || (atomic_load(checked) & SECTION_BIT(section->kind)) != 0)
        return true;
    if (!content_pass(sidecar, stored, NULL, NULL, error))
        return false;
    atomic_fetch_or(checked, SECTION_BIT(section->kind));
    return true;
}

static bool append_part(struct content_stream *stream, size_t size, struct buffer *content)
{
    size_t end = content->size + size;

    while (content->size < end) {
        struct bytes part;

        if (!content_stream_take(stream, end - content->size, &part))
            return false;
        if (!buffer_append(content, part.data, (size_t)part.size))
            return error_out_of_memory(stream->error, stream->sidecar->name, size);
    }
    return true;
}

bool sidecar_read_part(const struct sidecar *sidecar, const struct sidecar_section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);
    size_t start = content->size;
    struct content_stream *stream;
    bool done;

    if (stored == NULL)
        return false;
    if (offset > stored->packed.size || size > stored->packed.size - offset)
        return error_set(error, "%s: %s has only %" PRIu64 " bytes; ask for less", sidecar->name,
                         stored->packed.what, stored->packed.size);
    if (!check_frame(sidecar, section, stored, error))
        return false;
    stream = content_stream_open(sidecar, stored, error);
    done =
        stream != NULL && content_stream_skip(stream, offset) && append_part(stream, size, content);
    if (!done)
        content->size = start;
    content_stream_free(stream);
    return done;
}

/* Moves the distinct names to *set. Sets *taken to false instead if these are not all names, or one
 * of them is empty, which does not count as a name. */
static bool take_distinct(const struct sidecar *sidecar, const struct sidecar_content *content,
                          bool for_others, struct names *set, bool *taken, struct error *error)
{
    const struct transform_context context = {.memory_limit = sidecar->memory_limit};
    struct names names;
    bool done = names_decode(&context, &content->packed, &names, taken, error);

    if (done && for_others && content == names_content(sidecar))
        done = keep_references(sidecar, &names, error);
    for (size_t i = 0; *taken && i < names.count; i++)
        *taken = names_get(&names, i).size != 0;
    if (done && *taken) {
        *set = names;
        names = (struct names){0};
    }
    names_free(&names);
    return done;
}

bool sidecar_read_names(const struct sidecar *sidecar, const struct sidecar_section *section,
                        bool for_others, struct names *set, struct error *error)
{
    const struct sidecar_content *content = content_of_kind(sidecar, section->kind);
    struct buffer loaded = {0};
    bool taken = false;
    bool done = content == NULL || content->transform == NULL ||
                take_distinct(sidecar, content, for_others, set, &taken, error);

    if (done && !taken)
        done = sidecar_read_section(sidecar, section, &loaded, error) &&
               names_add_section(set, buffer_view(&loaded), sidecar->memory_limit, sidecar->name,
                                 error);
    buffer_free(&loaded);
    return done;
}
