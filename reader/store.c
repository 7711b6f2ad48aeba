/*
 * Stores: see covsplit.h. Searching is done in common/store.h, one directory at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/store/store.h"
#include "reader/internal.h"

struct covsplit_store {
    char *text;         /* the directories, each with a NUL behind it */
    char **directories; /* in it */
    size_t count;
};

/* ---- opening ---- */

static bool add_directory(covsplit_store *store, char *directory)
{
    char **more;

    if (directory[0] == '\0')
        return true;
    more = realloc(store->directories, (store->count + 1) * sizeof(*more));
    if (more == NULL)
        return false;
    store->directories = more;
    store->directories[store->count++] = directory;
    return true;
}

static bool split_list(covsplit_store *store)
{
    char *rest = store->text, *directory;

    while ((directory = strsep(&rest, ":")) != NULL) {
        if (!add_directory(store, directory))
            return false;
    }
    return true;
}

static covsplit_store *open_store(const char *text, bool is_list, covsplit_error **error)
{
    covsplit_store *store = calloc(1, sizeof(*store));
    struct error why = {0};

    if (store != NULL)
        store->text = strdup(text);
    if (store != NULL && store->text != NULL &&
        (is_list ? split_list(store) : add_directory(store, store->text)))
        return store;
    error_out_of_memory(&why, text, sizeof(*store));
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
    free(store->directories);
    free(store->text);
    free(store);
}

/* ---- finding ---- */

static bool search(const covsplit_store *store, const struct uuid *uuid, enum store_query query,
                   struct store_match *match, struct error *error)
{
    for (size_t i = 0; i < store->count; i++) {
        if (!store_find(store->directories[i], uuid, query, match, error))
            return false;
        if (query == STORE_EXACT && match->path != NULL)
            return true;
    }
    return true;
}

/* "DIR, DIR" for messages; cut where it is too long. */
static void list_directories(const covsplit_store *store, struct error *list)
{
    error_set(list, "%s", store->count == 0 ? "no directory" : store->directories[0]);
    for (size_t i = 1; i < store->count; i++) {
        struct error before = *list;

        error_set(list, "%.300s, %s", before.message, store->directories[i]);
    }
}

static bool not_found(const covsplit_store *store, const struct uuid *uuid, const char *name,
                      struct error *error)
{
    char hex[UUID_HEX_MAX];
    struct error list;

    list_directories(store, &list);
    if (name == NULL)
        return error_set(error, "%.600s: no sidecar of UUID %s; give another store", list.message,
                         uuid_format(uuid, hex));
    return error_set(error, "%s: no sidecar for its UUID %s in %.600s; give --sidecar or --store",
                     name, uuid_format(uuid, hex), list.message);
}

/* Opens the sidecar of a match, and takes the match over; NULL where there is none, for which the
 * caller has the error. */
static covsplit_sidecar *open_match(struct store_match *match, covsplit_error **error)
{
    covsplit_sidecar *sidecar = NULL;
    struct error why = {0};

    if (match->path != NULL)
        sidecar = covsplit_sidecar_open(match->path, error);
    if (sidecar != NULL && !uuid_equal(&sidecar_facts(sidecar->sidecar)->uuid, &match->uuid)) {
        char hex[UUID_HEX_MAX];

        error_set(&why,
                  "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                  "where it belongs",
                  match->path, uuid_format(&sidecar_facts(sidecar->sidecar)->uuid, hex));
        covsplit_sidecar_close(sidecar);
        sidecar = NULL;
        report_error(error, &why);
    }
    free(match->path);
    return sidecar;
}

/* match.path is NULL, and the error set, where nothing is found. */
static struct store_match finish(bool found, struct store_match match, const struct error *why,
                                 covsplit_error **error)
{
    if (!found) {
        free(match.path);
        match.path = NULL;
        report_error(error, why);
    }
    return match;
}

