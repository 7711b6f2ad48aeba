/*
 * What a transform takes at once, a section or a block of one: its packed form, which is proved
 * when it is written.
 */
#ifndef COVSPLIT_COMMON_CODEC_CODING_H
#define COVSPLIT_COMMON_CODEC_CODING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* Appends the packed form, after it has been decoded again and compared. *fits is false, and
 * nothing appended, where the section does not come back. `name` is for messages. */
bool coding_encode(const struct transform *transform, const struct transform_context *context,
                   struct bytes section, const struct codec_options *options, const char *name,
                   struct buffer *packed, bool *fits, struct error *error);

/* Appends the section. */
bool coding_decode(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, struct error *error);

/* The same where the context's memo knows the section; else *found is false. */
bool coding_recall(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, struct buffer *section, bool *found,
                   struct error *error);

/* Unpacks the streams that are `wanted`, as streams_unpack does. */
bool coding_unpack(const struct transform *transform, const struct transform_context *context,
                   const struct packed *packed, uint64_t wanted, struct streams *streams,
                   struct error *error);

/* What came of decoding: false, with a message, unless it is RESULT_OK. */
bool coding_check(enum result result, const struct transform_context *context,
                  const struct packed *packed, struct error *error);

#endif
