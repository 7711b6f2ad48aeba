/*
 * Sections that are cut into blocks, each of which is decoded without the others.
 *
 * A large section is worked on by several threads at a time, in memory for their blocks alone, and
 * a piece of it is read without the rest. Each block holds whole records, and is in the form of
 * another transform as if it were a section.
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

/* As coding_encode, for a transform of blocks. */
bool blocks_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error);

/* ---- reading ---- */

struct block {
    uint64_t size; /* in the section; not 0 */
    struct bytes packed;
    struct digest digest;
};

/* A section that is read. Initialize to {0}; free with blocks_close. */
struct blocks {
    const struct transform *transform; /* of a block */
    struct transform_context context;
    struct data_records records; /* what all blocks need is made once */
    struct packed packed;
    struct block *blocks;
    size_t count;
};

/* Reads which blocks there are; decodes nothing. The context's contents, the packed bytes and their
 * texts must outlive the blocks. */
bool blocks_open(struct blocks *blocks, const struct transform *transform,
                 const struct transform_context *context, const struct packed *packed,
                 struct error *error);
void blocks_close(struct blocks *blocks);

/* Appends the contents of some blocks, on context->threads threads at most, and checks their
 * digests. */
bool blocks_decode(const struct blocks *blocks, size_t first, size_t count, struct buffer *section,
                   struct error *error);

/* All of them, as coding_decode. */
bool blocks_decode_all(const struct transform *transform, const struct transform_context *context,
                       const struct packed *packed, struct buffer *section, struct error *error);

#endif
