/*
 * Runs commands one system call at a time, so that what others do meanwhile, or a kill, can come at
 * each moment that makes a difference.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TRACED_H
#define COVSPLIT_TESTS_SUPPORT_TRACED_H

#include <stdbool.h>

#include "tests/support/process.h"

struct traced {
    bool was_stopped;    /* false: it had ended before it came so far */
    unsigned long stops; /* that it came to */
    int exit_code;       /* -1 where a signal ended it */
    const char *errors;  /* what it has written to standard error; never freed */
};

/* Runs the command, with its standard output thrown away, until it has stopped so many times at
 * system calls (before and after each). There `act` is called, if it is not NULL, and the command
 * goes on to its end. */
struct traced command_trace(const struct command *command, unsigned long stops,
                            void (*act)(void *context), void *context);

/* The same with a signal when it goes on. */
struct traced command_trace_and_signal(const struct command *command, unsigned long stops,
                                       int signal);

/* The same with SIGKILL instead of going on. */
struct traced command_trace_and_kill(const struct command *command, unsigned long stops);

#endif
