/*
 * The streams of mapping_transform, which several files write and read.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_STREAMS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_STREAMS_H

#include "common/codec/streams.h"
#include "common/llvm/mapping.h"

/* The kinds of region whose places are alike. */
enum place_class {
    PLACE_CODE,
    PLACE_GAP,
    PLACE_EXPANSION,
    PLACE_SKIPPED,
    PLACE_ZERO,
    PLACE_BRANCH,
    PLACE_CLASSES,
    /* Of ends one more: that of a file's first region, unless it is of class zero. */
    PLACE_FIRST = PLACE_CLASSES,
    PLACE_END_CLASSES,
};

/* All numbers are unsigned LEB128, but for bytes where it says so. */
enum covfun_part {
    /* Records: see mapping/covfun.c. */
    COVFUN_NAMES,
    COVFUN_OTHER_NAMES,
    COVFUN_HASH_FORMS,
    COVFUN_HASH_SIZES,
    COVFUN_HASHES,
    COVFUN_FILENAMES,
    COVFUN_FILENAMES_REFS,
    COVFUN_MAPPINGS,
    COVFUN_RAW,
    COVFUN_REST,
    /* Counters: see counters.h. */
    COVFUN_COUNTER_CODE,
    COVFUN_COUNTER_GAP,
    COVFUN_COUNTER_KNOWN,
    COVFUN_COUNTER_TRUE,
    COVFUN_COUNTER_FALSE,
    COVFUN_COUNTER_LEFT,
    COVFUN_COUNTER_RIGHT,
    COVFUN_COUNTER_NUMBERS,
    /* Files: see regions.h. */
    COVFUN_FILE_COUNTS,
    COVFUN_FILES,
    COVFUN_OTHER_FILES,
    COVFUN_SHAPES,
    COVFUN_OLDER_SHAPES,
    COVFUN_KNOWN_SYMBOLS,
    /* Patterns: see pattern_table.h. */
    COVFUN_PATTERN_TABLE,
    COVFUN_PATTERNS,
    COVFUN_PATTERNS_LOW,
    COVFUN_OTHER_PATTERNS,
    /* Regions: see regions.h. */
    COVFUN_EXPANSIONS,
    COVFUN_OPERANDS,
    COVFUN_FIRST_LINE,
    COVFUN_FIRST_LINE_ZERO,
    COVFUN_OTHER_FIRST_LINE,
    COVFUN_FIRST_COLUMN,
    COVFUN_FIRST_COLUMN_ZERO,
    COVFUN_OTHER_FIRST_COLUMN,
    /* Of each class of places one. */
    COVFUN_LINE,
    COVFUN_COLUMN = COVFUN_LINE + PLACE_CLASSES,
    COVFUN_COLUMN_ON_LINE = COVFUN_COLUMN + PLACE_CLASSES,
    COVFUN_LINES = COVFUN_COLUMN_ON_LINE + PLACE_CLASSES,
    COVFUN_COLUMN_END = COVFUN_LINES + PLACE_END_CLASSES,
    COVFUN_LENGTH = COVFUN_COLUMN_END + PLACE_END_CLASSES,
    COVFUN_PART_COUNT = COVFUN_LENGTH + PLACE_END_CLASSES,
};

_Static_assert(COVFUN_PART_COUNT <= STREAMS_MAX, "there are more streams than can be packed");

/* What is left of a part while it is read. */
struct covfun_column {
    const uint8_t *at, *end;
};

struct covfun_columns {
    struct covfun_column streams[COVFUN_PART_COUNT];
    /* Something was wanted that is not there, or cannot be: what was taken is 0 then. Looked at
     * once a region rather than once a number. */
    bool broken;
    bool no_memory; /* that is why it is broken */
};

static inline bool covfun_put_byte(struct streams *streams, unsigned part, unsigned byte)
{
    struct buffer *column = &streams->stream[part];

    if (column->size == column->capacity && !buffer_reserve(column, 1))
        return false;
    column->data[column->size++] = (uint8_t)byte;
    return true;
}

static inline bool covfun_put(struct streams *streams, unsigned part, uint64_t number)
{
    if (number < 0x80)
        return covfun_put_byte(streams, part, (unsigned)number);
    return buffer_append_uleb128(&streams->stream[part], number);
}

/* For streams of bytes. */
static inline uint8_t covfun_take_byte(struct covfun_columns *columns, unsigned part)
{
    struct covfun_column *column = &columns->streams[part];

    if (column->at != column->end)
        return *column->at++;
    columns->broken = true;
    return 0;
}

/* Takes a number of any size. */
uint64_t covfun_take_long(struct covfun_columns *columns, unsigned part);

static inline uint64_t covfun_take(struct covfun_columns *columns, unsigned part)
{
    struct covfun_column *column = &columns->streams[part];

    if (column->at != column->end && *column->at < 0x80)
        return *column->at++;
    return covfun_take_long(columns, part);
}

/* A number of 32 bits, as all of a mapping are. */
static inline uint32_t covfun_take_32(struct covfun_columns *columns, unsigned part)
{
    uint64_t number = covfun_take(columns, part);

    if (number <= UINT32_MAX)
        return (uint32_t)number;
    columns->broken = true;
    return 0;
}

#endif
