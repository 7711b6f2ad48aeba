/*
 * Lists of paths: see path_list.h.
 */
#include "split/cli/path_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/stream.h"
#include "split/cli/memory.h"

void path_list_add(struct path_list *list, const char *path)
{
    COMMAND_ROOM_FOR_ONE(list->paths, list->capacity, list->count);
    list->paths[list->count++] = command_copy(path);
}

void path_list_free(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct path_list){0};
}

/* ---- directories ---- */

/* A directory of the walk, with the one that contains it. */
struct place {
    const char *path;
    const struct stat *status;
    const struct place *parent; /* NULL for the first one */
};

struct walk {
    struct path_list *list;
    bool follows_links;
    path_filter filter;
    void *context;
};

static bool add_directory(const struct walk *walk, const struct place *place, struct error *error);

/* *is_wanted: the path is not a link, or it is a link that is followed and has a target. */
static bool look(const struct walk *walk, const char *path, struct stat *status, bool *is_wanted,
                 struct error *error)
{
    int failure = walk->follows_links && stat(path, status) != 0 ? errno : 0;
    bool leads_nowhere = failure == ENOENT || failure == ENOTDIR || failure == ELOOP;

    if (failure == 0 && walk->follows_links)
        return *is_wanted = true;
    /* A dangling link is not a file; any other failure may hide a file. */
    if ((failure != 0 && !leads_nowhere) || lstat(path, status) != 0)
        return error_set_errno(error, failure != 0 ? failure : errno, "%s: cannot be read", path);
    *is_wanted = !S_ISLNK(status->st_mode);
    return true;
}

static bool add_entry(const struct walk *walk, const struct place *parent, const char *path,
                      struct error *error)
{
    struct stat status;
    struct place place = {path, &status, parent};
    bool is_wanted = false;

    if (!look(walk, path, &status, &is_wanted, error))
        return false;
    if (!is_wanted)
        return true;
    if (S_ISDIR(status.st_mode))
        return add_directory(walk, &place, error);
    if (S_ISREG(status.st_mode) && walk->filter(walk->context, path, &status))
        path_list_add(walk->list, path);
    return true;
}

static bool add_directory(const struct walk *walk, const struct place *place, struct error *error)
{
    bool has_slash = place->path[strlen(place->path) - 1] == '/';
    struct directory_names names;
    bool added;

    for (const struct place *outer = place->parent; outer != NULL; outer = outer->parent) {
        if (file_is_same(outer->status, place->status))
            return error_set(error, "%s: a directory inside itself; name files", place->path);
    }
    added = directory_names_read(place->path, NULL, &names, error);
    for (size_t i = 0; added && i < names.count; i++) {
        char *path = command_text("%s%s%s", place->path, has_slash ? "" : "/", names.items[i]);

        added = add_entry(walk, place, path, error);
        free(path);
    }
    directory_names_free(&names);
    return added;
}

bool path_list_add_directory(struct path_list *list, const char *directory, bool follows_links,
                             path_filter filter, void *context, struct error *error)
{
    struct walk walk = {list, follows_links, filter, context};
    struct stat status;
    struct place place = {directory, &status, NULL};

    /* The first directory may always be a link. */
    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", directory);
    return add_directory(&walk, &place, error);
}

/* ---- lists in files ---- */

/* A stream_check. Lines are handled as strings, so text after a NUL would be silently lost. */
static bool check_list(void *context, const char *name, struct bytes so_far, struct error *error)
{
    (void)context;
    return so_far.size == 0 || memchr(so_far.data, '\0', (size_t)so_far.size) == NULL ||
           error_set(error,
                     "%s: contains NUL bytes, which no path has; list one path per line (find "
                     "-print, not -print0)",
                     name);
}

static bool visit_list(const char *path, operand_visitor visit, void *context, struct error *error)
{
    struct buffer text = {0};
    char *rest, *line;
    bool done = stream_read_into(&text, path, MEMORY_LIMIT_MOST, check_list, NULL, error) &&
                check_list(NULL, stream_name(path), buffer_view(&text), error);

    exit_unless_allocated(buffer_append(&text, "", 1), text.size);
    rest = (char *)text.data;
    while (done && (line = strsep(&rest, "\n")) != NULL) {
        size_t length = strlen(line);

        if (length != 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (line[0] != '\0' && line[0] != '#')
            done = visit(context, line, error);
    }
    buffer_free(&text);
    return done;
}

bool operand_visit(const char *operand, operand_visitor visit, void *context, struct error *error)
{
    if (operand[0] == '@' && operand[1] != '\0')
        return visit_list(operand + 1, visit, context, error);
    return visit(context, operand, error);
}
