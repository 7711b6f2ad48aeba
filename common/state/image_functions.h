/*
 * The functions of an image, as its profiles have them: one for each data record, with its NameRef
 * and the place of its counters.
 *
 * They are read from one profile, and are then used to find out which functions another profile of
 * the same image has reached: those with a counter that is not 0, or with byte coverage, where 0
 * means "executed", those with a counter that is 0. This is what llvm-profdata calls covered.
 */
#ifndef COVSPLIT_COMMON_STATE_IMAGE_FUNCTIONS_H
#define COVSPLIT_COMMON_STATE_IMAGE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"

struct image_function {
    uint64_t name_ref;
    uint64_t offset; /* of its counters in those of the profile, in bytes */
    uint64_t size;   /* of its counters, in bytes */
};

/* Initialize to {0}; free with image_functions_free. */
struct image_functions {
    struct image_function *list;
    size_t count;
    bool has_byte_coverage;
    struct names names; /* if they were wanted */
};

/* Reads the functions of the image that wrote the profile. `sidecar` may be NULL if the profile
 * lacks nothing; it is not needed afterwards. `name` is the profile's. Free them even after a
 * failure. */
bool image_functions_read(struct image_functions *functions, const struct profile *profile,
                          struct profile_sidecar *sidecar, bool with_names, const char *name,
                          struct error *error);
void image_functions_free(struct image_functions *functions);

/* Adds the functions that a profile of this image has reached to the bit set (reached.h). The
 * profile must have the same identity (profile_sum.h) as the one that the functions were read from.
 */
void image_functions_reached(const struct image_functions *functions, const struct profile *profile,
                             uint8_t *set);

#endif
