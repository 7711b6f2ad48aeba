/*
 * Reading the counters of regions: see counters.h.
 */
#include "common/codec/mapping/counters.h"

#include <string.h>

#include "common/base/numbers.h"

/* For invalid input: returns value zero; the cursors' result is checked at the end of the region.
 */
static uint32_t refuse(struct stream_cursors *cursors)
{
    stream_fail(cursors, RESULT_UNFIT);
    return VALUE_ZERO;
}

/* ---- new values ---- */

static inline uint32_t add(struct counters *counters, struct stream_cursors *cursors,
                           uint32_t counter)
{
    uint32_t value;

    if (counters_add(counters, counter, &value))
        return value;
    stream_fail(cursors, RESULT_NO_MEMORY);
    return VALUE_ZERO;
}

static inline uint32_t add_number(struct counters *counters, struct stream_cursors *cursors,
                                  uint64_t number)
{
    if (number > UINT32_MAX >> COUNTER_TAG_BITS)
        return refuse(cursors);
    counters_see(counters, (uint32_t)number);
    return add(counters, cursors, counter_of_number((uint32_t)number));
}

static uint32_t add_expression(struct counters *counters, struct stream_cursors *cursors,
                               uint32_t tag, uint32_t left, uint32_t right)
{
    uint32_t node;
    enum result result = counter_nodes_add(&counters->nodes, tag, counters->values[left].counter,
                                           counters->values[right].counter, &node);

    if (result != RESULT_OK) {
        stream_fail(cursors, result);
        return VALUE_ZERO;
    }
    return add(counters, cursors, node << COUNTER_TAG_BITS | tag);
}

/* ---- tokens ---- */

static uint32_t take_old_value(struct counters *counters, struct stream_cursors *cursors)
{
    uint64_t back = stream_take(cursors, STREAM_COUNTER_OPERANDS);
    uint32_t value;

    if (back >= counters->value_count - 1)
        return refuse(cursors);
    value = (uint32_t)(counters->value_count - 1 - back);
    counters_touch(counters, value);
    return value;
}

static uint32_t take_value(struct counters *counters, struct stream_cursors *cursors,
                           unsigned stream, unsigned level)
{
    uint8_t token = stream_take_byte(cursors, stream);
    size_t place = (size_t)token - TOKEN_MTF;
    uint32_t left, right;

    if (level > COUNTER_DEPTH_MAX)
        return refuse(cursors);
    switch (token) {
    case TOKEN_ZERO:
        return VALUE_ZERO;
    case TOKEN_LOWEST:
        return add_number(counters, cursors, counters->lowest);
    case TOKEN_SUBTRACT:
    case TOKEN_ADD:
        right = take_value(counters, cursors, STREAM_RIGHT_COUNTERS, level + 1);
        left = take_value(counters, cursors, STREAM_LEFT_COUNTERS, level + 1);
        return add_expression(counters, cursors, token, left, right);
    case TOKEN_NUMBER:
        return add_number(counters, cursors,
                          counters->highest + UINT64_C(1) +
                              unzigzag(stream_take(cursors, STREAM_COUNTER_OPERANDS)));
    case TOKEN_OLD:
        return take_old_value(counters, cursors);
    default:
        if (place >= mtf_count(&counters->mtf, COUNTERS_MTF))
            return refuse(cursors);
        return (uint32_t)mtf_touch(&counters->mtf, place);
    }
}

/* ---- symbols ---- */

static inline uint32_t touch(struct counters *counters, uint32_t value)
{
    if (value != VALUE_ZERO)
        counters_touch(counters, value);
    return value;
}

static uint32_t take_mtf(struct counters *counters, struct stream_cursors *cursors, uint8_t symbol)
{
    size_t place = (size_t)symbol - SYMBOL_MTF;

    if (place >= SYMBOLS_MTF || place >= mtf_count(&counters->mtf, COUNTERS_MTF))
        return refuse(cursors);
    return (uint32_t)mtf_touch(&counters->mtf, place);
}

static uint32_t take_loop(struct counters *counters, struct stream_cursors *cursors,
                          uint32_t enclosing)
{
    uint32_t body = add_number(counters, cursors, counters->lowest);

    return add_expression(counters, cursors, COUNTER_ADD, enclosing, body);
}

