/*
 * COFF images (PE32 and PE32+) behind the interface of image.h, after Microsoft's "PE Format".
 */
#ifndef COVSPLIT_FORMATS_COFF_COFF_H
#define COVSPLIT_FORMATS_COFF_COFF_H

#include "formats/image.h"

bool coff_recognize(struct bytes bytes);
struct image_plan *coff_plan(const struct input *input, const struct image_options *options,
                             struct error *error);
bool coff_outline(const struct input *input, struct buffer *outline, struct error *error);
bool coff_find_split(const struct input *input, struct split_image *split, struct error *error);

#endif
