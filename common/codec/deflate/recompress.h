/*
 * Recreates zlib streams bit for bit.
 *
 * LLVM writes function names and file names as zlib streams. A sidecar that holds their text can
 * only restore the streams if the same compressor runs again years later, on another machine, where
 * zlib may be another version or another implementation (zlib-ng produces other bytes). So this
 * module contains the compressor: the algorithm of zlib's deflate for a single piece of input, with
 * a window of 32 KiB and the default memLevel, with the same choices as zlib 1.2.0 to 1.3. The
 * split proves for each stream that it can be recreated, and otherwise stores the stream itself.
 * After that, the result only depends on this code.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_RECOMPRESS_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_RECOMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

/* The zlib levels that can be recreated. Stored in sidecars. */
enum zlib_level {
    ZLIB_LEVEL_DEFAULT = 6,
    ZLIB_LEVEL_BEST = 9,
};

/* Inputs of this many bytes or more are not supported. */
#define RECOMPRESS_SIZE_MAX ((uint64_t)1 << 31)

/* Appends the zlib stream (RFC 1950) of the text as zlib's compress2 makes it. The bytes do not
 * depend on the installed zlib. Unfit if the text is too large, or if the stream would have more
 * than `most` bytes; then it is left unfinished. */
enum result recompress(struct bytes text, enum zlib_level level, uint64_t most,
                       struct buffer *stream);

/* The level according to the stream's header; false if that is no supported level. */
bool recompress_level(struct bytes stream, enum zlib_level *level);

#endif
