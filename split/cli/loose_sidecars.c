/*
 * Finding loose sidecars: see loose_sidecars.h.
 *
 * A directory's times tell that a name was added or removed, but they do not tell a change within
 * one tick of the file system's clock, nor that a file was overwritten. So a directory is read
 * again also if it was read too soon after its last change, and after some time in any case.
 */
#include "split/cli/loose_sidecars.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/array.h"
#include "common/base/directory.h"
#include "common/base/file.h"
#include "common/sidecar/sidecar.h"

/* The longest tick of a file system's clock, in seconds: that of FAT. */
#define CLOCK_STEP 2

/* How long the files of a directory are trusted not to be overwritten, in seconds. */
#define AGE_MAX 1

struct loose_directory {
    char *path;                 /* or LOOSE_FILES */
    struct loose_matches files; /* that could be read, in the order of their names */
    const struct store_match **by_uuid;
    struct loose_faults faults;
    struct stat status;   /* of the directory, before it was read */
    struct timespec time; /* when it was read */
};

struct loose_sidecars {
    const struct path_list *files;
    pthread_mutex_t lock; /* protects the members below */
    void *directories;    /* a tsearch tree of loose_directory, by path */
};

/* ---- matches ---- */

bool loose_matches_add(struct loose_matches *matches, const struct uuid *uuid, const char *path,
                       struct error *error)
{
    char *copy = strdup(path);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(matches->items, matches->capacity, matches->count)) {
        free(copy);
        return error_out_of_memory(error, path, strlen(path));
    }
    matches->items[matches->count++] = (struct store_match){*uuid, copy};
    return true;
}

void loose_matches_free(struct loose_matches *matches)
{
    for (size_t i = 0; i < matches->count; i++)
        free(matches->items[i].path);
    free(matches->items);
    *matches = (struct loose_matches){0};
}

/* ---- the set of directories ---- */

struct loose_sidecars *loose_sidecars_new(const struct path_list *files, struct error *error)
{
    struct loose_sidecars *loose = calloc(1, sizeof(*loose));

    if (loose == NULL) {
        error_out_of_memory(error, "the command", sizeof(*loose));
        return NULL;
    }
    loose->files = files;
    pthread_mutex_init(&loose->lock, NULL);
    return loose;
}

static void free_files(struct loose_directory *directory)
{
    loose_matches_free(&directory->files);
    free(directory->by_uuid);
}

static void free_directory(void *node)
{
    struct loose_directory *directory = node;

    free_files(directory);
    free(directory->path);
    free(directory);
}

void loose_sidecars_free(struct loose_sidecars *loose)
{
    if (loose == NULL)
        return;
    tdestroy(loose->directories, free_directory);
    pthread_mutex_destroy(&loose->lock);
    free(loose);
}

static int compare_directories(const void *a, const void *b)
{
    const struct loose_directory *left = a, *right = b;

    return strcmp(left->path, right->path);
}

/* ---- reading a directory ---- */

/* Only regular files are opened, since opening a device can have side effects. */
static bool read_uuid(const char *path, struct uuid *uuid, struct error *error)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, "%s: not a regular file", path);
    return sidecar_peek(path, uuid, error);
}

static void add_fault(struct loose_faults *faults, const struct error *why)
{
    if (faults->count++ == 0)
        faults->first = *why;
}

/* Returns false with an error if the machine fails: the file may be one of several that fit. */
static bool add_file(struct loose_directory *directory, const char *path, bool is_listed,
                     struct error *error)
{
    struct uuid uuid;

    if (read_uuid(path, &uuid, error))
        return loose_matches_add(&directory->files, &uuid, path, error);
    if (error_is_of_machine(error))
        return false;
    /* It is not a fault if a file was removed after its name was read. */
    if (error->number != ENOENT || is_listed)
        add_fault(&directory->faults, error);
    return true;
}

static bool is_sidecar_name(const char *name)
{
    /* Names that begin with a dot are of files that are being written. */
    return name[0] != '.' && store_has_suffix(name);
}

static bool read_directory(struct loose_directory *directory, struct error *error)
{
    bool is_here = strcmp(directory->path, ".") == 0;
    struct directory_names names;
    bool done = directory_names_read(directory->path, is_sidecar_name, &names, error);

    if (!done && !error_is_of_machine(error)) {
        if (error->number != ENOENT && error->number != ENOTDIR)
            add_fault(&directory->faults, error);
        done = true;
    }
    for (size_t i = 0; done && i < names.count; i++) {
        char *path;

        if (asprintf(&path, "%s%s%s", is_here ? "" : directory->path, is_here ? "" : "/",
                     names.items[i]) < 0)
            path = NULL;
        done = path != NULL ? add_file(directory, path, false, error)
                            : error_out_of_memory(error, directory->path, PATH_MAX);
        free(path);
    }
    directory_names_free(&names);
    return done;
}

static bool read_files(struct loose_directory *directory, const struct path_list *files,
                       struct error *error)
{
    for (size_t i = 0; i < files->count; i++) {
        if (!add_file(directory, files->paths[i], true, error))
            return false;
    }
    return true;
}

/* Files with the same UUID keep their order in the array. */
static int compare_matches(const void *a, const void *b)
{
    const struct store_match *left = *(const struct store_match *const *)a;
    const struct store_match *right = *(const struct store_match *const *)b;
    int order = uuid_compare(&left->uuid, &right->uuid);

    return order != 0 ? order : (left > right) - (left < right);
}

