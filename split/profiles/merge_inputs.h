/*
 * The profiles that `covsplit merge` was given: files, directories, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_INPUTS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Adds what an operand stands for, which may be a list (path_list.h). A directory: all regular
 * files in it and below, in the order of their names, but for `output`, which an earlier run may
 * have put there. Anything else: a file, whether it is there or not. */
bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      struct error *error);

#endif
