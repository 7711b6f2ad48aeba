/*
 * The contents of a sidecar's sections: see sidecar.h.
 *
 * A size in a sidecar is not trusted. Memory is allocated as decompressed bytes fill it; if the
 * bytes themselves are not needed, only a buffer of fixed size is used.
 *
 * Sections in compact forms depend on each other: data needs names, the coverage mapping needs
 * both, and the linked one needs the coverage mapping. When a section is read, only what it needs
 * is decoded with it. Of the names that is only their text, so no zlib stream is ever recreated for
 * another section.
 *
 * Deltas are whole sidecars to all but the lowest functions: a section of one is restored from its
 * part and the base when it is first read, as content or as the streams of its compact form;
 * decoding goes on as always.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/delta.h"

/* The contents of a base that are kept for the next delta, in bytes. */
#define ROOM ((uint64_t)64 << 20)

/* Bytes that are passed on at a time: pages of a mapped file do not pile up. */
#define PIECE_SIZE ((uint64_t)1 << 20)

/* Bytes of a zstd frame that are decompressed at a time. */
#define STREAM_STEP ((size_t)256 << 10)

/* NULL for a plain zstd frame. */
static const struct transform *form_of(const struct section *section)
{
    return section->form == ELFCOMPRESS_ZSTD ? NULL : transform_of(section->form, section->kind);
}

/* ---- the cache ---- */

static bool is_known(const struct sidecar *sidecar, const struct section *section,
                     struct bytes *content)
{
    const struct cached_section *cached = &sidecar->cache->sections[section->kind];

    if ((atomic_load(&cached->known) & CACHED_CONTENT) == 0)
        return false;
    *content = cached->content;
    return true;
}

static void set_known(const struct sidecar *sidecar, enum section_kind kind, struct bytes content)
{
    struct cached_section *cached = &sidecar->cache->sections[kind];

    cached->content = content;
    atomic_fetch_or(&cached->known, CACHED_CONTENT);
}

/* Keeps what was read, if there is room. */
static bool keep_bytes(const struct sidecar *sidecar, struct bytes bytes, struct buffer *kept)
{
    struct sidecar_memo *memo = sidecar->memo;

    if (memo == NULL || bytes.size > memo->room || kept->size != 0 ||
        !buffer_append(kept, bytes.data, (size_t)bytes.size))
        return false;
    memo->room -= bytes.size;
    return true;
}

/* True if the section has the content and the encoded bytes that it was given when the sidecar was
 * made, or no compact form as then. */
static bool is_as_proved(const struct section *section, const struct proved_section *proved)
{
    struct digest digest = digest_of(section->content);

    return digest_equal(&section->digest, &proved->digest) &&
           (form_of(section) == NULL
                ? proved->content.size == 0
                : proved->content.size == section->size && digest_equal(&digest, &proved->encoded));
}

/* What was shown to come back is known, if all is as it was then: forms need other sections. */
static void use_proved(struct sidecar *sidecar, const struct proved_sections *proved)
{
    static const struct digest nothing;

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const struct section *section = sidecar_find(sidecar, (enum section_kind)kind);
        bool is_there = section != NULL && section->size != 0;

        if (is_there ? transform_for(section->kind, false) != NULL &&
                           !is_as_proved(section, &proved->kinds[kind])
                     : !digest_equal(&proved->kinds[kind].digest, &nothing))
            return;
    }
    for (size_t i = 0; i < sidecar->section_count; i++) {
        enum section_kind kind = sidecar->sections[i].kind;

        if (form_of(&sidecar->sections[i]) != NULL)
            set_known(sidecar, kind, proved->kinds[kind].content);
    }
    sidecar->image = proved->image;
}

void sidecar_help_restore(struct sidecar *sidecar, unsigned threads,
                          const struct proved_sections *proved)
{
    /* Limited since each thread holds a block in memory. */
    sidecar->threads = threads < PARALLEL_THREADS_MAX ? threads : PARALLEL_THREADS_MAX;
    if (proved != NULL)
        use_proved(sidecar, proved);
}

/* ---- deltas ---- */

