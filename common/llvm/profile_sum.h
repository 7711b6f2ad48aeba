/*
 * Summing the profiles of one image.
 *
 * The sum is itself a profile: a copy of the first one, to whose counters those of the others are
 * added. Counters saturate at 2^64 - 3, as in llvm-profdata, since the two largest numbers have a
 * special meaning. The bitmap is the OR of the bitmaps.
 *
 * llvm-profdata of LLVM 19 and 22 takes a profile with a counter above 2^56 for damaged (that of 14
 * and 16 takes it as it is), but adds up smaller ones beyond that. So it gets a sum with such a
 * counter in several parts.
 *
 * With byte coverage a counter is a byte, which is 0 if the code was executed. The runtime's own
 * merging combines such counters by AND, whereas llvm-profdata counts in how many profiles the code
 * was executed. Both results are made from the same sum, which holds these counts in binary: plane
 * k is a profile that says "executed" where bit k of the count is set. So a sum of n profiles has
 * about log2(n) planes, and merging the planes in llvm-profdata, each with the weight 2^k, gives
 * the same result as merging the n profiles.
 *
 * Value profile data cannot be summed in this way, nor can the order of events in temporal
 * profiles.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_SUM_H
#define COVSPLIT_COMMON_LLVM_PROFILE_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"

/* A function as a data record has it. */
struct profile_function {
    uint64_t name_ref, hash; /* NameRef, FuncHash */
    uint64_t offset;         /* of its counters in those of the profile, in bytes, unchecked */
    uint32_t counter_count;
};

/* Reads the record with this index, which the profile must have. */
struct profile_function profile_get_function(const struct profile *profile, uint64_t index);

static inline uint64_t profile_function_count(const struct profile *profile)
{
    return profile->data.size / profile->layout.record_size;
}

/* Computes a digest that is the same for all profiles that may be summed: those of one image with
 * the same raw version, full or lightweight. Load addresses do not affect it. */
struct digest profile_identity(const struct profile *profile);

/* False if the profile contains something that cannot be summed. */
bool profile_can_be_summed(const struct profile *profile);

/* The largest counter of a profile that no llvm-profdata takes for damaged. */
#define PROFILE_COUNTER_MAX (UINT64_C(1) << 56)

/* Fails if llvm-profdata takes the profile's counters for damaged. To be called for profiles that
 * were read, but not for sums. */
bool profile_check_counters(const struct profile *profile, const char *name, struct error *error);

/* Fails if a profile that lacks nothing has a record of a function that is not among its names, or
 * whose counters are not among its own: a byte was lost or added on the way, and counts are not in
 * their places. Not every llvm-profdata looks. */
bool profile_check_functions(const struct profile *profile, const char *name, struct error *error);

/* The same of the counters alone, also for a profile that lacks names. */
bool profile_check_places(const struct profile *profile, const char *name, struct error *error);

/* The sum of the profiles of one image: in memory, in a state, in a batch (common/state). Of
 * profiles that cannot be summed it is only the number. */
struct profile_sum {
    struct digest identity; /* profile_identity of its profiles */
    uint64_t profile_count; /* saturates */

    /* For the implementation. */
    uint8_t *bytes;            /* the whole profile, without value data; NULL: no counters */
    uint64_t size;             /* of `bytes` */
    struct profile profile;    /* the same, parsed */
    uint8_t *counters;         /* the complete counters, in `bytes` */
    uint64_t counters_size;    /* of these, in bytes */
    uint8_t *bitmap;           /* in `bytes` */
    struct sum_planes *planes; /* with byte coverage; else NULL */
    struct sum_stripe *stripes;
    uint64_t stripe_count;
};

/* A sum of no profiles. NULL with an error if out of memory. Free with profile_sum_free (NULL is
 * allowed). */
struct profile_sum *profile_sum_new(const struct digest *identity, struct error *error);
void profile_sum_free(struct profile_sum *sum);

/* False while it only has a number of profiles. */
static inline bool profile_sum_has_counters(const struct profile_sum *sum)
{
    return sum->bytes != NULL;
}

/* Adds a profile of the same identity. While the sum has no counters, this is for one thread at a
 * time; then several may do so. Each should pass its own `share`, from 0 to `shares` - 1, which
 * tells where in the counters to start, so that threads do not wait for each other. Returns false
 * only if out of memory; the sum is unusable then. */
bool profile_sum_add(struct profile_sum *sum, const struct profile *more, unsigned share,
                     unsigned shares, struct error *error);

/* Adds another sum, and may empty it. No other thread may add at the same time. */
bool profile_sum_add_sum(struct profile_sum *sum, struct profile_sum *more, struct error *error);

/* Adds 2^plane times a profile with byte coverage, whose whole counters these are (as many as in
 * the sum). For each plane, something must have been added to the one before. No other thread may
 * add at the same time. */
bool profile_sum_add_plane(struct profile_sum *sum, unsigned plane, struct bytes counters,
                           struct error *error);

/* Replaces everything but counters and bitmap by that of a profile of the same identity, which
 * concerns the addresses in header and data. Other threads may add at the same time, but not call
 * this function. */
void profile_sum_adopt(struct profile_sum *sum, const struct profile *profile);

/* The following are to be called after everything has been added. */

/* One profile for all: the sum; with byte coverage, the AND. It is valid as long as the sum, and
 * invalidates what profile_sum_plane returned before. */
const struct profile *profile_sum_combined(struct profile_sum *sum);

/* 1 without byte coverage. */
unsigned profile_sum_plane_count(const struct profile_sum *sum);

/* Plane k, a raw profile with the weight 2^k. Valid until the next call. */
struct bytes profile_sum_plane(struct profile_sum *sum, unsigned plane);

/* One of the profiles that stand for a sum, which is valid during the call. */
typedef bool (*profile_sum_visitor)(void *context, const struct profile *part, uint64_t weight,
                                    struct error *error);

/* Calls the visitor with the profiles that make up the sum in llvm-profdata, each multiplied by its
 * weight: one, or the planes, or two if a counter exceeds PROFILE_COUNTER_MAX. Without weights,
 * which a .profraw file does not have, it is one (profile_sum_combined), or as many as such a
 * counter needs, 256 at most. If a counter is saturated, llvm-profdata has to limit the sum of the
 * parts, too, and warns of it. */
bool profile_sum_visit(struct profile_sum *sum, bool with_weights, profile_sum_visitor visit,
                       void *context, struct error *error);

#endif
