/*
 * Decompressing what a sidecar holds, and checking it against its digests: see sidecar.h.
 *
 * A size in a sidecar is a claim. Memory is taken as decompressed bytes fill it, and where the
 * bytes themselves are not wanted, none is taken beyond a fixed piece.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"
#include "common/sidecar/compact.h"
#include "common/sidecar/content_stream.h"
#include "common/sidecar/file.h"

#define STREAM_STEP ((size_t)256 << 10)

static bool check_digest(const struct sidecar *sidecar, const struct sidecar_content *content,
                         const struct digest *digest, struct error *error)
{
    if (digest_equal(digest, &content->digest))
        return true;
    return error_set(error,
                     "%s: %s is damaged (its digest is not the one recorded); get an intact "
                     "copy",
                     sidecar->name, content->what);
}

bool sidecar_content_check(const struct sidecar *sidecar, const struct sidecar_content *content,
                           struct bytes loaded, struct error *error)
{
    struct digest digest = digest_of(loaded);

    return check_digest(sidecar, content, &digest, error);
}

bool sidecar_content_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                          struct buffer *loaded, struct error *error)
{
    size_t start = loaded->size;
    bool done = memory_limit_allows(sidecar->memory_limit, content->size, sidecar->name,
                                    content->what, error);

    if (done)
        done = content->transform != NULL
                   ? sidecar_compact_load(sidecar, content, loaded, error)
                   : codec_decompress(content->frame, content->size, sidecar->name, content->what,
                                      loaded, error);
    if (done) {
        struct bytes view = {loaded->data == NULL ? NULL : loaded->data + start,
                             loaded->size - start};

        done = sidecar_content_check(sidecar, content, view, error);
    }
    if (!done)
        loaded->size = start;
    return done;
}

/* NULL where only address and size are recorded. */
static const struct sidecar_content *content_of(const struct sidecar *sidecar,
                                                const struct sidecar_section *section,
                                                struct error *error)
{
    if (section->has_content)
        return &sidecar->contents[section - sidecar->sections];
    error_set(error, "%s: of %s only address and size are recorded; read it from the image",
              sidecar->name, section->name);
    return NULL;
}

bool sidecar_read_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                          struct buffer *content, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);

    return stored != NULL && sidecar_content_load(sidecar, stored, content, error);
}

/* The sink may be NULL: then only the digest is wanted. */
static bool pass_content(struct content_stream *stream, struct digest_stream *digest, uint8_t *part,
                         sidecar_sink sink, void *context, struct error *error)
{
    uint64_t left;

    while ((left = content_stream_left(stream)) != 0) {
        size_t size = left < STREAM_STEP ? (size_t)left : STREAM_STEP;

        if (!content_stream_read(stream, part, size, error))
            return false;
        digest_stream_add(digest, (struct bytes){part, size});
        if (sink != NULL && !sink(context, (struct bytes){part, size}, error))
            return false;
    }
    return content_stream_finish(stream, error);
}

/* Decompresses with constant memory and checks the digest. */
static bool stream_content(const struct sidecar *sidecar, const struct sidecar_content *content,
                           sidecar_sink sink, void *context, struct error *error)
{
    struct content_stream *stream = content_stream_open(sidecar, content, error);
    struct digest_stream *digest = digest_stream_new();
    uint8_t *part = malloc(STREAM_STEP);
    bool done = false;

    if (digest == NULL || part == NULL) {
        error_out_of_memory(error, sidecar->name, STREAM_STEP);
    } else if (stream != NULL && pass_content(stream, digest, part, sink, context, error)) {
        struct digest found = digest_stream_finish(digest);
        done = check_digest(sidecar, content, &found, error);
    }
    free(part);
    digest_stream_free(digest);
    content_stream_free(stream);
    return done;
}

bool sidecar_stream_section(const struct sidecar *sidecar, const struct sidecar_section *section,
                            sidecar_sink sink, void *context, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);

    return stored != NULL && stream_content(sidecar, stored, sink, context, error);
}

/* A zstd frame tells only at its end whether what came out of it is right, so before the first part
 * of it is given back all of it is looked at. The other forms are checked as they are decoded. */
static bool check_stream(const struct sidecar *sidecar, const struct sidecar_section *section,
                         const struct sidecar_content *stored, struct error *error)
{
    atomic_uint *checked = &sidecar->references->checked;

    if (stored->transform != NULL || (atomic_load(checked) & SECTION_BIT(section->kind)) != 0)
        return true;
    if (!stream_content(sidecar, stored, NULL, NULL, error))
        return false;
    atomic_fetch_or(checked, SECTION_BIT(section->kind));
    return true;
}

bool sidecar_read_part(const struct sidecar *sidecar, const struct sidecar_section *section,
                       uint64_t offset, size_t size, struct buffer *content, struct error *error)
{
    const struct sidecar_content *stored = content_of(sidecar, section, error);
    struct content_stream *stream;
    bool done;

    if (stored == NULL)
        return false;
    if (offset > stored->size || size > stored->size - offset)
        return error_set(error, "%s: %s has only %" PRIu64 " bytes; ask for less", sidecar->name,
                         stored->what, stored->size);
    if (!check_stream(sidecar, section, stored, error))
        return false;
    stream = content_stream_open(sidecar, stored, error);
    if (stream == NULL)
        return false;
    done = content_stream_skip(stream, offset, error) &&
           (buffer_reserve(content, size) || error_out_of_memory(error, sidecar->name, size)) &&
           (size == 0 || content_stream_read(stream, content->data + content->size, size, error));
    if (done)
        content->size += size;
    content_stream_free(stream);
    return done;
}

bool sidecar_inverse_load(const struct sidecar *sidecar, struct buffer *encoded,
                          struct inverse *inverse, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->notes.facts;
    uint64_t section_sizes[SECTION_KIND_MAX + 1] = {0};

    *inverse = (struct inverse){0};
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].has_content)
            section_sizes[sidecar->sections[i].kind] = sidecar->sections[i].size;
    }
    return sidecar_content_load(sidecar, &sidecar->inverse, encoded, error) &&
           inverse_decode(buffer_view(encoded), facts->stripped_size, facts->original_size,
                          section_sizes, sidecar->name, inverse, error);
}

bool sidecar_verify(const struct sidecar *sidecar, struct error *error)
{
    struct buffer encoded = {0};
    struct inverse inverse = {0};
    bool done;

    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].has_content &&
            !stream_content(sidecar, &sidecar->contents[i], NULL, NULL, error))
            return false;
    }
    if (sidecar->notes.facts.is_inexact)
        done = sidecar_content_load(sidecar, &sidecar->inverse, &encoded, error);
    else
        done = sidecar_inverse_load(sidecar, &encoded, &inverse, error);
    inverse_free(&inverse);
    buffer_free(&encoded);
    return done;
}