void sidecar_share_bases(struct sidecar *sidecar, struct sidecar_bases *bases)
{
    if (sidecar->base.is_needed)
        sidecar->bases = bases;
}

/* Reads the base in that path, or in the one that it has for a moment. */
static struct sidecar *read_base(const char *path, struct error *error)
{
    struct sidecar *base = sidecar_read(path, error);
    struct error ignored;
    char *aside;

    if (base != NULL || error->number != ENOENT)
        return base;
    if (asprintf(&aside, "%s" DELTA_ASIDE_SUFFIX, path) < 0) {
        error_out_of_memory(error, path, PATH_MAX);
        return NULL;
    }
    base = sidecar_read(aside, &ignored);
    free(aside);
    return base != NULL ? base : sidecar_read(path, error);
}

struct sidecar *sidecar_use_base(struct sidecar_bases *bases, const char *name, const char *path,
                                 const struct digest *digest, struct error *error)
{
    struct bytes bytes;
    struct error why;
    struct digest found;
    struct sidecar *base;
    bool is_given;

    if (bases->base != NULL && digest_equal(&bases->digest, digest))
        return bases->base;
    sidecar_bases_free(bases);
    is_given = bases->find != NULL && bases->find(bases->context, digest, &bytes);
    base = is_given ? sidecar_open(bytes, path, &why) : read_base(path, &why);
    if (base == NULL && error_is_of_memory(&why)) {
        *error = why;
        return NULL;
    }
    if (base == NULL) {
        error_set(error,
                  "%.500s: is a delta, whose base cannot be used (%.600s); put the base back, "
                  "or take the sidecar from another store",
                  name, why.message);
        return NULL;
    }
    found = digest_of(is_given ? bytes : base->input.bytes);
    if (!digest_equal(&found, digest) || base->base.is_needed) {
        error_set(error,
                  "%.500s: is a delta, but its base %.500s is not the file that it was made "
                  "with; put that back, or take the sidecar from another store",
                  name, path);
        sidecar_close(base);
        return NULL;
    }
    bases->memo.room = ROOM;
    base->memo = &bases->memo;
    bases->base = base;
    bases->digest = *digest;
    return base;
}

bool delta_flatten(const struct sidecar *whole, enum section_kind kind, bool is_of_streams,
                   struct buffer *flat, struct error *error)
{
    const struct section *section = kind == 0 ? &whole->inverse : sidecar_find(whole, kind);
    const struct transform *transform;
    struct encoded encoded;

    if (section == NULL || section->form == 0)
        return true;
    transform = form_of(section);
    if (!is_of_streams || transform == NULL)
        return sidecar_read_section(whole, section, flat, error);
    encoded = (struct encoded){section->content, section->size, whole->name, section->name};
    return codec_flatten(transform, &encoded, whole->memory_limit, flat, error);
}

static bool restore_part(const struct sidecar *sidecar, const struct section *section,
                         struct error *error)
{
    const struct sidecar_part *part = &sidecar->parts[section->kind];
    const struct encoded frame = {part->frame, part->size, sidecar->name, section->name};
    struct cached_section *cached = &sidecar->cache->sections[section->kind];
    struct buffer *to = &cached->part, prefix = {0};
    char *path = delta_base_path(sidecar->name, &sidecar->base.digest);
    struct sidecar *base;
    bool done = false;

    if (path == NULL)
        return error_out_of_memory(error, sidecar->name, PATH_MAX);
    base = sidecar_use_base(sidecar->bases, sidecar->name, path, &sidecar->base.digest, error);
    if (base != NULL) {
        sidecar_limit_memory(base, sidecar->memory_limit);
        sidecar_help_restore(base, sidecar->threads, NULL);
        done = memory_limit_allows(sidecar->memory_limit, part->size, sidecar->name, section->name,
                                   error) &&
               delta_flatten(base, section->kind, part->is_of_streams, &prefix, error) &&
               codec_decompress_after(buffer_view(&prefix), &frame, to, error);
    }
    if (done && !part->is_of_streams) {
        struct digest found = digest_of(buffer_view(to));

        done = digest_equal(&found, &section->digest) ||
               encoded_damaged(&frame, "its digest is not the one recorded", error);
        if (done)
            set_known(sidecar, section->kind, buffer_view(to));
        else
            to->size = 0;
    }
    buffer_free(&prefix);
    free(path);
    return done;
}

