/*
 * Where in code a register still has the value that an instruction put into it: what follows that
 * instruction is walked over from its start on, each instruction passes the value to the next one
 * and to where it jumps, and where a jump leads back to what was passed before, once more.
 *
 * Machines that make addresses in two steps look so for the second one. What they take for the
 * value's place may be too much, never too little, but for what lies in front of the first step or
 * more than LIVE_RANGE bytes behind it.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_LIVE_RANGE_H
#define COVSPLIT_FORMATS_MACHINE_LIVE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#define LIVE_RANGE      2048
#define LIVE_RANGE_UNIT 2 /* instructions start at multiples of this */
#define LIVE_RANGE_WORD (64 * LIVE_RANGE_UNIT)

struct live_range {
    uint64_t start; /* where the value is first */
    uint64_t places[LIVE_RANGE / LIVE_RANGE_WORD];
    bool grows_behind; /* a place that the walk has passed became one */
    bool is_left;      /* the value gets further than is looked */
};

static inline bool live_range_has(const struct live_range *range, uint64_t place)
{
    uint64_t distance = place - range->start;

    return distance < LIVE_RANGE && (range->places[distance / LIVE_RANGE_WORD] >>
                                         (distance % LIVE_RANGE_WORD / LIVE_RANGE_UNIT) &
                                     1) != 0;
}

/* The value gets there from another place. */
static inline void live_range_add(struct live_range *range, uint64_t from, uint64_t place)
{
    uint64_t distance = place - range->start;

    range->is_left |= distance >= LIVE_RANGE && place > range->start;
    if (distance >= LIVE_RANGE || live_range_has(range, place))
        return;
    range->places[distance / LIVE_RANGE_WORD] |= UINT64_C(1)
                                                 << (distance % LIVE_RANGE_WORD / LIVE_RANGE_UNIT);
    range->grows_behind |= place <= from;
}

/* The value may get anywhere: a jump leads to what a register holds. */
static inline void live_range_add_all(struct live_range *range, uint64_t from)
{
    for (uint64_t i = 0; i < LIVE_RANGE; i += LIVE_RANGE_UNIT)
        live_range_add(range, from, range->start + i);
    range->is_left = true;
}

#endif
