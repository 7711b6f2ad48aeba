/*
 * Searches in stores: see store.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/store/store.h"

/* Whether a UUID in the store matches the wanted one. */
bool store_uuid_fits(const struct uuid *found, const struct uuid *wanted, enum store_query query)
{
    if (query == STORE_EXACT)
        return uuid_equal(found, wanted);
    if (query == STORE_STUB)
        return uuid_has_stub(found, wanted->bytes);
    return found->size >= wanted->size && memcmp(found->bytes, wanted->bytes, wanted->size) == 0;
}

bool store_match_add(struct store_match *match, const struct uuid *uuid, char *path,
                     struct error *error)
{
    if (path == NULL)
        return error_out_of_memory(error, "the store", UUID_HEX_MAX);
    if (match->path == NULL) {
        *match = (struct store_match){*uuid, path};
        return true;
    }
    if (!uuid_equal(&match->uuid, uuid)) {
        error_set(error, "%s: fits as well as %s; give more digits of the UUID, or --sidecar", path,
                  match->path);
        free(path);
        return false;
    }
    free(path);
    return true;
}

/* A file that exists but cannot be used counts as found; opening it will report what is wrong. */
static bool find_exact(const char *directory, const struct uuid *uuid, struct store_match *match,
                       struct error *error)
{
    char *path = store_path(directory, uuid);

    if (path != NULL && file_is_missing(path, 0)) {
        free(path);
        return true;
    }
    return store_match_add(match, uuid, path, error);
}

/* Searches the names in the directory of the UUID's first byte. */
static bool search(const char *directory, const struct directory_names *names,
                   const struct uuid *wanted, enum store_query query, struct store_match *match,
                   struct error *error)
{
    for (size_t i = 0; i < names->count; i++) {
        struct uuid found;

        if (store_parse_name(names->items[i], wanted->bytes[0], &found) &&
            store_uuid_fits(&found, wanted, query) &&
            !store_match_add(match, &found, store_path(directory, &found), error))
            return false;
    }
    return true;
}

bool store_find(const char *directory, const struct uuid *uuid, enum store_query query,
                struct store_match *match, struct error *error)
{
    struct directory_names names;
    char *path;
    bool done;

    if (query == STORE_EXACT)
        return find_exact(directory, uuid, match, error);
    path = store_path(directory, uuid);
    if (path == NULL)
        return error_out_of_memory(error, directory, UUID_HEX_MAX);
    *strrchr(path, '/') = '\0';
    done = store_read_names(path, NULL, &names, error) &&
           search(directory, &names, uuid, query, match, error);
    directory_names_free(&names);
    free(path);
    return done;
}

/* ---- lists ---- */

bool store_list_add(struct store_list *list, const char *directory, struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(list->directories, list->capacity, list->count))
        return error_out_of_memory(error, directory, sizeof(directory));
    list->directories[list->count++] = (char *)(uintptr_t)directory;
    return true;
}

bool store_list_open(struct store_list *list, const char *text, bool is_list, struct error *error)
{
    char *rest = strdup(text), *directory;
    bool done = rest != NULL;

    *list = (struct store_list){.text = rest};
    if (!done)
        return error_out_of_memory(error, text, strlen(text));
    while (done && (directory = strsep(&rest, is_list ? ":" : "")) != NULL)
        done = directory[0] == '\0' || store_list_add(list, directory, error);
    return done;
}

void store_list_close(struct store_list *list)
{
    free(list->directories);
    free(list->text);
    *list = (struct store_list){0};
}

bool store_list_find(const struct store_list *list, const struct uuid *uuid, enum store_query query,
                     struct store_match *match, struct error *error)
{
    /* For a whole UUID the first sidecar found is used; for a part of one, others must be found. */
    for (size_t i = 0; i < list->count && (query != STORE_EXACT || match->path == NULL); i++) {
        if (!store_find(list->directories[i], uuid, query, match, error))
            return false;
    }
    return true;
}

bool store_list_not_found(const struct store_list *list, const struct uuid *uuid, const char *name,
                          struct error *error)
{
    char hex[UUID_HEX_MAX];
    struct error names, before;

    /* Truncated if it is too long. */
    error_set(&names, "%s", list->count == 0 ? "no directory" : list->directories[0]);
    for (size_t i = 1; i < list->count; i++) {
        before = names;
        error_set(&names, "%.300s, %s", before.message, list->directories[i]);
    }
    if (name == NULL)
        return error_set(error, "%.600s: no sidecar of UUID %s; give another store", names.message,
                         uuid_format(uuid, hex));
    return error_set(error, "%s: no sidecar for its UUID %s in %.600s; give --sidecar or --store",
                     name, uuid_format(uuid, hex), names.message);
}

struct store_match store_list_find_only(const struct store_list *list, const struct uuid *uuid,
                                        struct error *error)
{
    struct store_match match = {0};

    if (store_list_find(list, uuid, STORE_EXACT, &match, error) &&
        (match.path != NULL || store_list_find(list, uuid, STORE_PREFIX, &match, error)) &&
        (match.path != NULL || store_list_not_found(list, uuid, NULL, error)))
        return match;
    free(match.path);
    match.path = NULL;
    return match;
}

bool store_check_uuid(const char *path, const struct uuid *uuid, const struct uuid *named,
                      struct error *error)
{
    char hex[UUID_HEX_MAX];

    return uuid_equal(uuid, named) ||
           error_set(error,
                     "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                     "where it belongs",
                     path, uuid_format(uuid, hex));
}
