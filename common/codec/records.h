/*
 * Parts that the forms of profile data and of the coverage mapping share: NameRefs by the numbers
 * of their names, FuncHashes, an index of the data records, and the padding of coverage records.
 */
#ifndef COVSPLIT_COMMON_CODEC_RECORDS_H
#define COVSPLIT_COMMON_CODEC_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/cursor.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"

struct transform_context;

/* ---- NameRefs ---- */

/* The number of left runs that are remembered. The stored form depends on it. */
#define NAME_REF_RUNS 4

/* NameRefs as two streams: "NameRefs" in docs/format.md. Functions are nearly in the order of their
 * names, so only the starts of runs of consecutive names are stored; a run that was left is usually
 * resumed at the same place. Initialize with the names (NULL: none), which must be indexed for
 * writing. */
struct name_refs {
    const struct names *names;
    uint64_t next;                /* the number after the last name's */
    uint64_t runs[NAME_REF_RUNS]; /* the value of `next` when a run was left, latest first */
    unsigned run_count;
};

/* Appends a byte to `codes`, and its operand, if it has one, to `operands`. */
void name_refs_put(struct name_refs *refs, uint64_t reference, struct buffer *codes,
                   struct buffer *operands);

/* Reads the next NameRef. `codes` becomes bad if it has none. */
uint64_t name_refs_take(struct name_refs *refs, struct cursor *codes, struct cursor *operands);

/* ---- FuncHashes ---- */

/* Writes and reads a FuncHash: "FuncHashes" in docs/format.md. If a function has at most ten
 * statements that matter, Clang's hash consists of these statements, six bits each; otherwise it is
 * an MD5. The former is stored as one byte for each statement, so that zstd can find patterns. */
void func_hash_put(struct buffer *stream, uint64_t hash);
uint64_t func_hash_take(struct cursor *stream);

/* ---- data records ---- */

/* The first record of the profile data with each NameRef. */
struct data_records {
    struct intern_table by_reference;
    struct bytes data;
    size_t record_size;
    bool big_endian;
};

/* Indexes the context's data, which must outlive the index. False if out of memory. Free with
 * data_records_free, even after a failure. */
bool data_records_start(struct data_records *records, const struct transform_context *context);
void data_records_free(struct data_records *records);

/* The FuncHash of the first record with this NameRef; false if there is none. Several threads may
 * call this at the same time. */
bool data_records_find_hash(const struct data_records *records, uint64_t reference, uint64_t *hash);

/* ---- padding ---- */

/* Appends the padding after a record: zeros up to a multiple of COVERAGE_ALIGNMENT, or to the end
 * of the section. That starts at `start` in the buffer, and must not yet have more than the `size`
 * bytes that it is to have. False if out of memory. */
bool record_padding_append(struct buffer *section, size_t start, uint64_t size);

#endif
