/*
 * Packed units: the coverage mapping of a translation unit as `covsplit pack` leaves it in an
 * object, in one piece; and the ordinary mapping of an image that was linked of such objects.
 *
 * A compiler puts the record of each function into a section of its own, with a group, a symbol and
 * a name, so that the linker keeps one record of those that many objects have. That weighs far more
 * than the records. A packed object has none of these sections. Its __llvm_covmap has, in place of
 * each ordinary unit (llvm/coverage.h), a packed one, with the filenames and all records that
 * belong to them. Linkers put these behind each other as they do with ordinary units, in link
 * order, and mix them with the ordinary units of objects that are not packed.
 *
 * A packed unit looks to LLVM's reader like a unit that it must refuse: as the first in an image,
 * because no such version exists; behind an ordinary one, whose version LLVM takes for all units,
 * because the filenames begin with the number 0. So an image that was packed but not split gives an
 * error, and never a report in which functions are missing.
 *
 * Layout (docs/format.md): the header of a unit, in which FilenamesSize is the number of bytes that
 * follow it, and Version is PACKED_UNIT_VERSION; then these bytes, and padding to
 * COVERAGE_ALIGNMENT.
 *
 * A record is kept as it is except for its FilenamesRef, which is the hash of the unit's filenames.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_UNITS_PACKED_UNIT_H
#define COVSPLIT_COMMON_CODEC_PACKED_UNITS_PACKED_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/coverage.h"

/* A Version that does not exist, and is not the tripwire's (llvm/tripwire.h) either. */
#define PACKED_UNIT_VERSION 0x7ffffffeu

/* The section group that the record was in. Of all records in groups of
 * one signature, linkers keep the first. */
enum packed_group {
    PACKED_GROUP_NONE = 0, /* in no group: each one is kept */
    /* __covrec_NAMEREF, with the NameRef in hexadecimal, as "%llX": the translation unit does not
     * use the function. */
    PACKED_GROUP_OF_UNUSED = 1,
    PACKED_GROUP_OF_USED = 2, /* __covrec_NAMEREFu: it uses the function */
};

struct packed_record {
    uint64_t name_reference; /* NameRef */
    uint64_t function_hash;  /* FuncHash */
    struct bytes mapping;    /* of less than 2^32 bytes */
    enum packed_group group;
};

struct packed_unit {
    uint32_t version;              /* of the ordinary unit, as it is stored in its header */
    struct bytes filenames;        /* as they are encoded in it */
    uint64_t reference;            /* FilenamesRef; set when the unit is read */
    struct packed_record *records; /* in the object's order */
    size_t count, capacity;
    struct buffer text; /* when the unit is read: what the mappings point into */
};

/* Frees records and text, and makes it {0}. */
void packed_unit_free(struct packed_unit *unit);

/* Appends the packed unit, without padding. The same unit always gives the same bytes. Unfit if a
 * size does not fit the format. */
enum result packed_unit_write(const struct packed_unit *unit, bool big_endian,
                              struct buffer *section);

/* True if the section begins with the header of a packed unit. */
bool packed_unit_recognize(struct bytes section, bool big_endian);

/* Takes a packed unit and the padding after it off the front of *section, whose rest starts at a
 * multiple of COVERAGE_ALIGNMENT. False, without a change, if it does not begin with a whole one.
 * *packed is the header and what it covers. */
bool packed_unit_take(struct bytes *section, bool big_endian, struct bytes *packed);

/* Reads a unit into *unit, in place of what was read into it before; initialize to {0}. `filenames`
 * points into `packed`, mappings point there or into unit->text. Unfit if it is damaged: records
 * that LLVM's format cannot hold, bytes left over. Over the limit: needs more memory than `limit`
 * bytes. A unit that can be read need not be what packed_unit_write makes of it. */
enum result packed_unit_read(struct packed_unit *unit, struct bytes packed, bool big_endian,
                             uint64_t limit);

/* The list of files of a mapping, and the rest of it. Without a sound list, all is rest. */
struct mapping_parts {
    struct bytes files, rest;
};

struct mapping_parts mapping_split(struct bytes mapping);

/* The group that a record of an ordinary section was in (covfun_tell_unused). Unfit if the mapping
 * is damaged; then *group is PACKED_GROUP_OF_USED. `mapping` is used for parsing. */
enum result packed_group_of(struct mapping *mapping, const struct covfun_record *record,
                            enum packed_group *group);

/* ---- images ---- */

/* The sections of an image, linked or ordinary. */
struct mapping_sections {
    struct bytes covmap;
    struct bytes covfun; /* may be empty */
};

/* True if some unit of the section is packed. */
bool unpack_is_needed(struct bytes covmap, bool big_endian);

/* Makes the ordinary coverage mapping of an image whose objects, or some of them, were packed: the
 * bytes that the linker would have put into __llvm_covmap and __llvm_covfun if none had been
 * packed. Appends the sections. Fails if a unit is damaged, or if they would take more than `limit`
 * bytes of memory. `name` is for messages. */
bool unpack_mapping(const struct mapping_sections *linked, bool big_endian, uint64_t limit,
                    const char *name, struct buffer *covmap, struct buffer *covfun,
                    struct error *error);

#endif
