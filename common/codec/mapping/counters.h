/*
 * The counters of a mapping's regions, and the table of expressions that follows from them:
 * "Counters" in docs/format.md.
 *
 * LLVM numbers expressions when it writes a mapping: it goes through the counters of all regions in
 * order, gives each expression that it meets the next number, and then does the same for both
 * sides. An expression that it meets again gets another number, and the last one counts; only the
 * expression with number 0 keeps it. So the table is not stored, but computed from each region's
 * counter, as a tree. A mapping whose table differs from the computed one is stored raw.
 *
 * Counters and expressions are numbered as *values* in the order of their first occurrence: value 0
 * is zero, value 1 the function's own counter (number 0). A region's counter mostly follows from
 * where the region is. It is stored as a symbol, which is part of the region's pattern. For
 * SYMBOL_TOKEN, there is also a token in one of the streams.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_COUNTERS_H

#include "common/codec/mapping/coder.h"
#include "common/llvm/mapping.h"

/* Numbers of values. */
#define VALUE_ZERO  0
#define VALUE_ENTRY 1
#define VALUE_NONE  UINT32_MAX

/* How many of the values that were used last are remembered. The stored form depends on it. */
#define VALUES_USED 8

struct counter_value {
    uint32_t counter;  /* as in the mapping, but the index of an expression is that of its node */
    uint32_t opposite; /* the value of a branch's other side; VALUE_ZERO: none is known */
};

/* Initialize to {0}; reused for one mapping after the other; free with counters_free. */
struct counters {
    struct counter_node *nodes; /* of expressions */
    size_t node_count, node_capacity;
    uint32_t *table; /* indexes of nodes, in the order of the table */
    size_t table_count, table_capacity;
    struct counter_value *values;
    size_t value_count, value_capacity;
    uint32_t used[VALUES_USED];     /* values, the one that was used last first */
    uint32_t last_true, last_false; /* values: the counters of the last branch */
    uint32_t highest;               /* the highest number so far */
    /* Reading: which operands of regions are expressions. For each a uint32_t, the region's number
     * times REGION_COUNTERS_MAX plus the operand's number. */
    struct buffer roots;
    /* Writing. */
    uint32_t *of_table; /* the counter for each entry of the mapping's table */
    size_t of_table_capacity;
    uint32_t *of_numbers; /* the value of each plain counter, or VALUE_NONE */
    size_t of_numbers_capacity;
    uint32_t *buckets; /* expressions by both sides: 1 + the node; 0: free */
    size_t bucket_count, bucket_capacity;
    uint64_t seed;
};

/* The values from which a region's counter may follow. */
struct counter_context {
    uint32_t enclosing; /* of the innermost open region */
    uint32_t completed; /* of the region that ended last; VALUE_ZERO: no region ended here */
};

void counters_free(struct counters *counters);

/* Starts reading a mapping, in which nothing has occurred. False if out of memory. */
bool counters_start(struct counters *counters);

/* Starts writing a mapping. Unfit if its table of expressions is not the one that follows from the
 * regions. */
enum result counters_start_writing(struct counters *counters, const struct mapping *mapping);

/* Codes the counter of a code region, the mapping's region `index`, by its symbol and if need be a
 * token, and returns its value. While reading, the index of an expression is that of its node until
 * counters_finish_reading, and there must be room. */
uint32_t counters_code_region(struct counters *counters, struct coder *coder, unsigned stream,
                              struct counter_context context, uint8_t *symbol, size_t index,
                              uint32_t *counter);

/* The same for both sides of a branch; `condition` is the value of its condition. */
void counters_code_branch(struct counters *counters, struct coder *coder, uint32_t condition,
                          uint8_t symbols[2], size_t index, uint32_t sides[2]);

/* Reading: makes room for the counters of `regions` more regions. False if out of memory. */
bool counters_reserve(struct counters *counters, size_t regions);

/* For how many regions there is room. */
static inline size_t counters_room(const struct counters *counters)
{
    return (counters->roots.capacity - counters->roots.size) /
           (REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* Reading: makes the table of expressions, of at most `limit` entries, and gives the regions their
 * final counters. The coder's result must be RESULT_OK. */
enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit);

/* Appends the table as it is in a mapping: the number of expressions, and for each both sides.
 * False if out of memory. */
bool counters_write_table(struct counters *counters, struct buffer *bytes);

#endif
