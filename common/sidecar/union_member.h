/*
 * Chooses what of a sidecar's coverage a union has to hold. Only union_write.c includes this.
 *
 * llvm-cov loads the records of objects by these rules, which are the same from LLVM 14 to 22
 * (BinaryCoverageReader, and CoverageMapping::loadFunctionRecord):
 *
 *   1. Of the records of one function in an object, the first counts, in the place of the first.
 *      But if that is a dummy (covfun_tell_dummy), the first that is none counts instead.
 *   2. A record is dropped if the profile has another hash for its function; if it is one region
 *      without a counter, and the function has counts; if its counters cannot be evaluated.
 *   3. A record that passes is dropped if one with the same name and filenames was loaded.
 *
 * So the records of each object are chosen by rule 1. Of these, a record is left out if an earlier
 * member has an equal one: with the same name, hash, filenames, expressions and regions. This does
 * not change any report: if llvm-cov dropped the earlier record by rule 2, it would drop the later
 * one too; otherwise it has loaded the earlier record, or one before it, and would drop the later
 * one by rule 3. The same name, hash and filenames would not be enough: a dummy may pass in one
 * report only, and equal hashes do not mean equal numbers of counters.
 *
 * From version 6 of the mapping on, LLVM joins relative filenames with the compilation directory:
 * they are equal only if that is, too.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_UNION_MEMBER_H
#define COVSPLIT_COMMON_SIDECAR_UNION_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest_set.h"
#include "common/base/error.h"
#include "common/sidecar/object_file.h"
#include "common/sidecar/sidecar.h"

/* A record that counts in its object. */
struct union_entry {
    struct digest digest; /* of what makes records equal */
    size_t offset, size;  /* in `records`, if it is held there */
    size_t name, unit;    /* their numbers */
    bool is_dummy;
    bool is_kept; /* it is to be in the union */
};

/* Initialize to {0}; free with union_member_free. */
struct union_member {
    struct union_entry *entries;
    size_t count, capacity;
    size_t kept_count;
    struct buffer records; /* with the padding after each */
    struct object_coverage coverage;
};

/* Reads the sidecar's coverage, and fills in `coverage` with what is not in `seen` yet. If some of
 * it is not as expected, sets *fits to false; the member must have all of it then. */
bool union_member_choose(struct union_member *member, const struct sidecar *sidecar,
                         const struct digest_set *seen, bool *fits, struct error *error);
void union_member_free(struct union_member *member);

#endif
