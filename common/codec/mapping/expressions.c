/*
 * Expressions as nodes of trees: see mapping/expressions.h.
 */
#include "common/codec/mapping/expressions.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

void counter_nodes_clear(struct counter_nodes *nodes)
{
    nodes->count = nodes->table_count = 0;
}

void counter_nodes_free(struct counter_nodes *nodes)
{
    free(nodes->nodes);
    free(nodes->table);
    *nodes = (struct counter_nodes){0};
}

static uint32_t depth_of(const struct counter_nodes *nodes, uint32_t counter)
{
    return counter_is_expression(counter) ? nodes->nodes[COUNTER_INDEX(counter)].depth : 0;
}

enum result counter_nodes_add(struct counter_nodes *nodes, uint32_t tag, uint32_t left,
                              uint32_t right, uint32_t *index)
{
    uint32_t left_depth = depth_of(nodes, left), right_depth = depth_of(nodes, right);
    uint32_t depth = 1 + (left_depth > right_depth ? left_depth : right_depth);

    if (depth > COUNTER_DEPTH_MAX || nodes->count >= UINT32_MAX >> COUNTER_TAG_BITS)
        return RESULT_UNFIT;
    if (!array_make_room((void **)&nodes->nodes, &nodes->capacity, nodes->count, 1,
                         sizeof(*nodes->nodes)))
        return RESULT_NO_MEMORY;
    *index = (uint32_t)nodes->count++;
    nodes->nodes[*index] = (struct counter_node){.tag = (uint8_t)tag,
                                                 .left = left,
                                                 .right = right,
                                                 .depth = depth,
                                                 .value = COUNTER_NONE,
                                                 .place = COUNTER_NONE};
    return RESULT_OK;
}

/* ---- the table ---- */

static inline enum result make_room(struct counter_nodes *nodes, size_t more, uint64_t limit)
{
    if (limit > UINT32_MAX >> COUNTER_TAG_BITS)
        limit = UINT32_MAX >> COUNTER_TAG_BITS;
    if (nodes->table_count > limit || more > limit - nodes->table_count)
        return RESULT_UNFIT;
    if (more <= nodes->table_capacity - nodes->table_count)
        return RESULT_OK;
    return array_make_room((void **)&nodes->table, &nodes->table_capacity, nodes->table_count, more,
                           sizeof(*nodes->table))
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

static enum result enter_new(struct counter_nodes *nodes, struct counter_node *node,
                             uint64_t limit);
static enum result enter_again(struct counter_nodes *nodes, const struct counter_node *node,
                               uint64_t limit);

static inline enum result enter(struct counter_nodes *nodes, uint32_t counter, uint64_t limit)
{
    struct counter_node *node;

    if (!counter_is_expression(counter))
        return RESULT_OK;
    node = &nodes->nodes[COUNTER_INDEX(counter)];
    if (node->place == 0)
        return RESULT_OK;
    return node->place == COUNTER_NONE ? enter_new(nodes, node, limit)
                                       : enter_again(nodes, node, limit);
}

/* Enters a node that is in the table already, by repeating its entries. */
static enum result enter_again(struct counter_nodes *nodes, const struct counter_node *node,
                               uint64_t limit)
{
    size_t from = node->place, length = node->length, to = nodes->table_count;
    enum result result = make_room(nodes, length, limit);

    if (result != RESULT_OK)
        return result;
    for (size_t i = 0; i < length; i++) {
        uint32_t index = nodes->table[from + i];

        nodes->table[to + i] = index;
        nodes->nodes[index].place = (uint32_t)(to + i);
    }
    nodes->table_count = to + length;
    return RESULT_OK;
}

/* Enters a node that is not in the table yet, and those nested in it. */
static enum result enter_new(struct counter_nodes *nodes, struct counter_node *node, uint64_t limit)
{
    enum result result = make_room(nodes, 1, limit);

    if (result != RESULT_OK)
        return result;
    node->place = (uint32_t)nodes->table_count;
    nodes->table[nodes->table_count++] = (uint32_t)(node - nodes->nodes);
    result = enter(nodes, node->left, limit);
    if (result == RESULT_OK)
        result = enter(nodes, node->right, limit);
    node->length = (uint32_t)nodes->table_count - node->place;
    return result;
}

enum result counter_nodes_enter(struct counter_nodes *nodes, uint32_t counter, uint64_t limit)
{
    return enter(nodes, counter, limit);
}

bool counter_nodes_write_table(struct counter_nodes *nodes, struct buffer *bytes)
{
    uint8_t *to;

    if (!buffer_reserve(bytes,
                        NUMBER_32_SIZE_MAX + (nodes->table_count + 1) * 2 * NUMBER_32_SIZE_MAX))
        return false;
    /* Encoded once for each node, since many are in the table several times. */
    for (size_t i = 0; i < nodes->count; i++) {
        struct counter_node *node = &nodes->nodes[i];
        uint8_t *end = put_32(node->text, counter_nodes_final(nodes, node->left));

        end = put_32(end, counter_nodes_final(nodes, node->right));
        node->text_size = (uint8_t)(end - node->text);
    }
    to = put_32(bytes->data + bytes->size, (uint32_t)nodes->table_count);
    for (size_t i = 0; i < nodes->table_count; i++) {
        const struct counter_node *node = &nodes->nodes[nodes->table[i]];

        memcpy(to, node->text, sizeof(node->text));
        to += node->text_size;
    }
    bytes->size = (size_t)(to - bytes->data);
    return true;
}
