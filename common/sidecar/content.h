/*
 * The contents of a sidecar, in whatever form they are stored: as a whole, and as streams.
 *
 * A zstd frame is decompressed as it is read, with a fixed amount of memory. A section in a compact
 * form is decoded as a whole when its stream is opened, and checked against its digest; if it has
 * blocks, a few of them at a time when they are read, and none that is skipped.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_CONTENT_H
#define COVSPLIT_COMMON_SIDECAR_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/sidecar/file.h"

/* Decompresses into a buffer that grows with what comes out, and checks the digest. */
bool content_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                  struct buffer *loaded, struct error *error);

/* Passes the content to the sink (NULL is allowed) piece by piece, and checks the digest at the end.
 */
bool content_pass(const struct sidecar *sidecar, const struct sidecar_content *content,
                  bytes_sink sink, void *context, struct error *error);

struct content_stream;

/* NULL with an error, where all errors of the stream go to. The sidecar must outlive it. */
struct content_stream *content_stream_open(const struct sidecar *sidecar,
                                           const struct sidecar_content *content,
                                           struct error *error);
void content_stream_free(struct content_stream *stream);

/* Bytes that were neither taken nor skipped. */
uint64_t content_stream_left(const struct content_stream *stream);

/* Takes the next bytes: at most so many, but one at least where more are wanted. They live until
 * the next call. */
bool content_stream_take(struct content_stream *stream, uint64_t most, struct bytes *part);
bool content_stream_skip(struct content_stream *stream, uint64_t size);

#endif
