/*
 * Remembers files that cannot be merged and were left where they are, so that a file that does not
 * change is tried, and named, only once.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_LEFT_FILES_H
#define COVSPLIT_SPLIT_PROFILES_LEFT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Initialize to {.seconds = ...}; free with left_files_free. */
struct left_files {
    uint64_t seconds; /* a file is named after it has stayed the same for so long */
    void *tree;       /* by path */
    size_t count;
    size_t named;   /* how many were named so far */
    bool is_unsure; /* some file is not named yet; set here, cleared by the caller */
};

/* Adds a file that was left, or names it at once, with what the error says. */
void left_files_add(struct left_files *left, const char *path, const struct error *why);

/* Whether the file was left and is still the same. Names it if it is time. */
bool left_files_have(struct left_files *left, const char *path);
void left_files_free(struct left_files *left);

#endif
