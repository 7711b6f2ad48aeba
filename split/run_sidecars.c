/*
 * Sidecars of a run: see run_sidecars.h.
 *
 * An open sidecar holds what was decompressed of it for profiles, which costs far more than to
 * convert one profile more. So sidecars stay open, up to SIDECARS_MAX of them, and each is used by
 * one thread at a time, as the reader library wants it.
 *
 * Whatever a sidecar is named, it is only used for what it fits: a report with the mapping of
 * another build would look right, and be wrong.
 */
#include "split/run_sidecars.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/store.h"
#include "common/uuid.h"
#include "split/find_sidecar.h"
#include "split/message.h"

#define SIDECARS_MAX 16

struct run_sidecar {
    covsplit_sidecar *opened;
    struct uuid uuid;
    pthread_mutex_t in_use; /* held by whoever it is lent to */
    unsigned users;         /* those who wait for it included */
    struct run_sidecar *next;
};

struct run_sidecars {
    const char *given; /* --sidecar */
    struct stores stores;
    covsplit_store *store;        /* the same; NULL: none named */
    pthread_mutex_t lock;         /* of what follows */
    struct run_sidecar *all;      /* the last one used first */
    struct run_sidecar *of_given; /* in `all`, and never closed; NULL: not opened yet */
};

/* ---- the set ---- */

struct run_sidecars *run_sidecars_open(const struct parsed_options *options, struct error *error)
{
    struct run_sidecars *sidecars = calloc(1, sizeof(*sidecars));
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);
    covsplit_error *reader_error = NULL;

    if (sidecars == NULL) {
        error_out_of_memory(error, "the command", sizeof(*sidecars));
        return NULL;
    }
    sidecars->given = option_text(options, OPTION_SIDECAR);
    sidecars->stores = stores_named(options);
    if (store != NULL)
        sidecars->store = covsplit_store_open_directory(store, &reader_error);
    else if (environment != NULL && environment[0] != '\0')
        sidecars->store = covsplit_store_open(environment, &reader_error);
    if (reader_error != NULL) {
        error_from_reader(error, reader_error);
        free(sidecars);
        return NULL;
    }
    pthread_mutex_init(&sidecars->lock, NULL);
    return sidecars;
}

static void close_one(struct run_sidecar *sidecar)
{
    covsplit_sidecar_close(sidecar->opened);
    pthread_mutex_destroy(&sidecar->in_use);
    free(sidecar);
}

void run_sidecars_close(struct run_sidecars *sidecars)
{
    if (sidecars == NULL)
        return;
    while (sidecars->all != NULL) {
        struct run_sidecar *first = sidecars->all;

        sidecars->all = first->next;
        close_one(first);
    }
    covsplit_store_close(sidecars->store);
    pthread_mutex_destroy(&sidecars->lock);
    free(sidecars);
}

covsplit_sidecar *run_sidecar_opened(const struct run_sidecar *sidecar)
{
    return sidecar->opened;
}

/* Closes those that were not used for longest, with the lock held. */
static void trim(struct run_sidecars *sidecars)
{
    struct run_sidecar **place = &sidecars->all;
    size_t count = 0;

    while (*place != NULL) {
        struct run_sidecar *sidecar = *place;

        if (++count > SIDECARS_MAX && sidecar->users == 0) {
            *place = sidecar->next;
            close_one(sidecar);
        } else {
            place = &sidecar->next;
        }
    }
}

void run_sidecars_release(struct run_sidecars *sidecars, struct run_sidecar *sidecar)
{
    pthread_mutex_unlock(&sidecar->in_use);
    pthread_mutex_lock(&sidecars->lock);
    sidecar->users--;
    trim(sidecars);
    pthread_mutex_unlock(&sidecars->lock);
}

/* Takes the sidecar over; the caller is its first user. NULL where there is no memory. */
static struct run_sidecar *add(struct run_sidecars *sidecars, covsplit_sidecar *opened)
{
    struct run_sidecar *sidecar = calloc(1, sizeof(*sidecar));
    const uint8_t *uuid;

    if (sidecar == NULL) {
        covsplit_sidecar_close(opened);
        return NULL;
    }
    sidecar->opened = opened;
    uuid = covsplit_sidecar_uuid(opened, &sidecar->uuid.size);
    memcpy(sidecar->uuid.bytes, uuid, sidecar->uuid.size);
    pthread_mutex_init(&sidecar->in_use, NULL);
    sidecar->users = 1;
    sidecar->next = sidecars->all;
    sidecars->all = sidecar;
    return sidecar;
}

