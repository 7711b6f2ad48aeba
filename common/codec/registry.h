/*
 * The table of transforms, and functions that encode and decode sections with them.
 */
#ifndef COVSPLIT_COMMON_CODEC_REGISTRY_H
#define COVSPLIT_COMMON_CODEC_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* The transform that encodes sections of this kind, with `in_blocks` one that does so in blocks if
 * there is one. NULL if there is none. */
const struct transform *transform_for(enum section_kind kind, bool in_blocks);

/* The transform that decodes this ch_type for this kind of section; NULL if there is none. */
const struct transform *transform_of(uint32_t type, enum section_kind kind);

/* Appends the section's packed form, after decoding it again and comparing the result. If the
 * section does not round-trip, or becomes clearly larger, sets *fits to false and appends nothing.
 * (A section that does not become smaller may still help to encode others.) `name` is for messages.
 */
bool codec_encode(const struct transform *transform, const struct transform_context *context,
                  struct bytes section, const struct codec_options *options, const char *name,
                  struct buffer *packed, bool *fits, struct error *error);

/* Decodes and appends the section. */
bool codec_decode(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, struct error *error);

/* If the context's memo knows the section that codec_decode would append, appends it and sets
 * *found to true. To find that out, the streams are unpacked, but neither the context's names nor
 * its data are needed, only their sources (struct transform_sources). */
bool codec_recall(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, bool *found,
                  struct error *error);

#endif
