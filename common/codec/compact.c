/*
 * The compact codec: see compact.h.
 */
#include "common/codec/compact.h"

#include <inttypes.h>

#include "common/base/memory_limit.h"
#include "common/codec/blocks.h"
#include "common/codec/transforms.h"

static const struct compact_transform *const transforms[] = {
    &compact_names_2, &compact_data_2, &compact_covmap_2, &compact_covfun_3, &compact_covfun_4,
};

#define TRANSFORM_COUNT (sizeof(transforms) / sizeof(transforms[0]))

const struct compact_transform *compact_transform_for(enum section_kind kind, bool in_blocks)
{
    const struct compact_transform *found = NULL;

    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        bool is_blocks = transforms[i]->block != NULL;

        if ((transforms[i]->kinds & SECTION_BIT(kind)) != 0 &&
            (is_blocks ? in_blocks : found == NULL))
            found = transforms[i];
    }
    return found;
}

const struct compact_transform *compact_transform_of(uint32_t type, enum section_kind kind)
{
    for (size_t i = 0; i < TRANSFORM_COUNT; i++) {
        if (transforms[i]->type == type && (transforms[i]->kinds & SECTION_BIT(kind)) != 0)
            return transforms[i];
    }
    return NULL;
}

/* Of a section of `size` bytes. */
static uint64_t parts_limit(const struct compact_transform *transform, uint64_t size)
{
    uint64_t limit;

    return __builtin_mul_overflow(size, transform->parts_per_byte, &limit) ? UINT64_MAX : limit;
}

static bool damaged(const char *name, const char *what, struct error *error)
{
    return error_set(error, "%s: %s is damaged (it cannot be put together); get an intact copy",
                     name, what);
}

/* What came of decoding a section of `size` bytes. */
static bool check_decoded(enum compact_result result, const struct compact_context *context,
                          uint64_t size, const char *name, const char *what, struct error *error)
{
    switch (result) {
    case COMPACT_DONE:
        return true;
    case COMPACT_NO_MEMORY:
        return error_out_of_memory(error, name, size);
    case COMPACT_OVER_LIMIT:
        return error_set(error,
                         "%s: the texts of %s take more memory than the limit of %" PRIu64
                         " bytes; raise it (--memory-limit) if the file is to be trusted",
                         name, what, compact_memory_limit(context));
    case COMPACT_UNFIT:
        break;
    }
    return damaged(name, what, error);
}

static uint64_t parts_size(const struct compact_parts *parts)
{
    uint64_t size = 0;

    for (size_t i = 0; i < parts->count; i++)
        size += parts->parts[i].size;
    return size;
}

/* ---- what was proved ---- */

/* The digest of all that decides what parts are decoded to. False: no memory. */
static bool digest_sources(const struct compact_transform *transform,
                           const struct compact_context *context, const struct compact_parts *parts,
                           uint64_t size, struct digest *digest)
{
    const uint64_t numbers[] = {
        transform->type, context->big_endian, context->pointer_size, context->raw_version, size,
        parts->count};
    struct digest_stream *stream = digest_stream_new();
    uint64_t sizes[COMPACT_PARTS_MAX];

    if (stream == NULL)
        return false;
    digest_stream_add(stream, (struct bytes){(const uint8_t *)numbers, sizeof(numbers)});
    if (transform->needs_names)
        digest_stream_add(stream, (struct bytes){context->sources.names.bytes, DIGEST_SIZE});
    if (transform->needs_data)
        digest_stream_add(stream, (struct bytes){context->sources.data.bytes, DIGEST_SIZE});
    for (size_t i = 0; i < parts->count; i++)
        sizes[i] = parts->parts[i].size;
    digest_stream_add(stream,
                      (struct bytes){(const uint8_t *)sizes, parts->count * sizeof(sizes[0])});
    for (size_t i = 0; i < parts->count; i++)
        digest_stream_add(stream, buffer_view(&parts->parts[i]));
    *digest = digest_stream_finish(stream);
    digest_stream_free(stream);
    return true;
}

/* Appends what the parts were decoded to before. False where that is not known. */
static bool recall(const struct compact_transform *transform, const struct compact_context *context,
                   const struct compact_parts *parts, uint64_t size, struct buffer *section)
{
    struct digest digest;
    struct bytes known;

    return context->memo != NULL && digest_sources(transform, context, parts, size, &digest) &&
           zlib_memo_find_section(context->memo, &digest, &known) &&
           buffer_append(section, known.data, (size_t)known.size);
}

/* ---- writing ---- */

/* Takes the section apart, and puts it together again. */
static enum compact_result encode_and_prove(const struct compact_transform *transform,
                                            const struct compact_context *context,
                                            struct bytes section, struct compact_parts *parts)
{
    struct zlib_memo *memo = context->memo;
    struct buffer again = {0};
    struct digest digest;
    enum compact_result result = transform->encode(context, section, parts);

