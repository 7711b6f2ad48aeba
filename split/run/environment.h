/*
 * The environment of the command of `covsplit run` and of all its children.
 */
#ifndef COVSPLIT_SPLIT_RUN_ENVIRONMENT_H
#define COVSPLIT_SPLIT_RUN_ENVIRONMENT_H

#include <stdbool.h>

#include "common/base/error.h"

/* Sets LD_PRELOAD, so that the preload module is loaded first, PRELOAD_ENVIRONMENT to the address
 * of the broker, and ASAN_OPTIONS, so that AddressSanitizer's runtime accepts being loaded second.
 * False with an error if the module is missing. */
bool run_environment_set(const char *broker_address, struct error *error);

#endif
