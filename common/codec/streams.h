/*
 * The streams that a transform takes a section apart into, and their compressed form.
 *
 * Each stream holds numbers or texts of one kind, so that zstd finds them like each other. The
 * packed form is in docs/format.md ("Compact forms").
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

struct streams {
    struct buffer stream[STREAMS_MAX];
    size_t count;
    /* A bit for each of the first 64 streams that is a frame with a checksum, whatever its size
     * (unless it is empty): those that are of use without the section, whose digest then says
     * nothing. Unpacking sets it for the streams that are wanted. */
    uint64_t checked;
};

void streams_free(struct streams *streams);

/* How much a transform makes of streams that a hostile sidecar may hold. */
struct stream_proportion {
    unsigned per_part_byte;    /* so many bytes for each byte of the streams, */
    unsigned per_section_byte; /* but no more than these for each of the section, */
    uint64_t besides;          /* and so many in any case */
};

/* That in bytes; never so much that a few more would not fit memory. */
uint64_t streams_bound(const struct buffer *streams, size_t count, uint64_t section_size,
                       const struct stream_proportion *proportion);

/* Appends the packed form; the bytes do not depend on the number of threads. `name` is for
 * messages. */
bool streams_pack(const struct streams *streams, const struct codec_options *options,
                  const char *name, struct buffer *packed, struct error *error);

/* How many bytes streams may have together. */
struct streams_limits {
    uint64_t streams; /* all of them: with more they are none of ours */
    uint64_t memory;  /* those that are unpacked (memory_limit.h) */
};

/* Unpacks those streams whose bits are set in `wanted`, and all from stream 64 on; the others are
 * empty. Free with streams_free, even after a failure. */
bool streams_unpack(const struct packed *packed, uint64_t wanted,
                    const struct streams_limits *limits, struct streams *streams,
                    struct error *error);

#endif
