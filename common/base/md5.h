/*
 * MD5 (RFC 1321). Profiles identify a function by its NameRef: the first eight bytes of the MD5 of
 * its name, as a little-endian number. Nothing here is about security.
 */
#ifndef COVSPLIT_COMMON_BASE_MD5_H
#define COVSPLIT_COMMON_BASE_MD5_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define MD5_SIZE 16

void md5_of(struct bytes view, uint8_t digest[MD5_SIZE]);

/* The NameRef of a function's name. */
uint64_t md5_name_reference(struct bytes name);

/* The NameRefs of up to MD5_NAMES_MAX names; several times as fast as one by one. */
#define MD5_NAMES_MAX 512

void md5_name_references(const struct bytes *names, size_t count, uint64_t *references);

#endif
