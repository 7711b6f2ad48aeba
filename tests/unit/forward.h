/*
 * The edit script applied in memory, straight from its definition: what the real thing, which
 * streams files, and the inverse are measured by.
 */
#ifndef COVSPLIT_TESTS_UNIT_FORWARD_H
#define COVSPLIT_TESTS_UNIT_FORWARD_H

#include "common/edit/edit.h"

/* Applies a finished script. The result is freed with buffer_free. */
struct buffer apply_forward(const struct edit_script *script, struct bytes original);

#endif
