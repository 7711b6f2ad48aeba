/*
 * The outline of a Mach-O image: see image_outline (image.h).
 */
#ifndef COVSPLIT_FORMATS_MACHO_OUTLINE_H
#define COVSPLIT_FORMATS_MACHO_OUTLINE_H

#include "common/base/file.h"

bool macho_outline(const struct input *input, struct buffer *outline, struct error *error);

#endif
