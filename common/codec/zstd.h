/*
 * zstd, in the one place that knows of it.
 *
 * What is compressed here becomes one zstd frame that names its decompressed size and has no
 * checksum (digests of our own cover the contents). Decompression is a stream of exact reads, so a
 * caller decides how much memory a section may take, whatever sizes a hostile file declares.
 */
#ifndef COVSPLIT_COMMON_CODEC_ZSTD_H
#define COVSPLIT_COMMON_CODEC_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/packed.h"

#define CODEC_LEVEL_MIN 1
#define CODEC_LEVEL_MAX 19

/* ---- compressing ---- */

struct codec_options {
    int level;        /* CODEC_LEVEL_MIN to CODEC_LEVEL_MAX */
    unsigned threads; /* 1 or more; the compressed bytes do not depend on it */
};

/* Called with each piece of the source after it has been copied into the compressor, in order. */
typedef void (*codec_consumed)(void *context, struct bytes piece);

/* Appends the compressed form of a view to *compressed. `consumed` may be NULL. `name` is for
 * messages. On failure the buffer may have grown, and its contents from the old size on are
 * undefined. */
bool codec_compress(struct bytes source, const struct codec_options *options,
                    codec_consumed consumed, void *context, const char *name,
                    struct buffer *compressed, struct error *error);

/* The same in one go, on the caller's thread, with a window as large as the source (up to 128 MiB):
 * for what has been brought into a form that compresses well: columns of numbers, or with a
 * checksum in the frame a text that is read by itself, of which whoever decompresses it sees
 * whether it was damaged. */
bool codec_compress_once(struct bytes source, int level, bool with_checksum, const char *name,
                         struct buffer *compressed, struct error *error);

/* Whether a frame has a checksum (RFC 8878, 3.1.1.1.1.5). */
bool codec_has_checksum(struct bytes frame);

/* ---- decompressing ---- */

struct codec_stream;

/* Starts over one frame, which must decompress to just `frame->size` bytes and outlive the stream
 * with its texts. Free with codec_stream_free (NULL is allowed). */
struct codec_stream *codec_stream_open(const struct packed *frame, struct error *error);

/* The decompressed bytes that have not been read yet. */
uint64_t codec_stream_left(const struct codec_stream *stream);

/* Reads exactly `size` bytes; false if the stream does not hold them. */
bool codec_stream_read(struct codec_stream *stream, void *to, size_t size, struct error *error);

/* Appends all that has not been read yet. The buffer grows with what comes out, so a false size
 * costs nothing. */
bool codec_stream_read_all(struct codec_stream *stream, struct buffer *to, struct error *error);

/* Reads and throws away. */
bool codec_stream_skip(struct codec_stream *stream, uint64_t size, struct error *error);

/* Checks that everything was read, and that frame and compressed bytes end there as well. */
bool codec_stream_finish(struct codec_stream *stream, struct error *error);

void codec_stream_free(struct codec_stream *stream);

/* Appends what one frame decompresses to: a stream that is opened, read and finished. The stream is
 * *kept for the next frame: start from NULL, and free it in the end, also after a failure. */
bool codec_decompress_next(struct codec_stream **kept, const struct packed *frame,
                           struct buffer *to, struct error *error);

/* The same for a single frame. */
bool codec_decompress(const struct packed *frame, struct buffer *to, struct error *error);

#endif
