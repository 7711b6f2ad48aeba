/*
 * Encodes and decodes a unit that a transform handles at once: a section, or a block of one. What
 * is encoded is decoded again at once, to prove that it round-trips.
 */
#ifndef COVSPLIT_COMMON_CODEC_CODING_H
#define COVSPLIT_COMMON_CODEC_CODING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* Appends the packed form, after decoding it again and comparing the result. If the section does
 * not round-trip, sets *fits to false and appends nothing. `name` is for messages. */
bool coding_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error);

/* Decodes and appends the section. */
bool coding_decode(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, struct error *error);

/* The same, if the context's memo knows the section; otherwise sets *found to false. */
bool coding_recall(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, bool *found,
                   struct error *error);

/* Unpacks the streams that are `wanted`, as streams_unpack does. */
bool coding_unpack(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, uint64_t wanted, struct streams *streams,
                   struct error *error);

/* Turns the result of decoding into an error message; false unless it is RESULT_OK. */
bool coding_check(enum result result, const struct transform_context *context,
                  const struct packed *packed, struct error *error);

#endif
