/*
 * What the targets of the image formats share: an image is refused with a reason, or its plan can
 * be carried out, and undone to the last byte.
 */
#ifndef COVSPLIT_TESTS_FUZZ_IMAGE_H
#define COVSPLIT_TESTS_FUZZ_IMAGE_H

#include "formats/image.h"
#include "tests/fuzz/support.h"

/* The target itself. The last byte of the input is not part of the image: it chooses options. Files
 * of other formats are refused: -1, so that engines do not keep them. */
int fuzz_image(const uint8_t *data, size_t size, enum image_format format);

/* One image, with the options that the byte chooses and a linker's map file (NULL: none). Returns
 * the stripped image, to be freed; empty if there is none. */
struct buffer fuzz_image_split(const struct input *image, uint8_t choice, const struct input *map);

#endif
