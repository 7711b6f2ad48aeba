/*
 * Encodes the patterns of regions (region_pattern.h) as bytes.
 *
 * A table lists the patterns that occur, the most frequent ones first; a pattern is stored as its
 * index in the table, in one byte or two. Besides the stream of first bytes there are three more:
 * the table, the second bytes, and the patterns that are not in the table.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_PATTERN_TABLE_H
#define COVSPLIT_COMMON_CODEC_MAPPING_PATTERN_TABLE_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/region_pattern.h"
#include "common/codec/mapping/streams.h"

/* How many patterns have one-byte codes, and how many two-byte codes; and the byte that stands for
 * a pattern outside the table. Stored in sidecars. */
#define PATTERNS_SHORT     240
#define PATTERNS_LONG      (15 * 256)
#define PATTERN_AS_IT_IS   255
#define PATTERNS_TABLE_MAX (PATTERNS_SHORT + PATTERNS_LONG)

/* Initialize to {0}; free with pattern_table_free. */
struct pattern_table {
    /* Writing: the place of each pattern in `uses`, and the sequence of all patterns. */
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

/* Adds a pattern to the sequence. False if out of memory, also below. */
bool pattern_table_add(struct pattern_table *table, uint32_t pattern);

/* Writes the table and all patterns that were added to the streams. */
bool pattern_table_put(struct pattern_table *table, struct streams *streams);

/* ---- reading ---- */

/* Reads the table. */
enum result pattern_table_take(struct pattern_table *table, struct stream_cursors *cursors);

/* Reads a pattern that has no one-byte code; *room is a place for it. On failure returns NULL and
 * sets the cursors' result. */
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
