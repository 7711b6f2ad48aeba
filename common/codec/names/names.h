/*
 * Reads the distinct names of a names section without decoding the whole section.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_NAMES_H
#define COVSPLIT_COMMON_CODEC_NAMES_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

/* Reads the names of a section encoded by names_transform, in the order of their first occurrence.
 * Sets *are_all (may be NULL) to false if some chunks are stored verbatim: their names are not
 * among those returned, and then only the section's digest could tell that the names are damaged.
 * Only the context's memory limit is used. Free with names_free, even after a failure. */
bool names_decode(const struct transform_context *context, const struct packed *packed,
                  struct names *names, bool *are_all, struct error *error);

#endif
