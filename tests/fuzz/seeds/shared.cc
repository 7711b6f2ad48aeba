/*
 * Functions for seeds: records in groups, of inline functions and templates that are used and not,
 * and records in none.
 */
#ifndef RUN
#define RUN shared_run
#endif

template <typename Number> Number larger(Number a, Number b)
{
    return a > b ? a : b;
}

inline long used(long value)
{
    return value > 2 ? value * 3 : value - 1;
}

inline long unused(long value)
{
    return value == 5 ? 1 : larger(value, 7L);
}

static long local(long value)
{
    while (value > 10 && (value & 1) == 0)
        value /= 2;
    return value;
}

extern "C" long RUN(long seed)
{
    return larger(used(seed), local(seed)) + larger<int>(static_cast<int>(seed), 4);
}
