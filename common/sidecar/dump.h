/*
 * Dumps: plain copies of an image's counters, and of its bitmap, from the memory of a program or a
 * device, as a debugger makes them. With the image's sidecar, a dump becomes the profile that the
 * split image would have written, if it was loaded where it was linked. (The address of the names
 * in the header may be another one; nothing reads it.)
 */
#ifndef COVSPLIT_COMMON_SIDECAR_DUMP_H
#define COVSPLIT_COMMON_SIDECAR_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"

/* Initialize to {0}; free with dump_free, even after a failure. */
struct dump {
    struct bytes counters; /* set by the caller, like the bitmap: as large as their sections */
    struct bytes bitmap;
    struct profile profile; /* made by dump_make; points to the other members */
    struct buffer whole_counters;
    struct buffer binary_ids;
    uint8_t stub[PROFILE_RECORD_SIZE_MAX];
};

/* Makes the lightweight profile of the dump, for correlation_write. `name` is the dump's. Fails if
 * the counters have values that no program counts to, or if the sidecar lacks what profiles need
 * besides counters: then the image keeps it, and a copy of its counters is not enough. */
bool dump_make(struct dump *dump, const struct correlation *correlation, const char *name,
               struct error *error);
void dump_free(struct dump *dump);

#endif
