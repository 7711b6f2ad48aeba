/*
 * The outline of a COFF image: see image_outline (image.h).
 */
#ifndef COVSPLIT_FORMATS_COFF_OUTLINE_H
#define COVSPLIT_FORMATS_COFF_OUTLINE_H

#include "common/base/file.h"

bool coff_outline(const struct input *input, struct buffer *outline, struct error *error);

#endif
