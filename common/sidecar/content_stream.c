/*
 * The contents of a sidecar as streams: see content_stream.h.
 */
#include "common/sidecar/content_stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/codec/blocks.h"
#include "common/codec/zstd.h"
#include "common/sidecar/compact.h"

struct content_stream {
    struct codec_stream *zstd; /* NULL: the content is in `loaded` */
    struct buffer loaded;
    struct bytes rest; /* of `loaded` */
    /* Behind it come the blocks from `next` on, of so many bytes. */
    struct sidecar_compact_reader reader;
    struct blocks blocks;
    size_t next;
    uint64_t left;
    const char *name;
    const char *what;
};

static bool open_blocks(struct content_stream *stream, const struct sidecar *sidecar,
                        const struct sidecar_content *content, struct error *error)
{
    stream->left = content->size;
    return sidecar_compact_reader_open(&stream->reader, sidecar, content, error) &&
           blocks_open(&stream->blocks, content->transform, &stream->reader.context, content->frame,
                       content->size, stream->name, stream->what, error);
}

static bool open_content(struct content_stream *stream, const struct sidecar *sidecar,
                         const struct sidecar_content *content, struct error *error)
{
    if (content->transform == NULL) {
        stream->zstd =
            codec_stream_open(content->frame, content->size, stream->name, stream->what, error);
        return stream->zstd != NULL;
    }
    if (content->transform->block != NULL)
        return open_blocks(stream, sidecar, content, error);
    if (!sidecar_content_load(sidecar, content, &stream->loaded, error))
        return false;
    stream->rest = buffer_view(&stream->loaded);
    return true;
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
    stream->name = sidecar->name;
    stream->what = content->what;
    if (!open_content(stream, sidecar, content, error)) {
        content_stream_free(stream);
        return NULL;
    }
    return stream;
}

uint64_t content_stream_left(const struct content_stream *stream)
{
    return stream->zstd != NULL ? codec_stream_left(stream->zstd)
                                : stream->rest.size + stream->left;
}

/* As many blocks as there are threads for. */
static bool load_blocks(struct content_stream *stream, struct error *error)
{
    size_t count = stream->blocks.count - stream->next;
    size_t threads = stream->blocks.context.threads;

    if (count > threads)
        count = threads == 0 ? 1 : threads;
    stream->loaded.size = 0;
    if (!blocks_decode(&stream->blocks, stream->next, count, &stream->loaded, error))
        return false;
    stream->rest = buffer_view(&stream->loaded);
    stream->next += count;
    stream->left -= stream->rest.size;
    return true;
}

static bool is_short(const struct content_stream *stream, uint64_t size, struct error *error)
{
    return size > content_stream_left(stream) &&
           !error_set(error,
                      "%s: %s is damaged (it is shorter than what refers to it); get an intact "
                      "copy",
                      stream->name, stream->what);
}

/* Takes what is loaded, up to `size` bytes; loads more where nothing is left of it. */
static bool take(struct content_stream *stream, uint64_t size, struct bytes *part,
                 struct error *error)
{
    if (stream->rest.size == 0 && !load_blocks(stream, error))
        return false;
    *part = stream->rest;
    if (part->size > size)
        part->size = size;
    stream->rest = (struct bytes){part->data + part->size, stream->rest.size - part->size};
    return true;
}

bool content_stream_read(struct content_stream *stream, void *to, size_t size, struct error *error)
{
    uint8_t *at = to;

    if (stream->zstd != NULL)
        return codec_stream_read(stream->zstd, to, size, error);
    if (is_short(stream, size, error))
        return false;
    while (size != 0) {
        struct bytes part;

        if (!take(stream, size, &part, error))
            return false;
        memcpy(at, part.data, (size_t)part.size);
        at += part.size;
        size -= (size_t)part.size;
    }
    return true;
}

/* Passes over whole blocks that nothing is loaded of. */
static uint64_t skip_blocks(struct content_stream *stream, uint64_t size)
{
    uint64_t skipped = 0;

    while (stream->rest.size == 0 && stream->next < stream->blocks.count &&
           stream->blocks.blocks[stream->next].size <= size - skipped)
        skipped += stream->blocks.blocks[stream->next++].size;
    stream->left -= skipped;
    return skipped;
}

bool content_stream_skip(struct content_stream *stream, uint64_t size, struct error *error)
{
    if (stream->zstd != NULL)
        return codec_stream_skip(stream->zstd, size, error);
    if (is_short(stream, size, error))
        return false;
    while ((size -= skip_blocks(stream, size)) != 0) {
        struct bytes part;

        if (!take(stream, size, &part, error))
            return false;
        size -= part.size;
    }
    return true;
}

bool content_stream_finish(struct content_stream *stream, struct error *error)
{
    if (stream->zstd != NULL)
        return codec_stream_finish(stream->zstd, error);
    return content_stream_left(stream) == 0 ||
           error_set(error,
                     "%s: %s is damaged (it is longer than what refers to it); get an intact copy",
                     stream->name, stream->what);
}

void content_stream_free(struct content_stream *stream)
{
    if (stream == NULL)
        return;
    codec_stream_free(stream->zstd);
    blocks_close(&stream->blocks);
    sidecar_compact_reader_free(&stream->reader);
    buffer_free(&stream->loaded);
    free(stream);
}
