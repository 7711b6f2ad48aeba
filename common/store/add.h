/*
 * Writing to a store, which many processes modify at the same time: parallel builds, on several
 * machines, and cleaners.
 *
 * There are no lock files. A name is taken by link(2); the file system guarantees that only one
 * process succeeds. Missing directories are created, and created again if a cleaner has removed
 * them because they were empty.
 */
#ifndef COVSPLIT_COMMON_STORE_ADD_H
#define COVSPLIT_COMMON_STORE_ADD_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/output.h"

/* How often a step is retried if other processes undo it. Each of these has made progress in the
 * meantime, so some processes always succeed. */
#define STORE_ATTEMPTS 100

/* Like output_create, for a path in a store; creates its directories. */
bool store_output_create(struct output *output, const char *path,
                         const struct output_options *options, struct error *error);

/* Like output_try_commit, for such an output; the result is never OUTPUT_NO_DIRECTORY. */
bool store_output_commit(struct output *output, bool replace, enum output_result *result,
                         struct error *error);

#endif
