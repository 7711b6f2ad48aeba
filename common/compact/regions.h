/*
 * The files and regions of mappings, but for the counters.
 */
#ifndef COVSPLIT_COMMON_COMPACT_REGIONS_H
#define COVSPLIT_COMMON_COMPACT_REGIONS_H

#include "common/compact/counters.h"
#include "common/compact/number_table.h"

/* The regions of a file that was expanded: the places of those of a macro are the same wherever it
 * is used. */
struct region_shape {
    size_t first; /* in shape_regions */
    uint32_t count;
};

#define REGION_ENDS 16

/* Where regions of a file end, each once: the line, counted from the first, in the high half, the
 * column in the low one. */
struct region_ends {
    struct recent places;
    uint64_t line; /* of the region at hand, in the high half */
};

/* Goes from one mapping to the next. Starts as {0}; freed with regions_free. */
struct regions {
    struct number_table shape_numbers; /* writing: from the digest of a shape to its number */
    struct buffer key;
    struct region_shape *shapes; /* reading */
    size_t shape_count, shape_capacity;
    struct mapping shape_regions; /* only its regions */
    uint32_t first_line;          /* of the mapping before */
    struct region_ends ends;
};

void regions_free(struct regions *regions);

/* False: no memory. */
bool regions_start_writing(struct regions *regions);

/* Puts a mapping, for which counters_start_writing was called. False: no memory. */
bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct compact_parts *parts);

/* Takes a mapping of `limit` bytes at most, all but its expressions. */
enum compact_result regions_take(struct regions *regions, struct counters *counters,
                                 struct covfun_columns *columns, uint64_t limit,
                                 struct mapping *mapping);

#endif
