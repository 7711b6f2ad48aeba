/*
 * Lists of stores, which are searched in their order. A store is a directory, or it is at a URL
 * (remote.h).
 */
#ifndef COVSPLIT_COMMON_REMOTE_STORE_LIST_H
#define COVSPLIT_COMMON_REMOTE_STORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/remote/remote.h"
#include "common/store/store.h"

/* The environment variable with the stores to search, separated by ':'. */
#define STORE_ENVIRONMENT "COVSPLIT_STORE"

struct store {
    const char *name;      /* as it was given: for messages */
    const char *directory; /* NULL for a URL that is not file:// */
    struct remote *remote; /* NULL for a directory */
};

/* Searches another store, by the rules of store_find. A store at a URL has no list of its sidecars:
 * it is asked for whole UUIDs (STORE_EXACT), and nothing is found there by others. If it cannot be
 * asked, that is an error. */
bool store_search(const struct store *store, const struct uuid *uuid, enum store_query query,
                  struct store_match *match, struct error *error);

/* {0} is an empty list. Close with store_list_close. */
struct store_list {
    char *text; /* of store_list_open: the names, each followed by a NUL */
    struct store *stores;
    size_t count, capacity;
};

/* What a list is opened of. */
enum store_list_kind {
    STORE_LIST_ONE, /* a single store */
    STORE_LIST_ALL, /* any number, separated by ':'. In a URL, the first ':' behind the host that no
                       port follows ends it. */
};

/* Opens a list. Files at URLs may have `most` bytes. Close it even after a failure, which may be a
 * URL that cannot be used. */
bool store_list_open(struct store_list *list, const char *text, enum store_list_kind kind,
                     uint64_t most, struct error *error);
void store_list_close(struct store_list *list);

/* Adds a directory. The text is not copied. */
bool store_list_add(struct store_list *list, const char *directory, struct error *error);

/* Like store_search, in all stores of the list. */
bool store_list_find(const struct store_list *list, const struct uuid *uuid, enum store_query query,
                     struct store_match *match, struct error *error);

/* Finds the sidecar of this UUID, or of the only one that begins with it. If there is none, `path`
 * is NULL and the error is set as by store_list_not_found. */
struct store_match store_list_find_only(const struct store_list *list, const struct uuid *uuid,
                                        struct error *error);

/* Sets the error for a UUID that is not found. `name` is the file that needs the sidecar, or NULL.
 * Returns false. */
bool store_list_not_found(const struct store_list *list, const struct uuid *uuid, const char *name,
                          struct error *error);

/* Like store_walk, for all stores of the list; one that does not exist counts as empty. Visits only
 * the sidecars that store_list_find would find, so each UUID is visited once. Fails if one is at a
 * URL. */
bool store_list_walk(const struct store_list *list, store_visitor visit, void *context,
                     struct error *error);

/* True if some store of the list is at a URL. */
bool store_list_is_remote(const struct store_list *list);

/* Fetches the sidecars of these UUIDs from the stores at URLs, many at a time, so that later
 * searches find them. What fails is said by those. */
void store_list_fetch(const struct store_list *list, const struct uuid *uuids, size_t count);

#endif
