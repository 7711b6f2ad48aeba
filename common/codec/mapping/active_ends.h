/*
 * The ends of the regions that are open, the innermost one last.
 *
 * Regions are sorted by their starts and are nested, as statements are. So the start of a region
 * tells which earlier ones have ended; it usually ends where one of the open regions ends; and its
 * counter is usually that of the innermost open region.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_ACTIVE_ENDS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_ACTIVE_ENDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* If there are more, the outermost one is forgotten. The stored form depends on this number. */
#define ACTIVE_ENDS_MAX 32

struct active_end {
    uint64_t place; /* high half: line, counted from the file's first region; low half: column */
    uint32_t value; /* of the last region that ends there: see counters.h */
};

/* In descending order of places, without duplicates. */
struct active_ends {
    struct active_end ends[ACTIVE_ENDS_MAX + 1];
    size_t count;
};

/* The end with this number, counted from the innermost, which is 1. NULL if there are fewer. */
static inline const struct active_end *active_ends_get(const struct active_ends *ends,
                                                       size_t number)
{
    return number != 0 && number <= ends->count ? &ends->ends[ends->count - number] : NULL;
}

/* The number of the end at this place; 0 if there is none. */
static inline size_t active_ends_find(const struct active_ends *ends, uint64_t place)
{
    for (size_t number = 1; number <= ends->count; number++) {
        if (ends->ends[ends->count - number].place >= place)
            return ends->ends[ends->count - number].place == place ? number : 0;
    }
    return 0;
}

static inline void active_ends_add(struct active_ends *ends, uint64_t place, uint32_t value)
{
    size_t at = ends->count;

    while (at > 0 && ends->ends[at - 1].place < place)
        at--;
    if (at > 0 && ends->ends[at - 1].place == place) {
        ends->ends[at - 1].value = value;
        return;
    }
    /* Usually none or only one has to be moved. */
    for (size_t i = ends->count; i > at; i--)
        ends->ends[i] = ends->ends[i - 1];
    ends->ends[at] = (struct active_end){place, value};
    if (++ends->count > ACTIVE_ENDS_MAX) {
        ends->count = ACTIVE_ENDS_MAX;
        memmove(ends->ends, ends->ends + 1, ACTIVE_ENDS_MAX * sizeof(ends->ends[0]));
    }
}

#endif
