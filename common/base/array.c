/*
 * Arrays that grow: see array.h.
 */
#include "common/base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size)
{
    size_t larger = *capacity == 0 ? FIRST_CAPACITY : *capacity;
    void *items;

    if (more <= *capacity - count)
        return true;
    while (larger - count < more) {
        if (larger > SIZE_MAX / item_size / 2)
            return false;
        larger *= 2;
    }
    /* memcpy, because the pointer can be of any type. */
    memcpy(&items, array, sizeof(items));
    items = realloc(items, larger * item_size);
    if (items == NULL)
        return false;
    memcpy(array, &items, sizeof(items));
    *capacity = larger;
    return true;
}
