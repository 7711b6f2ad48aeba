/*
 * Finding out of a module whether it has coverage, and taking its profile.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_EXAMINE_H
#define COVSPLIT_SPLIT_SNAPSHOT_EXAMINE_H

#include "common/base/error.h"
#include "split/cli/find_sidecar.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/take.h"

enum finding {
    FINDING_PROFILE,     /* it has coverage, and its profile was taken */
    FINDING_NO_COVERAGE, /* it has none */
    FINDING_NO_MODULE,   /* it is no loaded ELF file */
    FINDING_UNKNOWN,     /* nothing is known of it: the error says what is missing */
    FINDING_FAILED,      /* the error says why */
};

/* Examines a module. Free *module and *taken in any case; *taken must be {0} at first. */
enum finding examine_module(struct memory *memory, const struct memory_module *listed,
                            const struct sidecar_places *places, struct module *module,
                            struct taken *taken, struct error *error);

#endif
