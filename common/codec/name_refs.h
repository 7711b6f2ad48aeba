/*
 * NameRefs, for data and the mapping of functions, as two streams: "NameRefs" in
 * docs/format.md.
 *
 * Functions come nearly in the order of their names, so what is stored is where a run of names
 * starts; where a run was left, it is mostly resumed. In the mapping, a function that one
 * translation unit did not use, and another did, comes again: then it is where the data has it.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAME_REFS_H
#define COVSPLIT_COMMON_CODEC_NAME_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/data_records.h"
#include "common/llvm/names.h"

/* Runs that are remembered. The form depends on it. */
#define NAME_REF_RUNS 4

/* Starts with the names (NULL: none), indexed for writing, and the data of the mapping (NULL:
 * none).
 */
struct name_refs {
    const struct names *names;
    const struct data_records *data;
    uint64_t next;                /* the number behind that of the last name */
    uint64_t runs[NAME_REF_RUNS]; /* what `next` was where a run was left, the last one first */
    unsigned run_count;
    uint64_t before; /* the NameRef of the record before, at first 0 */
};

/* Puts a byte into `codes`, and into `operands` what it calls for. False if out of memory. */
bool name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands);

/* False: the streams are damaged. */
bool name_refs_take(struct name_refs *refs, struct bytes *codes, struct bytes *operands,
                    uint64_t *reference);

#endif