static inline uint32_t take_code(struct counters *counters, struct stream_cursors *cursors,
                                 unsigned stream, struct counter_context context, uint8_t symbol)
{
    switch (symbol) {
    case SYMBOL_ZERO:
        return VALUE_ZERO;
    case SYMBOL_ENCLOSING:
        return touch(counters, context.enclosing);
    case SYMBOL_LOWEST:
        return add_number(counters, cursors, counters->lowest);
    case SYMBOL_NEXT:
        return add_number(counters, cursors, counters->highest + UINT64_C(1));
    case SYMBOL_COMPLETED:
        return touch(counters, context.completed);
    case SYMBOL_OPPOSITE:
        return touch(counters, counters->values[context.completed].opposite);
    case SYMBOL_TRUE:
        return touch(counters, counters->last_true);
    case SYMBOL_FALSE:
        return touch(counters, counters->last_false);
    case SYMBOL_DIFFERENCE:
        return add_expression(counters, cursors, COUNTER_SUBTRACT, context.enclosing,
                              context.completed);
    case SYMBOL_LOOP:
        return take_loop(counters, cursors, context.enclosing);
    case SYMBOL_TOKEN:
        return take_value(counters, cursors, stream, 0);
    default:
        return take_mtf(counters, cursors, symbol);
    }
}

/* Reads one counter of a branch, for all symbols but SYMBOL_DIFFERENCE. */
static inline uint32_t take_side(struct counters *counters, struct stream_cursors *cursors,
                                 unsigned stream, uint8_t symbol)
{
    switch (symbol) {
    case SYMBOL_ZERO:
        return VALUE_ZERO;
    case SYMBOL_LOWEST:
        return add_number(counters, cursors, counters->lowest);
    case SYMBOL_NEXT:
        return add_number(counters, cursors, counters->highest + UINT64_C(1));
    case SYMBOL_TOKEN:
        return take_value(counters, cursors, stream, 0);
    default:
        return take_mtf(counters, cursors, symbol);
    }
}

/* ---- regions ---- */

bool counters_reserve(struct counters *counters, size_t regions)
{
    return buffer_reserve(&counters->roots, regions * REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* The counter of a value that is an operand; remembers it if it is an expression. */
static inline uint32_t operand(struct counters *counters, uint32_t value, size_t index,
                               unsigned number)
{
    uint32_t root = (uint32_t)(index * REGION_COUNTERS_MAX + number);
    uint32_t counter = counters->values[value].counter;

    memcpy(counters->roots.data + counters->roots.size, &root, sizeof(root));
    counters->roots.size += sizeof(root) * counter_is_expression(counter);
    return counter;
}

uint32_t counters_take_code(struct counters *counters, struct stream_cursors *cursors,
                            unsigned stream, struct counter_context context, uint8_t symbol,
                            size_t index, uint32_t *value)
{
    *value = take_code(counters, cursors, stream, context, symbol);
    return operand(counters, *value, index, 0);
}

void counters_take_branch(struct counters *counters, struct stream_cursors *cursors,
                          uint32_t condition, const uint8_t symbols[2], size_t index,
                          uint32_t sides[2])
{
    uint32_t first, second;

    if (symbols[0] == SYMBOL_DIFFERENCE) {
        second = take_side(counters, cursors, STREAM_FALSE_COUNTERS, symbols[1]);
        first = add_expression(counters, cursors, COUNTER_SUBTRACT, condition, second);
    } else {
        first = take_side(counters, cursors, STREAM_TRUE_COUNTERS, symbols[0]);
        second = symbols[1] == SYMBOL_DIFFERENCE
                     ? add_expression(counters, cursors, COUNTER_SUBTRACT, condition, first)
                     : take_side(counters, cursors, STREAM_FALSE_COUNTERS, symbols[1]);
    }
    counters_set_branch(counters, first, second);
    sides[0] = operand(counters, first, index, 0);
    sides[1] = operand(counters, second, index, 1);
}

static uint32_t *operand_of(struct mapping *mapping, uint32_t root)
{
    return &mapping->regions[root / REGION_COUNTERS_MAX].operands[root % REGION_COUNTERS_MAX];
}

enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit)
{
    const uint32_t *roots = (const uint32_t *)(void *)counters->roots.data;
    size_t count = counters->roots.size / sizeof(*roots);

    if (counters->highest > UINT32_MAX >> COUNTER_TAG_BITS)
        return RESULT_UNFIT;
    for (size_t i = 0; i < count; i++) {
        enum result result =
            counter_nodes_enter(&counters->nodes, *operand_of(mapping, roots[i]), limit);

        if (result != RESULT_OK)
            return result;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t *operand = operand_of(mapping, roots[i]);

        *operand = counter_nodes_final(&counters->nodes, *operand);
    }
    return RESULT_OK;
}
