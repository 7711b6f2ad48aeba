/*
 * XXH3-128 digests, which tell whether bytes have changed since the digest was recorded, and the
 * MD5 by which profiles identify functions.
 *
 * They guard against mix-ups and damage, not against an adversary: a digest is stored beside what
 * it covers, so anyone who can change the one can change the other.
 */
#ifndef COVSPLIT_COMMON_BASE_DIGEST_H
#define COVSPLIT_COMMON_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Computes the digest of bytes that come piece by piece. It is libxxhash's state, so that callers
 * need no xxhash.h; wherever the struct is, there is a place in it with the alignment of that. */
#define DIGEST_STREAM_ALIGNMENT 64

struct digest_stream {
    uint8_t storage[576 + DIGEST_STREAM_ALIGNMENT];
    uint8_t offset; /* of the state in the storage */
};

void digest_stream_start(struct digest_stream *stream);
void digest_stream_add(struct digest_stream *stream, struct bytes part);
/* The digest so far; more can be added. */
struct digest digest_stream_finish(struct digest_stream *stream);

/* ---- MD5 (RFC 1321) ---- */

/* Profiles identify a function by its NameRef: the first eight bytes of the MD5 of its name, as a
 * little-endian number. */

#define MD5_SIZE 16

void md5_of(struct bytes view, uint8_t digest[MD5_SIZE]);

/* The NameRef of a function's name. */
uint64_t md5_name_reference(struct bytes name);

/* The NameRefs of up to MD5_NAMES_MAX names; several times as fast as one by one. */
#define MD5_NAMES_MAX 512

void md5_name_references(const struct bytes *names, size_t count, uint64_t *references);

#endif
