/*
 * Runs commands as if on file systems that lack something, like network file systems: system calls
 * fail in the same way.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_RESTRICTED_H
#define COVSPLIT_TESTS_SUPPORT_RESTRICTED_H

#include "tests/support/process.h"

enum restriction {
    RESTRICTION_NONE,
    RESTRICTION_NO_UNNAMED,   /* O_TMPFILE: EOPNOTSUPP */
    RESTRICTION_NO_LINKS,     /* and link(2): EPERM */
    RESTRICTION_NO_NOREPLACE, /* and RENAME_NOREPLACE, RENAME_EXCHANGE: EINVAL */
    RESTRICTION_COUNT,
    /* Others, each by itself: */
    RESTRICTION_NO_LEASES = RESTRICTION_COUNT, /* F_SETLEASE: EINVAL */
    RESTRICTION_FOREIGN_LEASES,                /* F_SETLEASE: EACCES, as for a file of another */
};

/* The same command with the restriction. */
struct command command_restrict(const struct command *command, enum restriction restriction);

/* Call this first in main, with its arguments: a restricted command runs through this program, and
 * then the function does not return. */
void restriction_enter(int argument_count, char **arguments);

#endif
