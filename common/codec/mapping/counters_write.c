/*
 * Writing the counters of regions: see counters.h.
 */
#include "common/base/array.h"
#include "common/codec/mapping/counters.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Inlined, since hashing a few bytes is most of the work of writing. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/numbers.h"

/* Mappings with higher counter numbers are stored raw, since there is a table by number. */
#define COUNTER_NUMBER_MAX MAPPING_COUNT_MAX

/* ---- expressions ---- */

/* Starts the tables for a mapping with `count` expressions. */
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
    /* Seeded, so that a hostile file cannot make everything fall into one bucket. */
    if (counters->seed == 0 &&
        getrandom(&counters->seed, sizeof(counters->seed), GRND_NONBLOCK) != sizeof(counters->seed))
        counters->seed = (uintptr_t)counters;
    counters->bucket_count = buckets;
    memset(counters->buckets, 0, buckets * sizeof(*counters->buckets));
    if (count != 0)
        memset(counters->of_table, 0xff, count * sizeof(*counters->of_table));
    return true;
}

/* Finds or adds the node with these sides and this tag; equal expressions share a node. */
static enum result find_node(struct counters *counters, uint32_t tag, uint32_t left, uint32_t right,
                             uint32_t *index)
{
    uint32_t key[3] = {left, right, tag};
    size_t place = (size_t)XXH3_64bits_withSeed(key, sizeof(key), counters->seed);

    for (;; place++) {
        uint32_t *bucket = &counters->buckets[place & (counters->bucket_count - 1)];
        const struct counter_node *node;

        if (*bucket == 0) {
            enum result result = counter_nodes_add(&counters->nodes, tag, left, right, index);

            if (result == RESULT_OK)
                *bucket = *index + 1;
            return result;
        }
        node = &counters->nodes.nodes[*bucket - 1];
        if (node->left == left && node->right == right && node->tag == tag) {
            *index = *bucket - 1;
            return RESULT_OK;
        }
    }
}

/* Converts a counter of the mapping to one whose expressions are nodes. An expression must have the
 * same tag wherever it is used; otherwise the table would not round-trip, so it is refused. */
