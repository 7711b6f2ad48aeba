/*
 * The profiles that `covsplit merge` was given: files, directories, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"
#include "split/profiles/test_name.h"

/* Adds the files that an operand stands for. It may be a list (path_list.h), or a directory, which
 * stands for all regular files in and below it, sorted by name, except for `output`, which may be
 * left from an earlier run, or be a state, and for those in the directory `outputs` (NULL: none),
 * which must not be an operand. A state (common/state/state.h) stands for itself, but
 * must not be below such a directory, and must not be `output`. Anything else is a file, whether it
 * exists or not. If the naming is on, the name of its test is added for each; that of a state has
 * no meaning. */
bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      const char *outputs, const struct test_naming *naming,
                      struct path_list *tests, struct error *error);

#endif
