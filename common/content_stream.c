/*
 * The contents of a sidecar as streams: see content_stream.h.
 */
#include "common/content_stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/codec.h"

struct content_stream {
    struct codec_stream *zstd; /* NULL: the content is in `loaded` */
    struct buffer loaded;
    struct bytes rest; /* of `loaded` */
    const char *name;
    const char *what;
};

struct content_stream *content_stream_open(const struct sidecar *sidecar,
                                           const struct sidecar_content *content,
                                           struct error *error)
{
    struct content_stream *stream = calloc(1, sizeof(*stream));
    bool done;

    if (stream == NULL) {
        error_out_of_memory(error, sidecar->name, sizeof(*stream));
        return NULL;
    }
    stream->name = sidecar->name;
    stream->what = content->what;
    if (content->transform == NULL) {
        stream->zstd =
            codec_stream_open(content->frame, content->size, sidecar->name, content->what, error);
        done = stream->zstd != NULL;
    } else {
        done = sidecar_content_load(sidecar, content, &stream->loaded, error);
        stream->rest = buffer_view(&stream->loaded);
    }
    if (!done) {
        content_stream_free(stream);
        return NULL;
    }
    return stream;
}

uint64_t content_stream_left(const struct content_stream *stream)
{
    return stream->zstd != NULL ? codec_stream_left(stream->zstd) : stream->rest.size;
}

static bool take(struct content_stream *stream, uint64_t size, struct bytes *part,
                 struct error *error)
{
    if (!bytes_slice(stream->rest, 0, size, part))
        return error_set(error,
                         "%s: %s is damaged (it is shorter than what refers to it); get an intact "
                         "copy",
                         stream->name, stream->what);
    if (size != 0)
        stream->rest = (struct bytes){part->data + size, stream->rest.size - size};
    return true;
}

bool content_stream_read(struct content_stream *stream, void *to, size_t size, struct error *error)
{
    struct bytes part;

    if (stream->zstd != NULL)
        return codec_stream_read(stream->zstd, to, size, error);
    if (!take(stream, size, &part, error))
        return false;
    if (size != 0)
        memcpy(to, part.data, size);
    return true;
}

bool content_stream_skip(struct content_stream *stream, uint64_t size, struct error *error)
{
    struct bytes part;

    return stream->zstd != NULL ? codec_stream_skip(stream->zstd, size, error)
                                : take(stream, size, &part, error);
}

bool content_stream_finish(struct content_stream *stream, struct error *error)
{
    if (stream->zstd != NULL)
        return codec_stream_finish(stream->zstd, error);
    return stream->rest.size == 0 ||
           error_set(error,
                     "%s: %s is damaged (it is longer than what refers to it); get an intact copy",
                     stream->name, stream->what);
}

void content_stream_free(struct content_stream *stream)
{
    if (stream == NULL)
        return;
    codec_stream_free(stream->zstd);
    buffer_free(&stream->loaded);
    free(stream);
}
