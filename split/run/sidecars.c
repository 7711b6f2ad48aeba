/*
 * Sidecars of a run: see run/sidecars.h.
 *
 * An open sidecar holds what was decompressed of it for profiles, which costs far more than to
 * convert one profile more. So sidecars stay open, up to SIDECARS_MAX of them, and each is used by
 * one thread at a time, as the reader library wants it. They are read into memory, so that it does
 * not matter what others do to the files; and they are known by what file they were read from, its
 * times included, since a build may put another one of the same UUID in its place at any time.
 *
 * Whatever a sidecar is named, it is only used for what it fits: a report with the mapping of
 * another build would look right, and be wrong.
 */
#include "split/run/sidecars.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/store/store.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"

#define SIDECARS_MAX 16

struct run_sidecar {
    covsplit_sidecar *opened;
    struct uuid uuid;
    struct digest identity; /* of the file that it was read from */
    pthread_mutex_t in_use; /* held by whoever it is lent to */
    unsigned users;         /* those who wait for it included */
    struct run_sidecar *next;
};

struct run_sidecars {
    const char *given; /* --sidecar */
    uint64_t memory_limit;
    struct stores stores;
    covsplit_store *store;   /* the same; NULL: none named */
    pthread_mutex_t lock;    /* of what follows */
    struct run_sidecar *all; /* the last one used first */
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
    sidecars->memory_limit = option_number(options, OPTION_MEMORY_LIMIT);
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
static struct run_sidecar *add(struct run_sidecars *sidecars, covsplit_sidecar *opened,
                               const struct digest *identity)
{
    struct run_sidecar *sidecar = calloc(1, sizeof(*sidecar));
    const uint8_t *uuid;

    if (sidecar == NULL) {
        covsplit_sidecar_close(opened);
        return NULL;
    }
    run_sidecars_limit(sidecars, opened);
    sidecar->opened = opened;
    sidecar->identity = *identity;
    uuid = covsplit_sidecar_uuid(opened, &sidecar->uuid.size);
    memcpy(sidecar->uuid.bytes, uuid, sidecar->uuid.size);
    pthread_mutex_init(&sidecar->in_use, NULL);
    sidecar->users = 1;
    sidecar->next = sidecars->all;
    sidecars->all = sidecar;
    return sidecar;
}

/* The one that was read from that file, moved to the front; NULL where it is not open. */
static struct run_sidecar *find_open(struct run_sidecars *sidecars, const struct digest *identity)
{
    for (struct run_sidecar **place = &sidecars->all; *place != NULL; place = &(*place)->next) {
        struct run_sidecar *sidecar = *place;

        if (!digest_equal(&sidecar->identity, identity))
            continue;
        *place = sidecar->next;
        sidecar->next = sidecars->all;
        sidecars->all = sidecar;
        sidecar->users++;
        return sidecar;
    }
    return NULL;
}

void run_sidecars_limit(const struct run_sidecars *sidecars, covsplit_sidecar *sidecar)
{
    covsplit_sidecar_limit_memory(sidecar, sidecars->memory_limit);
}

/* ---- a search ---- */

/* What a sidecar is looked for: a profile, or an image. */
struct wanted {
    const covsplit_profile *profile;
    const struct split_image *image;
    const char *const *names; /* of the image; ends with NULL */
    const char *name;         /* for messages */
    struct error problem;     /* the first one that was met; "": nothing was there to look at */
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

/* Of an image; NULL where the stores have none. */
static char *find_by_uuid(const struct stores *stores, struct wanted *wanted)
{
    const struct split_image *image = wanted->image;
    struct store_match match = {0};
    char hex[UUID_HEX_MAX];
    struct error error;
    bool found = stores_find(stores, &image->uuid, image->uuid_is_stub, &match, &error);

    if (found && match.path == NULL)
        found = error_set(&error, "%s: no sidecar of UUID %s; give another store",
                          stores->directories, uuid_format(&image->uuid, hex));
    if (found)
        return match.path;
    note_error(wanted, &error);
    free(match.path);
    return NULL;
}

/* The store's sidecar; NULL where it has none. */
static char *find_in_store(const struct run_sidecars *sidecars, struct wanted *wanted)
{
    covsplit_error *reader_error = NULL;
    char *path;

    if (sidecars->store == NULL || (wanted->image != NULL && wanted->image->uuid.size == 0))
        return NULL;
    if (wanted->image != NULL)
        return find_by_uuid(&sidecars->stores, wanted);
    path = covsplit_store_path_for_profile(sidecars->store, wanted->profile, &reader_error);
    if (path == NULL)
        note_problem(wanted, reader_error);
    return path;
}

/* NAME.covsplit; NULL where there is no such file. */
static char *find_beside(struct wanted *wanted, const char *name)
{
    struct stat status;
    char *path;

    if (asprintf(&path, "%s" STORE_SUFFIX, name) < 0) {
        error_out_of_memory(&wanted->problem, wanted->name, strlen(name));
        return NULL;
    }
    if (stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return path;
    free(path);
    return NULL;
}

static char *find_given(const struct run_sidecars *sidecars, struct wanted *wanted)
{
    char *path = sidecars->given == NULL ? NULL : strdup(sidecars->given);

    if (path == NULL && sidecars->given != NULL)
        error_out_of_memory(&wanted->problem, wanted->name, strlen(sidecars->given));
    return path;
}

/* Goes through the places where a sidecar may be, in their order: *path, which the caller frees, is
 * NULL where there is none. False: there are no more places, or no memory. */
static bool next_place(const struct run_sidecars *sidecars, struct wanted *wanted, size_t *place,
                       char **path)
{
    size_t number = (*place)++;

    if (number == 0)
        *path = find_given(sidecars, wanted);
    else if (number == 1)
        *path = find_in_store(sidecars, wanted);
    else if (wanted->names != NULL && wanted->names[number - 2] != NULL)
        *path = find_beside(wanted, wanted->names[number - 2]);
    else
        return false;
    return *path != NULL || !error_is_of_memory(&wanted->problem);
}

/* Reads the sidecar, unless that was done before. With the lock held. */
static struct run_sidecar *read_file(struct run_sidecars *sidecars, struct wanted *wanted, int fd,
                                     const char *path)
{
    covsplit_error *reader_error = NULL;
    struct run_sidecar *sidecar;
    covsplit_sidecar *opened;
    struct digest identity;
    struct stat status;

    if (fd < 0 || fstat(fd, &status) != 0) {
        if (wanted->problem.message[0] == '\0')
            error_set_errno(&wanted->problem, errno, "%s: cannot be read", path);
        return NULL;
    }
    identity = run_sidecars_file_identity(&status);
    sidecar = find_open(sidecars, &identity);
    if (sidecar != NULL)
        return sidecar;
    opened = covsplit_sidecar_open_fd(fd, path, &reader_error);
    if (opened == NULL) {
        note_problem(wanted, reader_error);
        return NULL;
    }
    sidecar = add(sidecars, opened, &identity);
    if (sidecar == NULL)
        error_out_of_memory(&wanted->problem, wanted->name, sizeof(*sidecar));
    return sidecar;
}

/* Takes the sidecar at the path if it fits. */
static struct run_sidecar *look(struct run_sidecars *sidecars, struct wanted *wanted,
                                const char *path)
{
    struct run_sidecar *sidecar;
    int fd = file_open_as_it_is(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    pthread_mutex_lock(&sidecars->lock);
    sidecar = read_file(sidecars, wanted, fd, path);
    pthread_mutex_unlock(&sidecars->lock);
    if (fd >= 0)
        close(fd);
    return take(sidecars, sidecar, wanted, path) ? sidecar : NULL;
}

static struct run_sidecar *search(struct run_sidecars *sidecars, struct wanted *wanted,
                                  struct error *error)
{
    struct run_sidecar *sidecar = NULL;
    size_t place = 0;
    char *path;

    while (sidecar == NULL && next_place(sidecars, wanted, &place, &path)) {
        if (path != NULL)
            sidecar = look(sidecars, wanted, path);
        free(path);
    }
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

/* What there is at every place, so that a file that comes, goes or changes makes another digest. */
static bool identify(const struct run_sidecars *sidecars, struct wanted *wanted,
                     struct digest_stream *digest, struct error *error)
{
    size_t place = 0;
    char *path;

    while (next_place(sidecars, wanted, &place, &path)) {
        struct digest identity = {.bytes = {0}};
        struct stat status;

        if (path != NULL && stat(path, &status) == 0)
            identity = run_sidecars_file_identity(&status);
        free(path);
        digest_stream_add(digest, (struct bytes){identity.bytes, sizeof(identity.bytes)});
    }
    if (error_is_of_memory(&wanted->problem))
        *error = wanted->problem;
    return !error_is_of_memory(&wanted->problem);
}

/* ---- for profiles and images ---- */

struct run_sidecar *run_sidecars_for_profile(struct run_sidecars *sidecars,
                                             const covsplit_profile *profile, const char *name,
                                             struct error *error)
{
    struct wanted wanted = {.profile = profile, .name = name};

    return search(sidecars, &wanted, error);
}

bool run_sidecars_identify_for_profile(const struct run_sidecars *sidecars,
                                       const covsplit_profile *profile, const char *name,
                                       struct digest_stream *digest, struct error *error)
{
    struct wanted wanted = {.profile = profile, .name = name};

    return identify(sidecars, &wanted, digest, error);
}

struct run_sidecar *run_sidecars_for_image(struct run_sidecars *sidecars,
                                           const struct split_image *image,
                                           const char *const *names, struct error *error)
{
    struct wanted wanted = {.image = image, .names = names, .name = names[0]};

    return search(sidecars, &wanted, error);
}

bool run_sidecars_identify_for_image(const struct run_sidecars *sidecars,
                                     const struct split_image *image, const char *const *names,
                                     struct digest_stream *digest, struct error *error)
{
    struct wanted wanted = {.image = image, .names = names, .name = names[0]};

    return identify(sidecars, &wanted, digest, error);
}
