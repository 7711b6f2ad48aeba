/*
 * Counters of regions: see counters.h.
 *
 * The table of expressions is not stored, since it follows from what each region's counter is, as a
 * tree (counter_nodes.h). A mapping whose table is another one is not taken apart.
 *
 * A counter is told by a byte:
 *     0        zero
 *     1        the counter with the number behind the highest that has come
 *     2        an expression that has not come: its operator goes to COVFUN_COUNTER_OPERATORS, then
 *              its right and its left side are told in parts of their own
 *     3 to 66  the counter that came 0 to 63 different counters ago
 *     254      an expression that has come: its number in the order in which they ended, and
 *     255      a counter: the zigzag of its number less the highest that has come; both in
 *              COVFUN_COUNTER_NUMBERS
 */
#include "common/compact/counters.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Two hashes of a few bytes each are what writing mostly does. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/compact/numbers.h"

void counters_free(struct counters *counters)
{
    counter_nodes_free(&counters->nodes);
    free(counters->of_table);
    free(counters->buckets);
    buffer_free(&counters->roots);
    *counters = (struct counters){0};
}

static void start(struct counters *counters)
{
    counter_nodes_clear(&counters->nodes);
    counters->told_count = 0;
    counters->highest = 0;
    counters->roots.size = 0;
    /* Counter 0, that of the function itself, is there from the start. */
    recent_start(&counters->recent);
    recent_add(&counters->recent, COUNTERS_RECENT, COUNTER_REFERENCE);
}

/* ---- writing ---- */

/* Starts the tables for a mapping with so many expressions. */
static bool start_tables(struct counters *counters, size_t count)
{
    size_t buckets = 16;

    if (!array_make_room((void **)&counters->of_table, &counters->of_table_capacity, 0, count,
                         sizeof(*counters->of_table)))
        return false;
    while (buckets < 2 * count)
        buckets *= 2;
    if (!array_make_room((void **)&counters->buckets, &counters->bucket_capacity, 0, buckets,
                         sizeof(*counters->buckets)))
        return false;
    /* What a hostile file holds must not all fall into one bucket. */
    if (counters->seed == 0 &&
        getrandom(&counters->seed, sizeof(counters->seed), GRND_NONBLOCK) != sizeof(counters->seed))
        counters->seed = (uintptr_t)counters;
    counters->bucket_count = buckets;
    memset(counters->buckets, 0, buckets * sizeof(*counters->buckets));
    if (count != 0)
        memset(counters->of_table, 0xff, count * sizeof(*counters->of_table));
    return true;
}

/* The node with these sides and this tag; equal expressions have one. */
static enum compact_result find_node(struct counters *counters, uint32_t tag, uint32_t left,
                                     uint32_t right, uint32_t *index)
{
    uint32_t key[3] = {left, right, tag};
    size_t place = (size_t)XXH3_64bits_withSeed(key, sizeof(key), counters->seed);

    for (;; place++) {
        uint32_t *bucket = &counters->buckets[place & (counters->bucket_count - 1)];
        const struct counter_node *node;

        if (*bucket == 0) {
            enum compact_result result =
                counter_nodes_add(&counters->nodes, tag, left, right, index);

            if (result == COMPACT_DONE)
                *bucket = *index + 1;
            return result;
        }
        node = &counters->nodes.nodes[*bucket - 1];
        if (node->left == left && node->right == right && node->tag == tag) {
            *index = *bucket - 1;
            return COMPACT_DONE;
        }
    }
}

/* The counter of ours for one of the mapping. An expression has one tag wherever it is used; a
 * table that breaks that does not come back, and is not taken. */
static enum compact_result import(struct counters *counters, const struct mapping *mapping,
                                  uint32_t counter, unsigned depth, uint32_t *imported)
{
    uint32_t entry = COUNTER_INDEX(counter), left, right, node;
    enum compact_result result;

    *imported = counter;
    if (!counter_is_expression(counter))
        return COUNTER_TAG(counter) == COUNTER_ZERO && counter != 0 ? COMPACT_UNFIT : COMPACT_DONE;
    if (entry >= mapping->expression_count || depth > COUNTER_DEPTH_MAX)
        return COMPACT_UNFIT;
    if (counters->of_table[entry] == COUNTER_NONE) {
        result = import(counters, mapping, mapping->expressions[entry].left, depth + 1, &left);
        if (result == COMPACT_DONE)
            result =
                import(counters, mapping, mapping->expressions[entry].right, depth + 1, &right);
        if (result == COMPACT_DONE)
            result = find_node(counters, COUNTER_TAG(counter), left, right, &node);
        if (result != COMPACT_DONE)
            return result;
        counters->of_table[entry] = node << COUNTER_TAG_BITS | COUNTER_TAG(counter);
    }
    *imported = counters->of_table[entry];
    return COUNTER_TAG(*imported) == COUNTER_TAG(counter) ? COMPACT_DONE : COMPACT_UNFIT;
}

