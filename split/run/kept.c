/*
 * What a `covsplit run` keeps for later conversions: see run.h.
 *
 * An open sidecar holds its decompressed data for profiles, which takes far longer to produce than
 * converting one more profile. So up to SIDECARS_MAX sidecars stay open. Each is used by one thread
 * at a time, as its memo requires. They are read into memory, so that later changes to
 * the files do not matter. Each search goes through the places anew, but is lent the sidecar that
 * is open already if that was read from the same file, as it is now: a build may replace it by
 * another one with the same UUID at any time.
 *
 * A sidecar is used only for what it fits, whatever its name: a report with the mapping of another
 * build would look right, but be wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/run/run.h"

#define SIDECARS_MAX 16

#define FILES_MAX    512
#define COST_MAX     (UINT64_C(2) << 30)
/* A profile is converted again in no time, and most are read once. */
#define COST_OF_PROFILE 8

/* ---- sidecars ---- */

struct kept_sidecar {
    struct profile_sidecar opened; /* must be the first member: callers see only this */
    struct sidecar *sidecar;       /* opened.sidecar, which a borrower writes without the lock */
    struct digest identity;        /* of the file it was read from */
    bool is_lent;
    struct kept_sidecar *next;
};

struct digest kept_identity(const struct stat *status)
{
    const uint64_t numbers[] = {
        status->st_dev,
        status->st_ino,
        (uint64_t)status->st_size,
        (uint64_t)status->st_mtim.tv_sec,
        (uint64_t)status->st_mtim.tv_nsec,
        (uint64_t)status->st_ctim.tv_sec,
        (uint64_t)status->st_ctim.tv_nsec,
    };

    return digest_of((struct bytes){(const uint8_t *)numbers, sizeof(numbers)});
}

static struct kept_sidecar *take_out(struct kept_sidecar **place)
{
    struct kept_sidecar *sidecar = *place;

    *place = sidecar->next;
    return sidecar;
}

static void close_one(struct kept_sidecar *sidecar)
{
    profile_sidecar_close(&sidecar->opened);
    free(sidecar);
}

/* Of a sidecar_lender. */
static struct sidecar *lend(void *context, const char *path, struct error *error)
{
    struct kept_sidecars *sidecars = context;
    struct kept_sidecar **place = NULL, *sidecar;
    struct sidecar *opened;
    struct digest identity;
    struct stat status;

    if (stat(path, &status) != 0) {
        error_set_errno(error, errno, "%s: cannot be read", path);
        return NULL;
    }
    identity = kept_identity(&status);
    pthread_mutex_lock(&sidecars->lock);
    do {
        if (place != NULL)
            pthread_cond_wait(&sidecars->returned, &sidecars->lock);
        place = &sidecars->all;
        while (*place != NULL && !digest_equal(&(*place)->identity, &identity))
            place = &(*place)->next;
    } while (*place != NULL && (*place)->is_lent);
    sidecar = *place != NULL ? take_out(place) : calloc(1, sizeof(*sidecar));
    if (sidecar != NULL) {
        sidecar->identity = identity;
        sidecar->is_lent = true;
        sidecar->next = sidecars->all;
        sidecars->all = sidecar;
    }
    pthread_mutex_unlock(&sidecars->lock);
    if (sidecar == NULL) {
        error_out_of_memory(error, path, sizeof(*sidecar));
        return NULL;
    }
    if (sidecar->sidecar != NULL)
        return sidecar->sidecar;
    opened = sidecar_read_for(sidecars->places.options, path, error);
    pthread_mutex_lock(&sidecars->lock);
    if (opened != NULL)
        sidecar->identity = kept_identity(&opened->input.status);
    sidecar->sidecar = sidecar->opened.sidecar = opened;
    pthread_mutex_unlock(&sidecars->lock);
    if (opened == NULL)
        kept_sidecars_release(sidecars, &sidecar->opened);
    return opened;
}

/* The one that a sidecar is opened as, which is lent to the caller. */
static struct profile_sidecar *lent_as(struct kept_sidecars *sidecars, const struct sidecar *opened)
{
    struct kept_sidecar *sidecar;

    pthread_mutex_lock(&sidecars->lock);
    sidecar = sidecars->all;
    while (sidecar->sidecar != opened)
        sidecar = sidecar->next;
    pthread_mutex_unlock(&sidecars->lock);
    return &sidecar->opened;
}

/* Of a sidecar_lender. */
static void take_back(void *context, struct sidecar *opened)
{
    kept_sidecars_release(context, lent_as(context, opened));
}

void kept_sidecars_open(struct kept_sidecars *sidecars, const struct parsed_options *options)
{
    const struct sidecar_lender lender = {lend, take_back, sidecars};

    *sidecars = (struct kept_sidecars){.all = NULL};
    pthread_mutex_init(&sidecars->lock, NULL);
    pthread_cond_init(&sidecars->returned, NULL);
    sidecar_places_open(&sidecars->places, options, &lender);
}

