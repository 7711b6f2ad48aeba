/*
 * A check of the ordinary coverage mapping of an image in which only some objects were packed.
 *
 * Of all records of a function, the first in the order of the link is kept (unpack.h). Objects that
 * the linker makes of bitcode (LTO) come last in that order, but it chooses functions when it reads
 * the bitcode. So the program can have the code of a function from bitcode, when a packed object
 * behind it has the first record. That does no harm if both were compiled from the same text. If
 * not, the record is of code that the program does not have.
 */
#ifndef COVSPLIT_FORMATS_MIXED_MAPPING_H
#define COVSPLIT_FORMATS_MIXED_MAPPING_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Sections of an image, but for the last. Each may be empty. */
struct mixed_mapping {
    struct bytes covfun, data;
    struct bytes made_covfun; /* what was made of the packed units and covfun */
};

/* Fails if there are data records of functions whose records are in covfun, but not in made_covfun.
 * `name` is for messages. */
bool mixed_mapping_check(const struct mixed_mapping *mapping, bool big_endian, const char *name,
                         struct error *error);

#endif
