/*
 * Converting universal images: see convert.h, of which this is a part.
 *
 * Tools choose a slice themselves (-arch), so they are given a universal image: each slice as it
 * was before the split, laid out as before. A slice without a sidecar stays as it is.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERT_UNIVERSAL_H
#define COVSPLIT_SPLIT_RUN_CONVERT_UNIVERSAL_H

#include "split/run/convert.h"
#include "split/run/memory_file.h"

/* Sets subject->universal and the kind where at least one slice of a universal image was split. The
 * input is only looked at. False with an error where there is no memory. */
bool universal_subject_find(struct subject *subject, const struct input *input,
                            struct error *error);

/* As subject_identify, for the sidecars of all slices. */
bool identify_universal(const struct subject *subject, const struct run_sidecars *sidecars,
                        struct digest_stream *digest, struct error *error);

/* Writes the universal image that subject->content was made from. False with an error where there
 * is no slice with a sidecar. *what is for messages. */
bool convert_universal(const struct subject *subject, struct run_sidecars *sidecars,
                       struct memory_file *file, const char **what, struct error *error);

#endif
