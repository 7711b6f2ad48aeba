/*
 * Counters of regions: see mapping.h.
 */
#include "common/codec/mapping/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

/* Mappings with deeper expressions are stored raw, because the functions here are recursive. */
#define COUNTER_DEPTH_MAX 1000

#define COUNTER_NONE      UINT32_MAX

/* The highest number, and the most expressions, that a counter can have. */
#define COUNTER_INDEX_MAX (UINT32_MAX >> COUNTER_TAG_BITS)

/* Mappings with higher counter numbers are stored raw, since there is a table by number. */
#define COUNTER_NUMBER_MAX MAPPING_COUNT_MAX

/* The symbols and tokens are stored in sidecars. */
enum counter_symbol {
    SYMBOL_ZERO = 0,
    SYMBOL_ENCLOSING = 1,
    SYMBOL_NEXT = 2, /* the number after the highest one so far */
    SYMBOL_COMPLETED = 3,
    /* A new expression. For code: the enclosing counter minus the completed one. For a side of a
     * branch: the condition's counter minus the other side's. */
    SYMBOL_DIFFERENCE = 4,
    SYMBOL_LOOP = 5, /* a new expression: the enclosing counter plus the next one */
    SYMBOL_USED = 6, /* one of the three values that were used last */
    SYMBOL_TOKEN = 9,
};

#define SYMBOLS_USED (SYMBOL_TOKEN - SYMBOL_USED)

enum counter_token {
    TOKEN_ZERO = 0,
    TOKEN_NEXT = 1,
    TOKEN_SUBTRACT = COUNTER_SUBTRACT,
    TOKEN_ADD = COUNTER_ADD,
    TOKEN_NUMBER = 4,
    TOKEN_USED = 5,                          /* one of the values that were used last */
    TOKEN_RECENT = TOKEN_USED + VALUES_USED, /* one of the last new values */
    TOKEN_OLD = 255,
};

#define TOKENS_RECENT (TOKEN_OLD - TOKEN_RECENT)

/* An expression. */
struct counter_node {
    uint32_t left, right; /* as in counters->values */
    uint32_t depth;
    uint32_t value;  /* writing: its number as a value, or VALUE_NONE */
    uint32_t place;  /* its last number in the table; COUNTER_NONE: not in it yet */
    uint32_t length; /* how many entries it takes in the table, with those nested in it */
    uint8_t tag;     /* enum counter_tag */
    uint8_t text_size;
    uint8_t text[2 * NUMBER_32_SIZE_MAX]; /* its table entry in encoded form */
};

void counters_free(struct counters *counters)
{
    free(counters->nodes);
    free(counters->table);
    free(counters->values);
    free(counters->of_table);
    free(counters->of_numbers);
    free(counters->buckets);
    buffer_free(&counters->roots);
    *counters = (struct counters){0};
}

bool counters_start(struct counters *counters)
{
    counters->node_count = counters->table_count = 0;
    counters->roots.size = 0;
    counters->highest = 0;
    counters->value_count = 2;
    memset(counters->used, 0, sizeof(counters->used));
    counters->used[0] = VALUE_ENTRY;
    if (!array_make_room(&counters->values, &counters->value_capacity, 0, 2,
                         sizeof(*counters->values)))
        return false;
    counters->values[VALUE_ZERO] = COUNTER_ZERO;
    counters->values[VALUE_ENTRY] = COUNTER_REFERENCE;
    return true;
}

/* ---- nodes and their table ---- */

static uint32_t depth_of(const struct counters *counters, uint32_t counter)
{
    return counter_is_expression(counter) ? counters->nodes[COUNTER_INDEX(counter)].depth : 0;
}

/* Adds a node for an expression of two counters. Unfit if it is too deep. */
static enum result add_node(struct counters *counters, uint32_t tag, uint32_t left, uint32_t right,
                            uint32_t *index)
{
    uint32_t left_depth = depth_of(counters, left), right_depth = depth_of(counters, right);
    uint32_t depth = 1 + (left_depth > right_depth ? left_depth : right_depth);

    if (depth > COUNTER_DEPTH_MAX || counters->node_count >= COUNTER_INDEX_MAX)
        return RESULT_UNFIT;
    if (!ARRAY_ROOM_FOR_ONE(counters->nodes, counters->node_capacity, counters->node_count))
        return RESULT_NO_MEMORY;
    *index = (uint32_t)counters->node_count++;
    counters->nodes[*index] = (struct counter_node){.tag = (uint8_t)tag,
                                                    .left = left,
                                                    .right = right,
                                                    .depth = depth,
                                                    .value = VALUE_NONE,
                                                    .place = COUNTER_NONE};
    return RESULT_OK;
}

