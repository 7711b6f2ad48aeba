/*
 * Compresses a text as a zlib stream, quickly and always in the same way.
 *
 * A sidecar can leave out a stream whose text it has, if the same bytes can be made of the text
 * again, with any later version of this program. recompress.h does so for streams that zlib made.
 * Streams that are covsplit's own can be made by a simpler search, which takes a third of the time.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_QUICK_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_QUICK_H

#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

/* Texts of this many bytes or more are not compressed. */
#define QUICK_SIZE_MAX ((uint64_t)1 << 31)

/* Appends the zlib stream (RFC 1950) of the text. Unfit if the text is too large. */
enum result quick_compress(struct bytes text, struct buffer *stream);

#endif
