/*
 * Finding the sidecar of an image.
 */
#ifndef COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H
#define COVSPLIT_SPLIT_CLI_FIND_SIDECAR_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/store/store.h"
#include "split/cli/options.h"

/* The stores that the user has named. */
struct stores {
    const char *directories; /* NULL: none */
    bool is_list;            /* with ':' between */
};

/* --store, else COVSPLIT_STORE. The texts are not copied. */
struct stores stores_named(const struct parsed_options *options);

/* Looks for the sidecar of a UUID, of which the image may have only what its stub record has
 * (uuid.h). Finding nothing is no error: match->path, the caller's to free also after a failure, is
 * NULL then. */
bool stores_find(const struct stores *stores, const struct uuid *uuid, bool is_stub,
                 struct store_match *match, struct error *error);

/* The path of the sidecar, as a new string: --sidecar where it is given; else the first file that
 * exists of the one for the image's UUID in the stores, and STRIPPED.covsplit. NULL with an error
 * that names every place looked at. */
char *find_sidecar(const struct parsed_options *options, const struct input *stripped,
                   struct error *error);

#endif
