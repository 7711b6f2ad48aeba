/*
 * Summing the profiles of one image.
 *
 * The sum is a profile itself: a copy of the first one, to whose counters those of the others are
 * added, as llvm-profdata adds them: up to 2^64 - 3, as the two largest numbers have a meaning of
 * their own. The bitmap is the OR of the bitmaps.
 *
 * With byte coverage a counter is a byte, 0 if the code was executed. Among raw profiles (and in
 * the runtime's own merging) these are combined by AND; llvm-profdata counts in how many profiles
 * the code was executed. Both come from the same sum, which keeps those counts in binary: plane k
 * is a profile that says "executed" where bit k of the count is set. So a sum of n profiles has
 * about log2(n) planes, and the planes, each with the weight 2^k, tell llvm-profdata the same as
 * the n profiles did.
 *
 * Value profile data cannot be summed like this, nor can the order of events that temporal profiles
 * have.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_SUM_H
#define COVSPLIT_COMMON_LLVM_PROFILE_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"

/* The same for all profiles that may be summed with each other: those of one image, full or not,
 * under one raw version. Where it was loaded does not matter. */
bool profile_identity(const struct profile *profile, const char *name, struct digest *identity,
                      struct error *error);

/* False if the profile has something in it that cannot be summed. */
bool profile_can_be_summed(const struct profile *profile);

struct profile_sum;

/* A sum with one profile in it, of which everything is copied. Free with profile_sum_free (NULL
 * allowed). */
struct profile_sum *profile_sum_new(const struct profile *first, const char *name,
                                    struct error *error);
void profile_sum_free(struct profile_sum *sum);

/* Adds a profile of the same identity. Several threads may do so at the same time; `share` (below
 * `shares`) is where in the counters to begin, so that they stay out of each other's way. False
 * only if out of memory; the sum is then good for nothing. */
bool profile_sum_add(struct profile_sum *sum, const struct profile *more, unsigned share,
                     unsigned shares, struct error *error);

/* The same with another sum. Not while others add. */
bool profile_sum_add_sum(struct profile_sum *sum, const struct profile_sum *more,
                         struct error *error);

/* Takes over what a profile of the same identity says beside its counters: the addresses in header
 * and data. Other threads may add meanwhile, but not do this. */
void profile_sum_adopt(struct profile_sum *sum, const struct profile *profile);

/* The following are for when all has been added. */

/* One raw profile that stands for all: the sum; with byte coverage the AND. It lives as long as the
 * sum, and what profile_sum_plane gave before must not be used any more. */
struct bytes profile_sum_combined(struct profile_sum *sum);

/* 1 without byte coverage. */
unsigned profile_sum_plane_count(const struct profile_sum *sum);

/* Plane k, a raw profile to be counted 2^k times. Good until the next call. */
struct bytes profile_sum_plane(struct profile_sum *sum, unsigned plane);

#endif
