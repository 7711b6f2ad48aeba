/*
 * Arrays on the heap that grow.
 *
 * An array is three things of its owner's: where it is (NULL at first), how many items there is
 * room for (0 at first), and how many there are. The owner frees it.
 */
#ifndef COVSPLIT_COMMON_BASE_ARRAY_H
#define COVSPLIT_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `more` items of so many bytes behind the `count` that there are: `array` is the
 * address of the pointer to the first one. False where there is no memory, with all as it was. */
bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size);

/* The same for one item more, where pointer and capacity are lvalues. */
#define ARRAY_ROOM_FOR_ONE(items, capacity, count)                                                 \
    array_make_room(&(items), &(capacity), count, 1, sizeof(*(items)))

#endif
