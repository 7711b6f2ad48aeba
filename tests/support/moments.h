/*
 * Random moments to kill a command at.
 *
 * How long the command takes depends on what else the machine does, which changes over time. So if
 * the command ended before its kill, the next kills come earlier; otherwise they come a little
 * later.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_MOMENTS_H
#define COVSPLIT_TESTS_SUPPORT_MOMENTS_H

#include <stdbool.h>

#include "tests/support/random.h"

struct moments {
    struct random_state random;
    double whole; /* estimated seconds that the command takes */
};

static inline struct moments moments_start(uint64_t seed, double whole)
{
    return (struct moments){.random = random_start(seed), .whole = whole};
}

/* The seconds until the next kill. */
static inline double moments_next(struct moments *moments)
{
    return moments->whole * (double)random_below(&moments->random, 1000) / 1000;
}

/* Records whether that kill found the command at work. Nine in ten should. */
static inline void moments_met(struct moments *moments, bool at_work)
{
    moments->whole *= at_work ? 1.01 : 0.9;
}

#endif
