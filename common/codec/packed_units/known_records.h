/*
 * The records of an image's ordinary coverage mapping, in terms of which its linked sections are
 * stored (linked.c).
 *
 * A packed record is nearly always one of these: the same function, with the same hash, and a
 * mapping that differs only in the numbers of its files, since each translation unit numbers its
 * filenames anew. These follow from the filenames of both units.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_UNITS_KNOWN_RECORDS_H
#define COVSPLIT_COMMON_CODEC_PACKED_UNITS_KNOWN_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/codec/packed_units/unpack.h"
#include "common/llvm/coverage.h"
#include "common/llvm/mapping.h"

/* A mapping, as the list of its files and the rest. If there is no sound list, all is rest. */
struct mapping_parts {
    struct bytes files, rest;
};

struct mapping_parts mapping_split(struct bytes mapping);

struct known_unit {
    uint32_t version;
    struct bytes filenames;
    uint64_t reference;
    uint32_t first;              /* the number of the first unit with the same filenames */
    size_t name_start, name_end; /* its filenames, in known_records.names */
};

struct known_record {
    uint64_t name_reference;
    uint64_t function_hash;
    struct mapping_parts mapping;
    uint32_t unit; /* the first one with its filenames; UINT32_MAX: none */
    enum packed_group group;
};

/* How many files are remembered. */
#define KNOWN_FILES 1024

/* Initialize to {0}; free with known_records_free. */
struct known_records {
    struct known_unit *units;
    size_t unit_count, unit_capacity;
    uint32_t *names; /* of all units, behind each other: a number for each distinct filename */
    size_t name_count, name_capacity;
    struct intern_table units_by_reference;
    struct intern_table file_numbers; /* of unit (high half) and name: its number in the unit */
    /* The latest of these that were looked for; a unit names few files most of the time. */
    struct {
        uint64_t key, number_and_one; /* 0: free */
    } files[KNOWN_FILES];
    struct known_record *records;
    size_t count, capacity;
};

/* Reads the ordinary sections, which must outlive the records. Bytes at the end of a section that
 * are no unit, or no record, are ignored. At most `limit` bytes are used for names. */
enum result known_records_read(struct known_records *known, const struct mapping_sections *ordinary,
                               bool big_endian, uint64_t limit);
void known_records_free(struct known_records *known);

/* Adds a record. False if out of memory. */
bool known_records_add(struct known_records *known, const struct known_record *record);

/* The first unit with this FilenamesRef; UINT32_MAX if there is none. */
uint32_t known_records_unit(const struct known_records *known, uint64_t reference);

/* The group of a record that is not packed. The compiler gives the record of a function that the
 * translation unit does not use the hash 0, and regions without counters: clang a single one, rustc
 * those that the function would have. Unfit if the mapping is damaged; then *group is
 * PACKED_GROUP_OF_USED. `mapping` is used for parsing. */
enum result known_group(struct mapping *mapping, const struct covfun_record *record,
                        enum packed_group *group);

/* Appends the list of files that the record would have in the unit, which must be the first one of
 * its filenames. Unfit if it has a file that the unit does not have. */
enum result known_records_files(struct known_records *known, const struct known_record *record,
                                uint32_t unit, struct buffer *files);

#endif
