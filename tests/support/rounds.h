/*
 * How much of a test with many rounds is run: seeds of mutations, moments of kills, pairs of a
 * table.
 *
 * COVSPLIT_TEST_PERCENT says it, if set; otherwise everything is run. tests/run.sh sets it,
 * tests/campaign.sh does not.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_ROUNDS_H
#define COVSPLIT_TESTS_SUPPORT_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>

/* The number of rounds to run, out of `all`; at least one. */
static inline unsigned rounds(unsigned all)
{
    const char *percent = getenv("COVSPLIT_TEST_PERCENT");
    unsigned long share = percent != NULL ? strtoul(percent, NULL, 10) : 100;
    unsigned chosen = share < 100 ? (unsigned)(all * share / 100) : all;
    return chosen != 0 ? chosen : 1;
}

/* The step to take through consecutive cases (every byte, every system call). */
static inline unsigned rounds_step(void)
{
    return 100 / rounds(100);
}

static inline bool rounds_are_all(void)
{
    return rounds(100) == 100;
}

/* Whether to run this case of a table: every few cases, or all of them. */
static inline bool rounds_have(unsigned number, unsigned of)
{
    return rounds_are_all() || number % of == 0;
}

#endif