static bool sort_by_uuid(struct loose_directory *directory, struct error *error)
{
    size_t count = directory->files.count;

    directory->by_uuid = malloc((count + 1) * sizeof(*directory->by_uuid));
    if (directory->by_uuid == NULL)
        return error_out_of_memory(error, "the list of sidecars", count);
    for (size_t i = 0; i < count; i++)
        directory->by_uuid[i] = &directory->files.items[i];
    qsort(directory->by_uuid, count, sizeof(*directory->by_uuid), compare_matches);
    return true;
}

static struct stat status_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status : (struct stat){0};
}

/* Replaces what was known of the directory. If it fails, nothing changes. */
static bool look_through(const struct loose_sidecars *loose, struct loose_directory *directory,
                         struct error *error)
{
    struct loose_directory now = {.path = directory->path};
    bool done;

    clock_gettime(CLOCK_REALTIME, &now.time);
    now.status = status_of(now.path);
    done = (strcmp(now.path, LOOSE_FILES) == 0 ? read_files(&now, loose->files, error)
                                               : read_directory(&now, error)) &&
           sort_by_uuid(&now, error);
    free_files(done ? directory : &now);
    if (done)
        *directory = now;
    return done;
}

static bool may_have_changed(const struct loose_directory *directory)
{
    struct stat now = status_of(directory->path);
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    return !file_is_untouched(&directory->status, &now) ||
           directory->time.tv_sec - now.st_mtim.tv_sec <= CLOCK_STEP ||
           time.tv_sec - directory->time.tv_sec > AGE_MAX || time.tv_sec < directory->time.tv_sec;
}

static struct loose_directory *add_directory(struct loose_sidecars *loose, const char *path,
                                             struct error *error)
{
    struct loose_directory *directory = calloc(1, sizeof(*directory));

    if (directory != NULL)
        directory->path = strdup(path);
    if (directory == NULL || directory->path == NULL)
        error_out_of_memory(error, "the list of directories", sizeof(*directory));
    else if (look_through(loose, directory, error)) {
        if (tsearch(directory, &loose->directories, compare_directories) != NULL)
            return directory;
        error_out_of_memory(error, "the list of directories", sizeof(*directory));
    }
    if (directory != NULL)
        free_directory(directory);
    return NULL;
}

static struct loose_directory *find_known(const struct loose_sidecars *loose, const char *path)
{
    const struct loose_directory wanted = {.path = (char *)(uintptr_t)path};
    struct loose_directory *const *found = tfind(&wanted, &loose->directories, compare_directories);

    return found == NULL ? NULL : *found;
}

/* Called with the lock held. Returns NULL with an error if out of memory. */
static struct loose_directory *find_directory(struct loose_sidecars *loose, const char *path,
                                              struct error *error)
{
    struct loose_directory *known = find_known(loose, path);

    return known != NULL ? known : add_directory(loose, path, error);
}

/* ---- searches ---- */

/* Returns the index of the first file whose UUID does not sort before the wanted one. All that fit,
 * for any query, follow there in a row. */
static size_t lower_bound(const struct loose_directory *directory, const struct uuid *wanted)
{
    size_t low = 0, high = directory->files.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (memcmp(directory->by_uuid[middle]->uuid.bytes, wanted->bytes, wanted->size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool add_like(const struct loose_directory *directory, const struct uuid *wanted,
                     enum store_query query, struct loose_matches *matches, struct error *error)
{
    for (size_t i = lower_bound(directory, wanted); i < directory->files.count; i++) {
        const struct store_match *file = directory->by_uuid[i];

        if (memcmp(file->uuid.bytes, wanted->bytes, wanted->size) != 0)
            break;
        if (store_uuid_fits(&file->uuid, wanted, query) &&
            !loose_matches_add(matches, &file->uuid, file->path, error))
            return false;
    }
    return true;
}

bool loose_find(struct loose_sidecars *loose, const char *path, const struct uuid *uuid,
                enum store_query query, struct loose_matches *matches, struct error *error)
{
    const struct loose_directory *directory;
    bool done;

    pthread_mutex_lock(&loose->lock);
    directory = find_directory(loose, path, error);
    done = directory != NULL && add_like(directory, uuid, query, matches, error);
    pthread_mutex_unlock(&loose->lock);
    return done;
}

bool loose_list(struct loose_sidecars *loose, const char *path, struct loose_matches *matches,
                struct error *error)
{
    static const struct uuid any = {.size = 0};

    return loose_find(loose, path, &any, STORE_PREFIX, matches, error);
}

void loose_add_faults(struct loose_sidecars *loose, const char *path, struct loose_faults *faults)
{
    const struct loose_directory *directory;

    pthread_mutex_lock(&loose->lock);
    directory = find_known(loose, path);
    if (directory != NULL && faults->count == 0)
        faults->first = directory->faults.first;
    if (directory != NULL)
        faults->count += directory->faults.count;
    pthread_mutex_unlock(&loose->lock);
}

bool loose_renew(struct loose_sidecars *loose, const char *path, struct error *error)
{
    struct loose_directory *directory;
    bool done;

    pthread_mutex_lock(&loose->lock);
    directory = find_directory(loose, path, error);
    done = directory != NULL &&
           (!may_have_changed(directory) || look_through(loose, directory, error));
    pthread_mutex_unlock(&loose->lock);
    return done;
}
