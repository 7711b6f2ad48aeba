/*
 * Encoding patterns of regions: see pattern_table.h.
 */
#include "common/codec/mapping/pattern_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

struct pattern_use {
    uint32_t pattern;
    uint32_t place; /* in order of first occurrence; after sorting, in the table */
    uint64_t count;
};

void pattern_table_free(struct pattern_table *table)
{
    intern_table_free(&table->places);
    buffer_free(&table->sequence);
    free(table->uses);
    free(table->patterns);
    *table = (struct pattern_table){0};
}

/* ---- writing ---- */

bool pattern_table_add(struct pattern_table *table, uint32_t pattern)
{
    uint64_t known = table->places.count, place;
    uint32_t stored;

    if (!intern_table_add(&table->places, pattern, &place))
        return false;
    if (place == known) {
        if (!array_make_room((void **)&table->uses, &table->use_capacity, (size_t)known, 1,
                             sizeof(*table->uses)))
            return false;
        table->uses[place] = (struct pattern_use){.pattern = pattern, .place = (uint32_t)place};
    }
    table->uses[place].count++;
    stored = (uint32_t)place;
    return buffer_append(&table->sequence, &stored, sizeof(stored));
}

static int by_count(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->pattern < b->pattern ? -1 : a->pattern > b->pattern;
}

static int by_pattern(const void *first, const void *second)
{
    const struct pattern_use *a = first, *b = second;

    return a->pattern < b->pattern ? -1 : a->pattern > b->pattern;
}

static bool put_group(const struct pattern_use *uses, size_t count, struct streams *streams)
{
    uint32_t before = 0;

    for (size_t i = 0; i < count; i++) {
        if (!stream_put(streams, STREAM_PATTERN_TABLE, uses[i].pattern - before))
            return false;
        before = uses[i].pattern;
    }
    return true;
}

static bool put_pattern(const struct pattern_use *uses, uint32_t place, struct streams *streams)
{
    if (place < PATTERNS_SHORT)
        return stream_put_byte(streams, STREAM_PATTERN_CODES, place);
    if (place >= PATTERNS_TABLE_MAX)
        return stream_put_byte(streams, STREAM_PATTERN_CODES, PATTERN_AS_IT_IS) &&
               stream_put(streams, STREAM_RARE_PATTERNS, uses[place].pattern);
    place -= PATTERNS_SHORT;
    return stream_put_byte(streams, STREAM_PATTERN_CODES, PATTERNS_SHORT + (place >> 8)) &&
           stream_put_byte(streams, STREAM_PATTERN_LOW_BYTES, place & 0xff);
}

bool pattern_table_put(struct pattern_table *table, struct streams *streams)
{
    size_t count = (size_t)table->places.count;
    size_t brief = count < PATTERNS_SHORT ? count : PATTERNS_SHORT;
    size_t listed = count < PATTERNS_TABLE_MAX ? count : PATTERNS_TABLE_MAX;
    const uint32_t *sequence = (const uint32_t *)(void *)table->sequence.data;
    uint32_t *places;
    bool done;

    if (count == 0)
        return true;
    places = malloc(count * sizeof(*places));
    if (places == NULL)
        return false;
    qsort(table->uses, count, sizeof(*table->uses), by_count);
    qsort(table->uses, brief, sizeof(*table->uses), by_pattern);
    qsort(table->uses + brief, listed - brief, sizeof(*table->uses), by_pattern);
    for (size_t i = 0; i < count; i++)
        places[table->uses[i].place] = (uint32_t)i;
    done = put_group(table->uses, brief, streams) &&
           put_group(table->uses + brief, listed - brief, streams);
    for (size_t i = 0; done && i < table->sequence.size / sizeof(*sequence); i++)
        done = put_pattern(table->uses, places[sequence[i]], streams);
    free(places);
    return done;
}

/* ---- reading ---- */

enum result pattern_table_take(struct pattern_table *table, struct stream_cursors *cursors)
{
    struct stream_cursor *column = &cursors->stream[STREAM_PATTERN_TABLE];
    size_t capacity = 0;
    uint64_t number = 0;

    while (column->at != column->end) {
        if (table->count == PATTERNS_TABLE_MAX)
            return RESULT_UNFIT;
        if (!array_make_room((void **)&table->patterns, &capacity, table->count, 1,
                             sizeof(*table->patterns)))
            return RESULT_NO_MEMORY;
        number = (table->count == PATTERNS_SHORT ? 0 : number) +
                 stream_take_32(cursors, STREAM_PATTERN_TABLE);
        if (cursors->result != RESULT_OK ||
            !pattern_unpack(number, &table->patterns[table->count++]))
            return RESULT_UNFIT;
    }
    return RESULT_OK;
}

const struct region_pattern *pattern_take_long(const struct pattern_table *table,
                                               struct stream_cursors *cursors, uint8_t first,
                                               struct region_pattern *room)
{
    size_t place = first;

    if (first == PATTERN_AS_IT_IS) {
        if (pattern_unpack(stream_take(cursors, STREAM_RARE_PATTERNS), room) &&
            cursors->result == RESULT_OK)
            return room;
    } else {
        if (first >= PATTERNS_SHORT)
            place = PATTERNS_SHORT + ((size_t)(first - PATTERNS_SHORT) << 8) +
                    stream_take_byte(cursors, STREAM_PATTERN_LOW_BYTES);
        if (place < table->count && cursors->result == RESULT_OK)
            return &table->patterns[place];
    }
    stream_fail(cursors, RESULT_UNFIT);
    return NULL;
}