bool delta_restore(const struct sidecar *sidecar, const struct section *section,
                   struct error *error)
{
    _Atomic(unsigned) *known = &sidecar->cache->sections[section->kind].known;
    bool done = true;

    if (!sidecar->base.is_needed || (atomic_load(known) & CACHED_PART) != 0)
        return true;
    pthread_mutex_lock(&sidecar->bases->lock);
    if ((atomic_load(known) & CACHED_PART) == 0) {
        done = restore_part(sidecar, section, error);
        if (done)
            atomic_fetch_or(known, CACHED_PART);
    }
    pthread_mutex_unlock(&sidecar->bases->lock);
    return done;
}

/* ---- sections ---- */

/* The encoded form of a section; of a delta, only once has_content returned true. */
static struct encoded encoded_of(const struct sidecar *sidecar, const struct section *section)
{
    struct encoded encoded = {section->content, section->size, sidecar->name, section->name};

    if (sidecar->base.is_needed)
        encoded.bytes = buffer_view(&sidecar->cache->sections[section->kind].part);
    return encoded;
}

static bool check_digest(const struct sidecar *sidecar, const struct section *section,
                         struct digest found, struct error *error)
{
    struct encoded encoded = encoded_of(sidecar, section);

    return digest_equal(&found, &section->digest) ||
           encoded_damaged(&encoded, "its digest is not the one recorded", error);
}

/* False, with an error, if only address and size are recorded, or if the sidecar claims to hold far
 * more than its size justifies. Restores a section of a delta. */
static bool has_content(const struct sidecar *sidecar, const struct section *section,
                        struct error *error)
{
    if (section->form == 0)
        return error_set(error,
                         "%s: only address and size of %s are recorded; read it from the image",
                         sidecar->name, section->name);
    if (!memory_limit_allows(sidecar->work_limit, sidecar->claimed, sidecar->name,
                             "all that it holds", error))
        return false;
    return delta_restore(sidecar, section, error);
}

/* ---- what compact forms need from other sections ---- */

/* The section whose names the other sections need; NULL if there is none. */
static const struct section *shared_names(const struct sidecar *sidecar)
{
    const struct section *names = sidecar_find(sidecar, SECTION_NAMES);

    if (names == NULL || form_of(names) == NULL)
        names = sidecar_find(sidecar, SECTION_COVNAMES);
    return names == NULL || form_of(names) == NULL ? NULL : names;
}

/* Keeps the NameRefs of the names for other sections; moves them out of `names`. */
static bool keep_references(const struct sidecar *sidecar, struct names *names, struct error *error)
{
    struct names *kept, *known = atomic_load(&sidecar->cache->names);

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
    if (!atomic_compare_exchange_strong(&sidecar->cache->names, &known, kept)) {
        names_free(kept);
        free(kept);
    }
    return true;
}

/* Reads the names of a section in a compact form, numbered as in that. See names_decode. */
static bool decode_names(const struct sidecar *sidecar, const struct section *section,
                         struct names *names, bool *are_all, struct error *error)
{
    const struct transform_context context = {.memory_limit = sidecar->memory_limit,
                                              .is_checked = sidecar->base.is_needed};
    struct encoded encoded;
    struct bytes content;

    *names = (struct names){.count = 0};
    *are_all = true;
    if (!has_content(sidecar, section, error))
        return false;
    /* Else they are numbered as in the streams, whatever is known of the content. */
    if (sidecar->base.is_needed && !sidecar->parts[section->kind].is_of_streams &&
        is_known(sidecar, section, &content))
        return names_add_section(names, content, sidecar->memory_limit, sidecar->name, error);
    encoded = encoded_of(sidecar, section);
    return names_decode(&context, &encoded, names, are_all, error);
}

/* The input of a compact form besides the section itself: a context, and the sections to which it
 * points. */
struct decoding {
    struct transform_context context;
    struct buffer data, covmap, covfun;
};

static void end_decoding(struct decoding *decoding)
{
    buffer_free(&decoding->data);
    buffer_free(&decoding->covmap);
    buffer_free(&decoding->covfun);
}

