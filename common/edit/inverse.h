/*
 * The inverse edit script, which turns a stripped image back into the original with the help of the
 * sidecar's sections.
 *
 * It is a list of steps over the stripped image. Each step: copy `keep` bytes, drop `drop` bytes,
 * insert `insert` bytes, which are literals of the script or a part of a removed section. After the
 * last step the rest of the stripped image is copied.
 *
 * Encoded form, version 1 (all numbers unsigned LEB128, so that it has no byte order):
 *     number of steps, number of literal bytes,
 *     for each step: keep, drop, insert, source, and for source != 0 the offset in that section
 *     (source 0: the next literals; otherwise the section kind's number, see section.h),
 *     the literal bytes.
 * Parts of a section are used in ascending order, so a reader can take each section as a stream.
 */
#ifndef COVSPLIT_COMMON_EDIT_INVERSE_H
#define COVSPLIT_COMMON_EDIT_INVERSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/edit/script.h"
#include "common/llvm/section.h"

/* A range of the original that the sidecar holds as a section. */
struct section_range {
    enum section_kind kind;
    uint64_t offset; /* in the original */
    uint64_t size;
};

/* Appends the encoded inverse of a finished script to *encoded. The ranges must not overlap. Old
 * bytes of an edit that are in none of the ranges become literals. */
bool inverse_encode(const struct edit_script *script, struct bytes original,
                    const struct section_range *ranges, size_t range_count, const char *name,
                    struct buffer *encoded, struct error *error);

struct inverse_step {
    uint64_t keep;
    uint64_t drop;
    uint64_t insert;
    unsigned source; /* 0: literals; otherwise an enum section_kind */
    uint64_t source_offset;
    struct bytes literals; /* if source is 0: the bytes to insert */
};

/* A decoded and validated inverse. It points into `encoded`, which must outlive it. */
struct inverse {
    struct inverse_step *steps;
    size_t count;
};

/* Decodes an inverse, and checks that its steps stay inside a stripped image of `stripped_size`
 * bytes and inside the sections (section_sizes is indexed by kind; absent sections have size 0),
 * use each section in ascending order, and produce exactly `original_size` bytes. Later use can
 * rely on that. Free with inverse_free. */
bool inverse_decode(struct bytes encoded, uint64_t stripped_size, uint64_t original_size,
                    const uint64_t section_sizes[SECTION_KIND_MAX + 1], const char *name,
                    struct inverse *inverse, struct error *error);
void inverse_free(struct inverse *inverse);

#endif
