/*
 * Restoring the original: see sidecar.h.
 *
 * The inverse edit script says what to copy from the stripped image and what to take from the
 * sections, each in ascending order. So everything is processed as streams, and the memory needed
 * does not depend on the size of the image, only on that of the largest section in a compact form.
 */
#include <stdlib.h>

#include "common/edit/inverse.h"
#include "common/sidecar/content.h"

/* How much of the stripped image goes to the sink at a time, and how much of a mapped one stays in
 * memory. */
#define PIECE_SIZE ((size_t)1 << 20)

struct restorer {
    const struct sidecar *sidecar;
    struct bytes stripped;
    const char *stripped_name;
    const struct input *mapped; /* NULL if `stripped` is not a mapped file */
    bytes_sink sink;
    void *context;
    struct digest_stream *digest; /* of the output so far */
    struct content_stream *streams[SECTION_KIND_MAX + 1];
    bool is_other; /* `stripped` is not what the sidecar was made with */
    struct error *error;
};

typedef bool (*piece_user)(struct restorer *restorer, struct bytes piece);

/* Goes through a part of the stripped image, and releases its pages after use. */
static bool walk_stripped(struct restorer *restorer, uint64_t offset, uint64_t size, piece_user use)
{
    while (size != 0) {
        uint64_t part = size < PIECE_SIZE ? size : PIECE_SIZE;
        struct bytes piece;

        if (!bytes_slice(restorer->stripped, offset, part, &piece) || !use(restorer, piece))
            return false;
        if (restorer->mapped != NULL)
            input_release_pages(restorer->mapped, offset, part);
        offset += part;
        size -= part;
    }
    return true;
}

static bool add_to_digest(struct restorer *restorer, struct bytes piece)
{
    digest_stream_add(restorer->digest, piece);
    return true;
}

static bool produce(struct restorer *restorer, struct bytes piece)
{
    if (piece.size == 0)
        return true;
    digest_stream_add(restorer->digest, piece);
    return restorer->sink(restorer->context, piece, restorer->error);
}

/* ---- the script ---- */

/* *inverse points into *encoded. The caller frees both, even after a failure. */
static bool load_inverse(const struct sidecar *sidecar, struct buffer *encoded,
                         struct inverse *inverse, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->notes.facts;
    uint64_t section_sizes[SECTION_KIND_MAX + 1] = {0};

    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].has_content)
            section_sizes[sidecar->sections[i].kind] = sidecar->sections[i].size;
    }
    return content_load(sidecar, &sidecar->inverse, encoded, error) &&
           inverse_decode(buffer_view(encoded), facts->stripped_size, facts->original_size,
                          section_sizes, sidecar->name, inverse, error);
}

/* ---- checks ---- */

static bool start_digest(struct restorer *restorer)
{
    digest_stream_free(restorer->digest);
    restorer->digest = digest_stream_new();
    return restorer->digest != NULL ||
           error_out_of_memory(restorer->error, restorer->stripped_name, PIECE_SIZE);
}

static bool check_stripped(struct restorer *restorer)
{
    const struct sidecar_facts *facts = sidecar_facts(restorer->sidecar);
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX], uuid_text[UUID_HEX_MAX];
    struct digest found;

    if (!start_digest(restorer) ||
        !walk_stripped(restorer, 0, restorer->stripped.size, add_to_digest))
        return false;
    found = digest_stream_finish(restorer->digest);
    if (restorer->stripped.size == facts->stripped_size &&
        digest_equal(&found, &facts->stripped_digest))
        return true;
    restorer->is_other = true;
    return error_set(restorer->error,
                     "%s: not the stripped image that %s belongs to: its digest is %s, but that of "
                     "the image of UUID %s is %s; give the image as the split wrote it, or its own "
                     "sidecar",
                     restorer->stripped_name, sidecar_name(restorer->sidecar),
                     digest_format(&found, found_text), uuid_format(&facts->uuid, uuid_text),
                     digest_format(&facts->stripped_digest, wanted_text));
}

static bool check_original(struct restorer *restorer)
{
    const struct sidecar_facts *facts = sidecar_facts(restorer->sidecar);
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX];
    struct digest found = digest_stream_finish(restorer->digest);

    if (digest_equal(&found, &facts->original_digest))
        return true;
    return error_set(restorer->error,
                     "%s: the restored image has the digest %s, not that of the original, %s; the "
                     "sidecar is damaged, get an intact copy",
                     sidecar_name(restorer->sidecar), digest_format(&found, found_text),
                     digest_format(&facts->original_digest, wanted_text));
}

/* ---- the steps ---- */

/* A section's stream is opened at its first use and closed after its last byte, because a stream
 * needs a few MiB and sections are mostly used one after the other. */
static struct content_stream *section_stream(struct restorer *restorer, unsigned kind)
{
    const struct sidecar *sidecar = restorer->sidecar;

