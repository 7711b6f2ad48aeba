/*
 * What has been seen of zlib_again: texts, by their digests, and the streams that it makes of them.
 *
 * A split makes every stream once, to prove that it comes back. When the same texts come out of
 * the finished sidecar, which is checked before it gets its name, the streams need not be made
 * again: the same text always gives the same one.
 */
#ifndef COVSPLIT_COMMON_COMPACT_ZLIB_MEMO_H
#define COVSPLIT_COMMON_COMPACT_ZLIB_MEMO_H

#include <stdbool.h>

#include "common/bytes.h"
#include "common/compact/zlib_again.h"

struct zlib_memo;

/* NULL where there is no memory. Freed with zlib_memo_free (NULL allowed). */
struct zlib_memo *zlib_memo_new(void);
void zlib_memo_free(struct zlib_memo *memo);

/* Remembers that zlib_again makes this stream of this text. The stream is viewed, not copied, and
 * must outlive the memo. False: no memory. */
bool zlib_memo_add(struct zlib_memo *memo, struct bytes text, enum zlib_level level,
                   struct bytes stream);

/* False where it is not known. Several threads may look at the same time, as long as none adds. */
bool zlib_memo_find(const struct zlib_memo *memo, struct bytes text, enum zlib_level level,
                    struct bytes *stream);

#endif
