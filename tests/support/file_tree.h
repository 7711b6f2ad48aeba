/*
 * All that is in a directory, in memory: to see what a command has changed there, and to undo it.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_FILE_TREE_H
#define COVSPLIT_TESTS_SUPPORT_FILE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "tests/support/file_system.h"

struct file_tree {
    struct text_list names;    /* sorted; those of directories end with '/' */
    struct contents *contents; /* of the files; of a symbolic link what it says */
    struct stat *statuses;
};

struct file_tree file_tree_read(const char *directory);
void file_tree_free(struct file_tree *tree);

/* Where the tree has that name; its number of names if it does not. */
size_t file_tree_find(const struct file_tree *tree, const char *name);

/* Whether the tree has the entry `i` of the other one as it is there: name, bytes and mode. */
bool file_tree_has(const struct file_tree *tree, const struct file_tree *other, size_t i);

/* Makes the directory what it was when `tree` was read, given what it is now; also the times when
 * files were written. */
void file_tree_restore(const struct file_tree *tree, const struct file_tree *now,
                       const char *directory);

#endif