static enum result import(struct counters *counters, const struct mapping *mapping,
                          uint32_t counter, unsigned depth, uint32_t *imported)
{
    uint32_t entry = COUNTER_INDEX(counter), left, right, node;
    enum result result;

    *imported = counter;
    if (!counter_is_expression(counter)) {
        if (COUNTER_TAG(counter) == COUNTER_ZERO)
            return counter == COUNTER_ZERO ? RESULT_OK : RESULT_UNFIT;
        if (entry > counters->most)
            counters->most = entry;
        return entry <= COUNTER_NUMBER_MAX ? RESULT_OK : RESULT_UNFIT;
    }
    if (entry >= mapping->expression_count || depth > COUNTER_DEPTH_MAX)
        return RESULT_UNFIT;
    if (counters->of_table[entry] == COUNTER_NONE) {
        result = import(counters, mapping, mapping->expressions[entry].left, depth + 1, &left);
        if (result == RESULT_OK)
            result =
                import(counters, mapping, mapping->expressions[entry].right, depth + 1, &right);
        if (result == RESULT_OK)
            result = find_node(counters, COUNTER_TAG(counter), left, right, &node);
        if (result != RESULT_OK)
            return result;
        counters->of_table[entry] = node << COUNTER_TAG_BITS | COUNTER_TAG(counter);
    }
    *imported = counters->of_table[entry];
    return COUNTER_TAG(*imported) == COUNTER_TAG(counter) ? RESULT_OK : RESULT_UNFIT;
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

static enum result enter_region(struct counters *counters, const struct mapping *mapping,
                                const struct region *region)
{
    enum result result = RESULT_OK;

    for (unsigned i = 0; result == RESULT_OK && i < region_counters(region->kind); i++) {
        uint32_t counter;

        result = import(counters, mapping, region->operands[i], 0, &counter);
        if (result == RESULT_OK)
            result = counter_nodes_enter(&counters->nodes, counter, mapping->expression_count);
    }
    return result;
}

/* Whether each counter of the regions round-trips. */
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

/* Forgets the values of the plain counters in the previous mapping. Clearing the whole table could
 * take long, since even a small mapping may have a counter with a high number. */
static void forget_numbers(struct counters *counters)
{
    for (size_t i = 0; i < counters->value_count; i++) {
        uint32_t counter = counters->values[i].counter;

        if (COUNTER_TAG(counter) == COUNTER_REFERENCE &&
            COUNTER_INDEX(counter) < counters->of_numbers_capacity)
            counters->of_numbers[COUNTER_INDEX(counter)] = VALUE_NONE;
    }
}

/* Starts with no plain counter seen except the function's own. */
static bool start_numbers(struct counters *counters)
{
    size_t known = counters->of_numbers_capacity;

    if (!array_make_room((void **)&counters->of_numbers, &counters->of_numbers_capacity, 0,
                         (size_t)counters->most + 1, sizeof(*counters->of_numbers)))
        return false;
    for (size_t i = known; i < counters->of_numbers_capacity; i++)
        counters->of_numbers[i] = VALUE_NONE;
    counters->of_numbers[0] = VALUE_ENTRY;
    return true;
}

enum result counters_start_writing(struct counters *counters, const struct mapping *mapping)
{
    enum result result = RESULT_OK;

    counters->most = 0;
    forget_numbers(counters);
    if (mapping->expression_count > UINT32_MAX >> COUNTER_TAG_BITS)
        return RESULT_UNFIT;
    if (!counters_start(counters) || !start_tables(counters, mapping->expression_count))
        return RESULT_NO_MEMORY;
    for (size_t i = 0; result == RESULT_OK && i < mapping->region_count; i++)
        result = enter_region(counters, mapping, &mapping->regions[i]);
    if (result != RESULT_OK)
        return result;
    if (!tables_agree(&counters->nodes, mapping) || !regions_agree(counters, mapping))
        return RESULT_UNFIT;
    return start_numbers(counters) ? RESULT_OK : RESULT_NO_MEMORY;
}

/* ---- values ---- */

static uint32_t value_of(const struct counters *counters, uint32_t counter)
{
    uint32_t number = COUNTER_INDEX(counter);

    if (counter == COUNTER_ZERO)
        return VALUE_ZERO;
    return counter_is_expression(counter) ? counters->nodes.nodes[number].value
                                          : counters->of_numbers[number];
}

/* Adds an unseen counter. */
static bool add(struct counters *counters, uint32_t counter, uint32_t *value)
{
    uint32_t number = COUNTER_INDEX(counter);

    if (!counters_add(counters, counter, value))
        return false;
    if (counter_is_expression(counter)) {
        counters->nodes.nodes[number].value = *value;
    } else {
        counters->of_numbers[number] = *value;
        counters_see(counters, number);
    }
    return true;
}

/* ---- tokens ---- */

static bool put_value(struct counters *counters, struct streams *streams, unsigned stream,
                      uint32_t counter, uint32_t *value);

static bool put_old_value(struct counters *counters, struct streams *streams, unsigned stream,
                          uint32_t value)
{
    size_t place = mtf_find(&counters->mtf, COUNTERS_MTF, value);

    if (place != mtf_count(&counters->mtf, COUNTERS_MTF)) {
        mtf_touch(&counters->mtf, place);
        return stream_put_byte(streams, stream, TOKEN_MTF + (unsigned)place);
    }
    mtf_add(&counters->mtf, COUNTERS_MTF, value);
    return stream_put_byte(streams, stream, TOKEN_OLD) &&
           stream_put(streams, STREAM_COUNTER_OPERANDS, counters->value_count - 1 - value);
}

static bool put_number(const struct counters *counters, struct streams *streams, unsigned stream,
                       uint32_t number)
{
    if (number == counters->lowest)
        return stream_put_byte(streams, stream, TOKEN_LOWEST);
    return stream_put_byte(streams, stream, TOKEN_NUMBER) &&
           stream_put(streams, STREAM_COUNTER_OPERANDS,
                      zigzag((uint64_t)number - counters->highest - 1));
}

static bool put_expression(struct counters *counters, struct streams *streams, unsigned stream,
                           uint32_t counter)
{
    const struct counter_node *node = &counters->nodes.nodes[COUNTER_INDEX(counter)];
    uint32_t side;

    return stream_put_byte(streams, stream, COUNTER_TAG(counter)) &&
           put_value(counters, streams, STREAM_RIGHT_COUNTERS, node->right, &side) &&
           put_value(counters, streams, STREAM_LEFT_COUNTERS, node->left, &side);
}

static bool put_value(struct counters *counters, struct streams *streams, unsigned stream,
                      uint32_t counter, uint32_t *value)
{
    *value = value_of(counters, counter);
    if (*value == VALUE_ZERO)
        return stream_put_byte(streams, stream, TOKEN_ZERO);
    if (*value != VALUE_NONE)
        return put_old_value(counters, streams, stream, *value);
    if (counter_is_expression(counter)) {
        if (!put_expression(counters, streams, stream, counter))
            return false;
    } else if (!put_number(counters, streams, stream, COUNTER_INDEX(counter))) {
        return false;
    }
    return add(counters, counter, value);
}

/* ---- symbols ---- */

/* Whether a counter is an expression with this tag and these two values. */
static bool is_made_of(const struct counters *counters, uint32_t counter, uint32_t tag,
                       uint32_t left, uint32_t right)
{
    const struct counter_node *node;

    if (COUNTER_TAG(counter) != tag)
        return false;
    node = &counters->nodes.nodes[COUNTER_INDEX(counter)];
    return node->left == counters->values[left].counter &&
           node->right == counters->values[right].counter;
}

/* The symbol of a value by its place in the list, if that is near the front; moves it there then.
 */
static uint8_t symbol_of_mtf(struct counters *counters, uint32_t value)
{
    for (size_t place = 0; place < SYMBOLS_MTF; place++) {
        if (place < mtf_count(&counters->mtf, COUNTERS_MTF) &&
            mtf_get(&counters->mtf, place) == value) {
            mtf_touch(&counters->mtf, place);
            return (uint8_t)(SYMBOL_MTF + place);
        }
    }
    return SYMBOL_TOKEN;
}

/* The symbol of an unseen counter by its number; SYMBOL_TOKEN if there is none. */
static uint8_t symbol_of_number(const struct counters *counters, uint32_t counter)
{
    if (counter == counter_of_number(counters->lowest))
        return SYMBOL_LOWEST;
    return counter == counter_of_number(counters->highest + 1) ? SYMBOL_NEXT : SYMBOL_TOKEN;
}

static uint8_t symbol_of_context(const struct counters *counters, struct counter_context context,
                                 uint32_t value)
{
    return value == context.enclosing                              ? SYMBOL_ENCLOSING
           : value == context.completed                            ? SYMBOL_COMPLETED
           : value == counters->values[context.completed].opposite ? SYMBOL_OPPOSITE
           : value == counters->last_true                          ? SYMBOL_TRUE
           : value == counters->last_false                         ? SYMBOL_FALSE
                                                                   : SYMBOL_TOKEN;
}

static uint8_t symbol_of_new_code(const struct counters *counters, struct counter_context context,
                                  uint32_t counter)
{
    uint32_t lowest =
        counters->lowest <= counters->most ? counters->of_numbers[counters->lowest] : VALUE_NONE;

    if (is_made_of(counters, counter, COUNTER_SUBTRACT, context.enclosing, context.completed))
        return SYMBOL_DIFFERENCE;
    if (COUNTER_TAG(counter) == COUNTER_ADD && lowest == VALUE_NONE) {
        const struct counter_node *node = &counters->nodes.nodes[COUNTER_INDEX(counter)];

        if (node->left == counters->values[context.enclosing].counter &&
            node->right == counter_of_number(counters->lowest))
            return SYMBOL_LOOP;
    }
    return symbol_of_number(counters, counter);
}

bool counters_put_code(struct counters *counters, struct streams *streams, unsigned stream,
                       struct counter_context context, uint32_t counter, uint8_t *symbol,
                       uint32_t *value)
{
    uint32_t lowest;

    if (counter_is_expression(counter))
        counter = counters->of_table[COUNTER_INDEX(counter)];
    *value = value_of(counters, counter);
    *symbol = SYMBOL_ZERO;
    if (*value == VALUE_ZERO)
        return true;
    if (*value != VALUE_NONE) {
        *symbol = symbol_of_context(counters, context, *value);
        if (*symbol == SYMBOL_TOKEN)
            *symbol = symbol_of_mtf(counters, *value);
        else
            counters_touch(counters, *value);
        return *symbol != SYMBOL_TOKEN || put_value(counters, streams, stream, counter, value);
    }
    *symbol = symbol_of_new_code(counters, context, counter);
    if (*symbol == SYMBOL_TOKEN)
        return put_value(counters, streams, stream, counter, value);
    if (*symbol == SYMBOL_LOOP && !add(counters, counter_of_number(counters->lowest), &lowest))
        return false;
    return add(counters, counter, value);
}

/* Writes one counter of a branch; `other` is the value of the other side, VALUE_NONE if it is
 * unseen.
 */
static bool put_side(struct counters *counters, struct streams *streams, unsigned stream,
                     uint32_t counter, uint32_t condition, uint32_t other, uint8_t *symbol,
                     uint32_t *value)
{
    *value = value_of(counters, counter);
    *symbol = SYMBOL_ZERO;
    if (*value == VALUE_ZERO)
        return true;
    if (*value != VALUE_NONE) {
        *symbol = symbol_of_mtf(counters, *value);
        return *symbol != SYMBOL_TOKEN || put_value(counters, streams, stream, counter, value);
    }
    if (other != VALUE_NONE && is_made_of(counters, counter, COUNTER_SUBTRACT, condition, other))
        *symbol = SYMBOL_DIFFERENCE;
    else
        *symbol = symbol_of_number(counters, counter);
    return *symbol == SYMBOL_TOKEN ? put_value(counters, streams, stream, counter, value)
                                   : add(counters, counter, value);
}

/* Whether the first counter is unseen and equals the condition's minus the second one. */
static bool is_rest(const struct counters *counters, uint32_t condition, uint32_t first,
                    uint32_t second)
{
    const struct counter_node *node;

    if (COUNTER_TAG(first) != COUNTER_SUBTRACT || second == COUNTER_ZERO ||
        value_of(counters, first) != VALUE_NONE)
        return false;
    node = &counters->nodes.nodes[COUNTER_INDEX(first)];
    return node->left == counters->values[condition].counter && node->right == second;
}

bool counters_put_branch(struct counters *counters, struct streams *streams, uint32_t condition,
                         const uint32_t sides[2], uint8_t symbols[2])
{
    uint32_t counter[2], value[2];
    bool done;

    for (unsigned i = 0; i < 2; i++)
        counter[i] = counter_is_expression(sides[i]) ? counters->of_table[COUNTER_INDEX(sides[i])]
                                                     : sides[i];
    if (is_rest(counters, condition, counter[0], counter[1])) {
        symbols[0] = SYMBOL_DIFFERENCE;
        done = put_side(counters, streams, STREAM_FALSE_COUNTERS, counter[1], condition, VALUE_NONE,
                        &symbols[1], &value[1]) &&
               add(counters, counter[0], &value[0]);
    } else {
        done = put_side(counters, streams, STREAM_TRUE_COUNTERS, counter[0], condition, VALUE_NONE,
                        &symbols[0], &value[0]) &&
               put_side(counters, streams, STREAM_FALSE_COUNTERS, counter[1], condition, value[0],
                        &symbols[1], &value[1]);
    }
    if (done)
        counters_set_branch(counters, value[0], value[1]);
    return done;
}
