/*
 * The contents of a sidecar, and restoring the original from them: see sidecar.h.
 *
 * A size in a sidecar is not trusted. Memory is allocated as decompressed bytes fill it; if the
 * bytes themselves are not needed, only a buffer of fixed size is used.
 *
 * Sections in compact forms depend on each other: data needs names, the coverage mapping needs
 * both, and the linked one needs the coverage mapping. When a section is read, only what it needs
 * is decoded with it. Of the names that is only their text, so no zlib stream is ever recreated for
 * another section.
 *
 * The inverse edit script says what to copy from the stripped image and what to take from the
 * sections, each in ascending order. So everything is processed as streams, and the memory needed
 * does not depend on the size of the image, only on that of the largest section in a compact form,
 * and of the symbol tables, if symbols went (edit/symbols.h).
 */
#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/zstd.h"
#include "common/edit/edit.h"
#include "common/edit/symbols.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/delta.h"

/* Bytes of a zstd frame that are decompressed at a time. */
#define STREAM_STEP ((size_t)256 << 10)

/* Bytes of the stripped image that go to the sink at a time, and of a mapped one that stay in
 * memory. */
#define PIECE_SIZE ((size_t)1 << 20)

/* The encoded form of a section; of a delta, only once has_content returned true. */
static struct encoded encoded_of(const struct sidecar *sidecar, const struct section *section)
{
    struct encoded encoded = {section->content, section->size, sidecar->name, section->name};

    if (sidecar->base.is_needed)
        encoded.bytes = buffer_view(&sidecar->references->parts[section->kind]);
    return encoded;
}

/* NULL for a plain zstd frame. */
static const struct transform *form_of(const struct section *section)
{
    return section->form == ELFCOMPRESS_ZSTD ? NULL : transform_of(section->form, section->kind);
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
    if (delta_content(sidecar, section, &content))
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
    if (names != NULL && atomic_load(&sidecar->references->known) == NULL) {
        struct names decoded;
        bool are_all, done = decode_names(sidecar, names, &decoded, &are_all, error) &&
                             keep_references(sidecar, &decoded, error);

        names_free(&decoded);
        if (!done)
            return false;
    }
    if (names != NULL)
        context->names = atomic_load(&sidecar->references->known);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct section *section = sidecar_find(sidecar, others[i].kind);

        if (section == NULL || !others[i].is_needed)
            continue;
        if (!sidecar_read_section(sidecar, section, others[i].loaded, error))
            return false;
        *others[i].view = buffer_view(others[i].loaded);
    }
    return true;
}

/* ---- as a whole ---- */

/* True if the section has the encoded bytes that it was given when the sidecar was made, or no
 * compact form as then. */
static bool is_as_encoded(const struct sidecar *sidecar, enum section_kind kind)
{
    const struct proved_section *proved = &sidecar->proved->kinds[kind];
    const struct section *section = sidecar_find(sidecar, kind);
    struct digest digest;

    if (section == NULL || form_of(section) == NULL)
        return proved->content.size == 0;
    digest = digest_of(section->content);
    return proved->content.size == section->size && digest_equal(&digest, &proved->encoded);
}

/* True if the section contains what it contained then. */
static bool has_same_content(const struct sidecar *sidecar, enum section_kind kind)
{
    static const struct digest nothing;
    const struct section *section = sidecar_find(sidecar, kind);

    return digest_equal(section == NULL || section->size == 0 ? &nothing : &section->digest,
                        &sidecar->proved->kinds[kind].digest);
}

/* Keeps what was read, if there is room. */
static void keep(const struct sidecar *sidecar, struct bytes content, struct buffer *kept)
{
    struct sidecar_memo *memo = sidecar->memo;

    if (memo != NULL && content.size <= memo->room && kept->size == 0 &&
        buffer_append(kept, content.data, (size_t)content.size))
        memo->room -= content.size;
}

/* True if the section was kept, or restored by its content; or if the sidecar has just been made,
 * and it was shown to come back then. Sets *content only in that case. */
static bool is_known(const struct sidecar *sidecar, const struct section *section,
                     struct bytes *content)
{
    const struct transform *transform = form_of(section);
    const struct buffer *kept = &sidecar->references->contents[section->kind];

