/*
 * The streams of the mapping of functions, and how their numbers are written and read.
 *
 * The form of a mapping is told once for both directions: a *coder* either writes the numbers that
 * it is given, or it ignores them and returns those that it reads. Only the choices of the writer
 * among several forms are functions of their own.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_CODER_H
#define COVSPLIT_COMMON_CODEC_MAPPING_CODER_H

#include "common/base/cursor.h"
#include "common/base/numbers.h"
#include "common/base/result.h"
#include "common/codec/streams.h"

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
    STREAM_FUNC_HASHES = 3,
    STREAM_FILENAMES_REF_CODES = 4,
    STREAM_FILENAMES_REFS = 5,
    STREAM_MAPPING_CODES = 6,
    STREAM_RAW_MAPPINGS = 7,
    STREAM_REST = 8,
    STREAM_CODE_COUNTERS = 9,
    STREAM_GAP_COUNTERS = 10,
    STREAM_TEMPLATE_COUNTERS = 11,
    STREAM_TRUE_COUNTERS = 12,
    STREAM_FALSE_COUNTERS = 13,
    STREAM_LEFT_COUNTERS = 14,
    STREAM_RIGHT_COUNTERS = 15,
    STREAM_COUNTER_OPERANDS = 16,
    STREAM_FILE_COUNTS = 17,
    STREAM_MAIN_FILES = 18,
    STREAM_EXPANDED_FILES = 19,
    STREAM_TEMPLATE_CODES = 20,
    STREAM_TEMPLATE_DISTANCES = 21,
    STREAM_TEMPLATE_SYMBOLS = 22,
    STREAM_PATTERN_TABLE = 23,
    STREAM_PATTERN_CODES = 24,
    STREAM_PATTERN_LOW_BYTES = 25,
    STREAM_RARE_PATTERNS = 26,
    STREAM_EXPANSION_DISTANCES = 27,
    STREAM_REGION_OPERANDS = 28,
    STREAM_FIRST_LINES = 29,
    STREAM_FIRST_ZERO_LINES = 30,
    STREAM_EXPANDED_FIRST_LINES = 31,
    STREAM_FIRST_COLUMNS = 32,
    STREAM_FIRST_ZERO_COLUMNS = 33,
    STREAM_EXPANDED_FIRST_COLUMNS = 34,
    /* From here on, one stream for each class. */
    STREAM_START_LINES = 35,
    STREAM_START_COLUMNS = 41,
    STREAM_START_DISTANCES = 47,
    STREAM_NUM_LINES = 53,
    STREAM_END_COLUMNS = 60,
    STREAM_LENGTHS = 67,
    MAPPING_STREAMS = 74,
};

_Static_assert(MAPPING_STREAMS <= STREAMS_MAX, "there are more streams than can be packed");

struct coder {
    bool is_writing;
    struct streams *streams; /* writing */
    struct cursor cursors[MAPPING_STREAMS];
    /* The first failure. Reading: a number is missing or invalid; what is read is 0 then, so that
     * it is checked once for each region rather than for each number. */
    enum result result;
};

/* Only the first failure counts, since later ones may be caused by it. */
static inline void coder_fail(struct coder *coder, enum result result)
{
    if (coder->result == RESULT_OK)
        coder->result = result;
}

/* Reads a number of any size. */
uint64_t coder_take_long(struct coder *coder, unsigned stream);

static inline uint64_t code_number(struct coder *coder, unsigned stream, uint64_t number)
{
    struct cursor *cursor = &coder->cursors[stream];

    if (coder->is_writing)
        buffer_append_uleb128(&coder->streams->stream[stream], number);
    else if (cursor->at != cursor->end && *cursor->at < 0x80)
        number = *cursor->at++;
    else
        number = coder_take_long(coder, stream);
    return number;
}

static inline uint8_t code_byte(struct coder *coder, unsigned stream, unsigned byte)
{
    struct cursor *cursor = &coder->cursors[stream];
    uint8_t value = (uint8_t)byte;

    if (coder->is_writing) {
        buffer_append(&coder->streams->stream[stream], &value, 1);
    } else if (cursor->at != cursor->end) {
        value = *cursor->at++;
    } else {
        coder_fail(coder, RESULT_UNFIT);
        value = 0;
    }
    return value;
}

/* All numbers in a mapping have 32 bits. */
static inline uint32_t coder_check_32(struct coder *coder, uint64_t number)
{
    if (number <= UINT32_MAX)
        return (uint32_t)number;
    coder_fail(coder, RESULT_UNFIT);
    return 0;
}

static inline uint32_t code_32(struct coder *coder, unsigned stream, uint32_t number)
{
    return coder_check_32(coder, code_number(coder, stream, number));
}

/* A number as its difference to another one. */
static inline uint32_t code_from(struct coder *coder, unsigned stream, uint64_t base,
                                 uint32_t number)
{
    return coder_check_32(coder,
                          base + unzigzag(code_number(coder, stream, zigzag(number - base))));
}

#endif
