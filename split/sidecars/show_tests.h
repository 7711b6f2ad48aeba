/*
 * covsplit show --tests FUNCTION STATE: which tests reach a function.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SHOW_TESTS_H
#define COVSPLIT_SPLIT_SIDECARS_SHOW_TESTS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/json.h"
#include "split/cli/options.h"

/* Prints which tests in the state at `path` reach the functions that --tests names: in JSON (NULL:
 * text) an object for each. A function that cannot be told is named in a message, and *failed is
 * set; the others are printed. False if the state cannot be read. */
bool show_tests(const struct parsed_options *options, const char *path,
                struct profile_sidecars *sidecars, struct json_writer *json, bool *failed,
                struct error *error);

#endif