static bool tables_agree(const struct counter_nodes *nodes, const struct mapping *mapping)
{
    if (nodes->table_count != mapping->expression_count)
        return false;
    for (size_t i = 0; i < nodes->table_count; i++) {
        const struct counter_node *node = &nodes->nodes[nodes->table[i]];
        const struct expression *expression = &mapping->expressions[i];

        if (counter_nodes_final(nodes, node->left) != expression->left ||
            counter_nodes_final(nodes, node->right) != expression->right)
            return false;
    }
    return true;
}

static enum compact_result enter_region(struct counters *counters, const struct mapping *mapping,
                                        const struct region *region)
{
    enum compact_result result = COMPACT_DONE;

    for (unsigned i = 0; result == COMPACT_DONE && i < region_counters(region->kind); i++) {
        uint32_t counter;

        result = import(counters, mapping, region->operands[i], 0, &counter);
        if (result == COMPACT_DONE)
            result = counter_nodes_enter(&counters->nodes, counter, mapping->expression_count);
    }
    return result;
}

/* Whether each counter of the regions is what it will come back as. */
static bool regions_agree(const struct counters *counters, const struct mapping *mapping)
{
    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned j = 0; j < region_counters(region->kind); j++) {
            uint32_t counter = region->operands[j];

            if (counter_is_expression(counter) &&
                counter_nodes_final(&counters->nodes, counters->of_table[COUNTER_INDEX(counter)]) !=
                    counter)
                return false;
        }
    }
    return true;
}

enum compact_result counters_start_writing(struct counters *counters, const struct mapping *mapping)
{
    enum compact_result result = COMPACT_DONE;

    start(counters);
    if (mapping->expression_count > UINT32_MAX >> COUNTER_TAG_BITS)
        return COMPACT_UNFIT;
    if (!start_tables(counters, mapping->expression_count))
        return COMPACT_NO_MEMORY;
    for (size_t i = 0; result == COMPACT_DONE && i < mapping->region_count; i++)
        result = enter_region(counters, mapping, &mapping->regions[i]);
    if (result != COMPACT_DONE)
        return result;
    return tables_agree(&counters->nodes, mapping) && regions_agree(counters, mapping)
               ? COMPACT_DONE
               : COMPACT_UNFIT;
}

static bool tell(struct counters *counters, struct compact_parts *parts, unsigned part,
                 uint32_t counter);

/* What is not zero and not recent. */
static bool tell_other(struct counters *counters, struct compact_parts *parts, unsigned part,
                       uint32_t counter)
{
    uint32_t number = COUNTER_INDEX(counter), highest = counters->highest;
    struct counter_node *node;

    if (!counter_is_expression(counter)) {
        if (number > highest)
            counters->highest = number;
        if (number == highest + 1)
            return covfun_put_byte(parts, part, TOKEN_NEXT);
        return covfun_put_byte(parts, part, TOKEN_COUNTER) &&
               covfun_put(parts, COVFUN_COUNTER_NUMBERS, zigzag((uint64_t)number - highest));
    }
    node = &counters->nodes.nodes[number];
    if (node->told != COUNTER_NONE)
        return covfun_put_byte(parts, part, TOKEN_EXPRESSION) &&
               covfun_put(parts, COVFUN_COUNTER_NUMBERS, node->told);
    if (!covfun_put_byte(parts, part, TOKEN_NEW) ||
        !covfun_put_byte(parts, COVFUN_COUNTER_OPERATORS, COUNTER_TAG(counter)) ||
        !tell(counters, parts, COVFUN_COUNTER_RIGHT, node->right) ||
        !tell(counters, parts, COVFUN_COUNTER_LEFT, node->left))
        return false;
    node->told = (uint32_t)counters->told_count++;
    return true;
}

/* Whether the counter has not come yet, so that it need not be looked for. */
static bool is_new(const struct counters *counters, uint32_t counter)
{
    uint32_t number = COUNTER_INDEX(counter);

    return counter_is_expression(counter) ? counters->nodes.nodes[number].told == COUNTER_NONE
                                          : number > counters->highest;
}

static bool tell(struct counters *counters, struct compact_parts *parts, unsigned part,
                 uint32_t counter)
{
    size_t count = recent_count(&counters->recent, COUNTERS_RECENT), place = count;
    bool done;

    if (counter == COUNTER_ZERO)
        return covfun_put_byte(parts, part, TOKEN_ZERO);
    if (!is_new(counters, counter))
        place = recent_find(&counters->recent, COUNTERS_RECENT, counter);
    if (place != count) {
        recent_touch(&counters->recent, place);
        return covfun_put_byte(parts, part, TOKEN_RECENT + (unsigned)place);
    }
    done = tell_other(counters, parts, part, counter);
    recent_add(&counters->recent, COUNTERS_RECENT, counter);
    return done;
}

