/*
 * Sparse profiles: raw profiles in which runs of zeros take a few bytes, for slow links.
 *
 * Most counters of a run are zero. A device may send its lightweight profile in this form; here it
 * is expanded. docs/format.md ("Sparse profiles") describes it.
 *
 * A few bytes can stand for any number of zeros. The header, which is expanded first, says how
 * large the profile is; nothing is allocated before that size is known to be within a limit.
 */
#ifndef COVSPLIT_COMMON_LLVM_SPARSE_H
#define COVSPLIT_COMMON_LLVM_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define SPARSE_MAGIC_SIZE 8
#define SPARSE_VERSION    1

/* True if the bytes start like a sparse profile of any version, or are cut short in its magic
 * number. */
bool sparse_recognize(struct bytes bytes);

/* A sparse profile in a file. */
struct sparse_extent {
    uint64_t stored_size;   /* in the file; only after success */
    uint64_t expanded_size; /* of the profile, 0 if that is not known yet */
    bool is_cut;            /* the only fault is that the file ends too early */
};

/* Checks the sparse profile at `offset` of the file, and expands it into the buffer, replacing its
 * contents, unless that is NULL. Fails if the profile has more than `limit` bytes. `name` is the
 * file's name in messages. */
bool sparse_expand(struct bytes file, uint64_t offset, const char *name, uint64_t limit,
                   struct buffer *expanded, struct sparse_extent *extent, struct error *error);

#endif
