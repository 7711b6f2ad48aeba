/*
 * NameRefs in the profile data and in the coverage mapping of functions, as two streams: "NameRefs"
 * in docs/format.md.
 *
 * Functions are nearly in the order of their names, so only the starts of runs of consecutive names
 * are stored; a run that was left is usually resumed at the same place. In the mapping, a function
 * that one translation unit did not use, but another one did, occurs again, at the place of its
 * data record.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAME_REFS_H
#define COVSPLIT_COMMON_CODEC_NAME_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/codec/data_records.h"
#include "common/llvm/names.h"

/* How many left runs are remembered. The stored form depends on it. */
#define NAME_REF_RUNS 4

/* Initialize with the names (NULL: none), which must be indexed for writing, and for the mapping
 * with the data (NULL: none). */
struct name_refs {
    const struct names *names;
    const struct data_records *data;
    uint64_t next;                /* the number after the last name's */
    uint64_t runs[NAME_REF_RUNS]; /* the value of `next` when a run was left, latest first */
    unsigned run_count;
    uint64_t before; /* the NameRef of the previous record, initially 0 */
};

/* Appends a byte to `codes`, and its operand, if it has one, to `operands`. False if out of memory.
 */
bool name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands);

/* Reads the next NameRef. False if the streams are damaged. */
bool name_refs_take(struct name_refs *refs, struct bytes *codes, struct bytes *operands,
                    uint64_t *reference);

#endif
