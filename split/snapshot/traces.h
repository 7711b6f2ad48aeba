/*
 * Traces of coverage in the memory of a module of which neither the file nor the sidecar is at
 * hand: what a split leaves, and what the profile runtime has among its constants.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_TRACES_H
#define COVSPLIT_SPLIT_SNAPSHOT_TRACES_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/module.h"

struct traces {
    bool is_split;    /* a tripwire or a stub record is in it */
    bool has_runtime; /* a message of compiler-rt's profile runtime is in it */
    bool is_whole;    /* all of the module is in the target */
    struct uuid uuid; /* of the tripwire; size 0 if that has none, or only a part of it */
};

bool traces_find(struct memory *memory, const struct module *module, struct traces *traces,
                 struct error *error);

#endif