    if (transform != NULL && kept->size != 0) {
        *content = buffer_view(kept);
        return true;
    }
    if (delta_content(sidecar, section, content))
        return true;
    if (sidecar->proved == NULL || transform == NULL || !is_as_encoded(sidecar, section->kind) ||
        (transform->needs_names &&
         !(is_as_encoded(sidecar, SECTION_NAMES) && is_as_encoded(sidecar, SECTION_COVNAMES))) ||
        (transform->needs_data && !has_same_content(sidecar, SECTION_DATA)) ||
        (transform->needs_mapping &&
         !(has_same_content(sidecar, SECTION_COVMAP) && has_same_content(sidecar, SECTION_COVFUN))))
        return false;
    *content = sidecar->proved->kinds[section->kind].content;
    return true;
}

bool sidecar_read_section(const struct sidecar *sidecar, const struct section *section,
                          struct buffer *content, struct error *error)
{
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
        if (done && transform != NULL)
            keep(sidecar, view, &sidecar->references->contents[section->kind]);
    }
    if (!done)
        content->size = start;
    return done;
}

bool sidecar_read_names(const struct sidecar *sidecar, const struct section *section,
                        struct names *set, struct error *error)
{
    bool are_shared = section == shared_names(sidecar), are_all = false, done = true;
    struct buffer *kept = &sidecar->references->names;
    const struct names *known;
    struct buffer loaded = {0};

