/*
 * XXH3-128 digests, which tell whether bytes have changed since the digest was recorded.
 *
 * They guard against mix-ups and damage, not against an adversary: a digest is stored beside what
 * it covers, so anyone who can change the one can change the other.
 */
#ifndef COVSPLIT_COMMON_BASE_DIGEST_H
#define COVSPLIT_COMMON_BASE_DIGEST_H

#include <stdbool.h>

#include "common/base/bytes.h"

#define DIGEST_SIZE    16
#define DIGEST_HEX_MAX (2 * DIGEST_SIZE + 1)

/* The canonical (big-endian) form of the XXH3-128 hash with seed 0: what `xxhsum -H2` prints. */
struct digest {
    uint8_t bytes[DIGEST_SIZE];
};

struct digest digest_of(struct bytes view);
bool digest_equal(const struct digest *a, const struct digest *b);
/* Lower-case hexadecimal digits into text[DIGEST_HEX_MAX]; returns text. */
const char *digest_format(const struct digest *digest, char *text);

/* Computes the digest of bytes that come piece by piece. */
struct digest_stream;

/* NULL if out of memory. Free with digest_stream_free (NULL is allowed). */
struct digest_stream *digest_stream_new(void);
void digest_stream_add(struct digest_stream *stream, struct bytes part);
struct digest digest_stream_finish(const struct digest_stream *stream);
void digest_stream_free(struct digest_stream *stream);

#endif
