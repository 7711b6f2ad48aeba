/*
 * Patterns of regions: see mapping.h.
 */
#include "common/codec/mapping/mapping.h"

#include <stdlib.h>

#include "common/base/array.h"

/* The number of patterns with two-byte codes; and the byte that stands for a pattern outside the
 * table. Stored in sidecars. */
#define PATTERNS_LONG      (15 * 256)
#define PATTERN_AS_IT_IS   255
#define PATTERNS_TABLE_MAX (PATTERNS_SHORT + PATTERNS_LONG)

#define PATTERN_FILE_ENDS  0

struct pattern_use {
    uint32_t pattern;
    uint32_t place; /* in order of first occurrence; after sorting, in the table */
    uint64_t count;
};

void patterns_free(struct patterns *patterns)
{
    intern_table_free(&patterns->places);
    buffer_free(&patterns->sequence);
    free(patterns->uses);
    free(patterns->table);
    *patterns = (struct patterns){0};
}

/* ---- numbers ---- */

static uint32_t pack(const struct region_pattern *pattern)
{
    uint32_t number = (uint32_t)(pattern->kind | pattern->is_gap << 3);

    if (pattern->kind == REGION_KINDS)
        return PATTERN_FILE_ENDS;
    number = number << 5 | pattern->completed;
    number = number << 4 | pattern->start;
    number = number << 5 | pattern->end;
    number = number << 5 | pattern->symbols[0];
    return (number << 5 | pattern->symbols[1]) + 1;
}

/* False if no pattern has this number. */
static bool unpack(uint64_t number, struct region_pattern *pattern)
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

/* ---- writing ---- */

bool patterns_add(struct patterns *patterns, const struct region_pattern *pattern)
{
    uint64_t known = patterns->places.count, place;
    uint32_t number = pack(pattern), stored;

    if (!intern_table_add(&patterns->places, number, &place))
        return false;
    if (place == known) {
        if (!ARRAY_ROOM_FOR_ONE(patterns->uses, patterns->use_capacity, (size_t)known))
            return false;
        patterns->uses[place] = (struct pattern_use){.pattern = number, .place = (uint32_t)place};
    }
    patterns->uses[place].count++;
    stored = (uint32_t)place;
    return buffer_append(&patterns->sequence, &stored, sizeof(stored));
}

static int by_pattern(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    return a->pattern < b->pattern ? -1 : a->pattern > b->pattern;
}

static int by_count(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return by_pattern(first, second);
}

bool patterns_write(struct patterns *patterns, struct coder *coder)
{
    size_t count = (size_t)patterns->places.count, length = patterns->sequence.size;
    size_t brief = count < PATTERNS_SHORT ? count : PATTERNS_SHORT;
    size_t listed = count < PATTERNS_TABLE_MAX ? count : PATTERNS_TABLE_MAX;
    const uint32_t *sequence = (const uint32_t *)(void *)patterns->sequence.data;
    struct pattern_use *uses = patterns->uses;
    uint32_t *places;

    if (count == 0)
        return true;
    places = malloc(count * sizeof(*places));
    if (places == NULL)
        return false;
    qsort(uses, count, sizeof(*uses), by_count);
    qsort(uses, brief, sizeof(*uses), by_pattern);
    qsort(uses + brief, listed - brief, sizeof(*uses), by_pattern);
    for (size_t i = 0; i < listed; i++) {
        uint32_t before = i == 0 || i == brief ? 0 : uses[i - 1].pattern;

        code_number(coder, STREAM_PATTERN_TABLE, uses[i].pattern - before);
    }
    for (size_t i = 0; i < count; i++)
        places[uses[i].place] = (uint32_t)i;
    for (size_t i = 0; i < length / sizeof(*sequence); i++) {
        uint32_t place = places[sequence[i]], further = place - PATTERNS_SHORT;

        if (place < PATTERNS_SHORT) {
            code_byte(coder, STREAM_PATTERN_CODES, place);
        } else if (place < PATTERNS_TABLE_MAX) {
            code_byte(coder, STREAM_PATTERN_CODES, PATTERNS_SHORT + (further >> 8));
            code_byte(coder, STREAM_PATTERN_LOW_BYTES, further & 0xff);
        } else {
            code_byte(coder, STREAM_PATTERN_CODES, PATTERN_AS_IT_IS);
            code_number(coder, STREAM_RARE_PATTERNS, uses[place].pattern);
        }
    }
    free(places);
    return true;
}

/* ---- reading ---- */

enum result patterns_start_reading(struct patterns *patterns, struct coder *coder)
{
    const struct cursor *cursor = &coder->cursors[STREAM_PATTERN_TABLE];
    size_t capacity = 0;
    uint64_t number = 0;

    while (cursor->at != cursor->end) {
        if (patterns->count == PATTERNS_TABLE_MAX)
            return RESULT_UNFIT;
        if (!ARRAY_ROOM_FOR_ONE(patterns->table, capacity, patterns->count))
            return RESULT_NO_MEMORY;
        number = (patterns->count == PATTERNS_SHORT ? 0 : number) +
                 code_32(coder, STREAM_PATTERN_TABLE, 0);
        if (coder->result != RESULT_OK || !unpack(number, &patterns->table[patterns->count++]))
            return RESULT_UNFIT;
    }
    return RESULT_OK;
}

bool patterns_take_long(const struct patterns *patterns, struct coder *coder, uint8_t first,
                        struct region_pattern *pattern)
{
    size_t place = first;

    if (first == PATTERN_AS_IT_IS)
        return unpack(code_number(coder, STREAM_RARE_PATTERNS, 0), pattern);
    if (first >= PATTERNS_SHORT)
        place = PATTERNS_SHORT + ((size_t)(first - PATTERNS_SHORT) << 8) +
                code_byte(coder, STREAM_PATTERN_LOW_BYTES, 0);
    if (place < patterns->count)
        *pattern = patterns->table[place];
    return place < patterns->count;
}
