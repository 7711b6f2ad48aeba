/*
 * Runs commands one system call at a time, so that a kill, or an action of another process, can
 * come at every moment that makes a difference.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRACED_H
#define COVSPLIT_TESTS_SUPPORT_TRACED_H

#include <stdbool.h>

#include "tests/support/process.h"

struct traced {
    bool was_stopped;    /* false: it ended before the last stop */
    unsigned long stops; /* the number of stops that it reached */
    int exit_code;       /* -1 if a signal ended it */
    const char *errors;  /* what it has written to standard error; never freed */
};

/* Runs the command, with its standard output discarded, until it has stopped `stops` times at
 * system calls (before and after each). Then calls `act`, if it is not NULL, and lets the command
 * go on to its end. */
struct traced command_trace(const struct command *command, unsigned long stops,
                            void (*act)(void *context), void *context);

/* The same, but sends a signal when the command goes on. */
struct traced command_trace_and_signal(const struct command *command, unsigned long stops,
                                       int signal);

/* The same, but kills the command with SIGKILL at the last stop. */
struct traced command_trace_and_kill(const struct command *command, unsigned long stops);

/* The same, at the first stop when something is as it is to be. */
struct traced command_trace_and_kill_when(const struct command *command,
                                          bool (*has_come)(void *context), void *context);

#endif
