/*
 * Stores: see covsplit.h. A thin layer over common/store.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/internal.h"

/* ---- opening ---- */

static covsplit_store *open_store(const char *text, bool is_list, covsplit_error **error)
{
    covsplit_store *store = calloc(1, sizeof(*store));
    struct error why = {0};

    if (store == NULL)
        error_out_of_memory(&why, text, sizeof(*store));
    else if (store_list_open(&store->list, text, is_list, &why))
        return store;
    covsplit_store_close(store);
    report_error(error, &why);
    return NULL;
}

covsplit_store *covsplit_store_open(const char *directories, covsplit_error **error)
{
    return open_store(directories, true, error);
}

covsplit_store *covsplit_store_open_directory(const char *directory, covsplit_error **error)
{
    return open_store(directory, false, error);
}

void covsplit_store_close(covsplit_store *store)
{
    if (store == NULL)
        return;
    store_list_close(&store->list);
    free(store);
}

/* ---- finding ---- */

/* Opens the sidecar of a match and frees the match. Returns NULL if there is no match, for which
 * the error has already been set. */
static struct sidecar *open_match(struct store_match *match, struct error *error)
{
    struct sidecar *sidecar = match->path == NULL ? NULL : sidecar_read(match->path, error);

    if (sidecar != NULL &&
        !store_check_uuid(match->path, &sidecar_facts(sidecar)->uuid, &match->uuid, error)) {
        sidecar_close(sidecar);
        sidecar = NULL;
    }
    free(match->path);
    return sidecar;
}

static struct store_match match_uuid(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                     struct error *error)
{
    struct uuid wanted = {.size = size < UUID_SIZE_MAX ? size : UUID_SIZE_MAX};
    struct store_match match = {0};

    memcpy(wanted.bytes, uuid, wanted.size);
    if (size == 0 || size > UUID_SIZE_MAX)
        error_set(error, "a UUID cannot have %zu bytes; give 1 to %d", size, UUID_SIZE_MAX);
    else
        match = store_list_find_only(&store->list, &wanted, error);
    return match;
}

static struct store_match match_profile(const covsplit_store *store, const struct profile *profile,
                                        const char *name, struct error *error)
{
    struct profile_uuids uuids = {.profile = profile};
    struct store_match match = {0};
    enum profile_uuid_source source;
    struct uuid uuid, first = profile_uuid(profile, &source);
    bool found = true;

    if (first.size == 0)
        found = profile_has_no_uuid(profile, name, error);
    while (found && match.path == NULL && profile_next_uuid(&uuids, &uuid, &source))
        found =
            store_list_find(&store->list, &uuid,
                            source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT, &match, error);
    if (found && match.path == NULL)
        found = store_list_not_found(&store->list, &first, name, error);
    if (!found) {
        free(match.path);
        match.path = NULL;
    }
    return match;
}

struct sidecar *open_for_profile(const covsplit_store *store, const struct profile *profile,
                                 const char *name, struct error *error)
{
    struct store_match match = match_profile(store, profile, name, error);

    return open_match(&match, error);
}

/* The path of a match, which the caller is given. */
static char *path_of(struct store_match match, covsplit_error **error, const struct error *why)
{
    check_result(match.path != NULL, error, why);
    return match.path;
}

char *covsplit_store_path(const covsplit_store *store, const uint8_t *uuid, size_t size,
                          covsplit_error **error)
{
    struct error why = {0};

    return path_of(match_uuid(store, uuid, size, &why), error, &why);
}

covsplit_sidecar *covsplit_store_find(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                      covsplit_error **error)
{
    struct error why = {0};
    struct store_match match = match_uuid(store, uuid, size, &why);

    return cover_sidecar(open_match(&match, &why), "a sidecar", &why, error);
}

char *covsplit_store_path_for_profile(const covsplit_store *store, const covsplit_profile *profile,
                                      covsplit_error **error)
{
    struct error why = {0};

    return path_of(match_profile(store, &profile->profile, profile->name, &why), error, &why);
}

covsplit_sidecar *covsplit_store_find_for_profile(const covsplit_store *store,
                                                  const covsplit_profile *profile,
                                                  covsplit_error **error)
{
    struct error why = {0};

    return cover_sidecar(open_for_profile(store, &profile->profile, profile->name, &why),
                         profile->name, &why, error);
}

/* ---- visiting ---- */

struct caller_visit {
    covsplit_store_visitor visit;
    void *context;
};

static bool visit_for_caller(void *context, const char *path, const struct uuid *uuid,
                             struct error *error)
{
    const struct caller_visit *caller = context;

    return caller->visit(caller->context, path, uuid->bytes, uuid->size) ||
           error_set(error, "%s: the visit was stopped by the program; run it again", path);
}

bool covsplit_store_visit(const covsplit_store *store, covsplit_store_visitor visit, void *context,
                          covsplit_error **error)
{
    struct caller_visit caller = {visit, context};
    struct error why = {0};

    return check_result(store_list_walk(&store->list, visit_for_caller, &caller, &why), error,
                        &why);
}