    if (restorer->streams[kind] == NULL) {
        const struct sidecar_section *section = sidecar_find(sidecar, (enum section_kind)kind);
        const struct sidecar_content *content = &sidecar->contents[section - sidecar->sections];

        restorer->streams[kind] = content_stream_open(sidecar, content, restorer->error);
    }
    return restorer->streams[kind];
}

static void close_stream(struct restorer *restorer, unsigned kind)
{
    content_stream_free(restorer->streams[kind]);
    restorer->streams[kind] = NULL;
}

static bool insert_from_section(struct restorer *restorer, const struct inverse_step *step)
{
    struct content_stream *stream = section_stream(restorer, step->source);
    uint64_t size, left = step->insert;

    if (stream == NULL)
        return false;
    /* The stream's position is how much was read; inverse_decode has checked the order. */
    size = sidecar_find(restorer->sidecar, (enum section_kind)step->source)->size;
    if (!content_stream_skip(stream, step->source_offset - (size - content_stream_left(stream))))
        return false;
    while (left != 0) {
        struct bytes part;

        if (!content_stream_take(stream, left, &part) || !produce(restorer, part))
            return false;
        left -= part.size;
    }
    if (content_stream_left(stream) == 0)
        close_stream(restorer, step->source);
    return true;
}

static bool run_steps(struct restorer *restorer, const struct inverse *inverse)
{
    uint64_t position = 0;

    for (size_t i = 0; i < inverse->count; i++) {
        const struct inverse_step *step = &inverse->steps[i];

        if (!walk_stripped(restorer, position, step->keep, produce))
            return false;
        position += step->keep + step->drop;
        if (step->insert == 0)
            continue;
        if (!(step->source == 0 ? produce(restorer, step->literals)
                                : insert_from_section(restorer, step)))
            return false;
    }
    return walk_stripped(restorer, position, restorer->stripped.size - position, produce);
}

/* Refuses sidecars that are marked as unable to restore the original. */
static bool check_sidecar(struct restorer *restorer)
{
    const struct sidecar_facts *facts = sidecar_facts(restorer->sidecar);

    if (!sidecar_is_real(restorer->sidecar, restorer->error))
        return false;
    if (facts->is_inexact)
        return error_set(restorer->error,
                         "%s: was made with --no-exact, and does not give the original back; give "
                         "a sidecar that was made without",
                         sidecar_name(restorer->sidecar));
    return true;
}

static bool restore_all(struct restorer *restorer)
{
    struct buffer encoded = {0};
    struct inverse inverse = {0};
    bool done;

    done = check_sidecar(restorer) && check_stripped(restorer) &&
           load_inverse(restorer->sidecar, &encoded, &inverse, restorer->error) &&
           start_digest(restorer) && run_steps(restorer, &inverse) && check_original(restorer);
    inverse_free(&inverse);
    buffer_free(&encoded);
    return done;
}

static bool restore(struct restorer restorer)
{
    bool done = restore_all(&restorer);

    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++)
        close_stream(&restorer, kind);
    digest_stream_free(restorer.digest);
    return done;
}

bool sidecar_restore(const struct sidecar *sidecar, struct bytes stripped,
                     const char *stripped_name, bytes_sink sink, void *context, struct error *error)
{
    return restore(
        (struct restorer){sidecar, stripped, stripped_name, NULL, sink, context, .error = error});
}

bool sidecar_restore_input(const struct sidecar *sidecar, const struct input *stripped,
                           bytes_sink sink, void *context, struct error *error)
{
    return restore((struct restorer){sidecar, stripped->bytes, stripped->path, stripped, sink,
                                     context, .error = error});
}

bool sidecar_check_stripped(const struct sidecar *sidecar, const struct input *stripped,
                            bool *is_other, struct error *error)
{
    struct restorer restorer = {.sidecar = sidecar,
                                .stripped = stripped->bytes,
                                .stripped_name = stripped->path,
                                .mapped = stripped,
                                .error = error};
    bool done = check_sidecar(&restorer) && check_stripped(&restorer);

    digest_stream_free(restorer.digest);
    *is_other = restorer.is_other;
    return done;
}

bool sidecar_verify(const struct sidecar *sidecar, struct error *error)
{
    struct buffer encoded = {0};
    struct inverse inverse = {0};
    bool done = true;

    for (size_t i = 0; done && i < sidecar->section_count; i++)
        done = !sidecar->sections[i].has_content ||
               content_pass(sidecar, &sidecar->contents[i], NULL, NULL, error);
    if (done && sidecar->notes.facts.is_inexact)
        done = content_load(sidecar, &sidecar->inverse, &encoded, error);
    else if (done)
        done = load_inverse(sidecar, &encoded, &inverse, error);
    inverse_free(&inverse);
    buffer_free(&encoded);
    return done;
}
