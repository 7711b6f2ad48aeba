/*
 * covsplit show --map: where the counters and the bitmap of an image are in memory, and how to copy
 * them with gdb for `correlate --counters`.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SHOW_MAP_H
#define COVSPLIT_SPLIT_SIDECARS_SHOW_MAP_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"
#include "split/sidecars/report.h"

/* Fills in the report for an operand: a sidecar, an image, or the UUID of a sidecar in the places
 * (or its beginning). */
bool describe_map(const char *operand, const struct sidecar_places *places, struct report *report,
                  struct error *error);

#endif