/* Enters the expressions of a counter, if any, into the table. Unfit if the table would have more
 * than `limit` entries. */
static enum result enter(struct counters *counters, uint32_t counter, uint64_t limit)
{
    size_t to = counters->table_count, length;
    struct counter_node *node;
    enum result result;

    if (!counter_is_expression(counter))
        return RESULT_OK;
    node = &counters->nodes[COUNTER_INDEX(counter)];
    if (node->place == 0)
        return RESULT_OK;
    length = node->place == COUNTER_NONE ? 1 : node->length;
    if (limit > COUNTER_INDEX_MAX)
        limit = COUNTER_INDEX_MAX;
    if (to > limit || length > limit - to)
        return RESULT_UNFIT;
    if (length > counters->table_capacity - to &&
        !array_make_room(&counters->table, &counters->table_capacity, to, length,
                         sizeof(*counters->table)))
        return RESULT_NO_MEMORY;
    counters->table_count += length;
    if (node->place != COUNTER_NONE) {
        size_t from = node->place; /* it changes below */

        for (size_t i = 0; i < length; i++) {
            uint32_t index = counters->table[from + i];

            counters->table[to + i] = index;
            counters->nodes[index].place = (uint32_t)(to + i);
        }
        return RESULT_OK;
    }
    node->place = (uint32_t)to;
    counters->table[to] = COUNTER_INDEX(counter);
    result = enter(counters, node->left, limit);
    if (result == RESULT_OK)
        result = enter(counters, node->right, limit);
    node->length = (uint32_t)(counters->table_count - to);
    return result;
}

/* A counter as it is in the mapping, after all have been entered. There must be at least one node.
 * Without branches, since it is unpredictable which counters are expressions. */
static inline uint32_t final_counter(const struct counters *counters, uint32_t counter)
{
    uint32_t tag = COUNTER_TAG(counter), index = COUNTER_INDEX(counter);
    uint32_t expression = 0 - (tag >> 1);

    index = (index & ~expression) | (counters->nodes[index & expression].place & expression);
    return index << COUNTER_TAG_BITS | tag;
}

bool counters_write_table(struct counters *counters, struct buffer *bytes)
{
    uint8_t *to;

    if (!buffer_reserve(bytes,
                        NUMBER_32_SIZE_MAX + (counters->table_count + 1) * 2 * NUMBER_32_SIZE_MAX))
        return false;
    /* Encoded once for each node, since many are in the table several times. */
    for (size_t i = 0; i < counters->node_count; i++) {
        struct counter_node *node = &counters->nodes[i];
        uint8_t *end = uleb128_put_32(node->text, final_counter(counters, node->left));

        end = uleb128_put_32(end, final_counter(counters, node->right));
        node->text_size = (uint8_t)(end - node->text);
    }
    to = uleb128_put_32(bytes->data + bytes->size, (uint32_t)counters->table_count);
    for (size_t i = 0; i < counters->table_count; i++) {
        const struct counter_node *node = &counters->nodes[counters->table[i]];

        memcpy(to, node->text, sizeof(node->text));
        to += node->text_size;
    }
    bytes->size = (size_t)(to - bytes->data);
    return true;
}

/* ---- the expressions of a mapping that is to be written ---- */

