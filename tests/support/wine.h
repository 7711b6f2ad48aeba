/*
 * Running Windows programs by wine, with a directory of its own in which nobody else's settings
 * are.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINE_H
#define COVSPLIT_TESTS_SUPPORT_WINE_H

#include "tests/support/process.h"

/* Around all tests of a suite. */
void wine_start(void);
void wine_stop(void);

/* Runs WINDOWS_PROGRAM in the directory with that number as its argument. It writes its profiles to
 * runNUMBER-MODULE.profraw there. */
struct command wine_command(const char *directory, unsigned number);

#endif
