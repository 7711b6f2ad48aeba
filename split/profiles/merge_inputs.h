/*
 * The profiles that `covsplit merge` was given: files, directories, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Adds the files that an operand stands for. It may be a list (path_list.h), or a directory, which
 * stands for all regular files in and below it, sorted by name, except for `output`, which may be
 * left from an earlier run, or be a state. A state (common/state/state.h) stands for itself, but
 * must not be below such a directory, and must not be `output`. Anything else is a file, whether it
 * exists or not. */
bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      struct error *error);

/* The same, except for the files in the directory `outputs` too. An operand must not be that
 * directory. */
bool merge_inputs_add_except(struct path_list *inputs, const char *operand, const char *output,
                             const char *outputs, struct error *error);

#endif
