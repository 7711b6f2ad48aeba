/*
 * Files that were left: see left_files.h.
 */
#include "split/profiles/left_files.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/file.h"
#include "split/cli/message.h"

/* If there are more, all are forgotten: they are tried, and named, once more. */
#define LEFT_MAX 65536

struct left_file {
    char *path;
    struct stat status; /* all zeros if it is gone */
    time_t since;
    struct error *why; /* NULL once it is named */
};

static int compare(const void *a, const void *b)
{
    const struct left_file *left = a, *right = b;

    return strcmp(left->path, right->path);
}

static void free_file(void *node)
{
    struct left_file *file = node;

    free(file->path);
    free(file->why);
    free(file);
}

static void forget(struct left_files *left, struct left_file *file)
{
    tdelete(file, &left->tree, compare);
    free_file(file);
    left->count--;
}

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static struct left_file *find(const struct left_files *left, const char *path)
{
    const struct left_file wanted = {.path = (char *)(uintptr_t)path};
    struct left_file *const *found = tfind(&wanted, &left->tree, compare);

    return found == NULL ? NULL : *found;
}

static void name_it(struct left_files *left, const struct error *why)
{
    message_warning("%s (left where it is)", why->message);
    left->named++;
}

static struct left_file *new_file(const char *path, const struct error *why)
{
    struct left_file *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->path = strdup(path);
    file->why = malloc(sizeof(*why));
    if (file->path != NULL && file->why != NULL) {
        *file->why = *why;
        file->since = now();
        lstat(path, &file->status);
        return file;
    }
    free_file(file);
    return NULL;
}

/* Without memory, the file is named again each time that it is tried. */
void left_files_add(struct left_files *left, const char *path, const struct error *why)
{
    struct left_file *file = find(left, path);

    if (file != NULL)
        forget(left, file);
    if (left->count == LEFT_MAX)
        left_files_free(left);
    file = left->seconds == 0 ? NULL : new_file(path, why);
    if (file == NULL || tsearch(file, &left->tree, compare) == NULL) {
        if (file != NULL)
            free_file(file);
        name_it(left, why);
        return;
    }
    left->count++;
    left->is_unsure = true;
}

bool left_files_have(struct left_files *left, const char *path)
{
    struct left_file *file = left->count == 0 ? NULL : find(left, path);
    struct stat status;

    if (file == NULL)
        return false;
    if (lstat(path, &status) != 0 || !file_is_same(&status, &file->status) ||
        !file_has_same_contents(&status, &file->status)) {
        forget(left, file);
        return false;
    }
    if (file->why == NULL)
        return true;
    if ((uint64_t)(now() - file->since) < left->seconds) {
        left->is_unsure = true;
        return true;
    }
    name_it(left, file->why);
    free(file->why);
    file->why = NULL;
    return true;
}

void left_files_free(struct left_files *left)
{
    tdestroy(left->tree, free_file);
    left->tree = NULL;
    left->count = 0;
}
