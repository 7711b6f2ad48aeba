/*
 * The planner: describes an image and plans its split, for any format.
 */
#ifndef COVSPLIT_FORMATS_PLANNER_H
#define COVSPLIT_FORMATS_PLANNER_H

#include "formats/format.h"

/* What image_plan_make, image_describe and image_find_split (image.h) do, for an image that the
 * format recognizes. */
struct image_plan *planner_plan(const struct format *format, const struct input *input,
                                const struct image_options *options, struct error *error);
struct image_plan *planner_describe(const struct format *format, const struct input *input,
                                    struct error *error);
bool planner_find_split(const struct format *format, const struct input *input,
                        struct split_image *split, struct error *error);

#endif
