/*
 * Finding loose sidecars: see loose_sidecars.h.
 *
 * When a directory is read again, the UUIDs of files that have not changed are kept. The
 * directory's times tell that a name was added or removed, but they do not tell a change within one
 * tick of the file system's clock, nor that a file was overwritten. So a directory is also read
 * again if it was read too soon after its last change, and after some time in any case.
 */
#include "split/cli/loose_sidecars.h"

#include <errno.h>
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

struct loose_file {
    char *path;
    struct stat status;
    struct uuid uuid; /* size 0: it could not be read */
};

struct loose_directory {
    char *path;               /* LOOSE_FILES for the list of files */
    struct loose_file *files; /* in the order of their names */
    size_t count, capacity;
    const struct loose_file **by_uuid; /* only those that could be read */
    size_t readable;
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
    for (size_t i = 0; i < directory->count; i++)
        free(directory->files[i].path);
    free(directory->files);
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

    if (left->path == NULL || right->path == NULL)
        return (left->path != NULL) - (right->path != NULL);
    return strcmp(left->path, right->path);
}

/* ---- reading a directory ---- */

static bool is_same_file(const struct stat *before, const struct stat *now)
{
    return before->st_dev == now->st_dev && before->st_ino == now->st_ino &&
           file_has_same_contents(before, now) && before->st_ctim.tv_sec == now->st_ctim.tv_sec &&
           before->st_ctim.tv_nsec == now->st_ctim.tv_nsec;
}

static int compare_files(const void *a, const void *b)
{
    const struct loose_file *left = a, *right = b;

    return strcmp(left->path, right->path);
}

/* Returns what was known of the file, or NULL if it has changed. LOOSE_FILES has no order to search
 * by, and is read only once. */
static const struct loose_file *find_before(const struct loose_directory *before,
                                            const struct loose_file *file)
{
    const struct loose_file *found;

    if (before->path == LOOSE_FILES || before->count == 0)
        return NULL;
    found = bsearch(file, before->files, before->count, sizeof(*file), compare_files);
    return found != NULL && is_same_file(&found->status, &file->status) ? found : NULL;
}

/* Only regular files are opened, since opening a device can have side effects. */
static bool read_uuid(struct loose_file *file, const struct loose_directory *before,
                      struct error *error)
{
    const struct loose_file *known;

