/*
 * The expressions of a mapping as nodes of trees, and the table of expressions that follows from
 * them.
 *
 * LLVM numbers expressions when it writes a mapping: it goes through the counters of all regions in
 * order, gives each expression that it meets the next number, and then does the same for both
 * sides. An expression that it meets again gets another number, and the last one counts; only the
 * expression with number 0 keeps it. So the table can be computed from each region's counter, as a
 * tree.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_EXPRESSIONS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_EXPRESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/numbers.h"
#include "common/base/result.h"
#include "common/llvm/mapping.h"

/* Mappings with deeper expressions are stored raw, because the functions here are recursive. */
#define COUNTER_DEPTH_MAX 1000

#define COUNTER_NONE      UINT32_MAX

/* An expression. Its counters are encoded as in mapping.h, except that the index of an expression
 * is its index in `nodes`. */
struct counter_node {
    uint32_t left, right;
    uint32_t depth;
    uint32_t value;  /* writing: its number as a value, or COUNTER_NONE */
    uint32_t place;  /* its last number in the table; COUNTER_NONE: not in it yet */
    uint32_t length; /* how many entries it takes in the table, with those nested in it */
    uint8_t tag;     /* enum counter_tag */
    uint8_t text_size;
    uint8_t text[2 * NUMBER_32_SIZE_MAX]; /* its table entry in encoded form */
};

/* Initialize to {0}; reused for one mapping after the other; free with counter_nodes_free. */
struct counter_nodes {
    struct counter_node *nodes;
    size_t count, capacity;
    uint32_t *table; /* indexes of nodes, in the order of the table */
    size_t table_count, table_capacity;
};

void counter_nodes_clear(struct counter_nodes *nodes);
void counter_nodes_free(struct counter_nodes *nodes);

/* Adds a node for an expression of two counters. Unfit if it is too deep. */
enum result counter_nodes_add(struct counter_nodes *nodes, uint32_t tag, uint32_t left,
                              uint32_t right, uint32_t *index);

/* Enters the expressions of a counter, if any, into the table. Unfit if the table would have more
 * than `limit` entries. */
enum result counter_nodes_enter(struct counter_nodes *nodes, uint32_t counter, uint64_t limit);

/* A counter as it is in the mapping, after all have been entered. There must be at least one node.
 * Without branches, since it is unpredictable which counters are expressions. */
static inline uint32_t counter_nodes_final(const struct counter_nodes *nodes, uint32_t counter)
{
    uint32_t tag = COUNTER_TAG(counter), index = COUNTER_INDEX(counter);
    uint32_t expression = 0 - (tag >> 1);

    index = (index & ~expression) | (nodes->nodes[index & expression].place & expression);
    return index << COUNTER_TAG_BITS | tag;
}

/* Appends the table as it is in a mapping: the number of expressions, and for each both sides.
 * False if out of memory. */
bool counter_nodes_write_table(struct counter_nodes *nodes, struct buffer *bytes);

#endif
