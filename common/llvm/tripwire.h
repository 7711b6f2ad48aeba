/*
 * The tripwire: what stands where LLVM's tools look for names and for coverage mapping, once those
 * are in the sidecar.
 *
 * With nothing there, llvm-profdata and llvm-cov succeed, and report that nothing was executed. So
 * something stays which each of their versions refuses:
 *
 *   - in a lightweight profile, and in the stripped image that writes it, a section of names whose
 *     one chunk says that it is compressed, and is no zlib stream:
 *
 *         7f            bytes of the chunk's text, a ULEB128: any number but 0
 *         NN            bytes of its stream, a ULEB128: those that follow, 1 to 126
 *         text          for people, as `strings` shows it: what this is, of which UUID, and what to
 *                       do; or, where the names are too short for that, the one byte ff
 *
 *     llvm-profdata ends with "failed to uncompress data (zlib)";
 *
 *   - in a stripped image, a record of the coverage mapping of a version that does not exist.
 *
 * The text is "\ncovsplit lightweight profile, UUID HEX: use covsplit merge\n". No zlib stream
 * starts with those bytes: the method in the low half of the first one would be 10, and deflate is
 * 8. A UUID of more than TRIPWIRE_UUID_MAX bytes is cut short, with "..." behind it.
 *
 * Where the image's code can only make addresses that are multiples of a unit (s390x: 2), the size
 * is one too: bytes ff behind the text make up for it.
 */
#ifndef COVSPLIT_COMMON_LLVM_TRIPWIRE_H
#define COVSPLIT_COMMON_LLVM_TRIPWIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/uuid.h"

/* So a profile gets no more than 128 bytes longer, padding included. */
#define TRIPWIRE_SIZE_MAX 128
#define TRIPWIRE_UUID_MAX 32
#define TRIPWIRE_UNIT_MAX 4

/* How many bytes of names of `names_size` bytes the tripwire of an image takes whose UUID has
 * `uuid_size` bytes: with the text where that fits, else 3, or 0 if those do not fit either;
 * rounded up to the unit, a power of 2. */
size_t tripwire_size(uint64_t names_size, size_t uuid_size, size_t unit);

/* Writes a tripwire of the size that tripwire_size gave for a UUID of this size. */
void tripwire_write(uint8_t *to, size_t size, const struct uuid *uuid);

/* True if a section of names is a tripwire. */
bool tripwire_recognize(struct bytes names);

/* The tripwire at the start of a section that goes on behind it. False if there is none. */
bool tripwire_find(struct bytes section, struct bytes *tripwire);

/* The UUID in a tripwire. False if there is none: the tripwire is of 3 bytes, or is none.
 * *is_prefix: the UUID goes on behind these bytes. */
bool tripwire_read_uuid(struct bytes names, struct uuid *uuid, bool *is_prefix);

/* The runtime tells the images of a process apart, where a file name has %m, by a sum of which one
 * term is the size of the names times 2^40, and another the NameRef of the first record. Where
 * names go and records stay, two images whose sums differed must not get the same one, or one of
 * the two profiles is lost. So this is added to that NameRef in the image (modulo 2^64), which
 * keeps the sum as it was, and taken off again when the profile is correlated. */
uint64_t tripwire_signature(uint64_t names_size, uint64_t tripwire_size);

/* The header of a record of __llvm_covmap: NRecords, FilenamesSize, CoverageSize, all 0, and a
 * Version that does not exist, of 32 bits each. */
#define TRIPWIRE_MAPPING_SIZE 16
void tripwire_write_mapping(uint8_t to[TRIPWIRE_MAPPING_SIZE], bool big_endian);
bool tripwire_recognize_mapping(struct bytes mapping, bool big_endian);

#endif