/* Starts the tables for a mapping with `count` expressions. */
static bool start_tables(struct counters *counters, size_t count)
{
    size_t buckets = 16;

    while (buckets < 2 * count)
        buckets *= 2;
    if (!array_make_room(&counters->of_table, &counters->of_table_capacity, 0, count,
                         sizeof(*counters->of_table)) ||
        !array_make_room(&counters->buckets, &counters->bucket_capacity, 0, buckets,
                         sizeof(*counters->buckets)))
        return false;
    if (counters->seed == 0)
        counters->seed = random_seed();
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
    /* Few differ in the tag only. */
    size_t place = (size_t)hash_of_key((uint64_t)left << 32 | right, counters->seed);

    for (;; place++) {
        uint32_t *bucket = &counters->buckets[place & (counters->bucket_count - 1)];
        const struct counter_node *node;

        if (*bucket == 0) {
            enum result result = add_node(counters, tag, left, right, index);

            if (result == RESULT_OK)
                *bucket = *index + 1;
            return result;
        }
        node = &counters->nodes[*bucket - 1];
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
        if (entry > counters->highest)
            counters->highest = entry;
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

/* True if the table that follows from the regions is that of the mapping. */
static bool tables_agree(const struct counters *counters, const struct mapping *mapping)
{
    if (counters->table_count != mapping->expression_count)
        return false;
    for (size_t i = 0; i < counters->table_count; i++) {
        const struct counter_node *node = &counters->nodes[counters->table[i]];
        const struct expression *expression = &mapping->expressions[i];

        if (final_counter(counters, node->left) != expression->left ||
            final_counter(counters, node->right) != expression->right)
            return false;
    }
    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned k = 0; k < region_counters(region->kind); k++) {
            uint32_t counter = region->operands[k];

            if (counter_is_expression(counter) &&
                final_counter(counters, counters->of_table[COUNTER_INDEX(counter)]) != counter)
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
        uint32_t counter = counters->values[i];

        if (COUNTER_TAG(counter) == COUNTER_REFERENCE &&
            COUNTER_INDEX(counter) < counters->of_numbers_capacity)
            counters->of_numbers[COUNTER_INDEX(counter)] = VALUE_NONE;
    }
}

enum result counters_start_writing(struct counters *counters, const struct mapping *mapping)
{
    size_t known = counters->of_numbers_capacity;
    enum result result = RESULT_OK;

    forget_numbers(counters);
    if (mapping->expression_count > COUNTER_INDEX_MAX)
        return RESULT_UNFIT;
    if (!counters_start(counters) || !start_tables(counters, mapping->expression_count))
        return RESULT_NO_MEMORY;
    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned k = 0; k < region_counters(region->kind); k++) {
            uint32_t counter;

            result = import(counters, mapping, region->operands[k], 0, &counter);
            if (result == RESULT_OK)
                result = enter(counters, counter, mapping->expression_count);
            if (result != RESULT_OK)
                return result;
        }
    }
    if (!tables_agree(counters, mapping))
        return RESULT_UNFIT;
    if (!array_make_room(&counters->of_numbers, &counters->of_numbers_capacity, 0,
                         (size_t)counters->highest + 1, sizeof(*counters->of_numbers)))
        return RESULT_NO_MEMORY;
    for (size_t i = known; i < counters->of_numbers_capacity; i++)
        counters->of_numbers[i] = VALUE_NONE;
    counters->of_numbers[0] = VALUE_ENTRY;
    counters->highest = 0;
    return RESULT_OK;
}

/* ---- values ---- */

static inline uint32_t counter_of_number(uint32_t number)
{
    return number << COUNTER_TAG_BITS | COUNTER_REFERENCE;
}

/* Writing: the value of a counter, or VALUE_NONE. */
static uint32_t value_of(const struct counters *counters, uint32_t counter)
{
    uint32_t number = COUNTER_INDEX(counter);

    if (counter == COUNTER_ZERO)
        return VALUE_ZERO;
    return counter_is_expression(counter) ? counters->nodes[number].value
                                          : counters->of_numbers[number];
}

/* For what cannot be: the caller goes on with value zero; the coder's result is checked at the end
 * of the region. */
static uint32_t refuse(struct mapping_coder *coder, enum result result)
{
    coder_fail(coder, result);
    return VALUE_ZERO;
}

/* The place of a value among those that were used last; VALUES_USED if it is not one of them. */
static inline unsigned find_used(const struct counters *counters, uint32_t value)
{
    unsigned place = 0;

    while (place < VALUES_USED && counters->used[place] != value)
        place++;
    return place;
}

