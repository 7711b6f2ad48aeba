/*
 * The counters of a mapping's regions, and the table of expressions that follows from them.
 */
#ifndef COVSPLIT_COMMON_COMPACT_COUNTERS_H
#define COVSPLIT_COMMON_COMPACT_COUNTERS_H

#include "common/compact/covfun_parts.h"

#define COUNTERS_RECENT 64

/* An expression; counters in it are those of mapping.h, but expressions by their place in `nodes`.
 */
struct counter_node {
    uint32_t left, right;
    uint32_t depth;
    uint32_t told;  /* writing: its number in the order in which they are told; UINT32_MAX: none */
    uint32_t place; /* in the table, by what comes last; UINT32_MAX: not in it yet */
};

/* Starts as {0}; is used for one mapping after the other; freed with counters_free. */
struct counters {
    struct counter_node *nodes;
    size_t node_count, node_capacity;
    size_t told_count;
    uint32_t recent[COUNTERS_RECENT]; /* the last one first */
    size_t recent_count;
    uint32_t highest;    /* the highest number of a counter */
    struct mapping made; /* only its expressions: the table that follows */
    uint32_t *of_table;  /* writing: for each entry of the mapping's table its counter */
    size_t of_table_capacity;
    struct counter_bucket *buckets; /* writing: from both sides of an expression to its node */
    size_t bucket_count;
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

/* Takes a counter; it is one of this module's until counters_finish_reading. */
enum compact_result counters_take(struct counters *counters, struct covfun_columns *columns,
                                  unsigned part, uint32_t *counter);

/* Makes the table of expressions, of `limit` at most, and gives the regions their final counters.
 */
enum compact_result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                            uint64_t limit);

#endif
