/*
 * What the command of `covsplit run` and all its children find in their environment.
 */
#ifndef COVSPLIT_SPLIT_RUN_ENVIRONMENT_H
#define COVSPLIT_SPLIT_RUN_ENVIRONMENT_H

#include <stdbool.h>

#include "common/base/error.h"

/* Sets LD_PRELOAD, so that the preload module comes first, PRELOAD_ENVIRONMENT to the address of
 * the broker, and ASAN_OPTIONS, so that AddressSanitizer's runtime does not mind to come second.
 * False with an error where the module is missing. */
bool run_environment_set(const char *broker_address, struct error *error);

#endif
