/*
 * The streams of the mapping of functions, which several files here write and read.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_STREAMS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_STREAMS_H

#include "common/codec/streams.h"
#include "common/llvm/mapping.h"

/* Classes of source ranges; each class has its own streams. Stored in sidecars. */
enum range_class {
    CLASS_CODE = 0,
    CLASS_GAP = 1,
    CLASS_EXPANSION = 2,
    CLASS_SKIPPED = 3,
    CLASS_ZERO = 4,
    CLASS_BRANCH = 5,
    START_CLASSES = 6,
    /* Ends have one more class: for a file's first region, unless its class is CLASS_ZERO. */
    CLASS_FIRST = 6,
    END_CLASSES = 7,
};

/* The streams by their numbers in sidecars; what they hold is in docs/format.md ("The
 * mapping of functions"). */
enum mapping_stream {
    STREAM_NAME_REF_CODES = 0,
    STREAM_NAME_REF_OPERANDS = 1,
    STREAM_FUNC_HASH_CODES = 2,
    STREAM_FUNC_HASH_SIZES = 3,
    STREAM_FUNC_HASH_BYTES = 4,
    STREAM_FILENAMES_REF_CODES = 5,
    STREAM_FILENAMES_REFS = 6,
    STREAM_MAPPING_CODES = 7,
    STREAM_RAW_MAPPINGS = 8,
    STREAM_REST = 9,
    STREAM_CODE_COUNTERS = 10,
    STREAM_GAP_COUNTERS = 11,
    STREAM_TEMPLATE_COUNTERS = 12,
    STREAM_TRUE_COUNTERS = 13,
    STREAM_FALSE_COUNTERS = 14,
    STREAM_LEFT_COUNTERS = 15,
    STREAM_RIGHT_COUNTERS = 16,
    STREAM_COUNTER_OPERANDS = 17,
    STREAM_FILE_COUNTS = 18,
    STREAM_MAIN_FILES = 19,
    STREAM_EXPANDED_FILES = 20,
    STREAM_TEMPLATE_CODES = 21,
    STREAM_TEMPLATE_DISTANCES = 22,
    STREAM_TEMPLATE_SYMBOLS = 23,
    STREAM_PATTERN_TABLE = 24,
    STREAM_PATTERN_CODES = 25,
    STREAM_PATTERN_LOW_BYTES = 26,
    STREAM_RARE_PATTERNS = 27,
    STREAM_EXPANSION_DISTANCES = 28,
    STREAM_REGION_OPERANDS = 29,
    STREAM_FIRST_LINES = 30,
    STREAM_FIRST_ZERO_LINES = 31,
    STREAM_EXPANDED_FIRST_LINES = 32,
    STREAM_FIRST_COLUMNS = 33,
    STREAM_FIRST_ZERO_COLUMNS = 34,
    STREAM_EXPANDED_FIRST_COLUMNS = 35,
    /* From here on, one stream for each class. */
    STREAM_START_LINES = 36,
    STREAM_START_COLUMNS = 42,
    STREAM_START_DISTANCES = 48,
    STREAM_NUM_LINES = 54,
    STREAM_END_COLUMNS = 61,
    STREAM_LENGTHS = 68,
    MAPPING_STREAMS = 75,
};

_Static_assert(MAPPING_STREAMS <= STREAMS_MAX, "there are more streams than can be packed");

/* The unread rest of a stream. */
struct stream_cursor {
    const uint8_t *at, *end;
};

/* `result` becomes an error when a number is missing or invalid; what is read is 0 then. It is
 * checked once for each region rather than for each number. */
struct stream_cursors {
    struct stream_cursor stream[MAPPING_STREAMS];
    enum result result;
};

static inline bool stream_put_byte(struct streams *streams, unsigned stream, unsigned byte)
{
    struct buffer *buffer = &streams->stream[stream];

    if (buffer->size == buffer->capacity && !buffer_reserve(buffer, 1))
        return false;
    buffer->data[buffer->size++] = (uint8_t)byte;
    return true;
}

static inline bool stream_put(struct streams *streams, unsigned stream, uint64_t number)
{
    if (number < 0x80)
        return stream_put_byte(streams, stream, (unsigned)number);
    return buffer_append_uleb128(&streams->stream[stream], number);
}

/* Only the first failure counts, since later ones may be caused by it. */
static inline void stream_fail(struct stream_cursors *cursors, enum result result)
{
    if (cursors->result == RESULT_OK)
        cursors->result = result;
}

static inline uint8_t stream_take_byte(struct stream_cursors *cursors, unsigned stream)
{
    struct stream_cursor *cursor = &cursors->stream[stream];

    if (cursor->at != cursor->end)
        return *cursor->at++;
    stream_fail(cursors, RESULT_UNFIT);
    return 0;
}

/* Reads a number of any size. */
uint64_t stream_take_long(struct stream_cursors *cursors, unsigned stream);

static inline uint64_t stream_take(struct stream_cursors *cursors, unsigned stream)
{
    struct stream_cursor *cursor = &cursors->stream[stream];

    if (cursor->at != cursor->end && *cursor->at < 0x80)
        return *cursor->at++;
    return stream_take_long(cursors, stream);
}

/* Reads a 32-bit number, as all numbers in a mapping are. */
static inline uint32_t stream_take_32(struct stream_cursors *cursors, unsigned stream)
{
    uint64_t number = stream_take(cursors, stream);

    if (number <= UINT32_MAX)
        return (uint32_t)number;
    stream_fail(cursors, RESULT_UNFIT);
    return 0;
}

#endif
