/*
 * Counters of regions: see counters.h.
 *
 * The table of expressions is not stored. LLVM numbers expressions when it writes a mapping: it
 * goes through the counters of all regions in order and gives each expression that it meets the
 * next number, and then does the same for both sides. An expression that it meets again gets
 * another number, the last of which counts; only the one that has number 0 keeps it. So the table
 * follows from what each region's counter is, as a tree. A mapping whose table is another one is
 * not taken apart.
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
#include <xxhash.h>

#include "common/compact/numbers.h"

enum token {
    TOKEN_ZERO = 0,
    TOKEN_NEXT = 1,
    TOKEN_NEW = 2,
    TOKEN_RECENT = 3,
    TOKEN_EXPRESSION = 254,
    TOKEN_COUNTER = 255,
};

/* Deeper expressions are not taken apart: functions here call themselves. */
#define DEPTH_MAX 1000

#define NONE      UINT32_MAX

struct counter_bucket {
    uint32_t left, right, tag;
    uint32_t node_and_one; /* 0: free */
};

void counters_free(struct counters *counters)
{
    free(counters->nodes);
    free(counters->of_table);
    free(counters->buckets);
    mapping_free(&counters->made);
    *counters = (struct counters){0};
}

/* ---- nodes ---- */

static uint32_t depth_of(const struct counters *counters, uint32_t counter)
{
    return counter_is_expression(counter) ? counters->nodes[COUNTER_INDEX(counter)].depth : 0;
}

static enum compact_result add_node(struct counters *counters, uint32_t left, uint32_t right,
                                    uint32_t *index)
{
    uint32_t left_depth = depth_of(counters, left), right_depth = depth_of(counters, right);
    struct counter_node node = {.left = left, .right = right, .told = NONE, .place = NONE};

    node.depth = 1 + (left_depth > right_depth ? left_depth : right_depth);
    if (node.depth > DEPTH_MAX || counters->node_count >= UINT32_MAX >> COUNTER_TAG_BITS)
        return COMPACT_UNFIT;
    if (counters->node_count == counters->node_capacity) {
        size_t capacity = counters->node_capacity == 0 ? 64 : counters->node_capacity * 2;
        struct counter_node *nodes = realloc(counters->nodes, capacity * sizeof(*nodes));

        if (nodes == NULL)
            return COMPACT_NO_MEMORY;
        counters->nodes = nodes;
        counters->node_capacity = capacity;
    }
    *index = (uint32_t)counters->node_count;
    counters->nodes[counters->node_count++] = node;
    return COMPACT_DONE;
}

/* ---- the table ---- */

/* Enters the expressions of a counter as LLVM does, into a table of `limit` at most. */
static enum compact_result enter(struct counters *counters, uint32_t counter, uint64_t limit)
{
    struct counter_node *node;
    enum compact_result result;

    if (!counter_is_expression(counter))
        return COMPACT_DONE;
    node = &counters->nodes[COUNTER_INDEX(counter)];
    if (node->place == 0)
        return COMPACT_DONE;
    if (counters->made.expression_count >= limit)
        return COMPACT_UNFIT;
    node->place = (uint32_t)counters->made.expression_count;
    if (!mapping_add_expression(&counters->made, (struct expression){node->left, node->right}))
        return COMPACT_NO_MEMORY;
    result = enter(counters, node->left, limit);
    return result == COMPACT_DONE ? enter(counters, node->right, limit) : result;
}

/* A counter as the file has it. */
static uint32_t final_counter(const struct counters *counters, uint32_t counter)
{
    if (!counter_is_expression(counter))
        return counter;
    return counters->nodes[COUNTER_INDEX(counter)].place << COUNTER_TAG_BITS | COUNTER_TAG(counter);
}

static void finish_table(struct counters *counters)
{
    for (size_t i = 0; i < counters->made.expression_count; i++) {
        struct expression *expression = &counters->made.expressions[i];

        expression->left = final_counter(counters, expression->left);
        expression->right = final_counter(counters, expression->right);
    }
}

static void start(struct counters *counters)
{
    mapping_clear(&counters->made);
    counters->node_count = counters->told_count = 0;
    counters->highest = 0;
    /* Counter 0, that of the function itself, is there from the start. */
    counters->recent[0] = COUNTER_REFERENCE;
    counters->recent_count = 1;
}

/* ---- what came last ---- */

/* Where the counter is among the recent ones; COUNTERS_RECENT: nowhere. */
static size_t find_recent(const struct counters *counters, uint32_t counter)
{
    for (size_t i = 0; i < counters->recent_count; i++) {
        if (counters->recent[i] == counter)
            return i;
    }
    return COUNTERS_RECENT;
}

