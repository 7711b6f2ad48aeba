/*
 * Mach-O images behind the interface of image.h (thin ones, of 64 bits).
 */
#ifndef COVSPLIT_FORMATS_MACHO_MACHO_H
#define COVSPLIT_FORMATS_MACHO_MACHO_H

#include "formats/image.h"

bool macho_recognize(struct bytes bytes);
bool macho_is_linked(struct bytes bytes);
bool macho_find_split(const struct input *input, struct split_image *split, struct error *error);
struct image_plan *macho_plan(const struct input *input, const struct image_options *options,
                              struct error *error);
bool macho_outline(const struct input *input, struct buffer *outline, struct error *error);

#endif