bool counters_put(struct counters *counters, struct compact_parts *parts, unsigned part,
                  uint32_t counter)
{
    if (counter_is_expression(counter))
        counter = counters->of_table[COUNTER_INDEX(counter)];
    return tell(counters, parts, part, counter);
}

/* ---- reading ---- */

void counters_start_reading(struct counters *counters)
{
    start(counters);
}

/* What cannot be gives the counter zero: that it is broken is seen at the end of the region. */
static uint32_t refuse(struct covfun_columns *columns)
{
    columns->broken = true;
    return COUNTER_ZERO;
}

static inline uint32_t hear(struct counters *counters, struct covfun_columns *columns,
                            unsigned part, unsigned level)
{
    uint32_t counter;

    return counters_take_near(counters, columns, part, &counter)
               ? counter
               : counters_take_far(counters, columns, part, level);
}

static uint32_t hear_new(struct counters *counters, struct covfun_columns *columns, unsigned level)
{
    uint8_t tag = covfun_take_byte(columns, COVFUN_COUNTER_OPERATORS);
    uint32_t left, right, node;
    enum compact_result result;

    if (level > COUNTER_DEPTH_MAX || (tag != COUNTER_SUBTRACT && tag != COUNTER_ADD))
        return refuse(columns);
    right = hear(counters, columns, COVFUN_COUNTER_RIGHT, level + 1);
    left = hear(counters, columns, COVFUN_COUNTER_LEFT, level + 1);
    result = counter_nodes_add(&counters->nodes, tag, left, right, &node);
    if (result == COMPACT_NO_MEMORY)
        columns->no_memory = true;
    if (result != COMPACT_DONE)
        return refuse(columns);
    return node << COUNTER_TAG_BITS | tag;
}

/* An expression that has come but is not recent, or a counter that is not the next one. */
static uint32_t hear_number(struct counters *counters, struct covfun_columns *columns,
                            bool is_expression)
{
    uint64_t number = covfun_take(columns, COVFUN_COUNTER_NUMBERS);

    if (is_expression) {
        if (number >= counters->nodes.count)
            return refuse(columns);
        return (uint32_t)number << COUNTER_TAG_BITS | counters->nodes.nodes[number].tag;
    }
    number = counters->highest + unzigzag(number);
    if (number > UINT32_MAX >> COUNTER_TAG_BITS)
        return refuse(columns);
    if (number > counters->highest)
        counters->highest = (uint32_t)number;
    return (uint32_t)number << COUNTER_TAG_BITS | COUNTER_REFERENCE;
}

uint32_t counters_take_far(struct counters *counters, struct covfun_columns *columns, unsigned part,
                           unsigned level)
{
    uint8_t token = covfun_take_byte(columns, part);
    uint32_t counter;

    if (token == TOKEN_NEW) {
        counter = hear_new(counters, columns, level);
    } else if (token >= TOKEN_EXPRESSION) {
        counter = hear_number(counters, columns, token == TOKEN_EXPRESSION);
    } else {
        size_t place = (size_t)token - TOKEN_RECENT;

        if (place >= recent_count(&counters->recent, COUNTERS_RECENT))
            return refuse(columns);
        return (uint32_t)recent_touch(&counters->recent, place);
    }
    recent_add(&counters->recent, COUNTERS_RECENT, counter);
    return counter;
}

bool counters_reserve(struct counters *counters, size_t more)
{
    return buffer_reserve(&counters->roots, more * sizeof(uint32_t));
}

static uint32_t *operand_of(struct mapping *mapping, uint32_t root)
{
    return &mapping->regions[root / REGION_COUNTERS_MAX].operands[root % REGION_COUNTERS_MAX];
}

enum compact_result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                            uint64_t limit)
{
    const uint32_t *roots = (const uint32_t *)(void *)counters->roots.data;
    size_t count = counters->roots.size / sizeof(*roots);

    if (counters->highest > UINT32_MAX >> COUNTER_TAG_BITS)
        return COMPACT_UNFIT;
    for (size_t i = 0; i < count; i++) {
        enum compact_result result =
            counter_nodes_enter(&counters->nodes, *operand_of(mapping, roots[i]), limit);

        if (result != COMPACT_DONE)
            return result;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t *operand = operand_of(mapping, roots[i]);

        *operand = counter_nodes_final(&counters->nodes, *operand);
    }
    return COMPACT_DONE;
}
