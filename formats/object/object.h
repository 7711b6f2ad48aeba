/*
 * Object files (ELF relocatables), packed: all sections with coverage mapping,
 * their groups and symbols are taken out, and one section with packed units comes in
 * (codec/packed_units/packed_unit.h). Nothing else in the object changes: code, data, relocations,
 * debug information, other groups and symbols, and the order of all these.
 *
 * What is not proven safe stays as it is, with a reason: objects remain right when they are not
 * packed, since packed and ordinary ones can be linked together.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_OBJECT_H
#define COVSPLIT_FORMATS_OBJECT_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "formats/image.h"

enum object_outcome {
    OBJECT_PACKED,      /* `contents` is the packed object */
    OBJECT_NOT_ONE,     /* no ELF relocatable: bitcode, an image, text; nothing to say */
    OBJECT_NO_COVERAGE, /* nothing to pack, or packed already; nothing to say */
    OBJECT_KEPT,        /* has coverage mapping, but must stay as it is: `reason` */
};

#define OBJECT_REASON_MAX 256

struct object_packing {
    enum object_outcome outcome;
    char reason[OBJECT_REASON_MAX]; /* "" unless it was kept: what is wrong, and what to do */
    struct buffer contents;
    uint64_t record_count;
    uint64_t mapping_size; /* bytes of the sections that were taken out */
    uint64_t packed_size;  /* bytes of the section that came in */
};

/* Packs an object. False only if memory ran out. A damaged object is kept. `name` is for messages.
 * Initialize *packing to {0}; free it with object_packing_free, even after a failure. */
bool object_pack(struct bytes object, const char *name, struct object_packing *packing,
                 struct error *error);
void object_packing_free(struct object_packing *packing);

/* True for an ELF relocatable in which coverage mapping is packed. */
bool object_is_packed(struct bytes file);

/* Describes such an object as a plan without edits: its mapping and its names. Data is left out: it
 * is in a section for each function. NULL, with an error, if the object is damaged, or memory runs
 * out. Free with image_plan_free. */
struct image_plan *object_describe(const struct input *input, struct error *error);

#endif
