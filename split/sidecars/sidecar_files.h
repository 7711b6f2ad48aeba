/*
 * The sidecars that a command was given: files, directories, stores, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SIDECAR_FILES_H
#define COVSPLIT_SPLIT_SIDECARS_SIDECAR_FILES_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Adds the sidecars that the operands stand for: those of a store; in any other directory, all
 * files named *.covsplit in it and below, ignoring links; for a list (path_list.h), what it names;
 * anything else is a file. An operand that does not exist or cannot be read is reported as an error
 * and counted in *faults, and the rest is added. False if out of memory. */
bool sidecar_files_add(struct path_list *files, const char *const *operands, size_t count,
                       uint64_t *faults, struct error *error);

#endif
