/*
 * Compression with zstd. Only this module uses libzstd.
 *
 * Compressed data is one zstd frame that contains its decompressed size and no checksum (the
 * sidecar's own digests cover the contents). Decompression is a stream of exact reads, so the
 * caller decides how much memory a section may take, whatever sizes a hostile file declares.
 */
#ifndef COVSPLIT_COMMON_CODEC_ZSTD_H
#define COVSPLIT_COMMON_CODEC_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Stored bytes that are to be decoded, with what error messages say about them. Owns none of what
 * it points to. */
struct encoded {
    struct bytes bytes;
    uint64_t size; /* the declared decoded size, in bytes; not to be trusted */
    /* For messages: "`name`: `what` is damaged (how); get an intact copy". */
    const char *name;
    const char *what;
};

/* Reports that the bytes are damaged. Returns false. */
static inline bool encoded_damaged(const struct encoded *encoded, const char *how,
                                   struct error *error)
{
    return error_set(error, "%s: %s is damaged (%s); get an intact copy", encoded->name,
                     encoded->what, how);
}

#define CODEC_LEVEL_MIN 1
#define CODEC_LEVEL_MAX 19
/* What sidecars are compressed with unless a user asks for another level. */
#define CODEC_LEVEL_DEFAULT 9
/* From this one on, zstd puts all of a text into trees. */
#define CODEC_LEVEL_TREES 13

/* ---- compressing ---- */

struct codec_options {
    int level;        /* CODEC_LEVEL_MIN to CODEC_LEVEL_MAX */
    unsigned threads; /* 1 or more; does not affect the compressed bytes */
    /* Called with each piece of the source after use; may be NULL. codec_compress calls it in
     * order, codec_encode twice for each block of a section in blocks, the second time on any
     * thread. */
    void (*consumed)(void *context, struct bytes piece);
    void *context;
};

/* Compresses `source` and appends the frame to *compressed. `name` is for messages. On failure the
 * buffer may have grown, and its contents after the old size are undefined. */
bool codec_compress(struct bytes source, const struct codec_options *options, const char *name,
                    struct buffer *compressed, struct error *error);

/* The same in one step, on the caller's thread, with a window as large as the source (up to 128
 * MiB). For streams of a transform: columns of numbers, or, with a checksum in the frame, a text
 * that is also read without the rest of its section, so that damage is noticed then. */
bool codec_compress_once(struct bytes source, int level, bool with_checksum, const char *name,
                         struct buffer *compressed, struct error *error);

/* Compresses a text from `start` on into a frame with a checksum. What is in front of that is its
 * prefix: matches may be in it, however far back. Only decompressing with the same prefix gives the
 * text back.
 *
 * From CODEC_LEVEL_TREES on, putting the prefix into trees takes most of the time. So these are
 * kept for the next text with this prefix: *kept is NULL at first, serves one prefix only, takes
 * some 100 MB for a large one, and is freed with codec_prefix_free. The bytes do not depend on what
 * it was used for before. */
struct codec_prefix;
bool codec_compress_after(struct codec_prefix **kept, struct bytes text, uint64_t start, int level,
                          const char *name, struct buffer *compressed, struct error *error);
void codec_prefix_free(struct codec_prefix *prefix);

/* True if a frame has a checksum (RFC 8878, 3.1.1.1.1.5). */
bool codec_has_checksum(struct bytes frame);

/* ---- decompressing ---- */

struct codec_stream;

/* Starts decompressing a frame, which must decompress to exactly `frame->size` bytes. What `frame`
 * points to must outlive the stream. Free with codec_stream_free (NULL is allowed). */
struct codec_stream *codec_stream_open(const struct encoded *frame, struct error *error);

/* Reads exactly `size` bytes; false if the stream does not hold them. */
bool codec_stream_read(struct codec_stream *stream, void *to, size_t size, struct error *error);

/* Checks that everything was read, and that the frame and the compressed bytes end there too. */
bool codec_stream_finish(struct codec_stream *stream, struct error *error);

void codec_stream_free(struct codec_stream *stream);

/* Decompresses a whole frame and appends the result. The stream is kept in *kept, to be reused for
 * the next frame: *kept must be NULL at first; free it at the end, even after a failure. */
bool codec_decompress_next(struct codec_stream **kept, const struct encoded *frame,
                           struct buffer *to, struct error *error);

/* The same for a single frame. */
bool codec_decompress(const struct encoded *frame, struct buffer *to, struct error *error);

/* Decompresses a frame that codec_compress_after made, and appends the result. The caller has made
 * sure that there may be frame->size bytes in memory; the window that the frame declares does not
 * matter. */
bool codec_decompress_after(struct bytes prefix, const struct encoded *frame, struct buffer *to,
                            struct error *error);

/* ---- files of others ---- */

/* True if a file that starts with these bytes consists of zstd frames. */
bool codec_file_recognize(struct bytes front);

/* A file of zstd frames that another program made, of any size: it is read from front to back, in a
 * bounded amount of memory. */
struct codec_file;

/* `front` is what has been read of the file already, a few bytes; the rest comes from the
 * descriptor, which the caller keeps. `name` is the file's, for messages, and must outlive the
 * reader. Close with codec_file_close (NULL is allowed). */
struct codec_file *codec_file_open(int fd, struct bytes front, const char *name,
                                   struct error *error);

/* Reads up to `size` bytes; *have is less only where the file ends, even if it ends within a frame.
 */
bool codec_file_read(struct codec_file *file, void *to, size_t size, size_t *have,
                     struct error *error);

/* The number of compressed bytes that have been read so far. */
uint64_t codec_file_consumed(const struct codec_file *file);

void codec_file_close(struct codec_file *file);

#endif
