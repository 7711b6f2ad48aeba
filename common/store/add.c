/*
 * Writing to stores: see add.h.
 */
#include "common/store/add.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/file.h"

/* A new directory only survives a power failure once its parent has been synced. */
static bool make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST || error_set_errno(error, errno, "%s: cannot be created", path);
    if (path_sync_name(path))
        return true;
    error_set_errno(error, errno, "%s: cannot be created: its directory cannot be synced", path);
    rmdir(path);
    return false;
}

/* Creates the directories of a path in a store: DIR, DIR/.build-id and DIR/.build-id/ab. */
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

/* Whether a step failed because a cleaner removed a new directory, and should be tried again.
 * Pauses before that, a little longer each time, to let the cleaner finish. */
static bool try_again(unsigned attempt, const struct error *error)
{
    struct timespec pause = {.tv_nsec = 100000L * attempt};

    if (error->number != ENOENT || attempt == STORE_ATTEMPTS)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error)
{
    unsigned attempt = 0;
    bool done;

    do
        done = make_directories(path, error) && output_create(output, path, options, error);
    while (!done && try_again(attempt++, error));
    return done;
}

bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error)
{
    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS; attempt++) {
        if (!output_try_commit(output, replace, result, error))
            return false;
        if (*result != OUTPUT_NO_DIRECTORY)
            return true;
        if (!make_directories(output->path, error) && !try_again(attempt, error))
            return false;
    }
    return error_set(error, "%s: other processes keep removing its directory; run again later",
                     output->path);
}
