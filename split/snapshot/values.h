/*
 * The values that a program has recorded (value profiling): the part behind the names in its raw
 * profiles.
 *
 * A record with value sites has a pointer, Values, to a table with a pointer for each of its sites,
 * kind after kind, or NULL if none was reached yet. Each leads to a list of nodes: a value and how
 * often it was seen, 64 bits each, and a pointer to the next node.
 *
 * In the profile, each such record has a block: TotalSize and NumValueKinds; and for each kind that
 * it has sites of, the kind's number and NumValueSites (all of these have 32 bits), a byte for each
 * site with the number of its values, zeros up to a multiple of 8, and the values with their
 * counts.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_VALUES_H
#define COVSPLIT_SPLIT_SNAPSHOT_VALUES_H

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/module.h"

/* Appends the blocks for all records in `data`, which must be whole. */
bool values_take(struct memory *memory, const struct module *module,
                 const struct profile_record_layout *layout, struct bytes data,
                 struct buffer *values, struct error *error);

#endif
