/*
 * Packing streams: see codec/streams.h.
 */
#include "common/codec/streams.h"

#include "common/base/memory_limit.h"
#include "common/base/parallel.h"

/* The minimum size of a stream's zstd frame, in bytes. */
#define FRAME_SIZE_MIN 10

void streams_free(struct streams *streams)
{
    for (size_t i = 0; i < STREAMS_MAX; i++)
        buffer_free(&streams->stream[i]);
    streams->count = 0;
}

uint64_t streams_bound(const struct buffer *streams, size_t count, uint64_t section_size,
                       const struct stream_proportion *proportion)
{
    uint64_t bound = 0;

    for (size_t i = 0; i < count; i++)
        bound += (uint64_t)proportion->per_part_byte * streams[i].size;
    if (section_size < bound / proportion->per_section_byte)
        bound = proportion->per_section_byte * section_size;
    bound += proportion->besides;
    return bound < SIZE_MAX / 4 ? bound : SIZE_MAX / 4;
}

/* ---- packing ---- */

struct packer {
    const struct streams *streams;
    int level;
    const char *name;
    struct buffer frames[STREAMS_MAX]; /* empty: the stream is stored uncompressed */
    struct error errors[STREAMS_MAX];
    bool done[STREAMS_MAX];
};

static void pack_stream(void *context, size_t index)
{
    struct packer *packer = context;
    const struct buffer *part = &packer->streams->stream[index];
    struct buffer *frame = &packer->frames[index];
    bool checked = part->size != 0 && index < 64 && (packer->streams->checked >> index & 1) != 0;

    packer->done[index] = (part->size <= FRAME_SIZE_MIN && !checked) ||
                          codec_compress_once(buffer_view(part), packer->level, checked,
                                              packer->name, frame, &packer->errors[index]);
    if (frame->size >= part->size && !checked)
        frame->size = 0;
}

static bool append_packed(const struct packer *packer, struct buffer *packed)
{
    const struct streams *streams = packer->streams;
    bool done = buffer_append_uleb128(packed, streams->count);

    for (size_t i = 0; done && i < streams->count; i++)
        done =
            buffer_append_uleb128(packed, streams->stream[i].size) &&
            (streams->stream[i].size == 0 || buffer_append_uleb128(packed, packer->frames[i].size));
    for (size_t i = 0; done && i < streams->count; i++) {
        const struct buffer *stored =
            packer->frames[i].size != 0 ? &packer->frames[i] : &streams->stream[i];
        done = buffer_append(packed, stored->data, stored->size);
    }
    return done;
}

bool streams_pack(const struct streams *streams, const struct codec_options *options,
                  const char *name, struct buffer *packed, struct error *error)
{
    struct packer packer = {.streams = streams, .level = options->level, .name = name};
    bool done = true;

    parallel_run(streams->count, options->threads, pack_stream, &packer);
    for (size_t i = 0; done && i < streams->count; i++) {
        done = packer.done[i];
        if (!done)
            *error = packer.errors[i];
    }
    if (done && !append_packed(&packer, packed))
        done = error_out_of_memory(error, name, packed->size);
    for (size_t i = 0; i < streams->count; i++)
        buffer_free(&packer.frames[i]);
    return done;
}

/* ---- unpacking ---- */

static bool damaged(const struct packed *packed, struct error *error)
{
    return packed_damaged(packed, "its parts are inconsistent", error);
}

static bool take(struct bytes *from, uint64_t size, struct bytes *taken)
{
    return bytes_slice(*from, 0, size, taken) && bytes_slice(*from, size, from->size - size, from);
}

/* Unpacks a stream that is stored uncompressed or as a zstd frame. */
static bool unpack_stream(struct codec_stream **stream, const struct packed *stored, bool is_frame,
                          struct buffer *to, struct error *error)
{
    if (is_frame)
        return codec_decompress_next(stream, stored, to, error);
    return buffer_append(to, stored->bytes.data, (size_t)stored->bytes.size) ||
           error_out_of_memory(error, stored->name, stored->bytes.size);
}

static bool is_wanted(uint64_t wanted, size_t index)
{
    return index >= 64 || (wanted >> index & 1) != 0;
}

/* How a stream is stored. */
struct stored_stream {
    uint64_t size;
    uint64_t frame_size; /* 0: stored uncompressed */
};

/* Takes the number of streams and their sizes off the front of `rest`. */
static bool take_sizes(const struct packed *packed, struct bytes *rest, uint64_t wanted,
                       const struct streams_limits *limits, struct streams *streams,
                       struct stored_stream stored[STREAMS_MAX], struct error *error)
{
    uint64_t count, left = limits->streams, memory = 0;

    if (!bytes_take_uleb128(rest, &count) || count > STREAMS_MAX)
        return damaged(packed, error);
    streams->count = (size_t)count;
    for (size_t i = 0; i < count; i++) {
        stored[i].frame_size = 0;
        if (!bytes_take_uleb128(rest, &stored[i].size) || stored[i].size > left ||
            (stored[i].size != 0 && !bytes_take_uleb128(rest, &stored[i].frame_size)))
            return damaged(packed, error);
        left -= stored[i].size;
        if (is_wanted(wanted, i))
            memory += stored[i].size;
    }
    return memory_limit_allows(limits->memory, memory, packed->name, packed->what, error);
}

bool streams_unpack(const struct packed *packed, uint64_t wanted,
                    const struct streams_limits *limits, struct streams *streams,
                    struct error *error)
{
    struct stored_stream stored[STREAMS_MAX];
    struct codec_stream *stream = NULL;
    struct bytes rest = packed->bytes;
    bool done = true;

    streams->checked = 0;
    if (!take_sizes(packed, &rest, wanted, limits, streams, stored, error))
        return false;
    for (size_t i = 0; done && i < streams->count; i++) {
        bool is_frame = stored[i].frame_size != 0;
        struct packed one = *packed;

        one.size = stored[i].size;
        if (!take(&rest, is_frame ? stored[i].frame_size : one.size, &one.bytes)) {
            done = damaged(packed, error);
        } else if (is_wanted(wanted, i)) {
            done = unpack_stream(&stream, &one, is_frame, &streams->stream[i], error);
            if (i < 64 && is_frame && codec_has_checksum(one.bytes))
                streams->checked |= UINT64_C(1) << i;
        }
    }
    codec_stream_free(stream);
    return done && (rest.size == 0 || damaged(packed, error));
}
