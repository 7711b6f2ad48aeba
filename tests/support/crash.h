/*
 * Programs that dump core: what the program wrote as profiles right before, and the core.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_CRASH_H
#define COVSPLIT_TESTS_SUPPORT_CRASH_H

#include "tests/support/program.h"

struct crash {
    char *directory; /* with the program, and the library if it has one */
    char *store;     /* with the sidecars; NULL: the images are not split */
    char *profiles;  /* a directory of the profiles that the images wrote */
    char *core;
    char *emulator_core; /* of the emulator itself, if there is one and it was dumped there */
};

/* Builds the program, and splits its images if `is_split`. Runs it to its end, and gets a core of
 * that moment: by gdb, or from the emulator if it is for another machine. Not for static images. */
struct crash crash_create(const struct program *program, bool is_split, const char *directory);

/* Takes a snapshot by `covsplit snapshot --core CORE` and more words, which go before, into a new
 * directory OUT. */
struct outcome crash_snapshot(const struct crash *crash, const char *core, const char *words,
                              const char *out);

/* Whether the profiles in a directory are byte for byte those that the images wrote: all of them,
 * or at least no others. */
bool crash_check(const struct crash *crash, const char *out, bool all, struct verdict *verdict);

#endif
