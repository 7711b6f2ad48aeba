/*
 * Where the regions end that are open: the innermost one last.
 *
 * Regions come in the order of their starts and enclose each other, as statements do. So where one
 * starts says which of those before are over; where it ends is mostly where one ends that is open;
 * and its counter is mostly that of the innermost one.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_ACTIVE_ENDS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_ACTIVE_ENDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where more are active, the outermost one is forgotten. The form depends on it. */
#define ACTIVE_ENDS_MAX 32

/* The line, counted from the file's first region, in the high half, and the column. */
struct active_end {
    uint64_t place;
    uint32_t value; /* of the last region that ends there: see counters.h */
};

/* In descending order of places, each once. */
struct active_ends {
    struct active_end ends[ACTIVE_ENDS_MAX + 1];
    size_t count;
};

/* The end `number` from the innermost, which is 1; NULL if there are not so many. */
static inline const struct active_end *active_ends_get(const struct active_ends *ends,
                                                       size_t number)
{
    return number != 0 && number <= ends->count ? &ends->ends[ends->count - number] : NULL;
}

/* The number of the end with that place; 0: there is none. */
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
    /* Mostly there are none behind it, or one. */
    for (size_t i = ends->count; i > at; i--)
        ends->ends[i] = ends->ends[i - 1];
    ends->ends[at] = (struct active_end){place, value};
    if (++ends->count > ACTIVE_ENDS_MAX) {
        ends->count = ACTIVE_ENDS_MAX;
        memmove(ends->ends, ends->ends + 1, ACTIVE_ENDS_MAX * sizeof(ends->ends[0]));
    }
}

#endif
