/*
 * Finding sidecars in directories: see find_sidecar.h.
 *
 * A directory's times tell that a name was added or removed, but they do not tell a change within
 * one tick of the file system's clock, nor that a file was overwritten. So a directory is read
 * again also if it was read too soon after its last change, and after some time in any case.
 */
#include "split/cli/find_sidecar.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/memory.h"

/* The longest tick of a file system's clock, in seconds: that of FAT. */
#define CLOCK_STEP 2

/* The time for which the files of a directory are trusted not to be overwritten, in seconds. */
#define AGE_MAX 1

struct directory {
    char *path;                  /* or INDEX_FILES */
    struct found_sidecars files; /* those that could be read, sorted by UUID */
    size_t fault_count;
    struct error first_fault;
    struct stat status;   /* of the directory, before it was read */
    struct timespec time; /* when it was read */
    struct directory *next;
};

struct sidecar_index {
    const struct path_list *files;
    pthread_mutex_t lock; /* protects the member below */
    struct directory *directories;
};

/* ---- lists of candidates ---- */

bool found_sidecars_add(struct found_sidecars *found, const struct uuid *uuid, const char *path,
                        bool is_stored, struct error *error)
{
    const char *copy = arena_text(&found->memory, "%s", path);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(found->items, found->capacity, found->count)) {
        found->memory.failed = true;
        return error_out_of_memory(error, path, strlen(path));
    }
    found->items[found->count] = (struct found_sidecar){*uuid, copy, is_stored, found->count};
    found->count++;
    return true;
}

bool found_sidecars_collect(void *found, const char *path, const struct uuid *uuid,
                            struct error *error)
{
    return found_sidecars_add(found, uuid, path, true, error);
}

static int compare_found(const void *a, const void *b)
{
    const struct found_sidecar *left = a, *right = b;
    int order = uuid_compare(&left->uuid, &right->uuid);

    return order != 0 ? order : (left->number > right->number) - (left->number < right->number);
}

void found_sidecars_sort(struct found_sidecars *found)
{
    if (found->count != 0)
        qsort(found->items, found->count, sizeof(*found->items), compare_found);
}

void found_sidecars_free(struct found_sidecars *found)
{
    arena_free(&found->memory);
    free(found->items);
    *found = (struct found_sidecars){0};
}

/* ---- the index ---- */

struct sidecar_index *sidecar_index_new(const struct path_list *files)
{
    struct sidecar_index *index = command_array(1, sizeof(*index));

    index->files = files;
    pthread_mutex_init(&index->lock, NULL);
    return index;
}

void sidecar_index_free(struct sidecar_index *index)
{
    if (index == NULL)
        return;
    while (index->directories != NULL) {
        struct directory *directory = index->directories;

        index->directories = directory->next;
        found_sidecars_free(&directory->files);
        free(directory->path);
        free(directory);
    }
    pthread_mutex_destroy(&index->lock);
    free(index);
}

/* ---- reading a directory ---- */

static void add_fault(struct directory *directory, const struct error *why)
{
    if (directory->fault_count++ == 0)
        directory->first_fault = *why;
}

/* Adds the file, or a fault. Fails if the machine does: the file may be one of several that fit.
 * Only regular files are opened, since opening a device can have side effects. */
static bool add_file(struct directory *directory, const char *path, bool is_listed,
                     struct error *error)
{
    struct stat status;
    struct uuid uuid;

    if (stat(path, &status) != 0)
        error_set_errno(error, errno, "%s: cannot be read", path);
    else if (!S_ISREG(status.st_mode))
        error_set(error, "%s: not a regular file", path);
    else if (sidecar_peek(path, &uuid, error))
        return found_sidecars_add(&directory->files, &uuid, path, false, error);
    if (error_is_of_machine(error))
        return false;
    /* It is not a fault if a file was removed after its name was read. */
    if (error->number != ENOENT || is_listed)
        add_fault(directory, error);
    return true;
}

static bool is_sidecar_name(const char *name)
{
    /* Names that begin with a dot are of files that are being written. */
    return name[0] != '.' && store_has_suffix(name);
}

static bool read_directory(struct directory *directory, struct error *error)
{
    bool is_here = strcmp(directory->path, ".") == 0;
    struct arena memory = {0};
    struct directory_names names;
    bool done = directory_names_read(directory->path, is_sidecar_name, &names, error);

    if (!done && !error_is_of_machine(error)) {
        if (error->number != ENOENT && error->number != ENOTDIR)
            add_fault(directory, error);
        done = true;
    }
    for (size_t i = 0; done && i < names.count; i++) {
        const char *path = is_here ? names.items[i]
                                   : arena_text(&memory, "%s/%s", directory->path, names.items[i]);

        done = path != NULL ? add_file(directory, path, false, error)
                            : error_out_of_memory(error, directory->path, strlen(names.items[i]));
    }
    directory_names_free(&names);
    arena_free(&memory);
    return done;
}

