/*
 * Random numbers that are the same everywhere: a failing test prints its seed, and the seed
 * reproduces the failure. The generator is SplitMix64.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_RANDOM_H
#define COVSPLIT_TESTS_SUPPORT_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct random_state {
    uint64_t state;
};

static inline struct random_state random_start(uint64_t seed)
{
    struct random_state random = {seed};
    return random;
}

static inline uint64_t random_next(struct random_state *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = random->state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* A number below `limit`, which must not be 0. */
static inline uint64_t random_below(struct random_state *random, uint64_t limit)
{
    return random_next(random) % limit;
}

/* ---- random moments to kill a command at ----
 *
 * How long the command takes depends on what else the machine does, which changes over time. So if
 * the command ended before its kill, the next kills come earlier; otherwise they come a little
 * later. */

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
