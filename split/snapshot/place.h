/*
 * Where the profiles of snapshots go: files in a directory.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_PLACE_H
#define COVSPLIT_SPLIT_SNAPSHOT_PLACE_H

#include <limits.h>
#include <stdbool.h>

#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "split/cli/path_list.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/module.h"

struct place {
    const char *directory;
    struct path_list written; /* so far, by this command */
};

/* Writes the profile of a module; `path` becomes that of the file. */
bool place_profile(struct place *place, const struct memory *memory, const struct module *module,
                   const struct profile *profile, char path[PATH_MAX], struct error *error);

#endif
