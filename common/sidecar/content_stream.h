/*
 * The contents of a sidecar as streams, in whatever form they are stored.
 *
 * A zstd frame is decompressed as it is read, with a fixed amount of memory. A section in a compact
 * form is decoded as a whole when its stream is opened, and checked against its digest; if it has
 * blocks, a few of them at a time when they are read, and none that is skipped.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_CONTENT_STREAM_H
#define COVSPLIT_COMMON_SIDECAR_CONTENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/sidecar/file.h"

struct content_stream;

/* The functions are those of codec_stream (codec/zstd.h). The sidecar must outlive the stream. */
struct content_stream *content_stream_open(const struct sidecar *sidecar,
                                           const struct sidecar_content *content,
                                           struct error *error);
uint64_t content_stream_left(const struct content_stream *stream);
bool content_stream_read(struct content_stream *stream, void *to, size_t size, struct error *error);
bool content_stream_skip(struct content_stream *stream, uint64_t size, struct error *error);
bool content_stream_finish(struct content_stream *stream, struct error *error);
void content_stream_free(struct content_stream *stream);

#endif