/* Loads what the form needs: names without their text. Free with end_decoding, even after a
 * failure. */
static bool start_decoding(const struct sidecar *sidecar, const struct transform *transform,
                           struct decoding *decoding, struct error *error)
{
    const struct section *names = transform->needs_names ? shared_names(sidecar) : NULL;
    struct transform_context *context = &decoding->context;
    const struct {
        enum section_kind kind;
        bool is_needed;
        struct buffer *loaded;
        struct bytes *view;
    } others[] = {
        {SECTION_DATA, transform->needs_data, &decoding->data, &context->data},
        {SECTION_COVMAP, transform->needs_mapping, &decoding->covmap, &context->covmap},
        {SECTION_COVFUN, transform->needs_mapping, &decoding->covfun, &context->covfun},
    };

    *decoding = (struct decoding){
        .context = {.big_endian = sidecar->facts.elf_data == ELFDATA2MSB,
                    .pointer_size = (unsigned)sidecar->facts.pointer_size,
                    .raw_version = sidecar->facts.raw_version,
                    .threads = sidecar->threads,
                    .memory_limit = sidecar->memory_limit,
                    .memo = sidecar->memo == NULL ? NULL : &sidecar->memo->streams},
    };
    if (names != NULL && atomic_load(&sidecar->cache->names) == NULL) {
        struct names decoded;
        bool are_all, done = decode_names(sidecar, names, &decoded, &are_all, error) &&
                             keep_references(sidecar, &decoded, error);

        names_free(&decoded);
        if (!done)
            return false;
    }
    if (names != NULL)
        context->names = atomic_load(&sidecar->cache->names);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct section *section = sidecar_find(sidecar, others[i].kind);

        if (section == NULL || !others[i].is_needed)
            continue;
        if (!sidecar_view_section(sidecar, section, others[i].loaded, others[i].view, error))
            return false;
    }
    return true;
}

/* ---- as a whole ---- */

bool sidecar_read_section(const struct sidecar *sidecar, const struct section *section,
                          struct buffer *content, struct error *error)
{
    struct cached_section *cached = &sidecar->cache->sections[section->kind];
    const struct transform *transform = form_of(section);
    size_t start = content->size;
    struct encoded encoded;
    struct bytes known;
    bool done;

    if (!has_content(sidecar, section, error) ||
        !memory_limit_allows(sidecar->memory_limit, section->size, sidecar->name, section->name,
                             error))
        return false;
    encoded = encoded_of(sidecar, section);
    if (is_known(sidecar, section, &known)) {
        done = buffer_append(content, known.data, (size_t)known.size) ||
               error_out_of_memory(error, sidecar->name, known.size);
    } else if (transform == NULL) {
        done = codec_decompress(&encoded, content, error);
    } else {
        struct decoding decoding;

        done = start_decoding(sidecar, transform, &decoding, error) &&
               codec_decode(transform, &decoding.context, &encoded, content, error);
        end_decoding(&decoding);
    }
    if (done) {
        struct bytes view = {content->data == NULL ? NULL : content->data + start,
                             content->size - start};

        done = check_digest(sidecar, section, digest_of(view), error);
        if (done && transform != NULL && keep_bytes(sidecar, view, &cached->own))
            set_known(sidecar, section->kind, buffer_view(&cached->own));
    }
    if (!done)
        content->size = start;
    return done;
}

bool sidecar_view_section(const struct sidecar *sidecar, const struct section *section,
                          struct buffer *loaded, struct bytes *content, struct error *error)
{
    if (is_known(sidecar, section, content))
        return true;
    if (!sidecar_read_section(sidecar, section, loaded, error))
        return false;
    *content = buffer_view(loaded);
    return true;
}

bool sidecar_hold_section(const struct sidecar *sidecar, const struct section *section,
                          struct bytes *content, struct error *error)
{
    struct buffer loaded = {0};
    bool done = sidecar_view_section(sidecar, section, &loaded, content, error);

    if (!done || is_known(sidecar, section, content)) {
        buffer_free(&loaded);
        return done;
    }
    sidecar->cache->sections[section->kind].own = loaded;
    set_known(sidecar, section->kind, *content);
    return true;
}

