/*
 * Reads the contents of a sidecar, in whatever form they are stored: as a whole, or as a stream.
 *
 * A zstd frame is decompressed as it is read, with a fixed amount of memory. A section in a compact
 * form is decoded as a whole when its stream is opened, and checked against its digest; but if it
 * is stored in blocks, a few of these are decoded at a time, and those that are skipped not at all.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_CONTENT_H
#define COVSPLIT_COMMON_SIDECAR_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/sidecar/file.h"

/* Decompresses into a buffer, which grows with the output, and checks the digest. */
bool content_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                  struct buffer *loaded, struct error *error);

/* Passes the content to the sink (NULL is allowed) piece by piece, and checks the digest at the
 * end.
 */
bool content_pass(const struct sidecar *sidecar, const struct sidecar_content *content,
                  bytes_sink sink, void *context, struct error *error);

struct content_stream;

/* Opens a stream; NULL on failure. All further errors of the stream are reported in *error too. The
 * sidecar must outlive the stream. */
struct content_stream *content_stream_open(const struct sidecar *sidecar,
                                           const struct sidecar_content *content,
                                           struct error *error);
void content_stream_free(struct content_stream *stream);

/* The number of bytes that have been neither taken nor skipped. */
uint64_t content_stream_left(const struct content_stream *stream);

/* Takes the next bytes: at most `most`, and at least one unless `most` is 0. They are valid until
 * the next call. */
bool content_stream_take(struct content_stream *stream, uint64_t most, struct bytes *part);
bool content_stream_skip(struct content_stream *stream, uint64_t size);

#endif
