/*
 * Stores: directories of sidecars, found by UUID.
 *
 * The layout is the one in which debuggers and llvm-cov look for debug files by build ID, so that a
 * store can stand beside those.
 */
#ifndef COVSPLIT_COMMON_STORE_H
#define COVSPLIT_COMMON_STORE_H

#include <stdbool.h>

#include "common/error.h"
#include "common/uuid.h"

/* The environment variable with the directories to look in: a list with ':' between. */
#define STORE_ENVIRONMENT "COVSPLIT_STORE"

/* DIRECTORY/.build-id/ab/cdef....covsplit as a new string; NULL where there is no memory. The UUID
 * must not be empty. */
char *store_path(const char *directory, const struct uuid *uuid);

/* How a UUID in a store must be like the one that is looked for. */
enum store_query {
    STORE_EXACT,  /* the same */
    STORE_PREFIX, /* begin with it */
    STORE_STUB,   /* have it for its stub (uuid.h), all UUID_STUB_SIZE bytes of it */
};

/* The sidecar that a search found. Starts as {0}; `path` is the caller's to free. */
struct store_match {
    struct uuid uuid;
    char *path; /* NULL: none yet */
};

/* Looks in one directory more. The first sidecar of a UUID wins; one of another UUID that fits as
 * well is an error that names both. Finding nothing is none, also where there is no such directory.
 * The UUID must not be empty. */
bool store_find(const char *directory, const struct uuid *uuid, enum store_query query,
                struct store_match *match, struct error *error);

#endif
