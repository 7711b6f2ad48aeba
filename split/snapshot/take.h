/*
 * Taking the profile of a module out of memory.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_TAKE_H
#define COVSPLIT_SPLIT_SNAPSHOT_TAKE_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile.h"
#include "split/snapshot/coverage.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/module.h"

/* A profile, which points into the buffers. Initialize to {0}. */
struct taken {
    struct profile profile;
    struct buffer binary_ids, data, counters, bitmap, names, values;
};

/* Takes the profile that the module's runtime would write at this moment, byte for byte. `file` is
 * the module's, or NULL: names that are not in the target come from there. Free with taken_free in
 * any case. */
bool take_profile(struct memory *memory, const struct module *module,
                  const struct coverage *coverage, const struct input *file, struct taken *taken,
                  struct error *error);
void taken_free(struct taken *taken);

#endif
