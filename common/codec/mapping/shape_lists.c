/*
 * Lists of shapes that are expected: see shape_lists.h.
 */
#include "common/codec/mapping/shape_lists.h"

#include <stdlib.h>
#include <string.h>

#define LENGTHS_SIZE ((size_t)SHAPE_LENGTHS * SHAPES_OF_A_LENGTH)
#define INNER_SIZE   ((size_t)SHAPE_INNER_LISTS * SHAPES_OF_A_PLACE)

void shape_lists_free(struct shape_lists *lists)
{
    free(lists->shapes);
    lists->shapes = NULL;
}

bool shape_lists_start(struct shape_lists *lists)
{
    lists->shapes = calloc(LENGTHS_SIZE + INNER_SIZE, sizeof(*lists->shapes));
    return lists->shapes != NULL;
}

struct shape_list shape_list_get(const struct shape_lists *lists, uint32_t number)
{
    if (number < SHAPE_LENGTHS)
        return (struct shape_list){lists->shapes + (size_t)number * SHAPES_OF_A_LENGTH,
                                   SHAPES_OF_A_LENGTH};
    return (struct shape_list){lists->shapes + LENGTHS_SIZE +
                                   (size_t)(number - SHAPE_LENGTHS) * SHAPES_OF_A_PLACE,
                               SHAPES_OF_A_PLACE};
}

unsigned shape_list_find(struct shape_list list, size_t shape)
{
    unsigned place = 0;

    while (place < list.size && list.shapes[place] != shape + 1)
        place++;
    return place;
}

void shape_list_touch(struct shape_list list, size_t shape, unsigned place)
{
    if (place == list.size)
        place--;
    memmove(list.shapes + 1, list.shapes, place * sizeof(*list.shapes));
    list.shapes[0] = (uint32_t)shape + 1;
}