/* One that is open and has that UUID, moved to the front; NULL where there is none. */
static struct run_sidecar *find_open(struct run_sidecars *sidecars, const struct uuid *uuid,
                                     bool is_stub)
{
    for (struct run_sidecar **place = &sidecars->all; *place != NULL; place = &(*place)->next) {
        struct run_sidecar *sidecar = *place;

        if (uuid->size == 0 || !(is_stub ? uuid_has_stub(&sidecar->uuid, uuid->bytes)
                                         : uuid_equal(&sidecar->uuid, uuid)))
            continue;
        *place = sidecar->next;
        sidecar->next = sidecars->all;
        sidecars->all = sidecar;
        sidecar->users++;
        return sidecar;
    }
    return NULL;
}

/* ---- a search ---- */

/* What a sidecar is looked for: a profile, or an image. */
struct wanted {
    const covsplit_profile *profile;
    const struct split_image *image;
    const char *const *names; /* of the image; ends with NULL */
    const char *name;         /* for messages */
    struct uuid uuid;         /* size 0: unknown */
    bool uuid_is_stub;
    struct error problem; /* the first one that was met; "": nothing was there to look at */
};

static void note_error(struct wanted *wanted, const struct error *error)
{
    if (wanted->problem.message[0] == '\0')
        wanted->problem = *error;
}

static void note_problem(struct wanted *wanted, covsplit_error *reader_error)
{
    struct error error;

    error_from_reader(&error, reader_error);
    note_error(wanted, &error);
}

static uint64_t section_size(const covsplit_sidecar *sidecar, const char *name)
{
    covsplit_section section;

    return covsplit_sidecar_find(sidecar, name, &section) ? section.size : 0;
}

/* By UUID, and for build IDs that were made up by hand, by what the mapping counts. */
static bool fits_image(const struct wanted *wanted, const struct run_sidecar *sidecar)
{
    const struct split_image *image = wanted->image;
    bool same = image->uuid_is_stub ? uuid_has_stub(&sidecar->uuid, image->uuid.bytes)
                                    : uuid_equal(&sidecar->uuid, &image->uuid);

    return image->uuid.size != 0 && same &&
           section_size(sidecar->opened, "__llvm_prf_cnts") == image->counters_size &&
           section_size(sidecar->opened, "__llvm_prf_bits") == image->bitmap_size;
}

static bool fits(struct wanted *wanted, const struct run_sidecar *sidecar, const char *place)
{
    covsplit_error *reader_error = NULL;

    if (wanted->profile != NULL) {
        if (covsplit_profile_check(wanted->profile, sidecar->opened, &reader_error))
            return true;
        note_problem(wanted, reader_error);
        return false;
    }
    if (fits_image(wanted, sidecar))
        return true;
    if (wanted->problem.message[0] == '\0')
        error_set(&wanted->problem, "%s: of another build than %s; give the sidecar of this one",
                  place, wanted->name);
    return false;
}

/* Waits until the sidecar is free, and gives it back where it does not fit. */
static bool take(struct run_sidecars *sidecars, struct run_sidecar *sidecar, struct wanted *wanted,
                 const char *place)
{
    if (sidecar == NULL)
        return false;
    pthread_mutex_lock(&sidecar->in_use);
    if (fits(wanted, sidecar, place))
        return true;
    run_sidecars_release(sidecars, sidecar);
    return false;
}

/* ---- where to look ---- */

/* `place` as wanted->problem calls it. NULL: none there. */
typedef covsplit_sidecar *opener(struct run_sidecars *sidecars, struct wanted *wanted,
                                 const char *place);

static covsplit_sidecar *open_path(struct run_sidecars *sidecars, struct wanted *wanted,
                                   const char *place)
{
    covsplit_error *reader_error = NULL;
    covsplit_sidecar *opened = covsplit_sidecar_open(place, &reader_error);

    (void)sidecars;
    if (opened == NULL)
        note_problem(wanted, reader_error);
    return opened;
}

/* Of an image. */
static covsplit_sidecar *find_by_uuid(const struct stores *stores, struct wanted *wanted)
{
    struct store_match match = {0};
    covsplit_sidecar *opened = NULL;
    char hex[UUID_HEX_MAX];
    struct error error;
    bool found = stores_find(stores, &wanted->uuid, wanted->uuid_is_stub, &match, &error);

    if (found && match.path == NULL)
        found = error_set(&error, "%s: no sidecar of UUID %s; give another store",
                          stores->directories, uuid_format(&wanted->uuid, hex));
    if (found)
        opened = open_path(NULL, wanted, match.path);
    else
        note_error(wanted, &error);
    free(match.path);
    return opened;
}

