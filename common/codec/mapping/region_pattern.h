/*
 * Patterns: all of a region that is chosen from a few cases, in one number.
 *
 * Code has a grammar, and so have its regions: a condition is followed by a branch in the same
 * place, whose counters are a new one and what is left of the condition's; then by a gap, one
 * column behind; then by code which starts where the gap ends and has the branch's counter. Such
 * choices follow from each other, within a region as from one to the next, so they are stored
 * together: few hundred patterns are nearly all that there are, and zstd finds their sequences
 * again. Only what cannot be foretold is a number of its own.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGION_PATTERN_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGION_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/llvm/mapping.h"

/* All values below are stored in sidecars. */

/* How many of the ends that were open behind the start of the region before (active_ends.h) are not
 * behind this one's: those are completed. The last of them, or else the start of the region before,
 * is the anchor that the start is counted from. One number says that this is the first region of
 * its file, the start of which is stored. */
#define COMPLETED_MAX   29
#define COMPLETED_FIRST 30

/* Where a region starts. */
enum region_start {
    START_NEAR = 0,    /* on the anchor's line, 0 to 4 columns further on */
    START_ON_LINE = 5, /* on the anchor's line, the column is stored */
    /* On the next line: in one of the frequent columns (frequent_columns.h), or the column is
     * stored.
     */
    START_LINE = 6,
    START_LINES = 9, /* the number of lines is stored; columns likewise */
    START_FORMS = 12,
};

/* Where it ends. */
enum region_end {
    END_ACTIVE = 1,  /* where the innermost region ends that is open, to the 15th one */
    END_NEAR = 16,   /* on its line, 0 or 1 columns behind its start */
    END_LENGTH = 18, /* on its line, the length is stored */
    /* On the next line: in one of the frequent columns, or the column is stored. */
    END_LINE = 19,
    END_LINES = 22, /* the number of lines is stored; columns likewise */
    END_FORMS = 25,
};

#define END_ACTIVE_MAX 15

/* Which counter a region has: see counters.h. */
#define SYMBOL_BITS 5

struct region_pattern {
    uint8_t kind; /* enum region_kind; REGION_KINDS: the file has no more regions */
    bool is_gap;
    uint8_t completed;
    uint8_t start; /* enum region_start */
    uint8_t end;   /* enum region_end */
    /* The symbols of the region's counters. Of an expansion: whether its file is not the next. */
    uint8_t symbols[REGION_COUNTERS_MAX];
};

#define PATTERN_FILE_ENDS 0

static inline uint32_t pattern_pack(const struct region_pattern *pattern)
{
    uint32_t number = (uint32_t)(pattern->kind | pattern->is_gap << 3);

    number = number << 5 | pattern->completed;
    number = number << 4 | pattern->start;
    number = number << 5 | pattern->end;
    number = number << SYMBOL_BITS | pattern->symbols[0];
    return (number << SYMBOL_BITS | pattern->symbols[1]) + 1;
}

/* False if that is no pattern's number. */
static inline bool pattern_unpack(uint64_t number, struct region_pattern *pattern)
{
    *pattern = (struct region_pattern){.kind = REGION_KINDS};
    if (number == PATTERN_FILE_ENDS)
        return true;
    if (number-- > UINT32_C(1) << 28)
        return false;
    pattern->symbols[1] = number & 31;
    pattern->symbols[0] = number >> 5 & 31;
    pattern->end = number >> 10 & 31;
    pattern->start = number >> 15 & 15;
    pattern->completed = number >> 19 & 31;
    pattern->kind = number >> 24 & 7;
    pattern->is_gap = number >> 27 & 1;
    return pattern->kind < REGION_KINDS && pattern->completed <= COMPLETED_FIRST &&
           pattern->start < START_FORMS && pattern->end >= END_ACTIVE && pattern->end < END_FORMS;
}

#endif
