/*
 * A directory for what a target needs as files: in memory where there is one, so that it is fast.
 * It is removed when the program ends by itself.
 */
#ifndef COVSPLIT_TESTS_FUZZ_SCRATCH_H
#define COVSPLIT_TESTS_FUZZ_SCRATCH_H

#include "common/base/bytes.h"

#define SCRATCH_PATH_SIZE 160

/* Writes the path of a name in the directory to `path`, of SCRATCH_PATH_SIZE bytes. */
void scratch_path(char *path, const char *name);

void scratch_make_directory(const char *name);

/* Writes a file, in place of one that is there. */
void scratch_write(const char *name, struct bytes content);

/* Removes all files in a directory ("": the scratch directory itself), but no directories. */
void scratch_empty(const char *name);

#endif
