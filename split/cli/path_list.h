/*
 * Lists of paths, the files of a directory, and lists in files.
 */
#ifndef COVSPLIT_SPLIT_CLI_PATH_LIST_H
#define COVSPLIT_SPLIT_CLI_PATH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"

/* Start from {0}; freed with path_list_free. */
struct path_list {
    char **paths;
    size_t count;
    size_t capacity;
};

/* Adds a copy of the path. */
bool path_list_add(struct path_list *list, const char *path, struct error *error);
void path_list_free(struct path_list *list);

/* Whether a file is wanted. */
typedef bool (*path_filter)(void *context, const char *path, const struct stat *status);

/* Adds the regular files in the directory and below that are wanted, in the order of their names.
 * Symbolic links are followed, or passed over. */
bool path_list_add_directory(struct path_list *list, const char *directory, bool follows_links,
                             path_filter filter, void *context, struct error *error);

/* Takes a path that stands among operands. False, with an error, ends the visit. */
typedef bool (*operand_visitor)(void *context, const char *path, struct error *error);

/* Visits what an operand stands for. "@FILE": the operands in FILE, one a line, without empty lines
 * and lines that begin with '#'. Anything else: itself. */
bool operand_visit(const char *operand, operand_visitor visit, void *context, struct error *error);

#endif
