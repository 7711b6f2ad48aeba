/*
 * Lists of stores: see store_list.h.
 */
#include "common/remote/store_list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/array.h"
#include "common/base/file.h"

#define FILE_SCHEME "file://"

bool store_search(const struct store *store, const struct uuid *uuid, enum store_query query,
                  struct store_match *match, struct error *error)
{
    if (store->remote == NULL)
        return store_find(store->directory, uuid, query, match, error);
    return query != STORE_EXACT || remote_find(store->remote, uuid, match, error);
}

/* ---- what the list is made of ---- */

static bool add(struct store_list *list, const struct store *store, struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(list->stores, list->capacity, list->count))
        return error_out_of_memory(error, store->name, sizeof(*store));
    list->stores[list->count++] = *store;
    return true;
}

bool store_list_add(struct store_list *list, const char *directory, struct error *error)
{
    return add(list, &(struct store){.name = directory, .directory = directory}, error);
}

/* Adds a directory or a URL. The text stays, and may be changed. */
static bool add_store(struct store_list *list, char *text, uint64_t most, struct error *error)
{
    struct store store = {.name = text};
    size_t scheme = strlen(FILE_SCHEME);

    if (strncasecmp(text, FILE_SCHEME, scheme) == 0) {
        if (text[scheme] == '/' && strchr(text, '%') == NULL)
            return store_list_add(list, text + scheme, error);
        return error_set(
            error, "%s: not the URL of a directory here; give file:///DIRECTORY, without '%%'",
            text);
    }
    if (!store_is_url(text))
        return store_list_add(list, text, error);
    store.remote = remote_open(text, most, error);
    if (store.remote == NULL)
        return false;
    if (add(list, &store, error))
        return true;
    remote_close(store.remote);
    return false;
}

/* The length of the first name of a list. In "https://host:8080/path:more", the first two ':' are
 * parts of it. */
static size_t name_length(const char *text)
{
    size_t length = 0;

    if (store_is_url(text) || strncasecmp(text, FILE_SCHEME, strlen(FILE_SCHEME)) == 0) {
        length = (size_t)(strstr(text, "://") - text) + 3;
        if (memchr(text + length, '@', strcspn(text + length, "/")) != NULL)
            length += strcspn(text + length, "/"); /* is refused, as a whole */
        if (text[length] == '[')
            length += strcspn(text + length, "]/");
        length += strcspn(text + length, ":/");
        if (text[length] == ':' && isdigit((unsigned char)text[length + 1])) {
            size_t digits = 1 + strspn(text + length + 1, "0123456789");

            if (strchr(":/", text[length + digits]) != NULL) /* or the end */
                length += digits;
        }
    }
    return length + strcspn(text + length, ":");
}

bool store_list_open(struct store_list *list, const char *text, enum store_list_kind kind,
                     uint64_t most, struct error *error)
{
    char *rest = strdup(text);
    bool done = rest != NULL;

    *list = (struct store_list){.text = rest};
    if (!done)
        return error_out_of_memory(error, text, strlen(text));
    while (done && rest != NULL) {
        char *name = rest,
             *end = rest + (kind == STORE_LIST_ONE ? strlen(rest) : name_length(rest));

        rest = *end == '\0' ? NULL : end + 1;
        *end = '\0';
        done = name[0] == '\0' || add_store(list, name, most, error);
    }
    return done;
}

void store_list_close(struct store_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        remote_close(list->stores[i].remote);
    free(list->stores);
    free(list->text);
    *list = (struct store_list){0};
}

/* ---- searches ---- */

bool store_list_find(const struct store_list *list, const struct uuid *uuid, enum store_query query,
                     struct store_match *match, struct error *error)
{
    /* For a whole UUID the first sidecar found is used; for a part of one, others must be found. */
    for (size_t i = 0; i < list->count && (query != STORE_EXACT || match->path == NULL); i++) {
        if (!store_search(&list->stores[i], uuid, query, match, error))
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
    error_set(&names, "%s", list->count == 0 ? "no directory" : list->stores[0].name);
    for (size_t i = 1; i < list->count; i++) {
        before = names;
        error_set(&names, "%.300s, %s", before.message, list->stores[i].name);
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

/* ---- walks ---- */

struct list_walk {
    const struct store_list *list;
    size_t store; /* the index of the current one */
    store_visitor visit;
    void *context;
};

/* Skips sidecars that are hidden by one in an earlier store. */
static bool visit_unless_hidden(void *context, const char *path, const struct uuid *uuid,
                                struct error *error)
{
    const struct list_walk *walk = context;
    const struct store_list ahead = {.stores = walk->list->stores, .count = walk->store};
    struct store_match match = {0};
    bool done = store_list_find(&ahead, uuid, STORE_EXACT, &match, error);
    bool is_hidden = match.path != NULL;

    free(match.path);
    return done && (is_hidden || walk->visit(walk->context, path, uuid, error));
}

bool store_list_walk(const struct store_list *list, store_visitor visit, void *context,
                     struct error *error)
{
    struct list_walk walk = {.list = list, .visit = visit, .context = context};
    bool done = true;

    for (size_t i = 0; i < list->count; i++) {
        if (list->stores[i].remote != NULL)
            return error_set(
                error,
                "%s: a URL cannot be asked which sidecars it has; name the UUIDs, or copy the "
                "store to a directory",
                list->stores[i].name);
    }
    for (; done && walk.store < list->count; walk.store++) {
        const char *directory = list->stores[walk.store].directory;

        if (!file_is_missing(directory, 0))
            done = store_walk(directory, visit_unless_hidden, &walk, error);
    }
    return done;
}

/* ---- many at a time ---- */

bool store_list_is_remote(const struct store_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->stores[i].remote != NULL)
            return true;
    }
    return false;
}

void store_list_fetch(const struct store_list *list, const struct uuid *uuids, size_t count)
{
    struct uuid *wanted = calloc(count + 1, sizeof(*wanted));
    struct error ignored;
    size_t left = count, kept;

    for (size_t i = 0; wanted != NULL && i < count; i++)
        wanted[i] = uuids[i];
    for (size_t i = 0; wanted != NULL && i < list->count; i++, left = kept) {
        struct remote *remote = list->stores[i].remote;

        kept = remote == NULL ? left : 0;
        if (remote != NULL)
            remote_fetch(remote, wanted, left, &ignored);
        for (size_t k = 0; remote != NULL && k < left; k++) {
            if (!remote_has(remote, &wanted[k]))
                wanted[kept++] = wanted[k];
        }
    }
    free(wanted);
}