void kept_sidecars_close(struct kept_sidecars *sidecars)
{
    while (sidecars->all != NULL)
        close_one(take_out(&sidecars->all));
    sidecar_places_close(&sidecars->places);
    pthread_cond_destroy(&sidecars->returned);
    pthread_mutex_destroy(&sidecars->lock);
}

struct profile_sidecar *kept_sidecars_find(struct kept_sidecars *sidecars,
                                           const struct sidecar_wanted *wanted, struct error *error)
{
    const struct sidecar *found = sidecar_search(&sidecars->places, wanted, error);

    return found == NULL ? NULL : lent_as(sidecars, found);
}

/* Also closes the least recently used ones, and this one if it could not be opened. */
void kept_sidecars_release(struct kept_sidecars *sidecars, struct profile_sidecar *opened)
{
    struct kept_sidecar **place = &sidecars->all;
    size_t count = 0;

    pthread_mutex_lock(&sidecars->lock);
    ((struct kept_sidecar *)opened)->is_lent = false;
    while (*place != NULL) {
        bool is_kept = ++count <= SIDECARS_MAX && (*place)->sidecar != NULL;

        if (is_kept || (*place)->is_lent)
            place = &(*place)->next;
        else
            close_one(take_out(place));
    }
    pthread_cond_broadcast(&sidecars->returned);
    pthread_mutex_unlock(&sidecars->lock);
}

/* ---- converted files; static functions need the lock ---- */

/* A conversion that is kept or under way. */
struct kept_file {
    struct digest identity;
    int fd;        /* -1: under way */
    uint64_t cost; /* the file's size in memory, weighed */
    struct kept_file *next;
};

void kept_files_open(struct kept_files *files)
{
    *files = (struct kept_files){.first = NULL};
    pthread_mutex_init(&files->lock, NULL);
    pthread_cond_init(&files->has_ended, NULL);
}

static struct kept_file **find_file(struct kept_files *files, const struct digest *identity)
{
    struct kept_file **place = &files->first;

    while (*place != NULL && !digest_equal(&(*place)->identity, identity))
        place = &(*place)->next;
    return place;
}

static void drop_file(struct kept_file **place)
{
    struct kept_file *file = *place;

    *place = file->next;
    if (file->fd >= 0)
        close(file->fd);
    free(file);
}

void kept_files_close(struct kept_files *files)
{
    while (files->first != NULL)
        drop_file(&files->first);
    pthread_cond_destroy(&files->has_ended);
    pthread_mutex_destroy(&files->lock);
}

/* Makes a file the most recently used one. */
static void use_file(struct kept_files *files, struct kept_file **place)
{
    struct kept_file *file = *place;

    *place = file->next;
    file->next = files->first;
    files->first = file;
}

/* Drops the least recently used files, but never the first, which is the new one. Programs that
 * have a file open keep it. */
static void trim_files(struct kept_files *files)
{
    struct kept_file **place = &files->first->next;
    uint64_t cost = files->first->cost;
    size_t count = 1;

    while (*place != NULL) {
        cost += (*place)->cost;
        count++;
        if ((*place)->fd >= 0 && (cost > COST_MAX || count > files->room || count > FILES_MAX))
            drop_file(place);
        else
            place = &(*place)->next;
    }
}

/* Opens a kept file anew, read-only, so that no two programs share a file position. */
static int open_file(const struct kept_file *file)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    return file_open_as_it_is(path, O_RDONLY | O_CLOEXEC);
}

bool kept_files_find(struct kept_files *files, const struct digest *identity, int *fd)
{
    struct kept_file **place, *file;
    bool is_own;

    *fd = -1;
    pthread_mutex_lock(&files->lock);
    while (*(place = find_file(files, identity)) != NULL && (*place)->fd < 0)
        pthread_cond_wait(&files->has_ended, &files->lock);
    is_own = *place == NULL && (file = malloc(sizeof(*file))) != NULL;
    if (is_own) {
        *file = (struct kept_file){.identity = *identity, .fd = -1, .next = files->first};
        files->first = file;
    } else if (*place != NULL) {
        use_file(files, place);
        *fd = open_file(files->first);
    }
    pthread_mutex_unlock(&files->lock);
    return is_own;
}

int kept_files_add(struct kept_files *files, const struct digest *identity,
                   const struct conversion *result)
{
    struct kept_file **place, *file;
    int fd = -1;

    pthread_mutex_lock(&files->lock);
    place = find_file(files, identity);
    file = *place;
    if (result != NULL) {
        file->fd = result->memory;
        file->cost = result->size * (result->kind == SUBJECT_PROFILE ? COST_OF_PROFILE : 1);
        use_file(files, place);
        trim_files(files);
        fd = open_file(file);
        place = &files->first;
    }
    /* What a sidecar is missing for may have it the next time. */
    if (result == NULL || result->is_partial)
        drop_file(place);
    pthread_cond_broadcast(&files->has_ended);
    pthread_mutex_unlock(&files->lock);
    return fd;
}
