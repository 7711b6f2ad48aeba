/*
 * Writing to a store, which has many writers: parallel builds, on several machines, and cleaners.
 *
 * There are no lock files. A name is taken by link(2), of which the file system sees to it that
 * only one succeeds; directories are made where they are missing, and made again where a cleaner
 * has removed them for being empty.
 */
#ifndef COVSPLIT_COMMON_STORE_ADD_H
#define COVSPLIT_COMMON_STORE_ADD_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/output.h"

/* How often a step is tried again that others have undone meanwhile. Each of them must have done
 * something in between, so that some come through whatever happens. */
#define STORE_ATTEMPTS 100

/* output_create for a path in a store, of which it makes the directories. */
bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error);

/* output_try_commit for such an output: gives back all its results but OUTPUT_NO_DIRECTORY. */
bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error);

#endif
