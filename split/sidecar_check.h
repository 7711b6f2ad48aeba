/*
 * Checking sidecars, one by one and all of a store: for `covsplit verify` and `covsplit store
 * check`.
 */
#ifndef COVSPLIT_SPLIT_SIDECAR_CHECK_H
#define COVSPLIT_SPLIT_SIDECAR_CHECK_H

#include <stdbool.h>

#include "common/error.h"
#include "common/uuid.h"

/* Decompresses everything and checks every digest. In a store (`uuid` is not NULL) the sidecar must
 * be that of the UUID. `stripped`, if it is not NULL, is an image from which the sidecar must
 * restore the original. A placeholder is an error; *is_empty: there was nothing to take out. */
bool check_sidecar(const char *path, const struct uuid *uuid, const char *stripped, bool *is_empty,
                   struct error *error);

/* Checks a whole store with so many threads, and prints a line for each fault, a line for each good
 * sidecar where `verbose` is set, and the totals. Returns an enum exit_status. */
int check_store(const char *directory, unsigned threads, bool verbose);

#endif
