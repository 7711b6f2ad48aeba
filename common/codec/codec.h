/*
 * Encodes sections in their compact forms, and decodes them.
 *
 * A section is encoded, compressed and decoded again at once, to prove that it round-trips. A
 * large section may be cut into blocks of whole records, which are encoded and decoded
 * independently, as if each were a section: so several threads can work on it, only the blocks in
 * use are in memory, and a part of it can be read without the rest ("Blocks" in docs/format.md).
 */
#ifndef COVSPLIT_COMMON_CODEC_CODEC_H
#define COVSPLIT_COMMON_CODEC_CODEC_H

#include "common/base/digest.h"
#include "common/codec/records.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* The transform that encodes sections of this kind, with `in_blocks` one that does so in blocks if
 * there is one. NULL if there is none. */
const struct transform *transform_for(enum section_kind kind, bool in_blocks);

/* The transform that decodes this ch_type for this kind of section; NULL if there is none. */
const struct transform *transform_of(uint32_t type, enum section_kind kind);

/* Appends the section's encoded form. If it does not round-trip, or becomes clearly larger, sets
 * *fits to false and appends nothing. (A section that does not become smaller may still help to
 * encode others.) `name` is for messages. */
bool codec_encode(const struct transform *transform, const struct transform_context *context,
                  struct bytes section, const struct codec_options *options, const char *name,
                  struct buffer *encoded, bool *fits, struct error *error);

/* Decodes and appends the section. */
bool codec_decode(const struct transform *transform, const struct transform_context *context,
                  const struct encoded *encoded, struct buffer *section, struct error *error);

/* For transforms whose streams are also used alone: decompresses those that are `wanted`, as
 * streams_decompress does, and turns the result of decoding them into a message. */
bool codec_decompress_streams(const struct transform *transform,
                              const struct transform_context *context,
                              const struct encoded *encoded, uint64_t wanted,
                              struct streams *streams, struct error *error);
bool codec_check(enum result result, const struct transform_context *context,
                 const struct encoded *encoded, struct error *error);

/* Appends the encoded form with all its streams uncompressed (and expanded, if the transform does
 * that), which is a valid encoded form too and has more in common with that of a similar section.
 * At most `limit` bytes are made. */
bool codec_flatten(const struct transform *transform, const struct encoded *encoded, uint64_t limit,
                   struct buffer *flat, struct error *error);

/* ---- reading blocks ---- */

struct block {
    uint64_t size; /* in the section; not 0 */
    struct bytes encoded;
    struct digest digest;
};

/* A section in blocks that is being read. Initialize to {0}; free with blocks_close. */
struct blocks {
    const struct transform *transform; /* of a block */
    struct transform_context context;
    struct data_records records; /* made once for all blocks */
    struct encoded encoded;
    struct block *blocks;
    size_t count;
};

/* Reads the directory of blocks; decodes nothing. What the context and `encoded` point to must
 * outlive the blocks. */
bool blocks_open(struct blocks *blocks, const struct transform *transform,
                 const struct transform_context *context, const struct encoded *encoded,
                 struct error *error);
void blocks_close(struct blocks *blocks);

/* Decodes `count` blocks from `first` on and checks their digests, on at most context->threads
 * threads. Appends their contents to `section`. */
bool blocks_decode(const struct blocks *blocks, size_t first, size_t count, struct buffer *section,
                   struct error *error);

#endif
