/*
 * `covsplit merge --into STATE --consume` and `--watch`: passes the command line to consume.h and
 * watch.h, and prints the result.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_MERGE_CONSUME_H
#define COVSPLIT_SPLIT_PROFILES_MERGE_CONSUME_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/state/state.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"
#include "split/profiles/test_name.h"

/* Consumes the operands. *ended_by is the signal that ended it early, with all that was begun
 * finished; 0: none. */
bool merge_consume(const struct parsed_options *options, const struct test_naming *naming,
                   struct state *state, struct profile_sidecars *sidecars, int *ended_by,
                   struct error *error);

#endif
