/*
 * The counters of a mapping's regions, and the table of expressions that follows from them.
 */
#ifndef COVSPLIT_COMMON_COMPACT_COUNTERS_H
#define COVSPLIT_COMMON_COMPACT_COUNTERS_H

#include "common/compact/counter_nodes.h"
#include "common/compact/covfun_parts.h"
#include "common/compact/recent.h"

#define COUNTERS_RECENT 64

/* See counters.c. */
enum counter_token {
    TOKEN_ZERO = 0,
    TOKEN_NEXT = 1,
    TOKEN_NEW = 2,
    TOKEN_RECENT = 3,
    TOKEN_EXPRESSION = 254,
    TOKEN_COUNTER = 255,
};

/* Starts as {0}; is used for one mapping after the other; freed with counters_free. */
struct counters {
    struct counter_nodes nodes;
    size_t told_count;
    struct recent recent; /* counters */
    uint32_t highest;     /* the highest number of a counter; reading: it may be too high */
    /* Reading: which operands of regions are expressions; uint32_t each, the region's number times
     * REGION_COUNTERS_MAX, and the operand's. */
    struct buffer roots;
    uint32_t *of_table; /* writing: for each entry of the mapping's table its counter */
    size_t of_table_capacity;
    /* Writing: by hash of both sides of an expression 1 + its node; 0: free. */
    uint32_t *buckets;
    size_t bucket_count, bucket_capacity;
    uint64_t seed;
};

void counters_free(struct counters *counters);

/* ---- writing ---- */

/* Starts a mapping. Unfit where its table of expressions is not the one that follows from the
 * regions. */
enum compact_result counters_start_writing(struct counters *counters,
                                           const struct mapping *mapping);

/* Puts a region's counter into a part. False: no memory. */
bool counters_put(struct counters *counters, struct compact_parts *parts, unsigned part,
                  uint32_t counter);

/* ---- reading ---- */

void counters_start_reading(struct counters *counters);

/* Makes room for so many counters of regions. False: no memory. */
bool counters_reserve(struct counters *counters, size_t more);

/* Takes a counter that counters_take_near does not; `level`: how deep in others, from 0. */
uint32_t counters_take_far(struct counters *counters, struct covfun_columns *columns, unsigned part,
                           unsigned level);

/* Takes a counter that is zero, the next one or one of the last few, as most are, without a branch
 * for each. False, with nothing taken, where the part has another one now. */
static inline bool counters_take_near(struct counters *counters, struct covfun_columns *columns,
                                      unsigned part, uint32_t *counter)
{
    /* By token: one more than the place where the counter is, once a next one is put in front;
     * 0: it is not taken here. */
    static const uint8_t places[UINT8_MAX + 1] = {1, 1, 0, 1, 2, 3, 4};
    struct covfun_column *column = &columns->parts[part];
    unsigned token, place;

    if (column->at == column->end)
        return false;
    token = *column->at;
    place = places[token];
    if (place - 1 >= recent_count(&counters->recent, SIZE_MAX))
        return false;
    column->at++;
    counters->highest += token == TOKEN_NEXT;
    recent_add_if(&counters->recent, COUNTERS_RECENT,
                  counters->highest << COUNTER_TAG_BITS | COUNTER_REFERENCE, token == TOKEN_NEXT);
    *counter = (uint32_t)recent_touch_near(&counters->recent, place - 1) &
               (0 - (uint32_t)(token != TOKEN_ZERO));
    return true;
}

/* Takes the counter of a region that is an operand of the mapping's region `index`; it is one of
 * this module's until counters_finish_reading. Zero, with the columns broken, where there is none.
 * There is room for it. */
static inline uint32_t counters_take(struct counters *counters, struct covfun_columns *columns,
                                     unsigned part, size_t index, unsigned operand)
{
    uint32_t root = (uint32_t)(index * REGION_COUNTERS_MAX + operand), counter;

    if (!counters_take_near(counters, columns, part, &counter))
        counter = counters_take_far(counters, columns, part, 0);
    memcpy(counters->roots.data + counters->roots.size, &root, sizeof(root));
    counters->roots.size += sizeof(root) * counter_is_expression(counter);
    return counter;
}

/* Makes the table of expressions, of `limit` at most, and gives the regions their final counters.
 * Nothing that was taken may be broken. */
enum compact_result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                            uint64_t limit);

#endif
