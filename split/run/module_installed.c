/*
 * The preload module as a file: see run/module.h.
 *
 * It is found relative to the command itself, so that an installation can be moved.
 * COVSPLIT_PRELOAD_INSTALLED and COVSPLIT_PRELOAD_BUILT are its paths relative to the command's
 * directory, set by the build system.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/run/module.h"

/* The directory of the running program, without a slash at its end. */
static bool find_directory(char directory[PATH_MAX], struct error *error)
{
    ssize_t size = readlink("/proc/self/exe", directory, PATH_MAX - 1);

    if (size < 0)
        return error_set_errno(error, errno, "/proc/self/exe: cannot be read");
    directory[size] = '\0';
    *strrchr(directory, '/') = '\0';
    return true;
}

/* The module's path without "..", as LD_PRELOAD is seen by many. NULL if it does not exist; errno
 * is ENOMEM if that could not be found out. */
static char *find_below(const char *directory, const char *relative)
{
    char *path, *found;

    if (asprintf(&path, "%s/%s", directory, relative) < 0)
        return NULL;
    found = realpath(path, NULL);
    free(path);
    return found;
}

/* The module's path as a new string. */
static char *find_module(struct error *error)
{
    char directory[PATH_MAX];
    char *path;

    if (!find_directory(directory, error))
        return NULL;
    path = find_below(directory, COVSPLIT_PRELOAD_INSTALLED);
    if (path == NULL && errno != ENOMEM)
        path = find_below(directory, COVSPLIT_PRELOAD_BUILT);
    if (path == NULL && errno == ENOMEM)
        error_out_of_memory(error, directory, PATH_MAX);
    else if (path == NULL)
        error_set(error, "%s/%s: the preload module is missing; install covsplit again", directory,
                  COVSPLIT_PRELOAD_INSTALLED);
    return path;
}

int module_open(char **path, struct error *error)
{
    int fd;

    *path = find_module(error);
    if (*path == NULL)
        return -1;
    fd = open(*path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_set_errno(error, errno, "%s: cannot be read", *path);
        free(*path);
        *path = NULL;
    }
    return fd;
}