    if (stat(file->path, &file->status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", file->path);
    if (!S_ISREG(file->status.st_mode))
        return error_set(error, "%s: not a regular file", file->path);
    known = find_before(before, file);
    if (known != NULL && known->uuid.size != 0) {
        file->uuid = known->uuid;
        return true;
    }
    return sidecar_peek(file->path, &file->uuid, error);
}

static void add_fault(struct loose_faults *faults, const struct error *why)
{
    if (faults->count++ == 0)
        faults->first = *why;
}

/* Takes ownership of the path. Returns false with an error if out of memory. */
static bool add_file(struct loose_directory *directory, const struct loose_directory *before,
                     char *path, struct error *error)
{
    struct loose_file file = {.path = path};

    if (path == NULL ||
        !ARRAY_ROOM_FOR_ONE(directory->files, directory->capacity, directory->count)) {
        free(path);
        return error_out_of_memory(error, "the list of sidecars", sizeof(file));
    }
    if (!read_uuid(&file, before, error)) {
        if (error_is_of_memory(error)) {
            free(path);
            return false;
        }
        /* It is not a fault if a file was removed after its name was read. */
        if (error->number != ENOENT || directory->path == LOOSE_FILES)
            add_fault(&directory->faults, error);
        file.uuid.size = 0;
    }
    directory->files[directory->count++] = file;
    return true;
}

static bool is_sidecar_name(const char *name)
{
    size_t length = strlen(name), suffix = strlen(STORE_SUFFIX);

    /* Names that begin with a dot are of files that are being written. */
    return length > suffix && name[0] != '.' && strcmp(name + length - suffix, STORE_SUFFIX) == 0;
}

static bool read_directory(struct loose_directory *directory, const struct loose_directory *before,
                           struct error *error)
{
    bool is_here = strcmp(directory->path, ".") == 0;
    struct directory_names names;
    bool done = directory_names_read(directory->path, is_sidecar_name, &names, error);

    if (!done && !error_is_of_memory(error)) {
        if (error->number != ENOENT && error->number != ENOTDIR)
            add_fault(&directory->faults, error);
        done = true;
    }
    for (size_t i = 0; done && i < names.count; i++) {
        char *path = NULL;

        if (is_here)
            path = strdup(names.items[i]);
        else if (asprintf(&path, "%s/%s", directory->path, names.items[i]) < 0)
            path = NULL;
        done = add_file(directory, before, path, error);
    }
    directory_names_free(&names);
    return done;
}

static bool read_files(struct loose_directory *directory, const struct loose_directory *before,
                       const struct path_list *files, struct error *error)
{
    for (size_t i = 0; i < files->count; i++) {
        if (!add_file(directory, before, strdup(files->paths[i]), error))
            return false;
    }
    return true;
}

/* Files with the same UUID keep their order in the array. */
static int compare_uuids(const void *a, const void *b)
{
    const struct loose_file *left = *(const struct loose_file *const *)a;
    const struct loose_file *right = *(const struct loose_file *const *)b;
    int order = memcmp(left->uuid.bytes, right->uuid.bytes, sizeof(left->uuid.bytes));

    if (order == 0)
        order = (left->uuid.size > right->uuid.size) - (left->uuid.size < right->uuid.size);
    return order != 0 ? order : (left > right) - (left < right);
}

static bool sort_by_uuid(struct loose_directory *directory, struct error *error)
{
    directory->by_uuid = malloc((directory->count + 1) * sizeof(*directory->by_uuid));
    if (directory->by_uuid == NULL)
        return error_out_of_memory(error, "the list of sidecars", directory->count);
    for (size_t i = 0; i < directory->count; i++) {
        if (directory->files[i].uuid.size != 0)
            directory->by_uuid[directory->readable++] = &directory->files[i];
    }
    if (directory->readable != 0)
        qsort(directory->by_uuid, directory->readable, sizeof(*directory->by_uuid), compare_uuids);
    return true;
}

/* Replaces what was known of the directory. If it fails, nothing changes. */
static bool look_through(const struct loose_sidecars *loose, struct loose_directory *directory,
                         struct error *error)
{
    struct loose_directory now = {.path = directory->path};
    bool done;

    clock_gettime(CLOCK_REALTIME, &now.time);
    if (now.path != LOOSE_FILES && stat(now.path, &now.status) != 0)
        now.status = (struct stat){0};
    done = (now.path == LOOSE_FILES ? read_files(&now, directory, loose->files, error)
                                    : read_directory(&now, directory, error)) &&
           sort_by_uuid(&now, error);
    free_files(done ? directory : &now);
    if (done)
        *directory = now;
    return done;
}

static bool may_have_changed(const struct loose_directory *directory)
{
    struct timespec time;
    struct stat now;

    if (directory->path == LOOSE_FILES)
        return false;
    clock_gettime(CLOCK_REALTIME, &time);
    if (stat(directory->path, &now) != 0)
        now = (struct stat){0};
    return !is_same_file(&directory->status, &now) ||
           directory->time.tv_sec - now.st_mtim.tv_sec <= CLOCK_STEP ||
           time.tv_sec - directory->time.tv_sec > AGE_MAX || time.tv_sec < directory->time.tv_sec;
}

static struct loose_directory *add_directory(struct loose_sidecars *loose, const char *path,
                                             struct error *error)
{
    struct loose_directory *directory = calloc(1, sizeof(*directory));
    bool done = directory != NULL;

    if (done && path != LOOSE_FILES) {
        directory->path = strdup(path);
        done = directory->path != NULL;
    }
    if (!done)
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
    size_t low = 0, high = directory->readable;

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
    for (size_t i = lower_bound(directory, wanted); i < directory->readable; i++) {
        const struct loose_file *file = directory->by_uuid[i];

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
