/*
 * Runs Windows programs with wine, which has a settings directory of its own in the cache.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINE_H
#define COVSPLIT_TESTS_SUPPORT_WINE_H

#include "tests/support/process.h"

/* Call these before and after all tests of a suite. */
void wine_start(void);
void wine_stop(void);

/* Runs WINDOWS_PROGRAM in the directory with that number as its argument. It writes its profiles to
 * runNUMBER-MODULE.profraw there. */
struct command wine_command(const char *directory, unsigned number);

#endif
