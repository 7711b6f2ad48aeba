/*
 * The sidecars that a command was given: files, directories, stores, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SIDECAR_FILES_H
#define COVSPLIT_SPLIT_SIDECARS_SIDECAR_FILES_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Adds what the operands stand for: of a store its sidecars; of any other directory all files named
 * *.covsplit in it and below, links left aside; of a list (path_list.h) what it names; anything
 * else is a file. What is not there, or cannot be read, is reported as an error: so many of them
 * are added to *faults, and the others go on. False where there is no memory for that. */
bool sidecar_files_add(struct path_list *files, const char *const *operands, size_t count,
                       uint64_t *faults, struct error *error);

#endif
