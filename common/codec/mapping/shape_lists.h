/*
 * Which shapes to expect of what is expanded.
 *
 * A region that is expanded is as long as the name of the macro, and what is expanded within a
 * macro is always the same. So of both it is kept which shapes came there, the last one first.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_SHAPE_LISTS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_SHAPE_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stored in sidecars, in a way. */
#define SHAPE_LENGTHS      64 /* lists for regions of a length of up to 62, and for all others */
#define SHAPE_LENGTH_OTHER 63
#define SHAPES_OF_A_LENGTH 32 /* in a list */
#define SHAPE_INNER_LISTS  4096
#define SHAPES_OF_A_PLACE  4

/* Starts as {0}; freed with shape_lists_free. */
struct shape_lists {
    uint32_t *shapes; /* of all lists: 1 + a shape's number; 0: none */
};

struct shape_list {
    uint32_t *shapes;
    unsigned size;
};

void shape_lists_free(struct shape_lists *lists);

/* False: no memory. */
bool shape_lists_start(struct shape_lists *lists);

/* The number of the list for an expansion: by its length, or by the shape that it is in and its
 * index in it. */
static inline uint32_t shape_list_of_length(uint64_t length)
{
    return length < SHAPE_LENGTH_OTHER ? (uint32_t)length : SHAPE_LENGTH_OTHER;
}

static inline uint32_t shape_list_of_place(size_t shape, size_t index)
{
    return SHAPE_LENGTHS + (uint32_t)((shape * 31 + index) % SHAPE_INNER_LISTS);
}

struct shape_list shape_list_get(const struct shape_lists *lists, uint32_t number);

/* Where a shape is in the list; its size: nowhere. */
unsigned shape_list_find(struct shape_list list, size_t shape);

/* Brings a shape, which is in the list at `place` or is not in it, to the front. */
void shape_list_touch(struct shape_list list, size_t shape, unsigned place);

#endif
