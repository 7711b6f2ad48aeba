/*
 * The expressions of a mapping as nodes of trees, and the table of them that follows.
 *
 * LLVM numbers expressions when it writes a mapping: it goes through the counters of all regions in
 * order and gives each expression that it meets the next number, and then does the same for both
 * sides. An expression that it meets again gets another number, the last of which counts; only the
 * one that has number 0 keeps it. So the table follows from what each region's counter is, as a
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

/* Deeper expressions are not taken apart: functions here call themselves. */
#define COUNTER_DEPTH_MAX 1000

#define COUNTER_NONE      UINT32_MAX

/* An expression; counters in it are those of mapping.h, but expressions by their place in `nodes`.
 */
struct counter_node {
    uint32_t left, right;
    uint32_t depth;
    uint32_t value;  /* writing: its number among values, or COUNTER_NONE */
    uint32_t place;  /* in the table, by what comes last; COUNTER_NONE: not in it yet */
    uint32_t length; /* of what is entered in the table for it: itself, and what is in it */
    uint8_t tag;     /* enum counter_tag */
    uint8_t text_size;
    uint8_t text[2 * NUMBER_32_SIZE_MAX]; /* the entry of the table as it is written */
};

/* Initialize to {0}; is used for one mapping after the other; free with counter_nodes_free. */
struct counter_nodes {
    struct counter_node *nodes;
    size_t count, capacity;
    uint32_t *table; /* nodes, in the order of the table */
    size_t table_count, table_capacity;
};

void counter_nodes_clear(struct counter_nodes *nodes);
void counter_nodes_free(struct counter_nodes *nodes);

/* Adds a node for an expression of two counters. Unfit if it is too deep. */
enum result counter_nodes_add(struct counter_nodes *nodes, uint32_t tag, uint32_t left,
                              uint32_t right, uint32_t *index);

/* Enters the expressions of a counter, which may be none, into the table; that becomes `limit` long
 * at most, else it is unfit. */
enum result counter_nodes_enter(struct counter_nodes *nodes, uint32_t counter, uint64_t limit);

/* A counter as the mapping has it, once all are entered. There is a node at least. Which counters
 * are expressions cannot be foretold: so there is no branch. */
static inline uint32_t counter_nodes_final(const struct counter_nodes *nodes, uint32_t counter)
{
    uint32_t tag = COUNTER_TAG(counter), index = COUNTER_INDEX(counter);
    uint32_t expression = 0 - (tag >> 1);

    index = (index & ~expression) | (nodes->nodes[index & expression].place & expression);
    return index << COUNTER_TAG_BITS | tag;
}

/* Appends the table as a mapping has it: the number of expressions, and of each both sides. False:
 * no memory. */
bool counter_nodes_write_table(struct counter_nodes *nodes, struct buffer *bytes);

#endif
