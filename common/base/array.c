/*
 * Arrays that grow: see array.h.
 */
#include "common/base/array.h"

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

size_t array_count_up_to(const void *items, size_t count, size_t item_size, uint64_t key)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found;

        memcpy(&found, (const char *)items + middle * item_size, sizeof(found));
        if (found <= key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