static covsplit_sidecar *open_from_store(struct run_sidecars *sidecars, struct wanted *wanted,
                                         const char *place)
{
    covsplit_error *reader_error = NULL;
    covsplit_sidecar *opened;

    (void)place;
    if (wanted->profile == NULL)
        return find_by_uuid(&sidecars->stores, wanted);
    opened = covsplit_store_find_for_profile(sidecars->store, wanted->profile, &reader_error);
    if (opened == NULL)
        note_problem(wanted, reader_error);
    return opened;
}

/* Opens a sidecar, unless the one with the wanted UUID is open, and takes it if it fits. */
static struct run_sidecar *look(struct run_sidecars *sidecars, struct wanted *wanted,
                                opener *open_it, const char *place)
{
    struct run_sidecar *sidecar;
    covsplit_sidecar *opened;

    pthread_mutex_lock(&sidecars->lock);
    sidecar = find_open(sidecars, &wanted->uuid, wanted->uuid_is_stub);
    if (sidecar == NULL && (opened = open_it(sidecars, wanted, place)) != NULL) {
        sidecar = add(sidecars, opened);
        if (sidecar == NULL)
            error_out_of_memory(&wanted->problem, wanted->name, sizeof(*sidecar));
    }
    pthread_mutex_unlock(&sidecars->lock);
    return take(sidecars, sidecar, wanted, place) ? sidecar : NULL;
}

/* --sidecar is tried for everything, whatever its UUID: a profile may not tell its own. */
static struct run_sidecar *look_at_given(struct run_sidecars *sidecars, struct wanted *wanted)
{
    struct run_sidecar *sidecar;
    covsplit_sidecar *opened;

    pthread_mutex_lock(&sidecars->lock);
    if (sidecars->of_given == NULL &&
        (opened = open_path(sidecars, wanted, sidecars->given)) != NULL)
        sidecars->of_given = add(sidecars, opened);
    sidecar = sidecars->of_given;
    if (sidecar != NULL)
        sidecar->users++;
    pthread_mutex_unlock(&sidecars->lock);
    return take(sidecars, sidecar, wanted, sidecars->given) ? sidecar : NULL;
}

/* The sidecar that lies beside an image, under any of its names. */
static struct run_sidecar *look_beside(struct run_sidecars *sidecars, struct wanted *wanted)
{
    struct run_sidecar *sidecar = NULL;

    for (size_t i = 0; sidecar == NULL && wanted->names[i] != NULL; i++) {
        struct stat status;
        char *place;

        if (asprintf(&place, "%s.covsplit", wanted->names[i]) < 0)
            continue;
        if (stat(place, &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
            sidecar = look(sidecars, wanted, open_path, place);
        free(place);
    }
    return sidecar;
}

static struct run_sidecar *search(struct run_sidecars *sidecars, struct wanted *wanted,
                                  struct error *error)
{
    struct run_sidecar *sidecar = NULL;

    if (sidecars->given != NULL)
        sidecar = look_at_given(sidecars, wanted);
    if (sidecar == NULL && sidecars->store != NULL && (wanted->profile || wanted->uuid.size != 0))
        sidecar = look(sidecars, wanted, open_from_store, "the sidecar of that UUID in the store");
    if (sidecar == NULL && wanted->names != NULL)
        sidecar = look_beside(sidecars, wanted);
    if (sidecar == NULL && wanted->problem.message[0] == '\0')
        error_set(
            error,
            wanted->profile != NULL
                ? "%s: of a split image, and no sidecar is named; give --store or --sidecar"
                : "%s: a split image without its sidecar beside it; give --store or --sidecar",
            wanted->name);
    else if (sidecar == NULL)
        *error = wanted->problem;
    return sidecar;
}

struct run_sidecar *run_sidecars_for_profile(struct run_sidecars *sidecars,
                                             const covsplit_profile *profile, const char *name,
                                             struct error *error)
{
    struct wanted wanted = {.profile = profile, .name = name};
    size_t size = covsplit_profile_uuid(profile, wanted.uuid.bytes, UUID_SIZE_MAX);

    /* A profile does not say whether its UUID is that of a stub record; the check will tell. */
    wanted.uuid.size = size <= UUID_SIZE_MAX ? size : 0;
    wanted.uuid_is_stub = size == UUID_STUB_SIZE;
    return search(sidecars, &wanted, error);
}

struct run_sidecar *run_sidecars_for_image(struct run_sidecars *sidecars,
                                           const struct split_image *image,
                                           const char *const *names, struct error *error)
{
    struct wanted wanted = {.image = image,
                            .names = names,
                            .name = names[0],
                            .uuid = image->uuid,
                            .uuid_is_stub = image->uuid_is_stub};

    return search(sidecars, &wanted, error);
}