    if (are_shared && kept->size != 0) {
        buffer_append(&loaded, kept->data, kept->size);
        are_all = done = (!loaded.failed && names_take_text(set, &loaded) == RESULT_OK) ||
                         error_out_of_memory(error, sidecar->name, kept->size);
    } else if (form_of(section) != NULL) {
        done = decode_names(sidecar, section, set, &are_all, error) &&
               (!are_shared || keep_references(sidecar, set, error));
        /* An empty one does not count as a name. */
        for (size_t i = 0; are_all && i < set->count; i++)
            are_all = names_get(set, i).size != 0;
        if (done && are_all && are_shared)
            keep(sidecar, buffer_view(&set->text), kept);
        if (!done || !are_all)
            names_free(set);
    }
    /* Without memory for them, they are computed again. */
    known = are_shared && done && are_all && set->count != 0
                ? atomic_load(&sidecar->references->known)
                : NULL;
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

/* A section that is read piece by piece. */
struct stream {
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

static void stream_close(struct stream *stream)
{
    if (stream == NULL)
        return;
    codec_stream_free(stream->zstd);
    blocks_close(&stream->blocks);
    end_decoding(&stream->decoding);
    buffer_free(&stream->loaded);
    free(stream);
}

/* NULL on failure. All further errors of the stream are reported in *error too. */
static struct stream *stream_open(const struct sidecar *sidecar, const struct section *section,
                                  struct error *error)
{
    const struct transform *transform = form_of(section);
    struct encoded encoded;
    struct stream *stream;
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
    stream_close(stream);
    return NULL;
}

/* Decodes a piece of the frame, or as many blocks as there are threads. */
static bool decode_more(struct stream *stream)
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

static bool check_left(const struct stream *stream, uint64_t size)
{
    struct encoded encoded = encoded_of(stream->sidecar, stream->section);

    return size <= stream->left ||
           encoded_damaged(&encoded, "it is shorter than what refers to it", stream->error);
}

/* Takes the next bytes: at most `most`, and at least one unless `most` is 0. They are valid until
 * the next call. */
static bool stream_take(struct stream *stream, uint64_t most, struct bytes *part)
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
static bool stream_skip(struct stream *stream, uint64_t size)
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

bool sidecar_stream_section(const struct sidecar *sidecar, const struct section *section,
                            bytes_sink sink, void *context, struct error *error)
{
    struct stream *stream = stream_open(sidecar, section, error);
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
    stream_close(stream);
    return done;
}

bool sidecar_read_part(const struct sidecar *sidecar, const struct section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error)
{
    _Atomic(unsigned) *checked = &sidecar->references->checked;
    size_t start = content->size, end = start + size;
    struct stream *stream;
    bool done;

    if (!has_content(sidecar, section, error))
        return false;
    if (!range_within(offset, size, 0, section->size))
        return error_set(error, "%s: %s has only %" PRIu64 " bytes; ask for less", sidecar->name,
                         section->name, section->size);
    /* The digest of a zstd frame can only be checked at its end, so the whole frame is checked
     * before its first part is returned. The other forms are checked as they are decoded. */
    if (form_of(section) == NULL && (atomic_load(checked) & SECTION_BIT(section->kind)) == 0) {
        if (!sidecar_stream_section(sidecar, section, NULL, NULL, error))
            return false;
        atomic_fetch_or(checked, SECTION_BIT(section->kind));
    }
    stream = stream_open(sidecar, section, error);
    done = stream != NULL && stream_skip(stream, offset);
    while (done && content->size < end) {
        struct bytes part;

        done = stream_take(stream, end - content->size, &part) &&
               (buffer_append(content, part.data, (size_t)part.size) ||
                error_out_of_memory(error, sidecar->name, size));
    }
    if (!done)
        content->size = start;
    stream_close(stream);
    return done;
}

/* ---- restoring ---- */

/* *inverse reads what was appended to *encoded. */
static bool load_inverse(const struct sidecar *sidecar, struct buffer *encoded,
                         struct inverse *inverse, struct error *error)
{
    if (!sidecar_read_section(sidecar, &sidecar->inverse, encoded, error))
        return false;
    *inverse =
        inverse_open(buffer_view(encoded), sidecar->facts.stripped_size,
                     sidecar->facts.original_size, sidecar->sections, sidecar->section_count);
    return true;
}

struct restorer {
    const struct sidecar *sidecar;
    const struct input *stripped;
    bytes_sink sink;
    void *context;
    struct digest_stream digest; /* of the output so far */
    struct stream *streams[SECTION_KIND_MAX + 1];
    struct buffer tables; /* the symbol tables, once they are made */
    struct error *error;
};

static bool produce(struct restorer *restorer, struct bytes piece)
{
    if (piece.size == 0)
        return true;
    digest_stream_add(&restorer->digest, piece);
    return restorer->sink(restorer->context, piece, restorer->error);
}

/* Produces a part of the stripped image, and releases its pages after use. */
static bool produce_stripped(struct restorer *restorer, uint64_t offset, uint64_t size)
{
    while (size != 0) {
        uint64_t part = size < PIECE_SIZE ? size : PIECE_SIZE;
        struct bytes piece;

        if (!bytes_slice(restorer->stripped->bytes, offset, part, &piece) ||
            !produce(restorer, piece))
            return false;
        input_release_pages(restorer->stripped, offset, part);
        offset += part;
        size -= part;
    }
    return true;
}

/* Produces a part of a section. Its stream is opened at its first use and closed after its last
 * byte, because a stream needs a few MiB and sections are mostly used one after the other. */
static bool produce_section(struct restorer *restorer, const struct inverse_step *step)
{
    const struct section *section =
        sidecar_find(restorer->sidecar, (enum section_kind)step->source);
    struct stream *stream = restorer->streams[step->source];
    uint64_t left = step->insert;

    if (stream == NULL)
        stream = restorer->streams[step->source] =
            stream_open(restorer->sidecar, section, restorer->error);
    /* The position follows from the bytes that are left; inverse_next has checked the order. */
    if (stream == NULL ||
        !stream_skip(stream, step->source_offset - (section->size - stream->left)))
        return false;
    while (left != 0) {
        struct bytes part;

        if (!stream_take(stream, left, &part) || !produce(restorer, part))
            return false;
        left -= part.size;
    }
    if (stream->left == 0) {
        stream_close(stream);
        restorer->streams[step->source] = NULL;
    }
    return true;
}

/* Produces a part of the symbol tables, which are made at its first use. */
static bool produce_tables(struct restorer *restorer, const struct inverse *inverse,
                           const struct inverse_step *step)
{
    const struct sidecar *sidecar = restorer->sidecar;
    const struct sidecar_facts *facts = &sidecar->facts;
    const struct section *section = sidecar_find(sidecar, SECTION_LINKED_COVFUN);
    struct buffer records = {0};
    struct bytes part;
    bool done = true;

    if (section == NULL)
        section = sidecar_find(sidecar, SECTION_COVFUN);
    if (restorer->tables.size == 0) {
        done = (section == NULL ||
                sidecar_read_section(sidecar, section, &records, restorer->error)) &&
               symbol_recipe_apply(inverse->recipe, elf_form_of(facts->elf_class, facts->elf_data),
                                   restorer->stripped->bytes, buffer_view(&records),
                                   sidecar->memory_limit, sidecar->name, &restorer->tables,
                                   restorer->error);
        buffer_free(&records);
    }
    return done &&
           bytes_slice(buffer_view(&restorer->tables), step->source_offset, step->insert, &part) &&
           produce(restorer, part);
}

static bool run_inverse(struct restorer *restorer)
{
    const struct sidecar *sidecar = restorer->sidecar;
    struct buffer encoded = {0};
    struct inverse inverse;
    struct inverse_step step;
    uint64_t position = 0;
    bool done = load_inverse(sidecar, &encoded, &inverse, restorer->error);

    while (done && inverse_next(&inverse, &step)) {
        done = produce_stripped(restorer, position, step.keep);
        position += step.keep + step.drop;
        if (done && step.insert != 0)
            done = step.source == 0                ? produce(restorer, step.literals)
                   : step.source == INVERSE_TABLES ? produce_tables(restorer, &inverse, &step)
                                                   : produce_section(restorer, &step);
    }
    done = done && inverse_finish(&inverse, sidecar->name, restorer->error) &&
           produce_stripped(restorer, position, restorer->stripped->bytes.size - position);
    buffer_free(&encoded);
    return done;
}

bool sidecar_check_stripped(const struct sidecar *sidecar, const struct input *stripped,
                            bool *is_other, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX], uuid_text[UUID_HEX_MAX];
    struct digest found;

