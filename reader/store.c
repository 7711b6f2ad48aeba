/*
 * Stores: see covsplit.h. A thin layer over common/store.
 */
#include <stdlib.h>
#include <string.h>

#include "common/store/store.h"
#include "reader/internal.h"

struct covsplit_store {
    struct store_list list;
};

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
 * the error has already been reported. */
static covsplit_sidecar *open_match(struct store_match *match, covsplit_error **error)
{
    covsplit_sidecar *sidecar = NULL;
    struct error why = {0};

    if (match->path != NULL)
        sidecar = covsplit_sidecar_open(match->path, error);
    if (sidecar != NULL && !store_check_uuid(match->path, &sidecar_facts(sidecar->sidecar)->uuid,
                                             &match->uuid, &why)) {
        covsplit_sidecar_close(sidecar);
        sidecar = NULL;
        report_error(error, &why);
    }
    free(match->path);
    return sidecar;
}

static struct store_match match_uuid(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                     covsplit_error **error)
{
    struct uuid wanted = {.size = size < UUID_SIZE_MAX ? size : UUID_SIZE_MAX};
    struct store_match match = {0};
    struct error why = {0};

    memcpy(wanted.bytes, uuid, wanted.size);
    if (size == 0 || size > UUID_SIZE_MAX)
        error_set(&why, "a UUID cannot have %zu bytes; give 1 to %d", size, UUID_SIZE_MAX);
    else
        match = store_list_find_only(&store->list, &wanted, &why);
    check_result(match.path != NULL, error, &why);
    return match;
}

static struct store_match match_profile(const covsplit_store *store,
                                        const covsplit_profile *profile, covsplit_error **error)
{
    struct profile_uuids uuids = {.profile = &profile->profile};
    struct store_match match = {0};
    struct error why = {0};
    enum profile_uuid_source source;
    struct uuid uuid, first = profile_uuid(&profile->profile, &source);
    bool found = true;

    if (first.size == 0)
        found = profile_has_no_uuid(&profile->profile, profile->name, &why);
    while (found && match.path == NULL && profile_next_uuid(&uuids, &uuid, &source))
        found =
            store_list_find(&store->list, &uuid,
                            source == PROFILE_UUID_STUB ? STORE_STUB : STORE_EXACT, &match, &why);
    if (found && match.path == NULL)
        found = store_list_not_found(&store->list, &first, profile->name, &why);
    if (!found) {
        free(match.path);
        match.path = NULL;
    }
    check_result(found, error, &why);
    return match;
}

char *covsplit_store_path(const covsplit_store *store, const uint8_t *uuid, size_t size,
                          covsplit_error **error)
{
    return match_uuid(store, uuid, size, error).path;
}

covsplit_sidecar *covsplit_store_find(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                      covsplit_error **error)
{
    struct store_match match = match_uuid(store, uuid, size, error);

    return open_match(&match, error);
}

char *covsplit_store_path_for_profile(const covsplit_store *store, const covsplit_profile *profile,
                                      covsplit_error **error)
{
    return match_profile(store, profile, error).path;
}

covsplit_sidecar *covsplit_store_find_for_profile(const covsplit_store *store,
                                                  const covsplit_profile *profile,
                                                  covsplit_error **error)
{
    struct store_match match = match_profile(store, profile, error);

    return open_match(&match, error);
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
