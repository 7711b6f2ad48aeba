/*
 * The streams into which a transform divides a section, and their packed form.
 *
 * Each stream holds numbers or texts of one kind, which zstd compresses well together. The packed
 * form is described in docs/format.md ("Compact forms").
 */
#ifndef COVSPLIT_COMMON_CODEC_STREAMS_H
#define COVSPLIT_COMMON_CODEC_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/zstd.h"

#define STREAMS_MAX 96

/* Initialize to {0}; free with streams_free. Encoders append without looking whether memory ran
 * out, which streams_failed tells at the end. */
struct streams {
    struct buffer stream[STREAMS_MAX];
    size_t count;
    /* A bit for each of the first 64 streams: set if the stream is always stored as a zstd frame
     * with a checksum (unless it is empty), even if that is not smaller. Such streams are also used
     * without decoding the whole section, when its digest cannot be checked. Unpacking sets the
     * bits of the wanted streams. */
    uint64_t checked;
    struct buffer proved; /* while encoding: what zlib_text_prove has shown (deflate.h) */
};

void streams_free(struct streams *streams);

/* True if memory ran out while the streams were filled. */
bool streams_failed(const struct streams *streams);

/* The size of all streams together, in bytes. */
uint64_t streams_size(const struct streams *streams);

/* Limits how many bytes a transform makes of streams, which may be hostile. */
struct stream_proportion {
    unsigned per_part_byte;    /* this many bytes for each byte of the streams, */
    unsigned per_section_byte; /* but at most this many for each byte of the section, */
    uint64_t besides;          /* plus this many in any case */
};

/* The limit in bytes. Never so large that adding a little to it overflows a size_t. */
uint64_t streams_bound(const struct buffer *streams, size_t count, uint64_t section_size,
                       const struct stream_proportion *proportion);

/* Appends the packed form; the bytes do not depend on the number of threads. `name` is for
 * messages. */
bool streams_pack(const struct streams *streams, const struct codec_options *options,
                  const char *name, struct buffer *packed, struct error *error);

/* The most bytes that streams may have together. */
struct streams_limits {
    uint64_t streams; /* all streams; no encoder writes more, so more mean damage */
    uint64_t memory;  /* the streams that are unpacked (memory_limit.h) */
};

/* Unpacks the streams whose bits are set in `wanted`, and all from stream 64 on; the others become
 * empty. Free with streams_free, even after a failure. */
bool streams_unpack(const struct packed *packed, uint64_t wanted,
                    const struct streams_limits *limits, struct streams *streams,
                    struct error *error);

#endif
