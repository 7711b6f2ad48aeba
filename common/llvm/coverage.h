/*
 * The records of the coverage mapping's two sections (LLVM's CoverageMappingFormat, versions 4 to
 * 7), without what is in the mapping of a function: that is mapping.h.
 *
 * __llvm_covmap has a unit for each translation unit: a header and its filenames. __llvm_covfun has
 * a record for each function of each translation unit. The record names its unit by a FilenamesRef,
 * the hash of the unit's encoded filenames, and its mapping refers to these by number. Units and
 * records start at multiples of 8. All functions are as strict as LLVM's reader, or stricter.
 */
#ifndef COVSPLIT_COMMON_LLVM_COVERAGE_H
#define COVSPLIT_COMMON_LLVM_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define COVERAGE_ALIGNMENT 8

/* Compilers pad a unit, which has numbers of 4 bytes, to a multiple of that. The rest of the
 * padding is the linker's, and missing behind the last unit. Records have no padding of their own.
 */
#define COVMAP_UNIT_PADDING 4

/* The header of a unit. Up to version 3, the number and the size of records that followed were in
 * it. */
enum {
    COVMAP_RECORD_COUNT = 0,
    COVMAP_FILENAMES_SIZE = 4,
    COVMAP_COVERAGE_SIZE = 8,
    COVMAP_VERSION = 12,
    COVMAP_HEADER_SIZE = 16,
};

/* The header of a record. */
enum {
    COVFUN_NAME_REF = 0,
    COVFUN_DATA_SIZE = 8,
    COVFUN_FUNC_HASH = 12,
    COVFUN_FILENAMES_REF = 20,
    COVFUN_HEADER_SIZE = 28,
};

/* The versions as they are stored, which is one less than what they are called. Since version 6 the
 * first filename is the compilation directory, in which relative filenames are. */
#define COVMAP_VERSION_4 3
#define COVMAP_VERSION_6 5
#define COVMAP_VERSION_7 6

/* ---- units ---- */

struct covmap_unit {
    uint32_t version;       /* as it is stored */
    struct bytes header;    /* COVMAP_HEADER_SIZE bytes */
    struct bytes filenames; /* as they are encoded, after the header */
    uint64_t reference;     /* their FilenamesRef */
};

/* Takes a unit and the padding after it off the front of *section, whose rest starts at a multiple
 * of COVERAGE_ALIGNMENT. False, without a change, if there is no sound unit. */
bool covmap_take(struct bytes *section, bool big_endian, struct covmap_unit *unit);

/* The same without the reference, which takes most of the time. */
bool covmap_take_unhashed(struct bytes *section, bool big_endian, struct covmap_unit *unit);

/* Appends a unit, with filenames of less than 2^32 bytes, and without padding. False if out of
 * memory. */
bool covmap_append(struct buffer *section, uint32_t version, struct bytes filenames,
                   bool big_endian);

/* The filenames of a unit. Initialize to {0}; free with covmap_names_free. */
struct covmap_names {
    struct buffer text;
    struct bytes *names; /* in the text, or in the unit */
    size_t count, capacity;
};

/* Reads the encoded filenames, in place of what was read before. Over the limit: the text, or the
 * list, would take more than `limit` bytes. */
enum result covmap_names_read(struct covmap_names *names, struct bytes filenames, uint64_t limit);
void covmap_names_free(struct covmap_names *names);

/* ---- records of functions ---- */

struct covfun_record {
    uint64_t name_reference;      /* NameRef */
    uint64_t function_hash;       /* FuncHash */
    uint64_t filenames_reference; /* FilenamesRef */
    struct bytes mapping;
    struct bytes whole; /* header and mapping, without padding */
};

/* The size of the mapping, from the header of a record. */
static inline uint32_t covfun_mapping_size(const uint8_t *header, bool big_endian)
{
    return load_u32(header + COVFUN_DATA_SIZE, big_endian);
}

/* Takes a record and the padding after it off the front of *section, as covmap_take does. */
bool covfun_take(struct bytes *section, bool big_endian, struct covfun_record *record);

/* Appends a record, with a mapping of less than 2^32 bytes, and without padding. `whole` is not
 * used. False if out of memory. */
bool covfun_append(struct buffer *section, const struct covfun_record *record, bool big_endian);

/* The start of a mapping: the numbers of its files. `rest` begins with the expressions. */
struct covfun_files {
    uint64_t count;
    struct bytes numbers; /* for bytes_take_uleb128, `count` times */
    struct bytes rest;
};

bool covfun_read_files(const struct covfun_record *record, struct covfun_files *files);

/* Sets *is_dummy if the record only stands for a function that its translation unit does not use:
 * its hash is 0, and it is one region without a counter. Another record of the function replaces
 * it. False if LLVM's reader would not get as far as to tell. */
bool covfun_tell_dummy(const struct covfun_record *record, bool *is_dummy);

#endif
