/*
 * Lists of paths: see path_list.h.
 */
#include "split/path_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool path_list_add(struct path_list *list, const char *path, struct error *error)
{
    /* Grows at powers of two. */
    if ((list->count & (list->count - 1)) == 0) {
        size_t capacity = list->count == 0 ? 1 : list->count * 2;
        char **paths = realloc(list->paths, capacity * sizeof(*paths));

        if (paths == NULL)
            return error_out_of_memory(error, path, capacity * sizeof(*paths));
        list->paths = paths;
    }
    list->paths[list->count] = strdup(path);
    if (list->paths[list->count] == NULL)
        return error_out_of_memory(error, path, strlen(path));
    list->count++;
    return true;
}

void path_list_free(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct path_list){0};
}

/* ---- directories ---- */

/* fts leaves names unsorted, or crashes, where memory runs out. */

struct walk {
    struct path_list *list;
    bool follows_links;
    path_filter filter;
    void *context;
};

/* A directory on the way. */
struct place {
    const char *path;
    struct stat status;
    const struct place *parent;
};

static bool walk_path(const struct walk *walk, const char *path, const struct place *parent,
                      struct error *error);

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool walk_entry(const struct walk *walk, const struct place *place, const char *name,
                       struct error *error)
{
    size_t length = strlen(place->path);
    const char *separator = length != 0 && place->path[length - 1] == '/' ? "" : "/";
    char *path;
    bool done;

    if (asprintf(&path, "%s%s%s", place->path, separator, name) < 0)
        return error_out_of_memory(error, place->path, strlen(name));
    done = walk_path(walk, path, place, error);
    free(path);
    return done;
}

static bool walk_directory(const struct walk *walk, const struct place *place, struct error *error)
{
    struct dirent **entries;
    int count = scandir(place->path, &entries, is_entry, compare_entries);
    bool done = true;

    if (count < 0)
        return error_set_errno(error, errno, "%s: cannot be read", place->path);
    for (int i = 0; i < count; i++) {
        done = done && walk_entry(walk, place, entries[i]->d_name, error);
        free(entries[i]);
    }
    free(entries);
    return done;
}

static bool is_inside_itself(const struct place *place)
{
    for (const struct place *outer = place->parent; outer != NULL; outer = outer->parent) {
        if (outer->status.st_dev == place->status.st_dev &&
            outer->status.st_ino == place->status.st_ino)
            return true;
    }
    return false;
}

/* What is neither a directory nor a regular file is passed over, and so is a link to nowhere. The
 * directory that was named may be a link in any case. */
static bool walk_path(const struct walk *walk, const char *path, const struct place *parent,
                      struct error *error)
{
    struct place place = {.path = path, .parent = parent};
    bool follows = walk->follows_links || parent == NULL;

    if ((!follows || stat(path, &place.status) != 0) && lstat(path, &place.status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    if (S_ISREG(place.status.st_mode))
        return !walk->filter(walk->context, path, &place.status) ||
               path_list_add(walk->list, path, error);
    if (!S_ISDIR(place.status.st_mode))
        return true;
    if (is_inside_itself(&place))
        return error_set(error, "%s: a directory inside of itself; name files", path);
    return walk_directory(walk, &place, error);
}

bool path_list_add_directory(struct path_list *list, const char *directory, bool follows_links,
                             path_filter filter, void *context, struct error *error)
{
    struct walk walk = {list, follows_links, filter, context};

    return walk_path(&walk, directory, NULL, error);
}
