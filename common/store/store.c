/*
 * Paths and searches in stores: see store.h.
 */
#include "common/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"

char *store_root(const char *directory)
{
    size_t length = strlen(directory);
    const char *separator = length != 0 && directory[length - 1] == '/' ? "" : "/";
    char *root;

    return asprintf(&root, "%s%s.build-id", directory, separator) < 0 ? NULL : root;
}

char *store_path(const char *directory, const struct uuid *uuid)
{
    char hex[UUID_HEX_MAX];
    char *root = store_root(directory), *path = NULL;

    uuid_format(uuid, hex);
    if (root != NULL && asprintf(&path, "%s/%.2s/%s" STORE_SUFFIX, root, hex, hex + 2) < 0)
        path = NULL;
    free(root);
    return path;
}

/* Whether the UUID in the store is one that is looked for. */
static bool fits(const struct uuid *found, const struct uuid *wanted, enum store_query query)
{
    if (query == STORE_STUB)
        return uuid_has_stub(found, wanted->bytes);
    return found->size >= wanted->size && memcmp(found->bytes, wanted->bytes, wanted->size) == 0;
}

/* Takes the path over. */
static bool add_match(struct store_match *match, const struct uuid *uuid, char *path,
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

/* A file that is there but cannot be used counts as found: opening it then says what is wrong. */
static bool find_exact(const char *directory, const struct uuid *uuid, struct store_match *match,
                       struct error *error)
{
    char *path = store_path(directory, uuid);

    if (path != NULL && file_is_missing(path, 0)) {
        free(path);
        return true;
    }
    return add_match(match, uuid, path, error);
}

bool store_parse_name(const char *name, uint8_t first, struct uuid *uuid)
{
    char hex[UUID_HEX_MAX], canonical[UUID_HEX_MAX];
    size_t length = strlen(name), suffix = strlen(STORE_SUFFIX);

    if (length < suffix || length - suffix + 3 > sizeof(hex) ||
        strcmp(name + length - suffix, STORE_SUFFIX) != 0)
        return false;
    snprintf(hex, sizeof(hex), "%02x%.*s", first, (int)(length - suffix), name);
    return uuid_parse(hex, uuid) && strcmp(uuid_format(uuid, canonical), hex) == 0;
}

bool store_read_names(const char *path, bool (*filter)(const char *name),
                      struct directory_names *names, struct error *error)
{
    if (directory_names_read(path, filter, names, error))
        return true;
    if (error->number != ENOENT && error->number != ENOTDIR)
        return false;
    directory_names_free(names);
    return true;
}

/* Among the names that there are in the directory of the UUID's first byte. */
static bool search(const char *directory, const struct directory_names *names,
                   const struct uuid *wanted, enum store_query query, struct store_match *match,
                   struct error *error)
{
    for (size_t i = 0; i < names->count; i++) {
        struct uuid found;

        if (store_parse_name(names->items[i], wanted->bytes[0], &found) &&
            fits(&found, wanted, query) &&
            !add_match(match, &found, store_path(directory, &found), error))
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
