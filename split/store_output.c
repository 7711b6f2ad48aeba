/*
 * Outputs in stores: see store_output.h.
 */
#include "split/store_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory that was made is only safe from a power failure with the one that it is in. */
static void sync_parent(char *path)
{
    char *slash = strrchr(path, '/');
    int fd;

    if (slash != NULL && slash != path)
        *slash = '\0';
    fd = open(slash == NULL ? "." : slash == path ? "/" : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (slash != NULL)
        *slash = '/';
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static bool make_directory(char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0) {
        sync_parent(path);
        return true;
    }
    return errno == EEXIST || error_set_errno(error, errno, "%s: cannot be made", path);
}

/* Makes the directories of a path in a store: DIR/.build-id/ab. DIR itself may be new too. */
static bool make_directories(const char *path, struct error *error)
{
    char *directory = strdup(path);
    bool done = true;

    if (directory == NULL)
        return error_out_of_memory(error, path, strlen(path));
    for (char *slash = strchr(directory + 1, '/'); done && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        done = make_directory(directory, error);
        *slash = '/';
    }
    free(directory);
    return done;
}

/* A directory that a cleaner has removed again is not to be told from other reasons to fail, so all
 * of them are tried again; those that last cost little. */
#define CREATE_ATTEMPTS 10

bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error)
{
    for (unsigned attempt = 0; attempt < CREATE_ATTEMPTS; attempt++) {
        if (!make_directories(path, error))
            return false;
        if (output_create(output, path, options, error))
            return true;
    }
    return false;
}

bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error)
{
    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS; attempt++) {
        if (!output_try_commit(output, replace, result, error))
            return false;
        if (*result != OUTPUT_NO_DIRECTORY)
            return true;
        if (!make_directories(output->path, error))
            return false;
    }
    return error_set(error, "%s: its directory is removed all the time; run again when nobody does",
                     output->path);
}
