/*
 * What a split has proved: texts, by their digests, and the streams that recompress makes of them;
 * and what a section was taken apart into, by its digest, and the section that came of it.
 *
 * A split decodes everything once, to prove that it comes back. When the same bytes come out of the
 * finished sidecar, which is read and checked before it gets its name, they need not be decoded
 * again: the same bytes always give the same result.
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

/* Remembers that recompress makes this stream of this text. The stream is viewed, not copied, and
 * must outlive the memo. False if out of memory. */
bool memo_add(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes stream);

/* False if it is not known. Several threads may add and look at the same time. */
bool memo_find(struct memo *memo, struct bytes text, enum zlib_level level, struct bytes *stream);

/* The same for a section, by the digest of all that it is decoded from. */
bool memo_add_section(struct memo *memo, const struct digest *digest, struct bytes section);
bool memo_find_section(struct memo *memo, const struct digest *digest, struct bytes *section);

#endif
