/*
 * Finding sidecars: see find_sidecar.h.
 */
#include "split/find_sidecar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/section.h"
#include "common/store.h"
#include "formats/image.h"

struct search {
    const struct input *stripped;
    struct uuid uuid;     /* size 0: unknown */
    bool uuid_is_stub;    /* only what the stub record has of it */
    struct error no_uuid; /* why there is none */
    struct error problem; /* "": none */
    struct buffer places; /* "A, B, C": what was looked at */
    char *found;
    bool failed; /* no memory */
};

static void note_place(struct search *search, const char *place)
{
    if (search->places.size != 0 && !buffer_append(&search->places, ", ", 2))
        search->failed = true;
    if (!buffer_append(&search->places, place, strlen(place)))
        search->failed = true;
}

/* Takes the path over. A file that is there but cannot be used counts as found: opening it then
 * says what is wrong with it, which helps more than "not found". */
static void try_path(struct search *search, char *path)
{
    struct stat status;

    if (path == NULL) {
        search->failed = true;
        return;
    }
    if (stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
        search->found = path;
        return;
    }
    note_place(search, path);
    free(path);
}

/* What is no stripped image is asked too: it may say why. */
static void read_uuid(struct search *search)
{
    struct image_options options = {.sections = SECTION_REMOVABLE, .drop_signature = true};
    struct image_plan *plan;
    struct split_image split;

    if (image_find_split(search->stripped, &split, &search->problem) && split.uuid.size != 0) {
        search->uuid = split.uuid;
        search->uuid_is_stub = split.uuid_is_stub;
        return;
    }
    search->failed = error_is_of_memory(&search->problem);
    search->problem = (struct error){0};
    if (search->failed)
        return;
    plan = image_plan_make(search->stripped, &options, &search->no_uuid);
    if (plan == NULL) {
        search->failed = error_is_of_memory(&search->no_uuid);
        return;
    }
    search->uuid = plan->facts.uuid;
    if (search->uuid.size == 0)
        error_set(&search->no_uuid, "%s: has no UUID to look for in a store",
                  search->stripped->path);
    image_plan_free(plan);
}

static void try_store(struct search *search, const char *directory)
{
    struct store_match match = {0};

    if (!search->uuid_is_stub) {
        try_path(search, store_path(directory, &search->uuid));
        return;
    }
    if (store_find(directory, &search->uuid, STORE_STUB, &match, &search->problem) &&
        match.path == NULL)
        note_place(search, directory);
    search->found = match.path;
}

/* `directories` is a list with ':' between. */
static void search_stores(struct search *search, const char *directories, bool is_list)
{
    read_uuid(search);
    if (search->uuid.size == 0)
        return;
    while (*directories != '\0' && search->found == NULL && !search->failed &&
           search->problem.message[0] == '\0') {
        size_t length = is_list ? strcspn(directories, ":") : strlen(directories);
        char *directory = strndup(directories, length);

        if (directory == NULL)
            search->failed = true;
        else if (length != 0)
            try_store(search, directory);
        free(directory);
        directories += length;
        directories += *directories == ':';
    }
}

static void search_beside(struct search *search)
{
    char *path;

    if (asprintf(&path, "%s.covsplit", search->stripped->path) < 0)
        path = NULL;
    try_path(search, path);
}

static void report_nothing_found(const struct search *search, struct error *error)
{
    const char *path = search->stripped->path;

    if (search->failed)
        error_out_of_memory(error, path, strlen(path));
    else if (search->problem.message[0] != '\0')
        *error = search->problem;
    else if (search->no_uuid.message[0] != '\0')
        error_set(error, "%s: no sidecar found; looked at %.*s (not in stores: %s); give --sidecar",
                  path, (int)search->places.size, (const char *)search->places.data,
                  search->no_uuid.message);
    else
        error_set(error, "%s: no sidecar found; looked at %.*s; give --sidecar or --store", path,
                  (int)search->places.size, (const char *)search->places.data);
}

char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error)
{
    struct search search = {.stripped = stripped};
    const char *sidecar = option_text(options, OPTION_SIDECAR);
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);

    if (sidecar != NULL) {
        search.found = strdup(sidecar);
        search.failed = search.found == NULL;
    } else {
        if (store != NULL)
            search_stores(&search, store, false);
        else if (environment != NULL && environment[0] != '\0')
            search_stores(&search, environment, true);
        if (search.found == NULL && !search.failed && search.problem.message[0] == '\0')
            search_beside(&search);
    }
    if (search.found == NULL)
        report_nothing_found(&search, error);
    buffer_free(&search.places);
    return search.found;
}
