/*
 * The parts that a transform takes a section apart into, and their compressed form.
 *
 * Each part holds numbers or texts of one kind, so that zstd finds them like each other. Packed,
 * the parts are, with numbers as unsigned LEB128:
 *     number of parts,
 *     for each: its size, and unless that is 0 its stored size (0: stored as it is),
 *     for each: its bytes, or a zstd frame that names its size.
 */
#ifndef COVSPLIT_COMMON_CODEC_STREAMS_H
#define COVSPLIT_COMMON_CODEC_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/zstd.h"

#define COMPACT_PARTS_MAX 96

struct compact_parts {
    struct buffer parts[COMPACT_PARTS_MAX];
    size_t count;
    /* A bit for each of the first 64 parts that is a frame with a checksum, whatever its size
     * (unless it is empty): those that are of use without the section, whose digest then says
     * nothing. Unpacking sets it for the parts that are wanted. */
    uint64_t checked;
};

void compact_parts_free(struct compact_parts *parts);

/* How much a transform makes of parts that a hostile sidecar may hold. */
struct compact_proportion {
    unsigned per_part_byte;    /* so many bytes for each byte of the parts, */
    unsigned per_section_byte; /* but no more than these for each of the section, */
    uint64_t besides;          /* and so many in any case */
};

/* That in bytes; never so much that a few more would not fit memory. */
uint64_t compact_parts_bound(const struct buffer *parts, size_t count, uint64_t section_size,
                             const struct compact_proportion *proportion);

/* Appends the packed form; the bytes do not depend on the number of threads. `name` is for
 * messages. */
bool compact_parts_pack(const struct compact_parts *parts, const struct codec_options *options,
                        const char *name, struct buffer *packed, struct error *error);

/* How many bytes parts may have together. */
struct compact_limits {
    uint64_t parts;  /* all of them: with more they are none of ours */
    uint64_t memory; /* those that are unpacked (memory_limit.h) */
};

/* Unpacks those parts whose bits are set in `wanted`, and all from part 64 on; the others are
 * empty. Messages are as those of codec_stream_open. Freed with compact_parts_free, also after a
 * failure. */
bool compact_parts_unpack(struct bytes packed, uint64_t wanted, const struct compact_limits *limits,
                          const char *name, const char *what, struct compact_parts *parts,
                          struct error *error);

#endif
