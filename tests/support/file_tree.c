/*
 * The trees of file_tree.h.
 */
#include "tests/support/file_tree.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/sample.h"

/* Reading gives a file a new access time, on which `store gc` relies: it gets the old one again. */
static struct contents read_entry(const char *path, const struct stat *status)
{
    const struct timespec times[] = {status->st_atim, {.tv_nsec = UTIME_OMIT}};
    struct contents contents = {0};

    if (S_ISREG(status->st_mode)) {
        contents = file_read(path);
        ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    if (S_ISLNK(status->st_mode)) {
        contents.size = (size_t)status->st_size;
        contents.data = calloc(contents.size + 1, 1);
        ck_assert_int_eq(readlink(path, (char *)contents.data, contents.size),
                         (ssize_t)contents.size);
    }
    return contents;
}

struct file_tree file_tree_read(const char *directory)
{
    struct file_tree tree = {.names = tree_list(directory)};

    tree.contents = calloc(tree.names.count + 1, sizeof(*tree.contents));
    tree.statuses = calloc(tree.names.count + 1, sizeof(*tree.statuses));
    ck_assert(tree.contents != NULL && tree.statuses != NULL);
    for (size_t i = 0; i < tree.names.count; i++) {
        char *path = path_join(directory, tree.names.items[i]);
        size_t length = strlen(path);

        if (path[length - 1] == '/')
            path[length - 1] = '\0';
        ck_assert_int_eq(lstat(path, &tree.statuses[i]), 0);
        tree.contents[i] = read_entry(path, &tree.statuses[i]);
        free(path);
    }
    return tree;
}

void file_tree_free(struct file_tree *tree)
{
    for (size_t i = 0; i < tree->names.count; i++)
        contents_free(&tree->contents[i]);
    free(tree->contents);
    free(tree->statuses);
    text_list_free(&tree->names);
}

size_t file_tree_find(const struct file_tree *tree, const char *name)
{
    size_t i = 0;

    while (i < tree->names.count && strcmp(tree->names.items[i], name) != 0)
        i++;
    return i;
}

bool file_tree_has(const struct file_tree *tree, const struct file_tree *other, size_t i)
{
    size_t at = file_tree_find(tree, other->names.items[i]);

    return at < tree->names.count && contents_equal(&tree->contents[at], &other->contents[i]) &&
           tree->statuses[at].st_mode == other->statuses[i].st_mode;
}

static bool is_same_time(const struct stat *one, const struct stat *two)
{
    return one->st_mtim.tv_sec == two->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == two->st_mtim.tv_nsec;
}

static bool is_same(const struct file_tree *tree, const struct file_tree *other)
{
    if (tree->names.count != other->names.count)
        return false;
    for (size_t i = 0; i < tree->names.count; i++) {
        if (!file_tree_has(tree, other, i) ||
            (!S_ISDIR(tree->statuses[i].st_mode) &&
             !is_same_time(&tree->statuses[i], &other->statuses[i])))
            return false;
    }
    return true;
}

static void make_entry(const char *path, const struct contents *contents, const struct stat *status)
{
    const struct timespec times[] = {status->st_atim, status->st_mtim};

    if (S_ISDIR(status->st_mode)) {
        directory_create(path);
    } else if (S_ISLNK(status->st_mode)) {
        ck_assert_int_eq(symlink((const char *)contents->data, path), 0);
    } else {
        file_write(path, contents->data, contents->size);
        ck_assert_int_eq(chmod(path, status->st_mode & 07777), 0);
        ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    }
}

void file_tree_restore(const struct file_tree *tree, const struct file_tree *now,
                       const char *directory)
{
    if (is_same(tree, now))
        return;
    directory_remove(directory);
    directory_create(directory);
    for (size_t i = 0; i < tree->names.count; i++) {
        char *path = path_join(directory, tree->names.items[i]);

        make_entry(path, &tree->contents[i], &tree->statuses[i]);
        free(path);
    }
}
