/*
 * Decompressing zlib streams (RFC 1950) whose decompressed size is declared in advance.
 */
#ifndef COVSPLIT_COMMON_BASE_INFLATE_H
#define COVSPLIT_COMMON_BASE_INFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Appends what the stream decompresses to, which must be exactly `size` bytes. A false size costs
 * little memory: the buffer only grows in proportion to the stream and its output. On failure the
 * buffer's contents after the old size are undefined. RESULT_UNFIT: the stream is incomplete, of
 * another size, or has more bytes after its end. */
enum result inflate_exactly(struct bytes stream, uint64_t size, struct buffer *text);

#endif
