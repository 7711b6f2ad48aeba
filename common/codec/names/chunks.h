/*
 * The distinct names of a section of names, without the rest of it.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAMES_CHUNKS_H
#define COVSPLIT_COMMON_CODEC_NAMES_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/llvm/names.h"

/* The names of a section in the form of names_transform, in the order in which they
 * come first. *are_all (NULL: nobody wants to know) is false if the section has chunks that are
 * stored as they are, whose names are not among them, and where nothing but the section's digest
 * would tell that the names are damaged. Of the context only the limit of memory matters.
 * Free with names_free, even after a failure. */
bool names_decode(const struct transform_context *context, const struct packed *packed,
                  struct names *names, bool *are_all, struct error *error);

#endif
