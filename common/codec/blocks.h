/*
 * Sections that are cut into blocks, each of which is decoded without the others.
 *
 * A large section is worked on by several threads at a time, in memory for their blocks alone, and
 * a part of it is read without the rest. Each block holds whole records, and is in the form of
 * another transform as if it were a section.
 *
 * Packed, with numbers as unsigned LEB128:
 *     number of blocks,
 *     for each: its size in the section, its packed size, and the digest of its contents (16
 * bytes), for each: its packed form.
 */
#ifndef COVSPLIT_COMMON_CODEC_BLOCKS_H
#define COVSPLIT_COMMON_CODEC_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/codec/compact.h"

/* ---- writing ---- */

/* As compact_encode, for a transform of blocks. */
bool compact_blocks_encode(const struct compact_transform *transform,
                           const struct compact_context *context, struct bytes section,
                           const struct codec_options *options, const char *name,
                           struct buffer *packed, bool *fits, struct error *error);

/* ---- reading ---- */

struct compact_block {
    uint64_t size; /* in the section; not 0 */
    struct bytes packed;
    struct digest digest;
};

/* A section that is read. Start from {0}; freed with compact_blocks_close. */
struct compact_blocks {
    const struct compact_transform *transform; /* of a block */
    struct compact_context context;
    struct data_hashes data_hashes; /* what all blocks need is made once */
    const char *name;
    const char *what;
    struct compact_block *blocks;
    size_t count;
};

/* Reads which blocks there are; decodes nothing. The section must have `size` bytes. The context's
 * contents, the packed bytes and the texts must outlive the blocks. Messages are as those of
 * codec_stream_open. */
bool compact_blocks_open(struct compact_blocks *blocks, const struct compact_transform *transform,
                         const struct compact_context *context, struct bytes packed, uint64_t size,
                         const char *name, const char *what, struct error *error);
void compact_blocks_close(struct compact_blocks *blocks);

/* Appends the contents of some blocks, on context->threads threads at most, and checks their
 * digests. */
bool compact_blocks_decode(const struct compact_blocks *blocks, size_t first, size_t count,
                           struct buffer *section, struct error *error);

#endif
