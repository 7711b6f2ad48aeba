/*
 * Runs commands for the tests.
 *
 * Arguments are lists, never shell text, so no file name can be misread. Every command has a time
 * limit, reads nothing from standard input, and what it prints is captured. A command that cannot
 * even be started counts as a failed one (exit code 127): a missing tool fails the test.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_PROCESS_H
#define COVSPLIT_TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/support/file_system.h"

/* ---- commands ---- */

struct command {
    struct text_list arguments;   /* the first one is looked up in PATH */
    struct text_list environment; /* NAME=value, added to this process's or replacing it */
    const char *directory;        /* NULL: that of this process */
    unsigned timeout_seconds;     /* 0: COMMAND_TIMEOUT_SECONDS */
    /* If not NULL, a program's main function, which is called in a forked process instead of
     * starting a program. That takes a fraction of the time. */
    int (*main_function)(int argument_count, char **arguments);
};

#define COMMAND_TIMEOUT_SECONDS 120

struct outcome {
    bool timed_out;
    int signal;    /* the signal that ended it; 0: none */
    int exit_code; /* -1 if a signal ended it */
    char *output;  /* NUL-terminated */
    size_t output_size;
    char *errors; /* NUL-terminated */
    size_t errors_size;
    long peak_resident_kib;
    double wall_seconds;
    double processor_seconds;
};

/* A command whose words, separated by blanks, are formatted as by printf. */
struct command command_words(const char *directory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Starts the command and waits for it. Free with outcome_free. */
struct outcome command_run(const struct command *command);
void outcome_free(struct outcome *outcome);
void command_free(struct command *command);

/* True if it ended by itself with this exit code. */
bool outcome_exited(const struct outcome *outcome, int exit_code);

/* Starts the command, waits for it, and fails the Check test unless it ends with this exit code. */
struct outcome command_expect(const struct command *command, int exit_code);

/* The command line and its outcome, for failure messages. Never freed. */
const char *outcome_describe(const struct command *command, const struct outcome *outcome);

/* Starts the command in a process group of its own, with its output thrown away, and returns. The
 * caller waits for the process. */
pid_t command_start(const struct command *command);

/* Starts the command, kills it with SIGKILL after `seconds`, and waits for its end. Returns false
 * if it had ended by itself. */
bool command_kill_after(const struct command *command, double seconds);

/* Runs all commands at the same time; outcomes[i] is the outcome of commands[i]. */
void commands_run_together(const struct command *commands, size_t count, struct outcome *outcomes);

/* Runs a command line in `directory` and aborts the Check test unless it exits with 0. Returns its
 * standard output, which is never freed. The list ends with NULL. Results of compilers and linkers
 * come from a cache (compile_cache.h) if possible. */
const char *run_or_abort(const char *directory, ...) __attribute__((sentinel));

/* The same for a command. */
const char *command_run_or_abort(const struct command *command);

/* ---- one system call at a time ----
 *
 * So that a kill, or an action of another process, can come at every moment that makes a
 * difference. */

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

/* ---- file systems that lack something ----
 *
 * As network file systems do: system calls fail in the same way. */

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
