/*
 * Checking a whole store, for `covsplit store check` and `covsplit verify --store`.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_STORE_CHECK_H
#define COVSPLIT_SPLIT_SIDECARS_STORE_CHECK_H

#include "split/cli/options.h"

/* Prints a line for each fault, a line for each good sidecar with OPTION_VERBOSE, and the totals;
 * obeys OPTION_THREADS and OPTION_MEMORY_LIMIT too. Returns an enum exit_status. */
int check_store(const char *directory, const struct parsed_options *options);

#endif
