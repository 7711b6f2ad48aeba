/*
 * Images of all formats behind one interface: the table of formats.
 *
 * A format recognizes an image, describes it, and *plans* the edits that strip it. It writes no
 * file and prints nothing. A new format is one folder, declared in format.h, and one line in the
 * table of image.c.
 */
#ifndef COVSPLIT_FORMATS_IMAGE_H
#define COVSPLIT_FORMATS_IMAGE_H

#include "formats/plan.h"

/* True where some format recognizes the bytes; *format_name is then its name. */
bool image_recognize(struct bytes bytes, const char **format_name);

/* True for what a linker makes to be run or loaded, as far as the first bytes tell: not for object
 * files, core files and the like. */
bool image_is_linked(struct bytes bytes);

/* True where the input is a stripped image. Unlike a plan this costs little: headers are read, and
 * notes, but no symbols. False where it is none, and where error_is_of_memory says that this
 * could not be found out. */
bool image_find_split(const struct input *input, struct split_image *split, struct error *error);

/* What a reader of images sees in one, as lines of text: where it starts, its directories, its
 * sections. Appends nothing for a format whose outline nobody compares. */
bool image_outline(const struct input *input, struct buffer *outline, struct error *error);

/* Plans a split. NULL with a message where the file is no image, a damaged one, or one that must
 * not be split. An image without coverage sections gives a plan without edits. */
struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error);

#endif