/* Makes this value the one that was used last: the others move back by a place, up to its own. */
static inline uint32_t use(struct counters *counters, uint32_t value)
{
    uint32_t before = value, moved = VALUE_ZERO;

    for (unsigned i = 0; value != VALUE_ZERO && moved != value && i < VALUES_USED; i++) {
        moved = counters->used[i];
        counters->used[i] = before;
        before = moved;
    }
    return value;
}

static inline uint32_t add_value(struct counters *counters, struct mapping_coder *coder,
                                 uint32_t counter)
{
    uint32_t value = (uint32_t)counters->value_count;

    if (!ARRAY_ROOM_FOR_ONE(counters->values, counters->value_capacity, counters->value_count))
        return refuse(coder, RESULT_NO_MEMORY);
    counters->values[counters->value_count++] = counter;
    return use(counters, value);
}

static inline uint32_t add_number(struct counters *counters, struct mapping_coder *coder,
                                  uint64_t number)
{
    uint32_t value;

    if (number > COUNTER_INDEX_MAX)
        return refuse(coder, RESULT_UNFIT);
    if (number > counters->highest)
        counters->highest = (uint32_t)number;
    value = add_value(counters, coder, counter_of_number((uint32_t)number));
    if (coder->is_writing)
        counters->of_numbers[number] = value;
    return value;
}

/* Adds an expression of two values. Writing: `counter` is the expression itself. */
static uint32_t add_expression(struct counters *counters, struct mapping_coder *coder, uint32_t tag,
                               uint32_t left, uint32_t right, uint32_t counter)
{
    uint32_t node, value;
    enum result result;

    if (coder->is_writing) {
        value = add_value(counters, coder, counter);
        counters->nodes[COUNTER_INDEX(counter)].value = value;
        return value;
    }
    result = add_node(counters, tag, counters->values[left], counters->values[right], &node);
    if (result != RESULT_OK)
        return refuse(coder, result);
    return add_value(counters, coder, node << COUNTER_TAG_BITS | tag);
}

/* The value that is `back` values before the last one. */
static uint32_t recent_value(struct counters *counters, struct mapping_coder *coder, uint64_t back)
{
    if (back >= counters->value_count - 1)
        return refuse(coder, RESULT_UNFIT);
    return use(counters, (uint32_t)(counters->value_count - 1 - back));
}

static bool is_next(const struct counters *counters, uint32_t counter)
{
    return counter == counter_of_number(counters->highest + 1);
}

/* ---- tokens ---- */

static uint8_t choose_token(const struct counters *counters, uint32_t counter, uint64_t back)
{
    uint32_t value = value_of(counters, counter);
    unsigned place;

    if (value == VALUE_ZERO)
        return TOKEN_ZERO;
    if (value == VALUE_NONE && counter_is_expression(counter))
        return COUNTER_TAG(counter);
    if (value == VALUE_NONE)
        return is_next(counters, counter) ? TOKEN_NEXT : TOKEN_NUMBER;
    place = find_used(counters, value);
    if (place != VALUES_USED)
        return (uint8_t)(TOKEN_USED + place);
    return back < TOKENS_RECENT ? (uint8_t)(TOKEN_RECENT + back) : TOKEN_OLD;
}

/* Codes a counter without its context, and returns its value. */
static uint32_t code_token(struct counters *counters, struct mapping_coder *coder, uint32_t counter,
                           unsigned level)
{
    uint32_t left = COUNTER_ZERO, right = COUNTER_ZERO;
    uint64_t back = 0, next = counters->highest + UINT64_C(1);
    uint8_t token = 0;

    if (level > COUNTER_DEPTH_MAX)
        return refuse(coder, RESULT_UNFIT);
    if (coder->is_writing) {
        back = counters->value_count - 1 - (uint64_t)value_of(counters, counter);
        token = choose_token(counters, counter, back);
    }
    token = code_byte(coder, STREAM_TOKENS, token);
    switch (token) {
    case TOKEN_ZERO:
        return VALUE_ZERO;
    case TOKEN_NEXT:
        return add_number(counters, coder, next);
    case TOKEN_SUBTRACT:
    case TOKEN_ADD:
        if (coder->is_writing) {
            left = counters->nodes[COUNTER_INDEX(counter)].left;
            right = counters->nodes[COUNTER_INDEX(counter)].right;
        }
        right = code_token(counters, coder, right, level + 1);
        left = code_token(counters, coder, left, level + 1);
        return add_expression(counters, coder, token, left, right, counter);
    case TOKEN_NUMBER:
        return add_number(counters, coder,
                          code_from(coder, STREAM_COUNTER_OPERANDS, next, COUNTER_INDEX(counter)));
    case TOKEN_OLD:
        return recent_value(counters, coder, code_number(coder, STREAM_COUNTER_OPERANDS, back));
    default:
        return token < TOKEN_RECENT ? use(counters, counters->used[token - TOKEN_USED])
                                    : recent_value(counters, coder, token - TOKEN_RECENT);
    }
}

