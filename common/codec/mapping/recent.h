/*
 * Lists of what came last, the last one first, each once: a reader moves what it is told to the
 * front. They are kept with the front at the end of an array that is longer than the list, so that
 * what is new costs a store, and what came a moment ago moves next to nothing.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_RECENT_H
#define COVSPLIT_COMMON_CODEC_MAPPING_RECENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RECENT_ROOM 256

/* Items that are moved without a branch. */
#define RECENT_NEAR 4

/* A list is `most` long, which is less than RECENT_ROOM - RECENT_NEAR: of all that came, those that
 * fall out stay in front of it for a while. */
struct recent {
    uint64_t items[RECENT_ROOM];
    size_t end; /* behind the front */
};

static inline void recent_start(struct recent *recent)
{
    /* recent_touch_near reads RECENT_NEAR items, whatever they are. */
    memset(recent->items, 0, RECENT_NEAR * sizeof(recent->items[0]));
    recent->end = RECENT_NEAR;
}

static inline size_t recent_count(const struct recent *recent, size_t most)
{
    size_t count = recent->end - RECENT_NEAR;

    return count < most ? count : most;
}

/* The item at `place` from the front, which is less than the count. */
static inline uint64_t recent_get(const struct recent *recent, size_t place)
{
    return recent->items[recent->end - 1 - place];
}

/* Where the item is, from the front; the count: nowhere. */
static inline size_t recent_find(const struct recent *recent, size_t most, uint64_t item)
{
    size_t place = 0, count = recent_count(recent, most);

    while (place < count && recent_get(recent, place) != item)
        place++;
    return place;
}

/* Brings the item at `place`, which is less than the count and than RECENT_NEAR, to the front.
 * Which one it is cannot be foretold: so there is no branch. */
static inline uint64_t recent_touch_near(struct recent *recent, size_t place)
{
    /* By place: from where each item behind the front comes. */
    static const uint8_t sources[RECENT_NEAR][RECENT_NEAR] = {
        {0, 1, 2, 3}, {1, 0, 2, 3}, {2, 0, 1, 3}, {3, 0, 1, 2}};
    uint64_t *front = recent->items + recent->end - 1;
    const uint8_t *from = sources[place];
    uint64_t first = *(front - from[0]), second = *(front - from[1]);
    uint64_t third = *(front - from[2]), fourth = *(front - from[3]);

    front[0] = first;
    front[-1] = second;
    front[-2] = third;
    front[-3] = fourth;
    return first;
}

/* The same for any place. */
static inline uint64_t recent_touch(struct recent *recent, size_t place)
{
    uint64_t *items = recent->items + recent->end - 1 - place;
    uint64_t item = *items;

    if (place < RECENT_NEAR)
        return recent_touch_near(recent, place);
    memmove(items, items + 1, place * sizeof(*items));
    items[place] = item;
    return item;
}

/* Puts an item that is not in the list in front, where `really` is 1, not 0. */
static inline void recent_add_if(struct recent *recent, size_t most, uint64_t item, size_t really)
{
    if (recent->end == RECENT_ROOM) {
        memmove(recent->items + RECENT_NEAR, recent->items + RECENT_ROOM - most,
                most * sizeof(recent->items[0]));
        recent->end = RECENT_NEAR + most;
    }
    recent->items[recent->end] = item;
    recent->end += really;
}

static inline void recent_add(struct recent *recent, size_t most, uint64_t item)
{
    recent_add_if(recent, most, item, 1);
}

#endif
