/*
 * Arrays on the heap that grow.
 *
 * The owner of an array has three variables: a pointer to the items (NULL at first), the capacity
 * (0 at first), and the count. The owner frees the items.
 */
#ifndef COVSPLIT_COMMON_BASE_ARRAY_H
#define COVSPLIT_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `more` items after the first `count`. `array` is the address of the pointer to the
 * items; item_size is in bytes. False if out of memory; nothing has changed then. */
bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size);

/* The same for one more item; `items` and `capacity` are lvalues. */
#define ARRAY_ROOM_FOR_ONE(items, capacity, count)                                                 \
    array_make_room(&(items), &(capacity), count, 1, sizeof(*(items)))

#endif
