/*
 * Remembers what a split has proved by decoding: which stream recompress makes of a text, and which
 * section its streams decode to. Both are found by digest.
 *
 * A split decodes everything once to prove that it round-trips. The finished sidecar is read and
 * checked before it gets its name. Bytes that are the same as before need not be decoded again
 * then, since they always give the same result.
 */
#ifndef COVSPLIT_COMMON_CODEC_DEFLATE_MEMO_H
#define COVSPLIT_COMMON_CODEC_DEFLATE_MEMO_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/codec/deflate/recompress.h"

struct memo;

/* NULL if out of memory. Free with memo_free (NULL is allowed). */
struct memo *memo_new(void);
void memo_free(struct memo *memo);

/* Remembers that recompress makes this stream of this text. The stream is not copied and must
 * outlive the memo. False if out of memory. */
bool memo_add(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes stream);

/* False if it is not known. Several threads may call memo_add and memo_find at the same time. */
bool memo_find(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes *stream);

/* The same for a section; the digest is of everything that it is decoded from. */
bool memo_add_section(struct memo *memo, const struct digest *digest, struct bytes section);
bool memo_find_section(struct memo *memo, const struct digest *digest, struct bytes *section);

#endif
