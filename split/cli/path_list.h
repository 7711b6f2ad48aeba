/*
 * Lists of paths, the files of a directory, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_CLI_PATH_LIST_H
#define COVSPLIT_SPLIT_CLI_PATH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"

/* Initialize to {0}; free with path_list_free. */
struct path_list {
    char **paths;
    size_t count;
    size_t capacity;
};

/* Adds a copy of the path. */
void path_list_add(struct path_list *list, const char *path);
void path_list_free(struct path_list *list);

/* Returns true if a file is wanted. */
typedef bool (*path_filter)(void *context, const char *path, const struct stat *status);

/* Adds the wanted regular files in and below the directory, sorted by name. Symbolic links are
 * followed or ignored. */
bool path_list_add_directory(struct path_list *list, const char *directory, bool follows_links,
                             path_filter filter, void *context, struct error *error);

/* Called with each path. False, with an error, ends the visit. */
typedef bool (*operand_visitor)(void *context, const char *path, struct error *error);

/* Visits what an operand stands for. "@FILE" stands for the operands in FILE, which has one on each
 * line and may be a stream, "@-" for those on standard input; empty lines and lines that begin with
 * '#' are ignored. Any other operand stands for itself. */
bool operand_visit(const char *operand, operand_visitor visit, void *context, struct error *error);

#endif
