/*
 * Names in stores: see store.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/store.h"

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

bool store_has_suffix(const char *name)
{
    size_t length = strlen(name), suffix = strlen(STORE_SUFFIX);

    return length >= suffix && strcmp(name + length - suffix, STORE_SUFFIX) == 0;
}

bool store_parse_name(const char *name, uint8_t first, struct uuid *uuid)
{
    char hex[UUID_HEX_MAX], canonical[UUID_HEX_MAX];
    size_t length = strlen(name) - strlen(STORE_SUFFIX);

    if (!store_has_suffix(name) || length + 3 > sizeof(hex))
        return false;
    snprintf(hex, sizeof(hex), "%02x%.*s", first, (int)length, name);
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
