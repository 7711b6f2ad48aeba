/*
 * Lists of paths: see path_list.h.
 */
#include "split/path_list.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>

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

static int compare_names(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool add_entry(struct path_list *list, const FTSENT *entry, path_filter filter,
                      void *context, struct error *error)
{
    switch (entry->fts_info) {
    case FTS_F:
        return !filter(context, entry->fts_path, entry->fts_statp) ||
               path_list_add(list, entry->fts_path, error);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return error_set_errno(error, entry->fts_errno, "%s: cannot be read", entry->fts_path);
    case FTS_DC:
        return error_set(error, "%s: a directory inside of itself; name files", entry->fts_path);
    default:
        return true; /* directories on the way, and what is no regular file */
    }
}

bool path_list_add_directory(struct path_list *list, const char *directory, bool follows_links,
                             path_filter filter, void *context, struct error *error)
{
    /* The directory itself may be a link in any case. */
    int links = follows_links ? FTS_LOGICAL : FTS_PHYSICAL | FTS_COMFOLLOW;
    char *copy = strdup(directory);
    char *const roots[] = {copy, NULL};
    FTS *walk = copy == NULL ? NULL : fts_open(roots, links | FTS_NOCHDIR, compare_names);
    const FTSENT *entry;
    bool added = true;

    if (walk == NULL) {
        free(copy);
        return error_set_errno(error, errno, "%s: cannot be read", directory);
    }
    while (added && (entry = fts_read(walk)) != NULL)
        added = add_entry(list, entry, filter, context, error);
    fts_close(walk);
    free(copy);
    return added;
}
