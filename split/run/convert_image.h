/*
 * Converting images: see convert.h, of which this is a part.
 *
 * A thin image becomes the object of its sidecar, where that is all that reports need. Of a
 * universal image tools choose a slice themselves (-arch), so they are given a universal image:
 * each slice as it was before the split, laid out as before. A slice without a sidecar stays as it
 * is.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERT_IMAGE_H
#define COVSPLIT_SPLIT_RUN_CONVERT_IMAGE_H

#include "split/run/convert.h"
#include "split/run/memory_file.h"

/* Sets subject->slices and the kind where the input is an image that was split, or has a slice that
 * was. The input is only looked at. False with an error where there is no memory. */
bool split_slices_find(struct subject *subject, const struct input *input, struct error *error);

/* As subject_identify, for the sidecars of all slices. */
bool split_slices_identify(const struct subject *subject, const struct run_sidecars *sidecars,
                           struct digest_stream *digest, struct error *error);

/* Writes what an image becomes. Its content is read for that where it is needed, by `read_content`.
 * False with an error where there is no slice with a sidecar. *what is for messages. */
bool convert_image(struct subject *subject, struct run_sidecars *sidecars, struct memory_file *file,
                   bool (*read_content)(struct subject *subject, struct error *error),
                   const char **what, struct error *error);

/* Writes the object of a sidecar. */
bool convert_to_object(const struct sidecar *sidecar, struct memory_file *file,
                       struct error *error);

#endif
