/*
 * A program for seeds: a few functions with coverage, no library. Images of it should be small, but
 * with LONG its names, data and mapping cover whole pages, which can then be cut out.
 *
 * LONG is the beginning of long names of functions, without blanks or quotes.
 */
#ifdef _WIN32
#define ENTRY __attribute__((dllexport))
#else
#define ENTRY __attribute__((visibility("default")))
#endif

#ifdef WRITES
void __llvm_profile_write_file(void);
#endif

#ifdef ZEROS
/* Like the runtime's pool of nodes: pages of zeros, which need not be in a file. */
__attribute__((section("__llvm_prf_vnds"), used)) static char program_nodes[0x3000];
#endif

int program_counter = 3;
int *program_pointer = &program_counter;

static __attribute__((noinline)) int choose(int value)
{
    if (value > 2 && (value & 1) != 0)
        return value * 3;
    return value == 7 ? -1 : value;
}

#ifdef LONG
#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define ONE(n)                                                                                     \
    static int JOIN(LONG, n)(int value)                                                            \
    {                                                                                              \
        return value > n;                                                                          \
    }
#define TEN(n)  ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7)
#define NAME(n) JOIN(LONG, n),
#define TEN_OF(n)                                                                                  \
    NAME(n##0) NAME(n##1) NAME(n##2) NAME(n##3) NAME(n##4) NAME(n##5) NAME(n##6) NAME(n##7)
#define EACH(each)                                                                                 \
    each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11)      \
        each(12) each(13) each(14) each(15) each(16) each(17) each(18)

EACH(TEN)
int (*const program_table[])(int) = {EACH(TEN_OF) 0};
#endif

ENTRY int program_entry(int value);
ENTRY int program_entry(int value)
{
    int total = 0;

    for (int i = 0; i < value; i++)
        total += choose(i) + *program_pointer;
#ifdef LONG
    total += program_table[value & 7](value);
#endif
#ifdef WRITES
    __llvm_profile_write_file();
#endif
    return total;
}

#ifndef LIBRARY
void _start(void);
void _start(void)
{
    program_entry(5);
    for (;;)
        ;
}
#endif
