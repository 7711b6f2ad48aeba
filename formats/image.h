/*
 * Images of all formats behind one interface: the table of formats.
 *
 * A format recognizes an image, describes it, and *plans* the edits that strip it. It writes no
 * file and prints nothing. A new format is one folder, declared in format.h, and one line in the
 * table of image.c.
 */
#ifndef COVSPLIT_FORMATS_IMAGE_H
#define COVSPLIT_FORMATS_IMAGE_H

#include "common/codec/packed_units/packed_unit.h"
#include "formats/plan.h"

/* True if some format recognizes the bytes; *format_name is then its name. */
bool image_recognize(struct bytes bytes, const char **format_name);

/* True for executables and shared libraries, as far as the first bytes tell; false for object
 * files, core files and the like, and for what covsplit makes of images. */
bool image_is_linked(struct bytes bytes);

/* True if the input is a stripped image. Much cheaper than a plan: reads headers and notes, but no
 * symbols. False if it is not one, and also if memory ran out, which error_is_of_memory tells. */
bool image_find_split(const struct input *input, struct split_image *split, struct error *error);

/* Appends what a reader of the format sees in the image, as lines of text: where it starts, its
 * directories, its sections. Appends nothing for a format that has no outline. */
bool image_outline(const struct input *input, struct buffer *outline, struct error *error);

/* Plans a split. NULL, with an error, if the file is not an image, is damaged, or must not be
 * split. An image without coverage sections gives a plan without edits. */
struct image_plan *image_plan_make(const struct input *input, const struct image_options *options,
                                   struct error *error);

/* The same, but plans nothing, which takes less time: for the facts and sections of an image that
 * need not be one that can be split, or of a packed object (object/object.h). */
struct image_plan *image_describe(const struct input *input, struct error *error);

/* Adds the edits that put this coverage mapping in place of the image's own. The result runs as
 * before. Fails if the image has no room for it. */
bool image_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                           struct edit_script *edits, struct error *error);

#endif
