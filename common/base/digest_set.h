/*
 * A set of digests: 16 bytes each in one array, which is at most three quarters full.
 */
#ifndef COVSPLIT_COMMON_BASE_DIGEST_SET_H
#define COVSPLIT_COMMON_BASE_DIGEST_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"

/* Initialize to {0}, an empty set; free with digest_set_free. */
struct digest_set {
    struct digest *digests; /* all zeros: free */
    size_t capacity, count;
    uint64_t seed;
};

void digest_set_free(struct digest_set *set);

bool digest_set_has(const struct digest_set *set, const struct digest *digest);

/* False if out of memory. */
bool digest_set_add(struct digest_set *set, const struct digest *digest);

#endif