static struct store_match match_uuid(const covsplit_store *store, const uint8_t *uuid, size_t size,
                                     covsplit_error **error)
{
    struct uuid wanted = {.size = size < UUID_SIZE_MAX ? size : UUID_SIZE_MAX};
    struct store_match match = {0};
    struct error why = {0};
    bool found = false;

    memcpy(wanted.bytes, uuid, wanted.size);
    if (size == 0 || size > UUID_SIZE_MAX)
        error_set(&why, "no UUID has %zu bytes; give 1 to %d", size, UUID_SIZE_MAX);
    else if (search(store, &wanted, STORE_EXACT, &match, &why) &&
             (match.path != NULL || search(store, &wanted, STORE_PREFIX, &match, &why)))
        found = match.path != NULL || not_found(store, &wanted, NULL, &why);
    return finish(found, match, &why, error);
}

/* By binary IDs, each of which is a whole UUID. */
static bool search_binary_ids(const covsplit_store *store, const struct profile *profile,
                              struct store_match *match, struct error *error)
{
    struct bytes rest = profile->binary_ids, binary_id;

    while (match->path == NULL && profile_take_binary_id(profile, &rest, &binary_id)) {
        struct uuid uuid = {.size = (size_t)binary_id.size};

        if (binary_id.size > UUID_SIZE_MAX)
            continue;
        memcpy(uuid.bytes, binary_id.data, uuid.size);
        if (!search(store, &uuid, STORE_EXACT, match, error))
            return false;
    }
    return true;
}

static struct store_match match_profile(const covsplit_store *store,
                                        const covsplit_profile *profile, covsplit_error **error)
{
    const struct profile *view = &profile->profile;
    struct store_match match = {0};
    struct error why = {0};
    bool found = false;
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(view, &source), stub = {.size = UUID_STUB_SIZE};

    memcpy(stub.bytes, view->stub_uuid, sizeof(view->stub_uuid));
    if (uuid.size == 0)
        error_set(&why, "%s: does not tell which image wrote it%s", profile->name,
                  view->header.num_data != 0
                      ? "; give --sidecar"
                      : " (one built with -profile-correlate); give --sidecar, or run "
                        "'llvm-profdata merge --binary-file=IMAGE' on it");
    else if (source == PROFILE_UUID_TRIPWIRE)
        found = search(store, &uuid, STORE_EXACT, &match, &why) &&
                (match.path != NULL || not_found(store, &uuid, profile->name, &why));
    else if (search_binary_ids(store, view, &match, &why) &&
             (match.path != NULL || !view->lightweight ||
              search(store, &stub, STORE_STUB, &match, &why)))
        found = match.path != NULL || not_found(store, &uuid, profile->name, &why);
    return finish(found, match, &why, error);
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
    const covsplit_store *store;
    size_t directory; /* the index of the one that is walked through */
    covsplit_store_visitor visit;
    void *context;
};

/* Whether the sidecar of a directory further ahead is found instead. */
static bool is_hidden(const struct caller_visit *caller, const struct uuid *uuid, bool *hidden,
                      struct error *error)
{
    struct store_match match = {0};

    for (size_t i = 0; i < caller->directory && match.path == NULL; i++) {
        if (!store_find(caller->store->directories[i], uuid, STORE_EXACT, &match, error))
            return false;
    }
    *hidden = match.path != NULL;
    free(match.path);
    return true;
}

static bool visit_for_caller(void *context, const char *path, const struct uuid *uuid,
                             struct error *error)
{
    const struct caller_visit *caller = context;
    bool hidden;

    if (!is_hidden(caller, uuid, &hidden, error))
        return false;
    return hidden || caller->visit(caller->context, path, uuid->bytes, uuid->size) ||
           error_set(error, "%s: the visit was stopped by the program; run it again", path);
}

bool covsplit_store_visit(const covsplit_store *store, covsplit_store_visitor visit, void *context,
                          covsplit_error **error)
{
    struct caller_visit caller = {.store = store, .visit = visit, .context = context};
    struct error why = {0};
    bool done = true;

    for (size_t i = 0; done && i < store->count; i++) {
        struct stat status;

        caller.directory = i;
        /* One that does not exist is an empty store. */
        if (stat(store->directories[i], &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
            done = store_walk(store->directories[i], visit_for_caller, &caller, &why);
    }
    return check_result(done, error, &why);
}