    *is_other = false;
    if (!sidecar_is_real(sidecar, error))
        return false;
    if (!input_digest(stripped, &found, error))
        return false;
    if (stripped->bytes.size == facts->stripped_size &&
        digest_equal(&found, &facts->stripped_digest))
        return true;
    *is_other = true;
    return error_set(error,
                     "%s: not the stripped image that %s belongs to: its digest is %s, but that of "
                     "the image of UUID %s is %s; give the image as the split wrote it, or its own "
                     "sidecar",
                     stripped->path, sidecar->name, digest_format(&found, found_text),
                     uuid_format(&facts->uuid, uuid_text),
                     digest_format(&facts->stripped_digest, wanted_text));
}

bool sidecar_restore(const struct sidecar *sidecar, const struct input *stripped, bytes_sink sink,
                     void *context, struct error *error)
{
    struct restorer restorer = {
        .sidecar = sidecar, .stripped = stripped, .sink = sink, .context = context, .error = error};
    const struct digest *wanted = &sidecar->facts.original_digest;
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX];
    struct digest found;
    bool is_other, done;

    if (!sidecar_check_stripped(sidecar, stripped, &is_other, error))
        return false;
    digest_stream_start(&restorer.digest);
    done = run_inverse(&restorer);
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++)
        stream_close(restorer.streams[kind]);
    buffer_free(&restorer.tables);
    if (done) {
        found = digest_stream_finish(&restorer.digest);
        done = digest_equal(&found, wanted) ||
               error_set(error,
                         "%s: the restored image has the digest %s, not that of the original, %s; "
                         "the sidecar is damaged, get an intact copy",
                         sidecar->name, digest_format(&found, found_text),
                         digest_format(wanted, wanted_text));
    }
    return done;
}

bool sidecar_verify(const struct sidecar *sidecar, struct error *error)
{
    struct buffer encoded = {0};
    struct inverse inverse;
    struct inverse_step step;
    bool done = true;

    for (size_t i = 0; done && i < sidecar->section_count; i++)
        done = sidecar->sections[i].form == 0 ||
               sidecar_stream_section(sidecar, &sidecar->sections[i], NULL, NULL, error);
    done = done && load_inverse(sidecar, &encoded, &inverse, error);
    while (done && inverse_next(&inverse, &step))
        ;
    done = done && inverse_finish(&inverse, sidecar->name, error);
    buffer_free(&encoded);
    return done;
}
