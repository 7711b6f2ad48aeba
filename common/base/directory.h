/*
 * What is in a directory: all of it, or an error. A directory that ends early since the disk fails
 * must not pass for one with fewer files.
 */
#ifndef COVSPLIT_COMMON_BASE_DIRECTORY_H
#define COVSPLIT_COMMON_BASE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

/* Names, sorted as text. */
struct directory_names {
    char **items;
    size_t count;
    size_t capacity;
};

/* Reads the names that the filter wants; NULL: all but "." and "..". The error's number is the
 * errno value: ENOENT where the directory is gone. Freed with directory_names_free, also after a
 * failure. */
bool directory_names_read(const char *path, bool (*filter)(const char *name),
                          struct directory_names *names, struct error *error);
void directory_names_free(struct directory_names *names);

#endif
