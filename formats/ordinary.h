/*
 * Ordinary coverage mapping of an image some of whose objects were packed: the mapping that the
 * image would have if none had been (codec/packed_units/unpack.h).
 */
#ifndef COVSPLIT_FORMATS_ORDINARY_H
#define COVSPLIT_FORMATS_ORDINARY_H

#include "formats/image.h"

/* What is packed in an image. */
struct packed_counts {
    uint64_t units;
    uint64_t records;
};

/* Each of these is for an image of which image_plan_is_packed is true, and fails if its packed
 * units are damaged. They may take `limit` bytes of memory, or, if that is 0, as many as are in
 * proportion to the packed ones (memory_limit.h). */

bool ordinary_count(const struct input *image, struct image_plan *plan, uint64_t limit,
                    struct packed_counts *counts, struct error *error);

/* Appends the ordinary sections. */
bool ordinary_sections(const struct input *image, struct image_plan *plan, uint64_t limit,
                       struct buffer *covmap, struct buffer *covfun, struct error *error);

/* Adds the edits that give the image its ordinary sections, and finishes the script. */
bool ordinary_plan(const struct input *image, struct image_plan *plan, uint64_t limit,
                   struct edit_script *edits, struct error *error);

#endif
