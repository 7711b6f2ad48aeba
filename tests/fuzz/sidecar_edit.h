/*
 * Changes a sidecar as a mutator wants it: the contents of a section, and the numbers that depend
 * on them. The digests are left to digests.h.
 */
#ifndef COVSPLIT_TESTS_FUZZ_SIDECAR_EDIT_H
#define COVSPLIT_TESTS_FUZZ_SIDECAR_EDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* The name of stored section number `index`, counted without those that have no contents; NULL if
 * there are fewer. */
const char *sidecar_edit_name(struct bytes sidecar, size_t index);

/* Appends the decoded contents of a section, or of the inverse script. False if it has none. */
bool sidecar_edit_read(struct bytes sidecar, const char *name, struct buffer *content);

/* Replaces these contents; they become a plain zstd frame. */
bool sidecar_edit_write(struct buffer *sidecar, const char *name, struct bytes content);

/* Sets the sizes of the image before and after the split: the second is given, the first follows
 * from the inverse script, as far as that can be read. */
void sidecar_edit_fit_image(struct buffer *sidecar, uint64_t stripped_size);

#endif
