/*
 * The codec: the table of transforms, and sections in their packed forms.
 */
#ifndef COVSPLIT_COMMON_CODEC_REGISTRY_H
#define COVSPLIT_COMMON_CODEC_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/codec/zstd.h"

/* The transform that writes sections of this kind, in blocks where that is wanted and there is one
 * that does so; NULL: none does. */
const struct transform *transform_for(enum section_kind kind, bool in_blocks);

/* The transform that reads this ch_type for that kind of section; NULL: none does. */
const struct transform *transform_of(uint32_t type, enum section_kind kind);

/* Appends the section's packed form, after it has been decoded again and compared. *fits is false,
 * and nothing appended, where the section does not come back or becomes clearly larger. (What is no
 * smaller may still serve other sections.) `name` is for messages. */
bool codec_encode(const struct transform *transform, const struct transform_context *context,
                  struct bytes section, const struct codec_options *options, const char *name,
                  struct buffer *packed, bool *fits, struct error *error);

/* Appends the section. */
bool codec_decode(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, struct error *error);

/* Whether the context's memo knows the section that codec_decode would append: *found, and then it
 * is appended. What is packed is unpacked to find that out, but neither names nor data are needed,
 * only where they come from. */
bool codec_recall(const struct transform *transform, const struct transform_context *context,
                  const struct packed *packed, struct buffer *section, bool *found,
                  struct error *error);

#endif
