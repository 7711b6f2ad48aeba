/*
 * Sidecars of a run: see run/sidecars.h.
 *
 * An open sidecar holds its decompressed data for profiles, which takes far longer to produce than
 * converting one more profile. So up to SIDECARS_MAX sidecars stay open. Each is used by one thread
 * at a time, as the reader library requires. They are read into memory, so that later changes to
 * the files do not matter, and are identified by the file that they were read from, including its
 * times, since a build may replace that by another one with the same UUID at any time.
 *
 * A sidecar is used only for what it fits, whatever its name: a report with the mapping of another
 * build would look right, but be wrong.
 */
#include "split/run/sidecars.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"

#define SIDECARS_MAX 16

struct run_sidecar {
    struct profile_sidecar opened; /* must be the first member: callers see only this */
    struct digest identity;        /* of the file it was read from */
    bool is_lent;
    struct run_sidecar *next;
};

struct digest run_sidecars_file_identity(const struct stat *status)
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

/* ---- the set ---- */

void run_sidecars_open(struct run_sidecars *sidecars, const struct parsed_options *options)
{
    *sidecars = (struct run_sidecars){.all = NULL};
    pthread_mutex_init(&sidecars->lock, NULL);
    pthread_cond_init(&sidecars->returned, NULL);
    sidecar_places_open(&sidecars->places, options, true);
}

static struct run_sidecar *take_out(struct run_sidecar **place)
{
    struct run_sidecar *sidecar = *place;

    *place = sidecar->next;
    return sidecar;
}

static void close_one(struct run_sidecar *sidecar)
{
    profile_sidecar_close(&sidecar->opened);
    free(sidecar);
}

void run_sidecars_close(struct run_sidecars *sidecars)
{
    while (sidecars->all != NULL)
        close_one(take_out(&sidecars->all));
    sidecar_places_close(&sidecars->places);
    pthread_cond_destroy(&sidecars->returned);
    pthread_mutex_destroy(&sidecars->lock);
}

/* Also closes the least recently used ones. */
void run_sidecars_release(struct run_sidecars *sidecars, struct profile_sidecar *opened)
{
    struct run_sidecar **place = &sidecars->all;
    size_t count = 0;

    pthread_mutex_lock(&sidecars->lock);
    ((struct run_sidecar *)opened)->is_lent = false;
    while (*place != NULL) {
        if (++count > SIDECARS_MAX && !(*place)->is_lent)
            close_one(take_out(place));
        else
            place = &(*place)->next;
    }
    pthread_cond_broadcast(&sidecars->returned);
    pthread_mutex_unlock(&sidecars->lock);
}

/* Finds the sidecar that was read from the file, or reads it, after waiting until nobody else uses
 * it. The lock must be held. */
static struct run_sidecar *lend(struct run_sidecars *sidecars, int fd, const char *path,
                                struct error *error)
{
    struct run_sidecar **place = NULL, *sidecar;
    struct digest identity;
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0) {
        error_set_errno(error, errno, "%s: cannot be read", path);
        return NULL;
    }
    identity = run_sidecars_file_identity(&status);
    do {
        if (place != NULL)
            pthread_cond_wait(&sidecars->returned, &sidecars->lock);
        place = &sidecars->all;
        while (*place != NULL && !digest_equal(&(*place)->identity, &identity))
            place = &(*place)->next;
    } while (*place != NULL && (*place)->is_lent);
    if (*place != NULL) {
        sidecar = take_out(place);
    } else {
        struct sidecar *opened = sidecar_read_descriptor(fd, path, error);

        if (opened == NULL)
            return NULL;
        sidecar = calloc(1, sizeof(*sidecar));
        if (sidecar == NULL) {
            error_out_of_memory(error, path, sizeof(*sidecar));
            sidecar_close(opened);
            return NULL;
        }
        sidecar_set_up(opened, sidecars->places.options);
        sidecar->opened.sidecar = opened;
        sidecar->identity = identity;
    }
    sidecar->is_lent = true;
    sidecar->next = sidecars->all;
    sidecars->all = sidecar;
    return sidecar;
}

/* ---- searches ---- */

/* A search of a thread, with the sidecar that it was lent last. */
struct run_search {
    struct run_sidecars *sidecars;
    struct run_sidecar *lent;
};

static struct sidecar *open_candidate(void *context, const char *path, struct error *error)
{
    struct run_search *search = context;
    int fd = file_open_as_it_is(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    pthread_mutex_lock(&search->sidecars->lock);
    search->lent = lend(search->sidecars, fd, path, error);
    pthread_mutex_unlock(&search->sidecars->lock);
    if (fd >= 0)
        close(fd);
    return search->lent == NULL ? NULL : search->lent->opened.sidecar;
}

static void close_candidate(void *context, struct sidecar *sidecar)
{
    const struct run_search *search = context;

    (void)sidecar;
    run_sidecars_release(search->sidecars, &search->lent->opened);
}

struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error)
{
    struct run_search search = {.sidecars = sidecars};
    const struct sidecar_opener opener = {open_candidate, close_candidate, &search};

    return sidecar_search(&sidecars->places, wanted, &opener, error) == NULL ? NULL
                                                                             : &search.lent->opened;
}

static void add_identity(void *context, const char *path)
{
    struct digest identity = {.bytes = {0}};
    struct stat status;

    if (stat(path, &status) == 0)
        identity = run_sidecars_file_identity(&status);
    buffer_append(context, identity.bytes, sizeof(identity.bytes));
}

/* Adds what is at every place, so that a file that appears, disappears or changes makes other
 * ones. For a directory, its index is used: the entry of a found file is always checked again,
 * and nothing is cached if nothing was found. */
bool run_sidecars_identify(const struct run_sidecars *sidecars, const struct sidecar_wanted *wanted,
                           struct buffer *known, struct error *error)
{
    return sidecar_visit_candidates(&sidecars->places, wanted, add_identity, known, error);
}