static struct stat status_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status : (struct stat){0};
}

/* Replaces what was known of the directory. If it fails, nothing changes. */
static bool look_through(const struct path_list *files, struct directory *directory,
                         struct error *error)
{
    struct directory now = {.path = directory->path, .next = directory->next};
    bool done = true;

    clock_gettime(CLOCK_REALTIME, &now.time);
    now.status = status_of(now.path);
    if (strcmp(now.path, INDEX_FILES) != 0)
        done = read_directory(&now, error);
    else
        for (size_t i = 0; done && i < files->count; i++)
            done = add_file(&now, files->paths[i], true, error);
    if (done) {
        found_sidecars_sort(&now.files);
        found_sidecars_free(&directory->files);
        *directory = now;
    } else {
        found_sidecars_free(&now.files);
    }
    return done;
}

static bool may_have_changed(const struct directory *directory)
{
    struct stat now = status_of(directory->path);
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    return !file_is_untouched(&directory->status, &now) ||
           directory->time.tv_sec - now.st_mtim.tv_sec <= CLOCK_STEP ||
           time.tv_sec - directory->time.tv_sec > AGE_MAX || time.tv_sec < directory->time.tv_sec;
}

/* The directory; NULL if it has not been read. The lock must be held. */
static struct directory *find_known(const struct sidecar_index *index, const char *path)
{
    struct directory *directory = index->directories;

    while (directory != NULL && strcmp(directory->path, path) != 0)
        directory = directory->next;
    return directory;
}

/* The same, but a directory that is not known is read. NULL with an error if that fails. */
static struct directory *find_directory(struct sidecar_index *index, const char *path,
                                        struct error *error)
{
    struct directory *directory = find_known(index, path);

    if (directory != NULL)
        return directory;
    directory = calloc(1, sizeof(*directory));
    if (directory != NULL)
        directory->path = strdup(path);
    if (directory == NULL || directory->path == NULL) {
        error_out_of_memory(error, "the list of directories", sizeof(*directory));
    } else if (look_through(index->files, directory, error)) {
        directory->next = index->directories;
        index->directories = directory;
        return directory;
    }
    if (directory != NULL)
        free(directory->path);
    free(directory);
    return NULL;
}

/* ---- searches ---- */

bool sidecar_index_find(struct sidecar_index *index, const char *path, const struct uuid *uuid,
                        enum store_query query, struct found_sidecars *found, struct error *error)
{
    const struct directory *directory;
    bool done;

    pthread_mutex_lock(&index->lock);
    directory = find_directory(index, path, error);
    done = directory != NULL;
    if (done) {
        const struct found_sidecars *files = &directory->files;
        size_t low = 0, high = files->count;

        /* The first file whose UUID does not sort before the wanted one. All that fit, for any
         * query, follow there in a row. */
        while (low < high) {
            size_t middle = low + (high - low) / 2;

            if (memcmp(files->items[middle].uuid.bytes, uuid->bytes, uuid->size) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        for (size_t i = low; done && i < files->count; i++) {
            const struct found_sidecar *file = &files->items[i];

            if (memcmp(file->uuid.bytes, uuid->bytes, uuid->size) != 0)
                break;
            if (store_uuid_fits(&file->uuid, uuid, query))
                done = found_sidecars_add(found, &file->uuid, file->path, false, error);
        }
    }
    pthread_mutex_unlock(&index->lock);
    return done;
}

void sidecar_index_add_faults(struct sidecar_index *index, const char *path, size_t *count,
                              struct error *first)
{
    const struct directory *directory;

    pthread_mutex_lock(&index->lock);
    directory = find_known(index, path);
    if (directory != NULL && *count == 0)
        *first = directory->first_fault;
    if (directory != NULL)
        *count += directory->fault_count;
    pthread_mutex_unlock(&index->lock);
}

bool sidecar_index_renew(struct sidecar_index *index, const char *path, struct error *error)
{
    struct directory *directory;
    bool done;

    pthread_mutex_lock(&index->lock);
    directory = find_directory(index, path, error);
    done = directory != NULL &&
           (!may_have_changed(directory) || look_through(index->files, directory, error));
    pthread_mutex_unlock(&index->lock);
    return done;
}
