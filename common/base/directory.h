/*
 * Makes a directory, and lists one: completely, or with an error. If the disk fails halfway, the
 * directory must not appear to have fewer files.
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

/* Reads the names for which the filter returns true; without a filter (NULL), all but "." and "..".
 * On failure the error's number is the errno value, ENOENT if the directory does not exist. Free
 * with directory_names_free, even after a failure. */
bool directory_names_read(const char *path, bool (*filter)(const char *name),
                          struct directory_names *names, struct error *error);
void directory_names_free(struct directory_names *names);

/* Makes the directory, unless there is one. */
bool directory_make(const char *path, struct error *error);

#endif
