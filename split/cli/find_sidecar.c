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

/* Of one sidecar. Where there may be more threads, several sidecars are read at a time, and each
 * thread of each one holds what it decodes. */
#define THREADS_MAX 8

/* ---- places ---- */

bool sidecar_places_open(struct sidecar_places *places, const struct parsed_options *options,
                         struct error *error)
{
    const char *store = option_text(options, OPTION_STORE);
    const char *environment = getenv(STORE_ENVIRONMENT);

    *places = (struct sidecar_places){
        .given = option_text(options, OPTION_SIDECAR),
        .store_names = store,
        .options = options,
    };
    if (store == NULL && environment != NULL && environment[0] != '\0')
        places->store_names = environment;
    return places->store_names == NULL ||
           store_list_open(&places->stores, places->store_names, store == NULL, error);
}

void sidecar_places_close(struct sidecar_places *places)
{
    store_list_close(&places->stores);
}

void sidecar_set_up(struct sidecar *sidecar, const struct parsed_options *options)
{
    unsigned threads = option_threads(options);

    sidecar_limit_memory(sidecar, option_number(options, OPTION_MEMORY_LIMIT));
    sidecar_help_restore(sidecar, threads < THREADS_MAX ? threads : THREADS_MAX, NULL);
}

struct sidecar *sidecar_read_for(const struct parsed_options *options, const char *path,
                                 struct error *error)
{
    struct sidecar *sidecar = sidecar_read(path, error);

    if (sidecar != NULL)
        sidecar_set_up(sidecar, options);
    return sidecar;
}

/* ---- paths ---- */

bool find_beside(const char *name, char **path, struct error *error)
{
    if (asprintf(path, "%s" STORE_SUFFIX, name) < 0) {
        *path = NULL;
        return error_out_of_memory(error, name, strlen(name));
    }
    if (file_is_missing(*path, 0)) {
        free(*path);
        *path = NULL;
    }
    return true;
}

bool find_in_stores(const struct store_list *stores, const struct uuid *uuid, bool is_stub,
                    char **path, struct error *error)
{
    struct store_match match = {0};
    bool done = store_list_find(stores, uuid, is_stub ? STORE_STUB : STORE_EXACT, &match, error);

    if (!done)
        free(match.path);
    *path = done ? match.path : NULL;
    return done;
}

struct store_match find_for_profile(const struct store_list *stores, const struct profile *profile,
                                    const char *name, struct error *error)
{
    struct profile_uuids uuids = {.profile = profile};
    struct store_match match = {0};
    enum profile_uuid_source source;
    struct uuid uuid, first = profile_uuid(profile, &source);
    bool done = true;

    if (first.size == 0)
        done = profile_has_no_uuid(profile, name, error);
    while (done && match.path == NULL && profile_next_uuid(&uuids, &uuid, &source))
        done = store_list_find(
            stores, &uuid, source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT, &match, error);
    if (done && match.path == NULL)
        store_list_not_found(stores, &first, name, error);
    if (!done) {
        free(match.path);
        match.path = NULL;
    }
    return match;
}

/* ---- of an image ---- */

struct search {
    const struct input *stripped;
    struct sidecar_places places;
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
        /* The digest of an image that was not split is in no stripped one. */
        if (plan->facts.uuid_source != UUID_FROM_DIGEST)
            search->uuid = plan->facts.uuid;
        image_plan_free(plan);
    }
    if (search->uuid.size == 0 && search->no_uuid.message[0] == '\0')
        error_set(&search->no_uuid, "%s: has no UUID to look for in a store",
                  search->stripped->path);
}

static bool search_stores(struct search *search, char **path, struct error *error)
{
    if (search->places.store_names == NULL)
        return true;
    read_uuid(search);
    if (search->no_uuid.number != 0) {
        *error = search->no_uuid;
        return false;
    }
    return search->uuid.size == 0 ||
           find_in_stores(&search->places.stores, &search->uuid, search->is_stub, path, error);
}

/* "A, B, C": what was looked at. */
static bool list_places(const struct search *search, struct buffer *list)
{
    const struct store_list *stores = &search->places.stores;
    bool done = true;

    for (size_t i = 0; done && search->uuid.size != 0 && i < stores->count; i++) {
        char *path = store_path(stores->directories[i], &search->uuid);

        /* What begins as a stub does may be any file there. */
        if (path != NULL && search->is_stub)
            *strrchr(path, '/') = '\0';
        done =
            path != NULL && buffer_append(list, path, strlen(path)) && buffer_append(list, ", ", 2);
        free(path);
    }
    return done && buffer_append(list, search->stripped->path, strlen(search->stripped->path)) &&
           buffer_append(list, STORE_SUFFIX, sizeof(STORE_SUFFIX));
}