/* The counter moves to the front, from `place` or from outside. */
static void touch(struct counters *counters, uint32_t counter, size_t place)
{
    if (place == COUNTERS_RECENT) {
        if (counters->recent_count < COUNTERS_RECENT)
            counters->recent_count++;
        place = counters->recent_count - 1;
    }
    memmove(counters->recent + 1, counters->recent, place * sizeof(counters->recent[0]));
    counters->recent[0] = counter;
}

/* ---- writing ---- */

static bool grow_buckets(struct counters *counters, size_t count)
{
    if (counters->bucket_count < 2 * count + 16) {
        size_t buckets = 64;

        while (buckets < 2 * count + 16)
            buckets *= 2;
        free(counters->buckets);
        counters->bucket_count = 0;
        counters->buckets = malloc(buckets * sizeof(*counters->buckets));
        if (counters->buckets == NULL)
            return false;
        counters->bucket_count = buckets;
        /* What a hostile file holds must not all fall into one bucket. */
        if (getrandom(&counters->seed, sizeof(counters->seed), GRND_NONBLOCK) !=
            sizeof(counters->seed))
            counters->seed = (uintptr_t)counters;
    }
    if (counters->of_table_capacity < count) {
        uint32_t *of_table = realloc(counters->of_table, count * sizeof(*of_table));

        if (of_table == NULL)
            return false;
        counters->of_table = of_table;
        counters->of_table_capacity = count;
    }
    return true;
}

