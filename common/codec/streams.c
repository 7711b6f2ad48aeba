/*
 * Packing streams: see streams.h.
 */
#include "common/codec/streams.h"

#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"

/* The minimum size of a stream's zstd frame, in bytes. */
#define FRAME_SIZE_MIN 10

void streams_free(struct streams *streams)
{
    for (size_t i = 0; i < STREAMS_MAX; i++)
        buffer_free(&streams->stream[i]);
    buffer_free(&streams->proved);
    streams->count = 0;
}

bool streams_failed(const struct streams *streams)
{
    bool failed = streams->proved.failed;

    for (size_t i = 0; i < streams->count; i++)
        failed = failed || streams->stream[i].failed;
    return failed;
}

uint64_t streams_size(const struct streams *streams)
{
    uint64_t size = 0;

    for (size_t i = 0; i < streams->count; i++)
        size += streams->stream[i].size;
    return size;
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

bool streams_pack(const struct streams *streams, const struct codec_options *options,
                  const char *name, struct buffer *packed, struct error *error)
{
    struct packer packer = {.streams = streams, .level = options->level, .name = name};
    bool done = true;

    parallel_run(streams->count, options->threads, pack_stream, &packer);
    buffer_append_uleb128(packed, streams->count);
    for (size_t i = 0; i < streams->count; i++) {
        if (done && !packer.done[i]) {
            *error = packer.errors[i];
            done = false;
        }
        buffer_append_uleb128(packed, streams->stream[i].size);
        if (streams->stream[i].size != 0)
            buffer_append_uleb128(packed, packer.frames[i].size);
    }
    for (size_t i = 0; i < streams->count; i++) {
        const struct buffer *stored =
            packer.frames[i].size != 0 ? &packer.frames[i] : &streams->stream[i];

        buffer_append(packed, stored->data, stored->size);
        buffer_free(&packer.frames[i]);
    }
    return done && (!packed->failed || error_out_of_memory(error, name, packed->size));
}

/* ---- unpacking ---- */

static bool is_wanted(uint64_t wanted, size_t index)
{
    return index >= 64 || (wanted >> index & 1) != 0;
}

/* Decompresses a stream, or copies it if it is stored as it is. */
static bool unpack_stream(struct codec_stream **decompressor, const struct packed *stored,
                          bool is_frame, struct buffer *to, struct error *error)
{
    if (is_frame)
        return codec_decompress_next(decompressor, stored, to, error);
    return buffer_append(to, stored->bytes.data, (size_t)stored->bytes.size) ||
           error_out_of_memory(error, stored->name, stored->bytes.size);
}

bool streams_unpack(const struct packed *packed, uint64_t wanted,
                    const struct streams_limits *limits, struct streams *streams,
                    struct error *error)
{
    struct cursor cursor = cursor_open(packed->bytes, false, false);
    uint64_t sizes[STREAMS_MAX], frame_sizes[STREAMS_MAX] = {0}; /* 0: stored uncompressed */
    uint64_t count = cursor_uleb128(&cursor), left = limits->streams, memory = 0;
    struct codec_stream *decompressor = NULL;
    bool done = true;

    streams->checked = 0;
    if (count > STREAMS_MAX)
        cursor_spoil(&cursor);
    for (size_t i = 0; i < count && !cursor.bad; i++) {
        sizes[i] = cursor_uleb128(&cursor);
        if (sizes[i] != 0)
            frame_sizes[i] = cursor_uleb128(&cursor);
        if (sizes[i] > left)
            cursor_spoil(&cursor);
        left -= sizes[i];
        if (is_wanted(wanted, i))
            memory += sizes[i];
    }
    streams->count = cursor.bad ? 0 : (size_t)count;
    done = memory_limit_allows(limits->memory, cursor.bad ? 0 : memory, packed->name, packed->what,
                               error);
    for (size_t i = 0; done && i < streams->count; i++) {
        bool is_frame = frame_sizes[i] != 0;
        struct packed stored = *packed;

        stored.size = sizes[i];
        stored.bytes = cursor_bytes(&cursor, is_frame ? frame_sizes[i] : sizes[i]);
        if (cursor.bad)
            break;
        if (is_wanted(wanted, i)) {
            done = unpack_stream(&decompressor, &stored, is_frame, &streams->stream[i], error);
            if (i < 64 && is_frame && codec_has_checksum(stored.bytes))
                streams->checked |= UINT64_C(1) << i;
        }
    }
    codec_stream_free(decompressor);
    return done && (cursor_finished(&cursor) ||
                    packed_damaged(packed, "its parts are inconsistent", error));
}
