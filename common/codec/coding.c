/*
 * Encoding and decoding a section or a block: see coding.h.
 */
#include "common/codec/coding.h"

#include <inttypes.h>

#include "common/base/memory_limit.h"
#include "common/codec/deflate/memo.h"

/* The most bytes that the streams of a section of `size` bytes may have. */
static uint64_t streams_limit(const struct transform *transform, uint64_t size)
{
    uint64_t limit;

    return __builtin_mul_overflow(size, transform->streams_per_byte, &limit) ? UINT64_MAX : limit;
}

static bool damaged(const struct packed *packed, struct error *error)
{
    return packed_damaged(packed, "it cannot be decoded", error);
}

bool coding_check(enum result result, const struct transform_context *context,
                  const struct packed *packed, struct error *error)
{
    switch (result) {
    case RESULT_OK:
        return true;
    case RESULT_NO_MEMORY:
        return error_out_of_memory(error, packed->name, packed->size);
    case RESULT_OVER_LIMIT:
        return error_set(error,
                         "%s: the texts of %s take more memory than the limit of %" PRIu64
                         " bytes; raise it (--memory-limit) if the file is to be trusted",
                         packed->name, packed->what, transform_memory_limit(context));
    case RESULT_UNFIT:
        break;
    }
    return damaged(packed, error);
}

static uint64_t streams_size(const struct streams *streams)
{
    uint64_t size = 0;

    for (size_t i = 0; i < streams->count; i++)
        size += streams->stream[i].size;
    return size;
}

/* ---- the memo of what has been proved ---- */

/* The digest of everything that determines what the streams decode to. False if out of memory. */
static bool digest_sources(const struct transform *transform,
                           const struct transform_context *context, const struct streams *streams,
                           uint64_t size, struct digest *digest)
{
    const uint64_t numbers[] = {
        transform->id, context->big_endian, context->pointer_size, context->raw_version,
        size,          streams->count};
    struct digest_stream *stream = digest_stream_new();
    uint64_t sizes[STREAMS_MAX];

    if (stream == NULL)
        return false;
    digest_stream_add(stream, (struct bytes){(const uint8_t *)numbers, sizeof(numbers)});
    if (transform->needs_names)
        digest_stream_add(stream, (struct bytes){context->sources.names.bytes, DIGEST_SIZE});
    if (transform->needs_data)
        digest_stream_add(stream, (struct bytes){context->sources.data.bytes, DIGEST_SIZE});
    if (transform->needs_mapping) {
        digest_stream_add(stream, (struct bytes){context->sources.covmap.bytes, DIGEST_SIZE});
        digest_stream_add(stream, (struct bytes){context->sources.covfun.bytes, DIGEST_SIZE});
    }
    for (size_t i = 0; i < streams->count; i++)
        sizes[i] = streams->stream[i].size;
    digest_stream_add(stream,
                      (struct bytes){(const uint8_t *)sizes, streams->count * sizeof(sizes[0])});
    for (size_t i = 0; i < streams->count; i++)
        digest_stream_add(stream, buffer_view(&streams->stream[i]));
    *digest = digest_stream_finish(stream);
    digest_stream_free(stream);
    return true;
}

/* Appends what the memo knows that the streams decode to. False if it does not know that. */
static bool recall(const struct transform *transform, const struct transform_context *context,
                   const struct streams *streams, uint64_t size, struct buffer *section)
{
    struct digest digest;
    struct bytes known;

    return context->memo != NULL && digest_sources(transform, context, streams, size, &digest) &&
           memo_find_section(context->memo, &digest, &known) &&
           buffer_append(section, known.data, (size_t)known.size);
}

/* ---- writing ---- */

/* Encodes the section into streams, and decodes these again. */
static enum result encode_and_prove(const struct transform *transform,
                                    const struct transform_context *context, struct bytes section,
                                    struct streams *streams)
{
    struct memo *memo = context->memo;
    struct buffer again = {0};
    struct digest digest;
    enum result result = transform->encode(context, section, streams);

    if (result == RESULT_OK && streams_size(streams) > streams_limit(transform, section.size))
        result = RESULT_UNFIT;
    /* Decoding may change the streams. */
    if (result == RESULT_OK && memo != NULL &&
        !digest_sources(transform, context, streams, section.size, &digest))
        result = RESULT_NO_MEMORY;
    if (result == RESULT_OK)
        result = transform->decode(context, streams, section.size, &again);
    if (result == RESULT_OK && !bytes_equal(buffer_view(&again), section))
        result = RESULT_UNFIT;
    if (result == RESULT_OK && memo != NULL && !memo_add_section(memo, &digest, section))
        result = RESULT_NO_MEMORY;
    buffer_free(&again);
    return result;
}

bool coding_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error)
{
    struct streams streams = {0};
    enum result result = encode_and_prove(transform, context, section, &streams);
    bool done = true;

    *fits = result == RESULT_OK;
    if (result == RESULT_NO_MEMORY)
        done = error_out_of_memory(error, name, section.size);
    else if (result == RESULT_OK)
        done = streams_pack(&streams, options, name, packed, error);
    streams_free(&streams);
    return done;
}

/* ---- reading ---- */

bool coding_unpack(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, uint64_t wanted, struct streams *streams,
                   struct error *error)
{
    const struct streams_limits limits = {streams_limit(transform, packed->size),
                                          transform_memory_limit(context)};

    return streams_unpack(packed, wanted, &limits, streams, error);
}

bool coding_decode(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, struct error *error)
{
    struct streams streams = {0};
    bool done = memory_limit_allows(transform_memory_limit(context), packed->size, packed->name,
                                    packed->what, error) &&
                coding_unpack(transform, context, packed, UINT64_MAX, &streams, error);
    size_t start = section->size;

    if (done && !recall(transform, context, &streams, packed->size, section))
        done = coding_check(transform->decode(context, &streams, packed->size, section), context,
                            packed, error) &&
               (section->size - start == packed->size || damaged(packed, error));
    streams_free(&streams);
    return done;
}

bool coding_recall(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, bool *found,
                   struct error *error)
{
    struct streams streams = {0};
    bool done = true;

    *found = false;
    if (context->memo != NULL) {
        done = coding_unpack(transform, context, packed, UINT64_MAX, &streams, error);
        *found = done && recall(transform, context, &streams, packed->size, section);
    }
    streams_free(&streams);
    return done;
}
