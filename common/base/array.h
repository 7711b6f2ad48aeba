/*
 * Arrays on the heap that grow, and searching them.
 *
 * The owner of an array has three variables: a pointer to the items (NULL at first), the capacity
 * (0 at first), and the count. The owner frees the items.
 */
#ifndef COVSPLIT_COMMON_BASE_ARRAY_H
#define COVSPLIT_COMMON_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes room for `more` items after the first `count`. `array` is the address of the pointer to the
 * items; item_size is in bytes. False if out of memory; nothing has changed then. */
bool array_make_room(void *array, size_t *capacity, size_t count, size_t more, size_t item_size);

/* The same for one more item; `items` and `capacity` are lvalues. */
#define ARRAY_ROOM_FOR_ONE(items, capacity, count)                                                 \
    array_make_room(&(items), &(capacity), count, 1, sizeof(*(items)))

/* The number of items whose key is at most `key`: the last of these is the one that an address
 * falls into. Each item starts with its key, a uint64_t, and the items are in ascending order. */
size_t array_count_up_to(const void *items, size_t count, size_t item_size, uint64_t key);

#endif
