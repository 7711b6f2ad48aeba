/*
 * Move-to-front lists: each item once, the most recently used first. The front of the list is the
 * end of an array that is longer than the list, so that adding an item takes one store, and moving
 * a recent item to the front is cheap.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_MOVE_TO_FRONT_H
#define COVSPLIT_COMMON_CODEC_MAPPING_MOVE_TO_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MTF_ROOM 256

/* This many items from the front are moved without a branch. */
#define MTF_NEAR 4

/* The list consists of the last `most` items before `end`; `most` is less than MTF_ROOM - MTF_NEAR.
 * Older items stay in the array for a while, but are not part of the list. */
struct mtf {
    uint64_t items[MTF_ROOM];
    size_t end; /* the index after the front */
};

static inline void mtf_start(struct mtf *mtf)
{
    /* mtf_touch_near always reads MTF_NEAR items. */
    memset(mtf->items, 0, MTF_NEAR * sizeof(mtf->items[0]));
    mtf->end = MTF_NEAR;
}

static inline size_t mtf_count(const struct mtf *mtf, size_t most)
{
    size_t count = mtf->end - MTF_NEAR;

    return count < most ? count : most;
}

/* The item at `place`, counted from the front, which must be less than the count. */
static inline uint64_t mtf_get(const struct mtf *mtf, size_t place)
{
    return mtf->items[mtf->end - 1 - place];
}

/* The place of the item, counted from the front; the count if it is not in the list. */
static inline size_t mtf_find(const struct mtf *mtf, size_t most, uint64_t item)
{
    size_t place = 0, count = mtf_count(mtf, most);

    while (place < count && mtf_get(mtf, place) != item)
        place++;
    return place;
}

/* Moves the item at `place`, which must be less than the count and than MTF_NEAR, to the front.
 * Without branches, since the place is unpredictable. */
static inline uint64_t mtf_touch_near(struct mtf *mtf, size_t place)
{
    /* By place: where each of the first items comes from. */
    static const uint8_t sources[MTF_NEAR][MTF_NEAR] = {
        {0, 1, 2, 3}, {1, 0, 2, 3}, {2, 0, 1, 3}, {3, 0, 1, 2}};
    uint64_t *front = mtf->items + mtf->end - 1;
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
static inline uint64_t mtf_touch(struct mtf *mtf, size_t place)
{
    uint64_t *items = mtf->items + mtf->end - 1 - place;
    uint64_t item = *items;

    if (place < MTF_NEAR)
        return mtf_touch_near(mtf, place);
    memmove(items, items + 1, place * sizeof(*items));
    items[place] = item;
    return item;
}

/* Puts an item that is not in the list at the front if `really` is 1; does nothing if it is 0. */
static inline void mtf_add_if(struct mtf *mtf, size_t most, uint64_t item, size_t really)
{
    if (mtf->end == MTF_ROOM) {
        memmove(mtf->items + MTF_NEAR, mtf->items + MTF_ROOM - most, most * sizeof(mtf->items[0]));
        mtf->end = MTF_NEAR + most;
    }
    mtf->items[mtf->end] = item;
    mtf->end += really;
}

static inline void mtf_add(struct mtf *mtf, size_t most, uint64_t item)
{
    mtf_add_if(mtf, most, item, 1);
}

#endif