/* The node with these sides and this tag; equal expressions have one. */
static enum compact_result find_node(struct counters *counters, uint32_t tag, uint32_t left,
                                     uint32_t right, uint32_t *index)
{
    uint32_t key[3] = {left, right, tag};
    size_t place = (size_t)XXH3_64bits_withSeed(key, sizeof(key), counters->seed);

    for (;; place++) {
        struct counter_bucket *bucket = &counters->buckets[place & (counters->bucket_count - 1)];

        if (bucket->node_and_one == 0) {
            enum compact_result result = add_node(counters, left, right, index);

            if (result == COMPACT_DONE)
                *bucket = (struct counter_bucket){left, right, tag, *index + 1};
            return result;
        }
        if (bucket->left == left && bucket->right == right && bucket->tag == tag) {
            *index = bucket->node_and_one - 1;
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
    if (entry >= mapping->expression_count || depth > DEPTH_MAX)
        return COMPACT_UNFIT;
    if (counters->of_table[entry] == NONE) {
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

static bool tables_agree(const struct counters *counters, const struct mapping *mapping)
{
    size_t count = mapping->expression_count;

    return counters->made.expression_count == count &&
           (count == 0 || memcmp(counters->made.expressions, mapping->expressions,
                                 count * sizeof(*mapping->expressions)) == 0);
}

static enum compact_result enter_region(struct counters *counters, const struct mapping *mapping,
                                        const struct region *region)
{
    enum compact_result result = COMPACT_DONE;

    for (unsigned i = 0; result == COMPACT_DONE && i < region_counters(region->kind); i++) {
        uint32_t counter;

        result = import(counters, mapping, region->operands[i], 0, &counter);
        if (result == COMPACT_DONE)
            result = enter(counters, counter, mapping->expression_count);
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
                final_counter(counters, counters->of_table[COUNTER_INDEX(counter)]) != counter)
                return false;
        }
    }
    return true;
}

enum compact_result counters_start_writing(struct counters *counters, const struct mapping *mapping)
{
    enum compact_result result = COMPACT_DONE;

    start(counters);
    if (!grow_buckets(counters, mapping->expression_count))
        return COMPACT_NO_MEMORY;
    if (mapping->expression_count != 0) {
        memset(counters->buckets, 0, counters->bucket_count * sizeof(*counters->buckets));
        memset(counters->of_table, 0xff, mapping->expression_count * sizeof(*counters->of_table));
    }
    for (size_t i = 0; result == COMPACT_DONE && i < mapping->region_count; i++)
        result = enter_region(counters, mapping, &mapping->regions[i]);
    if (result != COMPACT_DONE)
        return result;
    finish_table(counters);
    return tables_agree(counters, mapping) && regions_agree(counters, mapping) ? COMPACT_DONE
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
    node = &counters->nodes[number];
    if (node->told != NONE)
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

static bool tell(struct counters *counters, struct compact_parts *parts, unsigned part,
                 uint32_t counter)
{
    size_t place;
    bool done;

    if (counter == COUNTER_ZERO)
        return covfun_put_byte(parts, part, TOKEN_ZERO);
    place = find_recent(counters, counter);
    if (place != COUNTERS_RECENT) {
        touch(counters, counter, place);
        return covfun_put_byte(parts, part, TOKEN_RECENT + (unsigned)place);
    }
    done = tell_other(counters, parts, part, counter);
    touch(counters, counter, COUNTERS_RECENT);
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

static enum compact_result hear(struct counters *counters, struct covfun_columns *columns,
                                unsigned part, unsigned depth, uint32_t *counter);

static enum compact_result hear_new(struct counters *counters, struct covfun_columns *columns,
                                    unsigned depth, uint32_t *counter)
{
    uint32_t left, right, node;
    enum compact_result result;
    uint8_t tag;

    if (depth > DEPTH_MAX || !covfun_take_byte(columns, COVFUN_COUNTER_OPERATORS, &tag) ||
        (tag != COUNTER_SUBTRACT && tag != COUNTER_ADD))
        return COMPACT_UNFIT;
    result = hear(counters, columns, COVFUN_COUNTER_RIGHT, depth + 1, &right);
    if (result == COMPACT_DONE)
        result = hear(counters, columns, COVFUN_COUNTER_LEFT, depth + 1, &left);
    if (result == COMPACT_DONE)
        result = add_node(counters, left, right, &node);
    if (result != COMPACT_DONE)
        return result;
    /* The tag is kept where writing keeps the number. */
    counters->nodes[node].told = tag;
    *counter = node << COUNTER_TAG_BITS | tag;
    return COMPACT_DONE;
}

static enum compact_result hear_number(struct counters *counters, struct covfun_columns *columns,
                                       bool is_expression, uint32_t *counter)
{
    uint64_t number;

    if (!covfun_take(columns, COVFUN_COUNTER_NUMBERS, &number))
        return COMPACT_UNFIT;
    if (is_expression) {
        if (number >= counters->node_count)
            return COMPACT_UNFIT;
        *counter = (uint32_t)number << COUNTER_TAG_BITS | counters->nodes[number].told;
        return COMPACT_DONE;
    }
    number = counters->highest + unzigzag(number);
    if (number > UINT32_MAX >> COUNTER_TAG_BITS)
        return COMPACT_UNFIT;
    *counter = (uint32_t)number << COUNTER_TAG_BITS | COUNTER_REFERENCE;
    return COMPACT_DONE;
}

static enum compact_result hear(struct counters *counters, struct covfun_columns *columns,
                                unsigned part, unsigned depth, uint32_t *counter)
{
    enum compact_result result = COMPACT_DONE;
    uint8_t token;

    if (!covfun_take_byte(columns, part, &token))
        return COMPACT_UNFIT;
    if (token >= TOKEN_RECENT && token < TOKEN_RECENT + COUNTERS_RECENT) {
        size_t place = token - TOKEN_RECENT;

        if (place >= counters->recent_count)
            return COMPACT_UNFIT;
        *counter = counters->recent[place];
        touch(counters, *counter, place);
        return COMPACT_DONE;
    }
    switch (token) {
    case TOKEN_ZERO:
        *counter = COUNTER_ZERO;
        return COMPACT_DONE;
    case TOKEN_NEXT:
        if (counters->highest >= UINT32_MAX >> COUNTER_TAG_BITS)
            return COMPACT_UNFIT;
        *counter = (counters->highest + 1) << COUNTER_TAG_BITS | COUNTER_REFERENCE;
        break;
    case TOKEN_NEW:
        result = hear_new(counters, columns, depth, counter);
        break;
    case TOKEN_EXPRESSION:
    case TOKEN_COUNTER:
        result = hear_number(counters, columns, token == TOKEN_EXPRESSION, counter);
        break;
    default:
        return COMPACT_UNFIT;
    }
    if (result != COMPACT_DONE)
        return result;
    if (!counter_is_expression(*counter) && COUNTER_INDEX(*counter) > counters->highest)
        counters->highest = COUNTER_INDEX(*counter);
    touch(counters, *counter, COUNTERS_RECENT);
    return COMPACT_DONE;
}

enum compact_result counters_take(struct counters *counters, struct covfun_columns *columns,
                                  unsigned part, uint32_t *counter)
{
    return hear(counters, columns, part, 0, counter);
}

enum compact_result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                            uint64_t limit)
{
    enum compact_result result = COMPACT_DONE;

    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned j = 0; j < region_counters(region->kind); j++) {
            result = enter(counters, region->operands[j], limit);
            if (result != COMPACT_DONE)
                return result;
        }
    }
    finish_table(counters);
    for (size_t i = 0; i < counters->made.expression_count; i++) {
        if (!mapping_add_expression(mapping, counters->made.expressions[i]))
            return COMPACT_NO_MEMORY;
    }
    for (size_t i = 0; i < mapping->region_count; i++) {
        struct region *region = &mapping->regions[i];

        for (unsigned j = 0; j < region_counters(region->kind); j++)
            region->operands[j] = final_counter(counters, region->operands[j]);
    }
    return COMPACT_DONE;
}
