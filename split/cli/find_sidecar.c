/*
 * Finding sidecars: see find_sidecar.h.
 */
#include "split/cli/find_sidecar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/llvm/section.h"
#include "formats/image.h"

/* ---- stores ---- */

struct stores stores_named(const struct parsed_options *options)
{
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);

    if (store != NULL)
        return (struct stores){store, false};
    return (struct stores){environment != NULL && environment[0] != '\0' ? environment : NULL,
                           true};
}

/* Takes the first directory off the list: a new string, which may be empty. */
static char *take_directory(struct stores *rest)
{
    size_t length = rest->is_list ? strcspn(rest->directories, ":") : strlen(rest->directories);
    char *directory = strndup(rest->directories, length);

    rest->directories += length;
    if (*rest->directories == '\0')
        rest->directories = NULL;
    else
        rest->directories++;
    return directory;
}

bool stores_find(const struct stores *stores, const struct uuid *uuid, bool is_stub,
                 struct store_match *match, struct error *error)
{
    struct stores rest = *stores;
    bool done = true;

    /* Of the whole UUID there is one sidecar, and the first store has it. */
    while (done && rest.directories != NULL && (is_stub || match->path == NULL)) {
        char *directory = take_directory(&rest);

        if (directory == NULL)
            done = error_out_of_memory(error, stores->directories, strlen(stores->directories));
        else if (directory[0] != '\0')
            done = store_find(directory, uuid, is_stub ? STORE_STUB : STORE_EXACT, match, error);
        free(directory);
    }
    return done;
}

/* ---- of an image ---- */

struct search {
    const struct input *stripped;
    struct stores stores;
    struct uuid uuid; /* size 0: unknown */
    bool is_stub;
    struct error no_uuid; /* why */
};

/* An image that was not split has a sidecar too, where there was nothing to take out. */
static void read_uuid(struct search *search)
{
    struct image_options options = {.sections = SECTION_REMOVABLE, .drop_signature = true};
    struct split_image split;
    struct image_plan *plan;
    struct error why;

    if (image_find_split(search->stripped, &split, &why)) {
        search->uuid = split.uuid;
        search->is_stub = split.uuid_is_stub;
    } else if (error_is_of_memory(&why)) {
        search->no_uuid = why;
    } else if ((plan = image_plan_make(search->stripped, &options, &search->no_uuid)) != NULL) {
        search->uuid = plan->facts.uuid;
        image_plan_free(plan);
    }
    if (search->uuid.size == 0 && search->no_uuid.message[0] == '\0')
        error_set(&search->no_uuid, "%s: has no UUID to look for in a store",
                  search->stripped->path);
}

static bool search_stores(struct search *search, struct store_match *match, struct error *error)
{
    if (search->stores.directories == NULL)
        return true;
    read_uuid(search);
    if (search->no_uuid.number != 0) {
        *error = search->no_uuid;
        return false;
    }
    return search->uuid.size == 0 ||
           stores_find(&search->stores, &search->uuid, search->is_stub, match, error);
}

/* A file that is there but cannot be used counts as found: opening it then says what is wrong with
 * it, which helps more than "not found". */
static bool search_beside(const struct search *search, char **found, struct error *error)
{
    const char *path = search->stripped->path;

    if (asprintf(found, "%s.covsplit", path) < 0) {
        *found = NULL;
        return error_out_of_memory(error, path, strlen(path));
    }
    if (file_is_missing(*found, 0)) {
        free(*found);
        *found = NULL;
    }
    return true;
}

/* "A, B, C": what was looked at. */
static bool list_places(const struct search *search, struct buffer *places)
{
    struct stores rest = search->stores;
    bool done = true;

    while (done && search->uuid.size != 0 && rest.directories != NULL) {
        char *directory = take_directory(&rest);
        char *path = directory == NULL ? NULL : store_path(directory, &search->uuid);

        /* What begins as a stub does may be any file there. */
        if (path != NULL && search->is_stub)
            *strrchr(path, '/') = '\0';
        done = path != NULL &&
               (directory[0] == '\0' ||
                (buffer_append(places, path, strlen(path)) && buffer_append(places, ", ", 2)));
        free(path);
        free(directory);
    }
    return done && buffer_append(places, search->stripped->path, strlen(search->stripped->path)) &&
           buffer_append(places, ".covsplit", sizeof(".covsplit"));
}

static bool report_nothing_found(const struct search *search, struct error *error)
{
    const char *path = search->stripped->path;
    struct buffer places = {0};

    if (!list_places(search, &places))
        error_out_of_memory(error, path, strlen(path));
    else if (search->no_uuid.message[0] != '\0')
        error_set(error, "%s: no sidecar found; looked at %s (not in stores: %s); give --sidecar",
                  path, (const char *)places.data, search->no_uuid.message);
    else
        error_set(error, "%s: no sidecar found; looked at %s; give --sidecar or --store", path,
                  (const char *)places.data);
    buffer_free(&places);
    return false;
}

char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error)
{
    struct search search = {.stripped = stripped, .stores = stores_named(options)};
    const char *sidecar = option_text(options, OPTION_SIDECAR);
    struct store_match match = {0};
    bool done = true;

    if (sidecar != NULL) {
        match.path = strdup(sidecar);
        if (match.path == NULL)
            error_out_of_memory(error, sidecar, strlen(sidecar));
        return match.path;
    }
    done = search_stores(&search, &match, error);
    if (done && match.path == NULL)
        done = search_beside(&search, &match.path, error);
    if (done && match.path == NULL)
        done = report_nothing_found(&search, error);
    if (done)
        return match.path;
    free(match.path);
    return NULL;
}
