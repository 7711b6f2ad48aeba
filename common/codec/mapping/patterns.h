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
 *
 * A table lists the patterns that occur, the most frequent ones first; a pattern is stored as its
 * index in the table, in one byte or two.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_PATTERNS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_PATTERNS_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/coder.h"
#include "common/llvm/mapping.h"

/* All values below are stored in sidecars. */

/* `completed` is how many of the open ends (regions.h) lie at or before the start of this region.
 * The last of them, or if there is none the start of the previous region, is the anchor, from which
 * the start is counted. COMPLETED_FIRST means that this is the first region of its file, whose
 * start is stored. */
#define COMPLETED_MAX   29
#define COMPLETED_FIRST 30

/* How a start is told. */
enum region_start {
    START_NEAR = 0,    /* on the anchor's line, 0 to 4 columns after it */
    START_ON_LINE = 5, /* on the anchor's line; the column is stored */
    /* On the next line: in one of the frequent columns (regions.h), or the column is stored. */
    START_LINE = 6,
    START_LINES = 9, /* the same, but on a later line; the number of lines is stored */
    START_FORMS = 12,
};

/* How an end is told. */
enum region_end {
    END_ACTIVE = 1,  /* at the end of the innermost open region; up to the 15th innermost */
    END_NEAR = 16,   /* on the line of its start, 0 or 1 columns after it */
    END_LENGTH = 18, /* on the line of its start; the length is stored */
    /* On the next line: in one of the frequent columns, or the column is stored. */
    END_LINE = 19,
    END_LINES = 22, /* the same, but on a later line; the number of lines is stored */
    END_FORMS = 25,
};

#define END_ACTIVE_MAX (END_NEAR - END_ACTIVE)

struct region_pattern {
    uint8_t kind; /* enum region_kind; REGION_KINDS: the file has no more regions */
    bool is_gap;
    uint8_t completed;
    uint8_t start; /* enum region_start */
    uint8_t end;   /* enum region_end */
    /* The symbols of the region's counters (counters.c). For an expansion: 0 if its file is the
     * next one. */
    uint8_t symbols[REGION_COUNTERS_MAX];
};

/* How many patterns have one-byte codes. Stored in sidecars. */
#define PATTERNS_SHORT 240

/* Initialize to {0}; free with patterns_free. */
struct patterns {
    /* Writing: the place of each pattern in `uses`, and the sequence of all patterns. */
    struct intern_table places;
    struct pattern_use *uses;
    size_t use_capacity;
    struct buffer sequence; /* uint32_t */
    /* Reading: the table. */
    struct region_pattern *table;
    size_t count;
};

void patterns_free(struct patterns *patterns);

/* Writing: adds a pattern to the sequence. False if out of memory. */
bool patterns_add(struct patterns *patterns, const struct region_pattern *pattern);

/* Writes the table and all patterns that were added. False if out of memory. */
bool patterns_write(struct patterns *patterns, struct coder *coder);

/* Reads the table. */
enum result patterns_start_reading(struct patterns *patterns, struct coder *coder);

/* Reads a pattern that has no one-byte code, after its first byte; false if there is none. */
bool patterns_take_long(const struct patterns *patterns, struct coder *coder, uint8_t first,
                        struct region_pattern *pattern);

/* Reads a pattern. After a failure the coder's result is not RESULT_OK. */
static inline void patterns_take(const struct patterns *patterns, struct coder *coder,
                                 struct region_pattern *pattern)
{
    uint8_t first = code_byte(coder, STREAM_PATTERN_CODES, 0);

    if (first < PATTERNS_SHORT && first < patterns->count)
        *pattern = patterns->table[first];
    else if (!patterns_take_long(patterns, coder, first, pattern))
        coder_fail(coder, RESULT_UNFIT);
}

#endif
