/*
 * Stores: directories of sidecars, found by UUID.
 *
 * The layout is the one in which debuggers and llvm-cov look for debug files by build ID, so that a
 * store can stand beside those.
 */
#ifndef COVSPLIT_COMMON_STORE_H
#define COVSPLIT_COMMON_STORE_H

#include "common/uuid.h"

/* The environment variable with the directories to look in: a list with ':' between. */
#define STORE_ENVIRONMENT "COVSPLIT_STORE"

/* DIRECTORY/.build-id/ab/cdef....covsplit as a new string; NULL where there is no memory. The UUID
 * must not be empty. */
char *store_path(const char *directory, const struct uuid *uuid);

#endif