/* ---- symbols ---- */

/* True if a counter is an expression with this tag and these sides. */
static bool is_made_of(const struct counters *counters, uint32_t counter, uint32_t tag,
                       uint32_t left, uint32_t right)
{
    const struct counter_node *node;

    if (COUNTER_TAG(counter) != tag)
        return false;
    node = &counters->nodes[COUNTER_INDEX(counter)];
    return node->left == left && node->right == right;
}

/* The symbol of a value that has occurred, without its context. */
static uint8_t symbol_of_value(const struct counters *counters, uint32_t value)
{
    unsigned place = 0;

    if (value == VALUE_ZERO)
        return SYMBOL_ZERO;
    while (place < SYMBOLS_USED && counters->used[place] != value)
        place++;
    return (uint8_t)(SYMBOL_USED + place);
}

static uint8_t choose_code_symbol(const struct counters *counters, struct counter_context context,
                                  uint32_t counter)
{
    const uint32_t *values = counters->values;
    uint32_t value = value_of(counters, counter), enclosing = values[context.enclosing];

    if (value == VALUE_NONE) {
        if (is_made_of(counters, counter, COUNTER_SUBTRACT, enclosing, values[context.completed]))
            return SYMBOL_DIFFERENCE;
        if (is_made_of(counters, counter, COUNTER_ADD, enclosing,
                       counter_of_number(counters->highest + 1)))
            return SYMBOL_LOOP;
        return is_next(counters, counter) ? SYMBOL_NEXT : SYMBOL_TOKEN;
    }
    return value == VALUE_ZERO          ? SYMBOL_ZERO
           : value == context.enclosing ? SYMBOL_ENCLOSING
           : value == context.completed ? SYMBOL_COMPLETED
                                        : symbol_of_value(counters, value);
}

/* Codes a counter whose symbol is one of those that code and branches share. */
static uint32_t code_symbol(struct counters *counters, struct mapping_coder *coder, uint8_t symbol,
                            uint32_t counter)
{
    switch (symbol) {
    case SYMBOL_ZERO:
        return VALUE_ZERO;
    case SYMBOL_NEXT:
        return add_number(counters, coder, counters->highest + UINT64_C(1));
    case SYMBOL_USED:
    case SYMBOL_USED + 1:
    case SYMBOL_USED + 2:
        return use(counters, counters->used[symbol - SYMBOL_USED]);
    case SYMBOL_TOKEN:
        return code_token(counters, coder, counter, 0);
    default:
        return refuse(coder, RESULT_UNFIT);
    }
}

static inline uint32_t code_symbol_of_code(struct counters *counters, struct mapping_coder *coder,
                                           struct counter_context context, uint8_t symbol,
                                           uint32_t counter)
{
    switch (symbol) {
    case SYMBOL_ENCLOSING:
        return use(counters, context.enclosing);
    case SYMBOL_COMPLETED:
        return use(counters, context.completed);
    case SYMBOL_DIFFERENCE:
        return add_expression(counters, coder, COUNTER_SUBTRACT, context.enclosing,
                              context.completed, counter);
    case SYMBOL_LOOP: {
        uint32_t body = add_number(counters, coder, counters->highest + UINT64_C(1));

        return add_expression(counters, coder, COUNTER_ADD, context.enclosing, body, counter);
    }
    default:
        return code_symbol(counters, coder, symbol, counter);
    }
}

/* ---- regions ---- */

