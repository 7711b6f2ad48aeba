/*
 * Reading directories: see directory.h.
 */
#include "common/base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/file.h"

static bool is_any(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool add(struct directory_names *names, const char *name)
{
    char *copy = strdup(name);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(names->items, names->capacity, names->count)) {
        free(copy);
        return false;
    }
    names->items[names->count++] = copy;
    return true;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool directory_names_read(const char *path, bool (*filter)(const char *name),
                          struct directory_names *names, struct error *error)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;
    bool done = true;

    *names = (struct directory_names){0};
    if (filter == NULL)
        filter = is_any;
    if (stream == NULL)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    /* readdir returns NULL both at the end and on an error; only errno tells which. */
    while (done && (errno = 0, entry = readdir(stream)) != NULL) {
        if (filter(entry->d_name) && !add(names, entry->d_name))
            done = error_out_of_memory(error, path, sizeof(entry->d_name));
    }
    if (done && errno != 0)
        done = error_set_errno(error, errno, "%s: cannot be read", path);
    closedir(stream);
    if (names->count != 0)
        qsort(names->items, names->count, sizeof(*names->items), compare);
    return done;
}

void directory_names_free(struct directory_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct directory_names){0};
}

bool directory_make(const char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && path_is_directory(path)))
        return true;
    return error_set_errno(error, errno == EEXIST ? ENOTDIR : errno, "%s: cannot be created", path);
}