bool sidecar_read_names(const struct sidecar *sidecar, const struct section *section,
                        struct names *set, struct error *error)
{
    bool are_shared = section == shared_names(sidecar), are_all = false, done = true;
    struct names *known = are_shared ? atomic_load(&sidecar->cache->names) : NULL;
    struct buffer loaded = {0};

    if (known != NULL && known->text.size != 0) {
        buffer_append(&loaded, known->text.data, known->text.size);
        are_all = done = (!loaded.failed && names_take_text(set, &loaded) == RESULT_OK) ||
                         error_out_of_memory(error, sidecar->name, known->text.size);
    } else if (form_of(section) != NULL) {
        done = decode_names(sidecar, section, set, &are_all, error) &&
               (!are_shared || keep_references(sidecar, set, error));
        /* An empty one does not count as a name. */
        for (size_t i = 0; are_all && i < set->count; i++)
            are_all = names_get(set, i).size != 0;
        known = are_shared ? atomic_load(&sidecar->cache->names) : NULL;
        if (done && are_all && known != NULL)
            keep_bytes(sidecar, buffer_view(&set->text), &known->text);
        if (!done || !are_all)
            names_free(set);
    }
    /* Without memory for them, they are computed again. */
    if (!done || !are_all || set->count == 0)
        known = NULL;
    if (known != NULL && set->references == NULL)
        set->references = malloc(set->count * sizeof(*set->references));
    if (known != NULL && set->references != NULL)
        memcpy(set->references, known->references, set->count * sizeof(*set->references));
    if (done && !are_all)
        done = sidecar_read_section(sidecar, section, &loaded, error) &&
               names_add_section(set, buffer_view(&loaded), sidecar->memory_limit, sidecar->name,
                                 error);
    buffer_free(&loaded);
    return done;
}

/* ---- as streams ---- */

struct section_stream {
    const struct sidecar *sidecar;
    const struct section *section;
    struct error *error;
    uint64_t left;             /* bytes that have been neither taken nor skipped */
    struct bytes rest;         /* the part of `loaded` that has not been taken yet */
    struct buffer loaded;      /* the content, or a piece of it */
    struct codec_stream *zstd; /* NULL for a compact form */
    /* For a section in blocks: those from `next` on are not decoded yet. */
    struct decoding decoding; /* what the blocks need */
    struct blocks blocks;
    size_t next;
};

void section_stream_close(struct section_stream *stream)
{
    if (stream == NULL)
        return;
    codec_stream_free(stream->zstd);
    blocks_close(&stream->blocks);
    end_decoding(&stream->decoding);
    buffer_free(&stream->loaded);
    free(stream);
}

struct section_stream *section_stream_open(const struct sidecar *sidecar,
                                           const struct section *section, struct error *error)
{
    const struct transform *transform = form_of(section);
    struct encoded encoded;
    struct section_stream *stream;
    bool done;

    if (!has_content(sidecar, section, error))
        return NULL;
    encoded = encoded_of(sidecar, section);
    stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        error_out_of_memory(error, sidecar->name, sizeof(*stream));
        return NULL;
    }
    stream->sidecar = sidecar;
    stream->section = section;
    stream->error = error;
    stream->left = section->size;
    if (is_known(sidecar, section, &stream->rest)) {
        done = true;
    } else if (transform == NULL) {
        done = buffer_reserve(&stream->loaded, STREAM_STEP) ||
               error_out_of_memory(error, sidecar->name, STREAM_STEP);
        if (done)
            stream->zstd = codec_stream_open(&encoded, error);
        done = done && stream->zstd != NULL;
    } else if (transform->block != NULL) {
        done = start_decoding(sidecar, transform, &stream->decoding, error) &&
               blocks_open(&stream->blocks, transform, &stream->decoding.context, &encoded, error);
    } else {
        done = sidecar_read_section(sidecar, section, &stream->loaded, error);
        stream->rest = buffer_view(&stream->loaded);
    }
    if (done)
        return stream;
    section_stream_close(stream);
    return NULL;
}

