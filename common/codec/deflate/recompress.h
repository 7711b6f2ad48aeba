/*
 * zlib streams, made again bit for bit.
 *
 * LLVM writes function names and file names as zlib streams. A sidecar that holds what is in them
 * can only give the streams back if the same compressor runs again years later, on another machine,
 * where zlib may have become another version or another implementation (zlib-ng gives other bytes).
 * So the compressor is here: the algorithm of zlib's deflate for one piece of input, a window of 32
 * KiB and its default memory, with the choices that zlib 1.2.0 to 1.3 make. Whoever uses it proves
 * at the split that it gives the stream at hand, and keeps the stream where it does not; from then
 * on nothing but this code matters.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_RECOMPRESS_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_RECOMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

/* zlib's levels that can be made again. Stored in sidecars. */
enum zlib_level {
    ZLIB_LEVEL_DEFAULT = 6,
    ZLIB_LEVEL_BEST = 9,
};

/* Of an input of this size or more no stream can be made. */
#define RECOMPRESS_SIZE_MAX ((uint64_t)1 << 31)

/* Appends the zlib stream (RFC 1950) of the text as zlib's compress2 makes it. Always the same
 * bytes, whatever is installed. Unfit if the text is too large, or the stream is more than
 * `most` bytes: then it is not made to its end. */
enum result recompress(struct bytes text, enum zlib_level level, uint64_t most,
                       struct buffer *stream);

/* The level that the header of a stream tells; false if it is none of those, or no stream. */
bool recompress_level(struct bytes stream, enum zlib_level *level);

#endif
