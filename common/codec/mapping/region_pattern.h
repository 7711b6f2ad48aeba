/*
 * Patterns. A pattern is one number that combines all properties of a region that are chosen from a
 * few cases.
 *
 * Code has a grammar, and so do its regions: a condition is followed by a branch at the same place,
 * whose counters are a new one and the condition's minus that; then by a gap, one column later;
 * then by code that starts where the gap ends and has the branch's counter. Such choices depend on
 * each other, within a region and from one to the next, so they are stored together. A few hundred
 * patterns cover nearly all regions, and zstd finds repeated sequences of them. Only what cannot be
 * predicted is stored as separate numbers.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGION_PATTERN_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGION_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/llvm/mapping.h"

/* All values below are stored in sidecars. */

/* `completed` is how many of the open ends (active_ends.h) lie at or before the start of this
 * region. The last of them, or if there is none the start of the previous region, is the anchor,
 * from which the start is counted. COMPLETED_FIRST means that this is the first region of its file,
 * whose start is stored. */
#define COMPLETED_MAX   29
#define COMPLETED_FIRST 30

/* Where a region starts. */
enum region_start {
    START_NEAR = 0,    /* on the anchor's line, 0 to 4 columns after it */
    START_ON_LINE = 5, /* on the anchor's line; the column is stored */
    /* On the next line: in one of the frequent columns (frequent_columns.h), or the column is
     * stored.
     */
    START_LINE = 6,
    START_LINES = 9, /* the same, but on a later line; the number of lines is stored */
    START_FORMS = 12,
};

/* Where it ends. */
enum region_end {
    END_ACTIVE = 1,  /* at the end of the innermost open region; up to the 15th innermost */
    END_NEAR = 16,   /* on the line of its start, 0 or 1 columns after it */
    END_LENGTH = 18, /* on the line of its start; the length is stored */
    /* On the next line: in one of the frequent columns, or the column is stored. */
    END_LINE = 19,
    END_LINES = 22, /* the same, but on a later line; the number of lines is stored */
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
    /* The symbols of the region's counters. For an expansion: 0 if its file is the next one. */
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

/* False if no pattern has this number. */
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
