/*
 * Ordinary coverage mapping of an image some of whose objects were packed: the mapping that the
 * image would have if none had been (codec/packed_units/packed_unit.h).
 */
#ifndef COVSPLIT_FORMATS_ORDINARY_H
#define COVSPLIT_FORMATS_ORDINARY_H

#include "formats/image.h"

/* What is packed in an image. */
struct packed_counts {
    uint64_t units;
    uint64_t records;
};

/* Both are for an image of which plan->is_packed is true, and fail if its packed units are damaged.
 */

bool ordinary_count(const struct input *image, const struct image_plan *plan,
                    struct packed_counts *counts, struct error *error);

/* Adds the edits that give the image its ordinary sections, and finishes the script. The limit is
 * that of image_plan_unpack. */
bool ordinary_plan(const struct input *image, const struct image_plan *plan, uint64_t limit,
                   struct edit_script *edits, struct error *error);

#endif
