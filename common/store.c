/*
 * Paths in stores: see store.h.
 */
#include "common/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *store_path(const char *directory, const struct uuid *uuid)
{
    char hex[UUID_HEX_MAX];
    size_t length = strlen(directory);
    const char *separator = length != 0 && directory[length - 1] == '/' ? "" : "/";
    char *path;

    uuid_format(uuid, hex);
    if (asprintf(&path, "%s%s.build-id/%.2s/%s.covsplit", directory, separator, hex, hex + 2) < 0)
        return NULL;
    return path;
}