static void report_nothing_found(const struct search *search, struct error *error)
{
    const char *path = search->stripped->path;
    struct buffer list = {0};

    if (!list_places(search, &list))
        error_out_of_memory(error, path, strlen(path));
    else if (search->no_uuid.message[0] != '\0')
        error_set(error, "%s: no sidecar found; looked at %s (not in stores: %s); give --sidecar",
                  path, (const char *)list.data, search->no_uuid.message);
    else
        error_set(error, "%s: no sidecar found; looked at %s; give --sidecar or --store", path,
                  (const char *)list.data);
    buffer_free(&list);
}

char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error)
{
    struct search search = {.stripped = stripped};
    char *path = NULL;
    bool done = sidecar_places_open(&search.places, options, error);

    if (done && search.places.given != NULL) {
        path = strdup(search.places.given);
        if (path == NULL)
            error_out_of_memory(error, search.places.given, strlen(search.places.given));
    } else if (done && search_stores(&search, &path, error) && path == NULL &&
               find_beside(stripped->path, &path, error) && path == NULL) {
        report_nothing_found(&search, error);
    }
    sidecar_places_close(&search.places);
    return path;
}

/* ---- of a profile ---- */

bool profile_sidecars_open(struct profile_sidecars *sidecars, const struct parsed_options *options,
                           struct error *error)
{
    const struct sidecar_places *places = &sidecars->places;

    if (!sidecar_places_open(&sidecars->places, options, error))
        return false;
    if (places->given != NULL)
        sidecars->given.sidecar = sidecar_read_for(places->options, places->given, error);
    return places->given == NULL || sidecars->given.sidecar != NULL;
}

void profile_sidecar_close(struct profile_sidecar *sidecar)
{
    correlation_free(&sidecar->correlation);
    sidecar_close(sidecar->sidecar);
}

void profile_sidecars_close(struct profile_sidecars *sidecars)
{
    profile_sidecar_close(&sidecars->given);
    sidecar_places_close(&sidecars->places);
}

void profile_sidecars_release(const struct profile_sidecars *sidecars,
                              struct profile_sidecar *sidecar)
{
    if (sidecar == NULL || sidecar == &sidecars->given)
        return;
    profile_sidecar_close(sidecar);
    free(sidecar);
}

/* Opens the one in the stores. */
static struct profile_sidecar *open_found(const struct sidecar_places *places,
                                          const struct profile *profile, const char *name,
                                          struct error *error)
{
    struct store_match match = find_for_profile(&places->stores, profile, name, error);
    struct profile_sidecar *sidecar = match.path == NULL ? NULL : calloc(1, sizeof(*sidecar));

    if (sidecar != NULL) {
        sidecar->sidecar = sidecar_read_for(places->options, match.path, error);
        if (sidecar->sidecar == NULL ||
            !store_check_uuid(match.path, &sidecar_facts(sidecar->sidecar)->uuid, &match.uuid,
                              error)) {
            profile_sidecar_close(sidecar);
            free(sidecar);
            sidecar = NULL;
        }
    } else if (match.path != NULL) {
        error_out_of_memory(error, name, sizeof(*sidecar));
    }
    free(match.path);
    return sidecar;
}

struct profile_sidecar *profile_sidecars_find(struct profile_sidecars *sidecars,
                                              const struct profile *profile, const char *name,
                                              struct error *error)
{
    const struct sidecar_places *places = &sidecars->places;
    struct profile_sidecar *sidecar = &sidecars->given;

    if ((profile->header.version & PROFILE_VARIANT_DEBUG_INFO) != 0) {
        profile_needs_debug_info(name, error);
        return NULL;
    }
    if (places->given == NULL && places->store_names == NULL) {
        error_set(error, "%s: of a split image, and no sidecar is named; give --sidecar or --store",
                  name);
        return NULL;
    }
    if (places->given == NULL)
        sidecar = open_found(places, profile, name, error);
    if (sidecar != NULL && correlation_check(sidecar->sidecar, profile, name, error))
        return sidecar;
    profile_sidecars_release(sidecars, sidecar);
    return NULL;
}

bool profile_sidecar_correlate(struct profile_sidecar *sidecar, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error)
{
    return correlation_write(sidecar == NULL ? NULL : &sidecar->correlation,
                             sidecar == NULL ? NULL : sidecar->sidecar, profile, name, sink,
                             context, error);
}

bool profile_sidecar_write(struct profile_sidecar *sidecar, const struct profile *profile,
                           const char *name, struct output *output, struct error *error)
{
    return output_write_zeros(output, profile_padding(output->size), error) &&
           profile_sidecar_correlate(sidecar, profile, name, output_sink, output, error);
}
