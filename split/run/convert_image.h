/*
 * Converting images: a part of convert.h.
 *
 * A thin image becomes the object of its sidecar, if reports need nothing else. From a universal
 * image, tools choose a slice themselves (-arch), so they are given a universal image: each slice
 * as it was before the split, with the original layout. A slice without a sidecar stays as it is.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERT_IMAGE_H
#define COVSPLIT_SPLIT_RUN_CONVERT_IMAGE_H

#include "split/run/convert.h"
#include "split/run/memory_file.h"

/* If the input is an image that was split or packed, or has such a slice, sets subject->slices and
 * the kind. The input is only examined. False with an error if out of memory. */
bool split_slices_find(struct subject *subject, const struct input *input, struct error *error);

/* Adds the sidecars of all slices to the digest: see subject_identify. */
bool split_slices_identify(const struct subject *subject, const struct run_sidecars *sidecars,
                           struct digest_stream *digest, struct error *error);

/* Writes the converted image. If its content is needed, it is read by `read_content`. False with an
 * error if no slice has a sidecar. *what describes the result, for messages. */
bool convert_image(struct subject *subject, struct run_sidecars *sidecars, struct memory_file *file,
                   bool (*read_content)(struct subject *subject, struct error *error),
                   const char **what, struct error *error);

/* Writes the object of a sidecar. */
bool convert_to_object(const struct sidecar *sidecar, struct memory_file *file,
                       struct error *error);

#endif
