/*
 * Checking a sidecar, for `covsplit verify` and `covsplit store check`.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SIDECAR_CHECK_H
#define COVSPLIT_SPLIT_SIDECARS_SIDECAR_CHECK_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/json.h"
#include "split/cli/options.h"

/* The result of a check. */
struct checked_sidecar {
    struct uuid uuid; /* size 0: the sidecar cannot be read */
    bool is_empty;    /* there was nothing to take out of its image */
};

/* Decompresses everything and checks every digest. In a store (`uuid` is not NULL) the sidecar must
 * have that UUID. If `stripped` is not NULL, the sidecar must restore the original from this image,
 * and a second reader must see the same image as covsplit. Obeys OPTION_MEMORY_LIMIT and
 * OPTION_THREADS. A placeholder is an error. */
bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   const struct parsed_options *options, struct checked_sidecar *checked,
                   struct error *error);

/* Writes an object with the keys file, uuid, ok, empty and error; `error` is NULL for a good
 * sidecar. */
void write_checked_sidecar(struct json_writer *json, const char *path,
                           const struct checked_sidecar *checked, const struct error *error);

#endif
