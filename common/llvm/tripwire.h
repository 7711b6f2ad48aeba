/*
 * The tripwire: what replaces names and coverage mapping in a split image, where LLVM's tools look
 * for them.
 *
 * If these were simply missing, llvm-profdata and llvm-cov would succeed, and report that nothing
 * was executed. So they are replaced by something that every version of these tools refuses:
 *
 *   - in a lightweight profile, and in the stripped image that writes it, a names section whose
 * only chunk claims to be compressed but is not a zlib stream:
 *
 *         7f            size of the chunk's text, a ULEB128: any number but 0
 *         NN            size of its stream, a ULEB128: the number of bytes that follow, 1 to 126
 *         text          for people, and for `strings`: what this is, the UUID, and what to do;
 *                       or, if the original names are too short for that, a single byte ff
 *
 *     llvm-profdata ends with "failed to uncompress data (zlib)";
 *
 *   - in a stripped image, a coverage mapping record of a version that does not exist.
 *
 * The text is "\ncovsplit lightweight profile, UUID HEX: use covsplit merge\n". No zlib stream
 * starts with these bytes: the method in the low half of the first one would be 10, and deflate is
 * 8. A UUID of more than TRIPWIRE_UUID_MAX bytes is truncated and followed by "...".
 *
 * On some machines code can only form addresses that are multiples of a unit (s390x: 2). There the
 * size is a multiple of it too; the text is padded with bytes ff.
 */
#ifndef COVSPLIT_COMMON_LLVM_TRIPWIRE_H
#define COVSPLIT_COMMON_LLVM_TRIPWIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/uuid.h"

/* The tripwire makes a profile at most this much longer, including padding. */
#define TRIPWIRE_SIZE_MAX 128
#define TRIPWIRE_UUID_MAX 32
#define TRIPWIRE_UNIT_MAX 4

/* The beginning of the text, and its offset. */
#define TRIPWIRE_TEXT        "\ncovsplit lightweight profile, UUID "
#define TRIPWIRE_TEXT_OFFSET 2

/* The size in bytes of the tripwire that replaces names of `names_size` bytes, for a UUID of
 * `uuid_size` bytes: with the text if that fits; otherwise 3, or 0 if not even that fits. Rounded
 * up to a multiple of the unit, a power of 2. */
size_t tripwire_size(uint64_t names_size, size_t uuid_size, size_t unit);

/* Writes a tripwire; `size` must come from tripwire_size for this UUID's size. */
void tripwire_write(uint8_t *to, size_t size, const struct uuid *uuid);

/* True if a names section is a tripwire. */
bool tripwire_recognize(struct bytes names);

/* Finds the tripwire at the start of a section, which may be longer. False if there is none. */
bool tripwire_find(struct bytes section, struct bytes *tripwire);

/* Reads the UUID in a tripwire. False if `names` is no tripwire, or one of 3 bytes, which has no
 * UUID. *is_prefix tells whether the UUID was truncated. */
bool tripwire_read_uuid(struct bytes names, struct uuid *uuid, bool *is_prefix);

/* The header of a __llvm_covmap record, 32 bits each: NRecords, FilenamesSize and CoverageSize, all
 * 0, and a Version that does not exist. */
#define TRIPWIRE_MAPPING_SIZE 16
void tripwire_write_mapping(uint8_t to[TRIPWIRE_MAPPING_SIZE], bool big_endian);
bool tripwire_recognize_mapping(struct bytes mapping, bool big_endian);

#endif
