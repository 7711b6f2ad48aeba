/*
 * The patterns of regions (region_pattern.h) as bytes.
 *
 * A table has those that come, the most frequent ones first; a pattern is a number in it,
 * in one byte or two. There are three streams more than that of the numbers: the table, the second
 * bytes, and patterns that have no place in the table, as they are.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_PATTERN_TABLE_H
#define COVSPLIT_COMMON_CODEC_MAPPING_PATTERN_TABLE_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/region_pattern.h"
#include "common/codec/mapping/streams.h"

/* Patterns with a byte of their own; those that two bytes stand for; and the byte of those that are
 * stored as they are. Stored in sidecars. */
#define PATTERNS_SHORT     240
#define PATTERNS_LONG      (15 * 256)
#define PATTERN_AS_IT_IS   255
#define PATTERNS_TABLE_MAX (PATTERNS_SHORT + PATTERNS_LONG)

/* Initialize to {0}; free with pattern_table_free. */
struct pattern_table {
    /* Writing: by the number of a pattern its place below, and all that came. */
    struct intern_table places;
    struct pattern_use *uses;
    size_t use_capacity;
    struct buffer sequence; /* uint32_t */
    /* Reading. */
    struct region_pattern *patterns;
    size_t count;
};

void pattern_table_free(struct pattern_table *table);

/* ---- writing ---- */

/* False if out of memory. Likewise below. */
bool pattern_table_add(struct pattern_table *table, uint32_t pattern);

/* Puts all that were added into the streams. */
bool pattern_table_put(struct pattern_table *table, struct streams *streams);

/* ---- reading ---- */

/* Takes the table. */
enum result pattern_table_take(struct pattern_table *table, struct stream_cursors *cursors);

/* Takes a pattern that a byte alone does not stand for; *room is for it. NULL, with the cursors'
 * result, if there is none. */
const struct region_pattern *pattern_take_long(const struct pattern_table *table,
                                               struct stream_cursors *cursors, uint8_t first,
                                               struct region_pattern *room);

static inline const struct region_pattern *pattern_take(const struct pattern_table *table,
                                                        struct stream_cursors *cursors,
                                                        struct region_pattern *room)
{
    uint8_t first = stream_take_byte(cursors, STREAM_PATTERN_CODES);

    if (first < PATTERNS_SHORT && first < table->count)
        return &table->patterns[first];
    return pattern_take_long(table, cursors, first, room);
}

#endif