    if (result == COMPACT_DONE && parts_size(parts) > parts_limit(transform, section.size))
        result = COMPACT_UNFIT;
    /* Decoding may change the parts. */
    if (result == COMPACT_DONE && memo != NULL &&
        !digest_sources(transform, context, parts, section.size, &digest))
        result = COMPACT_NO_MEMORY;
    if (result == COMPACT_DONE)
        result = transform->decode(context, parts, section.size, &again);
    if (result == COMPACT_DONE && !bytes_equal(buffer_view(&again), section))
        result = COMPACT_UNFIT;
    if (result == COMPACT_DONE && memo != NULL && !zlib_memo_add_section(memo, &digest, section))
        result = COMPACT_NO_MEMORY;
    buffer_free(&again);
    return result;
}

static bool encode_section(const struct compact_transform *transform,
                           const struct compact_context *context, struct bytes section,
                           const struct codec_options *options, const char *name,
                           struct buffer *packed, bool *fits, struct error *error)
{
    struct compact_parts parts = {0};
    enum compact_result result = encode_and_prove(transform, context, section, &parts);
    bool done = true;

    *fits = result == COMPACT_DONE;
    if (result == COMPACT_NO_MEMORY)
        done = error_out_of_memory(error, name, section.size);
    else if (result == COMPACT_DONE)
        done = compact_parts_pack(&parts, options, name, packed, error);
    compact_parts_free(&parts);
    return done;
}

bool compact_encode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes section,
                    const struct codec_options *options, const char *name, struct buffer *packed,
                    bool *fits, struct error *error)
{
    size_t start = packed->size;
    bool done = (transform->block != NULL ? compact_blocks_encode : encode_section)(
        transform, context, section, options, name, packed, fits, error);

    if (done && *fits && packed->size - start > section.size + section.size / 8) {
        packed->size = start;
        *fits = false;
    }
    return done;
}

/* ---- reading ---- */

static bool unpack(const struct compact_transform *transform, const struct compact_context *context,
                   struct bytes packed, uint64_t wanted, uint64_t size, const char *name,
                   const char *what, struct compact_parts *parts, struct error *error)
{
    const struct compact_limits limits = {parts_limit(transform, size),
                                          compact_memory_limit(context)};

    return compact_parts_unpack(packed, wanted, &limits, name, what, parts, error);
}

static bool decode_section(const struct compact_transform *transform,
                           const struct compact_context *context, struct bytes packed,
                           uint64_t size, const char *name, const char *what,
                           struct buffer *section, struct error *error)
{
    struct compact_parts parts = {0};
    bool done = memory_limit_allows(compact_memory_limit(context), size, name, what, error) &&
                unpack(transform, context, packed, UINT64_MAX, size, name, what, &parts, error);
    size_t start = section->size;

    if (done && !recall(transform, context, &parts, size, section))
        done = check_decoded(transform->decode(context, &parts, size, section), context, size, name,
                             what, error) &&
               (section->size - start == size || damaged(name, what, error));
    compact_parts_free(&parts);
    return done;
}

static bool decode_blocks(const struct compact_transform *transform,
                          const struct compact_context *context, struct bytes packed, uint64_t size,
                          const char *name, const char *what, struct buffer *section,
                          struct error *error)
{
    struct compact_blocks blocks;
    bool done = compact_blocks_open(&blocks, transform, context, packed, size, name, what, error) &&
                compact_blocks_decode(&blocks, 0, blocks.count, section, error);

    compact_blocks_close(&blocks);
    return done;
}

bool compact_decode(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes packed, uint64_t size,
                    const char *name, const char *what, struct buffer *section, struct error *error)
{
    /* On a machine of 32 bits, transforms count on a section that fits. */
    if (size >= SIZE_MAX)
        return error_out_of_memory(error, name, size);
    return (transform->block != NULL ? decode_blocks : decode_section)(
        transform, context, packed, size, name, what, section, error);
}

bool compact_recall(const struct compact_transform *transform,
                    const struct compact_context *context, struct bytes packed, uint64_t size,
                    const char *name, const char *what, struct buffer *section, bool *found,
                    struct error *error)
{
    struct compact_parts parts = {0};
    bool done = true;

    *found = false;
    if (context->memo != NULL && transform->block == NULL) {
        done = unpack(transform, context, packed, UINT64_MAX, size, name, what, &parts, error);
        *found = done && recall(transform, context, &parts, size, section);
    }
    compact_parts_free(&parts);
    return done;
}

bool compact_decode_names(const struct compact_context *context, struct bytes packed, uint64_t size,
                          const char *name, const char *what, struct name_table *names,
                          bool *are_all, struct error *error)
{
    const uint64_t wanted = COMPACT_NAMES_ALONE;
    struct compact_parts parts = {0};
    bool done = unpack(&compact_names_2, context, packed, wanted, size, name, what, &parts, error);

    *names = (struct name_table){0};
    if (done)
        done = check_decoded(name_text_decode(&parts.parts[COMPACT_NAMES_TEXT], size,
                                              compact_memory_limit(context), names),
                             context, size, name, what, error);
    if (are_all != NULL)
        *are_all = parts.checked == wanted &&
                   compact_names_are_all(buffer_view(&parts.parts[COMPACT_NAMES_PIECES]));
    compact_parts_free(&parts);
    return done;
}