/* Decodes a piece of the frame, or as many blocks as there are threads. */
static bool decode_more(struct section_stream *stream)
{
    if (stream->zstd != NULL) {
        stream->loaded.size = stream->left < STREAM_STEP ? (size_t)stream->left : STREAM_STEP;
        if (!codec_stream_read(stream->zstd, stream->loaded.data, stream->loaded.size,
                               stream->error))
            return false;
    } else {
        size_t count = stream->blocks.count - stream->next;
        size_t threads = stream->sidecar->threads;

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

static bool check_left(const struct section_stream *stream, uint64_t size)
{
    struct encoded encoded = encoded_of(stream->sidecar, stream->section);

    return size <= stream->left ||
           encoded_damaged(&encoded, "it is shorter than what refers to it", stream->error);
}

/* Takes the next bytes: at most `most`, and at least one unless `most` is 0. They are valid until
 * the next call. */
static bool stream_take(struct section_stream *stream, uint64_t most, struct bytes *part)
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
static bool stream_skip(struct section_stream *stream, uint64_t size)
{
    struct bytes part;

    if (!check_left(stream, size))
        return false;
    while (size != 0) {
        if (stream->rest.size == 0 && stream->next < stream->blocks.count &&
            stream->blocks.blocks[stream->next].size <= size) {
            part.size = stream->blocks.blocks[stream->next++].size;
            stream->left -= part.size;
        } else if (!stream_take(stream, size, &part)) {
            return false;
        }
        size -= part.size;
    }
    return true;
}

bool section_stream_pass(struct section_stream *stream, uint64_t offset, uint64_t size,
                         bytes_sink sink, void *context)
{
    bool done = stream_skip(stream, offset - (stream->section->size - stream->left));

    while (done && size != 0) {
        const struct input *image = stream->sidecar->image;
        struct bytes part = {0};

        done = stream_take(stream, size < PIECE_SIZE ? size : PIECE_SIZE, &part) &&
               sink(context, part, stream->error);
        if (image != NULL)
            input_drop_pages(image, part);
        size -= part.size;
    }
    return done;
}

bool sidecar_stream_section(const struct sidecar *sidecar, const struct section *section,
                            bytes_sink sink, void *context, struct error *error)
{
    struct section_stream *stream = section_stream_open(sidecar, section, error);
    struct digest_stream digest;
    bool done = stream != NULL;

    digest_stream_start(&digest);
    while (done && stream->left != 0) {
        struct bytes part;

        done = stream_take(stream, stream->left, &part);
        if (done)
            digest_stream_add(&digest, part);
        done = done && (sink == NULL || sink(context, part, error));
    }
    done = done && (stream->zstd == NULL || codec_stream_finish(stream->zstd, error)) &&
           check_digest(sidecar, section, digest_stream_finish(&digest), error);
    section_stream_close(stream);
    return done;
}

bool sidecar_read_part(const struct sidecar *sidecar, const struct section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error)
{
    _Atomic(unsigned) *known = &sidecar->cache->sections[section->kind].known;
    size_t start = content->size, end = start + size;
    struct section_stream *stream;
    bool done;

    if (!has_content(sidecar, section, error))
        return false;
    if (!range_within(offset, size, 0, section->size))
        return error_set(error, "%s: %s has only %" PRIu64 " bytes; ask for less", sidecar->name,
                         section->name, section->size);
    /* The digest of a zstd frame can only be checked at its end, so the whole frame is checked
     * before its first part is returned. The other forms are checked as they are decoded. */
    if (form_of(section) == NULL && (atomic_load(known) & CACHED_CHECK) == 0) {
        if (!sidecar_stream_section(sidecar, section, NULL, NULL, error))
            return false;
        atomic_fetch_or(known, CACHED_CHECK);
    }
    stream = section_stream_open(sidecar, section, error);
    done = stream != NULL && stream_skip(stream, offset);
    while (done && content->size < end) {
        struct bytes part;

        done = stream_take(stream, end - content->size, &part) &&
               (buffer_append(content, part.data, (size_t)part.size) ||
                error_out_of_memory(error, sidecar->name, size));
    }
    if (!done)
        content->size = start;
    section_stream_close(stream);
    return done;
}
