/*
 * The units and records that were found in an object become packed units
 * (codec/packed_units/packed_unit.h).
 *
 * A linker puts the units and the records of an object behind each other in the order of their
 * sections, each at a multiple of COVERAGE_ALIGNMENT. What was packed must give the same bytes
 * again, so the sections may have nothing but units, records and zeros up to the next of them; and
 * the records of a unit must be together and in the order of the units. Compilers and `ld -r` write
 * no other objects.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_UNITS_H
#define COVSPLIT_FORMATS_OBJECT_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"
#include "common/codec/packed_units/packed_unit.h"
#include "formats/object/object.h"

/* The object must stay as it is: sets the outcome and the reason, which says what is wrong and what
 * to do, and returns RESULT_UNFIT. */
enum result object_keep(struct object_packing *packing, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The units of an object. Initialize to {0} and set big_endian; free with object_units_free. The
 * sections must outlive it. */
struct object_units {
    bool big_endian;
    struct packed_unit *units;
    size_t count, capacity;
    size_t open;                      /* the unit to which the last record belongs */
    struct intern_table by_reference; /* FilenamesRef to number of the unit */
};

/* Adds the units of a section of the object, in the order of the sections. All units must be added
 * before any record. Unfit, here and below: the object was kept, with a reason. */
enum result object_units_add_covmap(struct object_units *units, struct bytes covmap,
                                    struct object_packing *packing);

/* Adds the records of a section, in the order of the sections. A section in a group has one
 * record; `signature` is the group's name, with data NULL if the section is in none. */
enum result object_units_add_covfun(struct object_units *units, struct bytes covfun,
                                    struct bytes signature, struct object_packing *packing);

/* Appends the section with the packed units, and sets the counts in *packing. */
enum result object_units_write(const struct object_units *units, struct buffer *section,
                               struct object_packing *packing);

void object_units_free(struct object_units *units);

#endif
