/*
 * Makes the ordinary coverage mapping of an image whose objects, or some of them, were packed: the
 * same bytes that the linker would have put into __llvm_covmap and __llvm_covfun if none of the
 * objects had been packed.
 *
 * Units are in link order. The records of a packed unit come where it stands among the units. The
 * records of ordinary units are in __llvm_covfun, in link order too, and name their units. Of all
 * records of a group (packed_unit.h) the first stays. The linker has already done so among the
 * objects that were not packed, but without knowing of the others, so it is done once more among
 * all. Records that are not packed have lost their group; whether the function was used is told by
 * the record.
 */
#ifndef COVSPLIT_COMMON_CODEC_PACKED_UNITS_UNPACK_H
#define COVSPLIT_COMMON_CODEC_PACKED_UNITS_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* The sections of an image, linked or ordinary. */
struct mapping_sections {
    struct bytes covmap;
    struct bytes covfun; /* may be empty */
};

/* Whether some unit of the section is packed. */
bool unpack_is_needed(struct bytes covmap, bool big_endian);

/* Appends the ordinary sections. Fails if a unit is damaged, or if they would take more than
 * `limit` bytes of memory. `name` is for messages. */
bool unpack_mapping(const struct mapping_sections *linked, bool big_endian, uint64_t limit,
                    const char *name, struct buffer *covmap, struct buffer *covfun,
                    struct error *error);

#endif
