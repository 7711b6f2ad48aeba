/*
 * What a state keeps of an image beside the sum of its profiles: which tests reached which
 * functions.
 *
 * The state knows nothing of these bytes. It stores them with each image of a batch, and when it
 * folds or reads, it makes one of several here.
 */
#ifndef COVSPLIT_COMMON_STATE_TESTS_PART_H
#define COVSPLIT_COMMON_STATE_TESTS_PART_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* Adds `more` to *tests, which is empty at first. `name` is the file that `more` is from, whose
 * digest was right. */
bool tests_part_add(struct buffer *tests, struct bytes more, const char *name, struct error *error);

#endif
