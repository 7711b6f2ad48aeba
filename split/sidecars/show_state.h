/*
 * covsplit show STATE: the images and the tests of a state.
 *
 * In JSON, members of the object are: kind ("state"), profile_count; images: an array of objects
 * with image_name (null: no sidecar of it was found), uuid, profile_count, test_count, size (of its
 * file); tests: an array of objects with name, image_count, function_count (how many it reaches).
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SHOW_STATE_H
#define COVSPLIT_SPLIT_SIDECARS_SHOW_STATE_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/json.h"
#include "split/cli/options.h"

/* Prints the description of the state at `path`; after a failure, nothing. */
bool show_state(const char *path, struct profile_sidecars *sidecars, uint64_t memory_limit,
                struct json_writer *json, struct error *error);

/* Prints which tests in the state at `path` reach the functions that --tests names: in JSON (NULL:
 * text) an object for each. A function that cannot be told is named in a message, and *failed is
 * set; the others are printed. False if the state cannot be read. */
bool show_tests(const struct parsed_options *options, const char *path,
                struct profile_sidecars *sidecars, struct json_writer *json, bool *failed,
                struct error *error);

#endif
