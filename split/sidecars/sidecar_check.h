/*
 * Checking a sidecar, for `covsplit verify` and `covsplit store check`.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SIDECAR_CHECK_H
#define COVSPLIT_SPLIT_SIDECARS_SIDECAR_CHECK_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "split/cli/options.h"

/* Decompresses everything and checks every digest. In a store (`uuid` is not NULL) the sidecar must
 * be that of the UUID. `stripped`, if it is not NULL, is an image from which the sidecar must
 * restore the original, and of which a second reader must see the same. Obeys OPTION_MEMORY_LIMIT
 * and OPTION_THREADS. A placeholder is an error; *is_empty: there was nothing to take out. */
bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped,
                   const struct parsed_options *options, bool *is_empty, struct error *error);

#endif
