/*
 * Sidecars of a run: see run.h.
 *
 * An open sidecar holds its decompressed data for profiles, which takes far longer to produce than
 * converting one more profile. So up to SIDECARS_MAX sidecars stay open. Each is used by one thread
 * at a time, as the reader library requires. They are read into memory, so that later changes to
 * the files do not matter. Each search finds and reads the file anew, and is lent the sidecar that
 * is open already if that was read from the same file, as it is now: a build may replace it by
 * another one with the same UUID at any time.
 *
 * A sidecar is used only for what it fits, whatever its name: a report with the mapping of another
 * build would look right, but be wrong.
 */
#include <stdlib.h>

#include "common/base/file.h"
#include "split/run/run.h"

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

struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error)
{
    struct sidecar *found = sidecar_search(&sidecars->places, wanted, error);
    struct run_sidecar **place = NULL, *sidecar;
    struct digest identity;

    if (found == NULL)
        return NULL;
    identity = run_sidecars_file_identity(&found->input.status);
    pthread_mutex_lock(&sidecars->lock);
    do {
        if (place != NULL)
            pthread_cond_wait(&sidecars->returned, &sidecars->lock);
        place = &sidecars->all;
        while (*place != NULL && !digest_equal(&(*place)->identity, &identity))
            place = &(*place)->next;
    } while (*place != NULL && (*place)->is_lent);
    sidecar = *place != NULL ? take_out(place) : calloc(1, sizeof(*sidecar));
    if (sidecar != NULL && sidecar->opened.sidecar == NULL) {
        sidecar->opened.sidecar = found;
        sidecar->identity = identity;
        found = NULL;
    }
    if (sidecar != NULL) {
        sidecar->is_lent = true;
        sidecar->next = sidecars->all;
        sidecars->all = sidecar;
    } else {
        error_out_of_memory(error, found->name, sizeof(*sidecar));
    }
    pthread_mutex_unlock(&sidecars->lock);
    sidecar_close(found);
    return sidecar == NULL ? NULL : &sidecar->opened;
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
