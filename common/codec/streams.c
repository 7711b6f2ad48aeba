/*
 * Packing streams: see codec/streams.h.
 */
#include "common/codec/streams.h"

#include "common/base/memory_limit.h"
#include "common/base/parallel.h"

/* No zstd frame of a part is smaller. */
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
    struct buffer frames[STREAMS_MAX]; /* empty: the part is stored as it is */
    struct error errors[STREAMS_MAX];
    bool done[STREAMS_MAX];
};

static void pack_part(void *context, size_t index)
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

    parallel_run(streams->count, options->threads, pack_part, &packer);
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

static bool damaged(const char *name, const char *what, struct error *error)
{
    return error_set(error,
                     "%s: %s is damaged (its streams do not fit together); get an intact copy",
                     name, what);
}

static bool take(struct bytes *from, uint64_t size, struct bytes *taken)
{
    return bytes_slice(*from, 0, size, taken) && bytes_slice(*from, size, from->size - size, from);
}

/* A part, stored as it is (`stored` is 0) or as a frame, from the front of what is packed. */
static bool unpack_part(struct codec_stream **stream, struct bytes bytes, uint64_t stored,
                        uint64_t size, const char *name, const char *what, struct buffer *part,
                        struct error *error)
{
    if (stored != 0)
        return codec_decompress_next(stream, bytes, size, name, what, part, error);
    return buffer_append(part, bytes.data, (size_t)bytes.size) ||
           error_out_of_memory(error, name, bytes.size);
}

static bool is_wanted(uint64_t wanted, size_t part)
{
    return part >= 64 || (wanted >> part & 1) != 0;
}

/* Takes the number of streams and their sizes off the front. stored[i] is 0 for a part that is
 * stored as it is. */
static bool take_sizes(struct bytes *packed, uint64_t wanted, const struct streams_limits *limits,
                       const char *name, const char *what, struct streams *streams,
                       uint64_t sizes[STREAMS_MAX], uint64_t stored[STREAMS_MAX],
                       struct error *error)
{
    uint64_t count, left = limits->streams, memory = 0;

    if (!bytes_take_uleb128(packed, &count) || count > STREAMS_MAX)
        return damaged(name, what, error);
    streams->count = (size_t)count;
    for (size_t i = 0; i < count; i++) {
        stored[i] = 0;
        if (!bytes_take_uleb128(packed, &sizes[i]) || sizes[i] > left ||
            (sizes[i] != 0 && !bytes_take_uleb128(packed, &stored[i])))
            return damaged(name, what, error);
        left -= sizes[i];
        if (is_wanted(wanted, i))
            memory += sizes[i];
    }
    return memory_limit_allows(limits->memory, memory, name, what, error);
}

bool streams_unpack(struct bytes packed, uint64_t wanted, const struct streams_limits *limits,
                    const char *name, const char *what, struct streams *streams,
                    struct error *error)
{
    uint64_t sizes[STREAMS_MAX], stored[STREAMS_MAX];
    struct codec_stream *stream = NULL;
    bool done = true;

    streams->checked = 0;
    if (!take_sizes(&packed, wanted, limits, name, what, streams, sizes, stored, error))
        return false;
    for (size_t i = 0; done && i < streams->count; i++) {
        struct bytes bytes;

        if (!take(&packed, stored[i] != 0 ? stored[i] : sizes[i], &bytes)) {
            done = damaged(name, what, error);
        } else if (is_wanted(wanted, i)) {
            done = unpack_part(&stream, bytes, stored[i], sizes[i], name, what, &streams->stream[i],
                               error);
            if (i < 64 && stored[i] != 0 && codec_has_checksum(bytes))
                streams->checked |= UINT64_C(1) << i;
        }
    }
    codec_stream_free(stream);
    return done && (packed.size == 0 || damaged(name, what, error));
}