bool counters_reserve(struct counters *counters, size_t regions)
{
    return buffer_reserve(&counters->roots, regions * REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* Writing: the counter of an operand, with its node if it is an expression. */
static uint32_t imported(const struct counters *counters, uint32_t operand)
{
    return counter_is_expression(operand) ? counters->of_table[COUNTER_INDEX(operand)] : operand;
}

/* Reading: the counter of a value that is an operand; remembers it if it is an expression. */
static inline uint32_t take_operand(struct counters *counters, uint32_t value, size_t index,
                                    unsigned number)
{
    uint32_t root = (uint32_t)(index * REGION_COUNTERS_MAX + number);
    uint32_t counter = counters->values[value];

    memcpy(counters->roots.data + counters->roots.size, &root, sizeof(root));
    counters->roots.size += sizeof(root) * counter_is_expression(counter);
    return counter;
}

uint32_t counters_code_region(struct counters *counters, struct mapping_coder *coder,
                              struct counter_context context, uint8_t *symbol, size_t index,
                              uint32_t *counter)
{
    uint32_t target = COUNTER_ZERO, value;

    if (coder->is_writing) {
        target = imported(counters, *counter);
        *symbol = choose_code_symbol(counters, context, target);
    }
    value = code_symbol_of_code(counters, coder, context, *symbol, target);
    if (!coder->is_writing)
        *counter = take_operand(counters, value, index, 0);
    return value;
}

/* The symbol of a side of a branch; `other` is the counter of the other side if that has a value.
 */
static uint8_t choose_side_symbol(const struct counters *counters, uint32_t condition,
                                  uint32_t counter, uint32_t other)
{
    uint32_t value = value_of(counters, counter);

    if (value != VALUE_NONE)
        return symbol_of_value(counters, value);
    if (other != COUNTER_NONE &&
        is_made_of(counters, counter, COUNTER_SUBTRACT, counters->values[condition], other))
        return SYMBOL_DIFFERENCE;
    return is_next(counters, counter) ? SYMBOL_NEXT : SYMBOL_TOKEN;
}

void counters_code_branch(struct counters *counters, struct mapping_coder *coder,
                          uint32_t condition, uint8_t symbols[2], size_t index, uint32_t sides[2])
{
    uint32_t targets[2] = {COUNTER_ZERO, COUNTER_ZERO}, values[2];
    unsigned first, second;

    if (coder->is_writing) {
        for (unsigned i = 0; i < 2; i++)
            targets[i] = imported(counters, sides[i]);
        symbols[0] = choose_side_symbol(counters, condition, targets[0],
                                        targets[1] == COUNTER_ZERO ? COUNTER_NONE : targets[1]);
    }
    /* A side that is told by the other one comes after it. */
    first = symbols[0] == SYMBOL_DIFFERENCE;
    second = 1 - first;
    if (coder->is_writing && first == 1)
        symbols[1] = choose_side_symbol(counters, condition, targets[1], COUNTER_NONE);
    values[first] = code_symbol(counters, coder, symbols[first], targets[first]);
    if (coder->is_writing && first == 0)
        symbols[1] = choose_side_symbol(counters, condition, targets[1], targets[0]);
    values[second] = symbols[second] == SYMBOL_DIFFERENCE
                         ? add_expression(counters, coder, COUNTER_SUBTRACT, condition,
                                          values[first], targets[second])
                         : code_symbol(counters, coder, symbols[second], targets[second]);
    for (unsigned i = 0; !coder->is_writing && i < 2; i++)
        sides[i] = take_operand(counters, values[i], index, i);
}

enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit)
{
    const uint32_t *roots = (const uint32_t *)(void *)counters->roots.data;
    size_t count = counters->roots.size / sizeof(*roots);

    for (unsigned pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            struct region *region = &mapping->regions[roots[i] / REGION_COUNTERS_MAX];
            uint32_t *operand = &region->operands[roots[i] % REGION_COUNTERS_MAX];
            enum result result = RESULT_OK;

            if (pass == 0)
                result = enter(counters, *operand, limit);
            else
                *operand = final_counter(counters, *operand);
            if (result != RESULT_OK)
                return result;
        }
    }
    return RESULT_OK;
}
