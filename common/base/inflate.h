/*
 * Decompressing zlib streams (RFC 1950) whose size is claimed beforehand.
 */
#ifndef COVSPLIT_COMMON_BASE_INFLATE_H
#define COVSPLIT_COMMON_BASE_INFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"

enum inflate_result {
    INFLATE_DONE,
    INFLATE_DAMAGED, /* no whole stream, or not of that size, or more bytes behind it */
    INFLATE_NO_MEMORY,
};

/* Appends what the stream decompresses to, which must be just `size` bytes. The claim costs
 * little memory: the buffer grows with the stream and what comes out. On failure its contents from
 * the old size on are undefined. */
enum inflate_result inflate_exactly(struct bytes stream, uint64_t size, struct buffer *text);

#endif
