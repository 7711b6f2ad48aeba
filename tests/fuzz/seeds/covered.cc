/*
 * A program for seeds of sidecars and profiles: functions of all kinds that coverage tells apart,
 * so that each form of their names, data and mapping occurs, but few of them.
 *
 * With FREESTANDING there is no C library, and it does not run.
 */
#define TWICE(value) ((value) > 3 ? choose((value)-1, true) : (value) + (value))

static int choose(int value, bool really)
{
    if (value > 2 && (really || value == 9))
        return value * 3;
    for (int i = 0; i < value; i++) {
        if (i == 5)
            continue;
        while (value > 20 && i % 2 == 1)
            value -= really ? 2 : 3;
    }
    switch (value) {
    case 1:
        return 2;
    case 2:
    case 3:
        return -1;
    default:
        break;
    }
    return value == 7 ? -1 : value;
}

namespace outer
{
namespace inner
{

template <typename Number, int factor> struct Scaled {
    Number number;
    Number get() const
    {
        return number * factor;
    }
    template <typename Other> Number plus(Other other) const
    {
        auto add = [&](Number left) { return left + static_cast<Number>(other); };
        return other > 0 ? add(get()) : get();
    }
};

} // namespace inner
} // namespace outer

inline int unused_but_here(int value)
{
    return TWICE(value) + TWICE(value + 1);
}

#ifdef OTHER
int other(int value);
int other(int value)
{
    outer::inner::Scaled<int, 3> scaled = {value};
    return unused_but_here(value) + scaled.plus(value);
}
#else
int other(int value);

static int empty_statement(int value)
{
#if 0
    value = 5;
#endif
    return value;
}

int run(int value);
int run(int value)
{
    outer::inner::Scaled<int, 3> scaled = {value};
    outer::inner::Scaled<long, 7> longer = {value};
    int total = TWICE(value);

    for (int i = 0; i < value; i++)
        total += unused_but_here(i) + choose(i, i % 2 == 0) + empty_statement(i);
    return total + scaled.plus(value) + (int)longer.plus(2L) + other(value);
}

#ifdef FREESTANDING
extern "C" void _start();
extern "C" void _start()
{
    run(5);
}
#else
int main(int count, char **)
{
    return run(count + 4) == 0;
}
#endif
#endif
