/*
 * Sections that are cut into blocks, which are decoded independently of each other.
 *
 * So several threads can work on a large section at the same time, only the blocks in use are in
 * memory, and a part of the section can be read without the rest. Each block holds whole records;
 * it is encoded by another transform as if it were a section.
 *
 * The packed form is in docs/format.md ("Blocks").
 */
#ifndef COVSPLIT_COMMON_CODEC_BLOCKS_H
#define COVSPLIT_COMMON_CODEC_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/codec/data_records.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* ---- writing ---- */

/* Like coding_encode, for a transform that has a `block` transform. */
bool blocks_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error);

/* ---- reading ---- */

struct block {
    uint64_t size; /* in the section; not 0 */
    struct bytes packed;
    struct digest digest;
};

/* A section that is being read. Initialize to {0}; free with blocks_close. */
struct blocks {
    const struct transform *transform; /* of a block */
    struct transform_context context;
    struct data_records records; /* made once for all blocks */
    struct packed packed;
    struct block *blocks;
    size_t count;
};

/* Reads the directory of blocks; decodes nothing. What the context and `packed` point to must
 * outlive the blocks. */
bool blocks_open(struct blocks *blocks, const struct transform *transform,
                 const struct transform_context *context, const struct packed *packed,
                 struct error *error);
void blocks_close(struct blocks *blocks);

/* Decodes `count` blocks from `first` on and checks their digests, on at most context->threads
 * threads. Appends their contents to `section`. */
bool blocks_decode(const struct blocks *blocks, size_t first, size_t count, struct buffer *section,
                   struct error *error);

/* Decodes all blocks; used like coding_decode. */
bool blocks_decode_all(const struct transform *transform, const struct transform_context *context,
                       const struct packed *packed, struct buffer *section, struct error *error);

#endif
