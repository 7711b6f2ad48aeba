/*
 * This process and its children.
 *
 * A command is run as a child, in a process that looks like the command to whoever started it: it
 * passes signals on, and ends as the command does. Both are in one process group, so both get what
 * a terminal sends anyway. Killing this process kills the command.
 *
 * When a signal ends this process, it reports the reason, unless somebody wanted it to end, and
 * leaves no unfinished outputs behind.
 */
#ifndef COVSPLIT_SPLIT_CLI_CHILD_H
#define COVSPLIT_SPLIT_CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"

/* ---- children ---- */

/* What shells return after a signal. */
#define EXIT_BY_SIGNAL(number) (128 + (number))

/* Initialize to {0}. */
struct child {
    pid_t process;
    sigset_t waited_for;
    /* Saved settings of this process, which are restored in the command. */
    sigset_t mask_before;
    struct sigaction child_ends_before; /* the disposition of SIGCHLD */
};

/* Blocks the signals that are passed on, also in threads started later; they stay pending for the
 * functions below. */
void child_hold_signals(struct child *child);

/* Starts the command, whose words end with NULL. *number is 0 if it runs, and otherwise the errno
 * that says why it could not be run. False if not even that is known. */
bool child_start(struct child *child, char **command, int *number, struct error *error);

/* Passes signals on until the command has ended; returns its status as waitpid gives it. */
int child_wait(const struct child *child);

/* Returns a signal that arrived after the command had ended and that ends processes, or 0. */
int child_held_signal(const struct child *child);

/* Reports why the command could not be run; returns the status of a process that exits for that
 * reason. */
int child_report_not_run(const struct child *child, const char *command, int number);

/* Starts the command and waits until it has ended. If it could not be run, this is reported.
 * *status is that of waitpid. */
bool child_run(struct child *child, char **command, int *status, struct error *error);

/* Becomes the command, with no child: for commands after which there is nothing to do. Returns only
 * if it cannot be run: the exit code, after this has been reported. */
int child_replace_process(char **command);

/* Ends this process by the signal that ended the command; if it exited, returns its exit code. */
int child_end_like(int status);

/* ---- signals ---- */

/* Call once, when the process starts. */
void signals_prepare(void);

/* Removes the outputs of this process that have temporary names, and what stands for a cache. Only
 * for the end of the process: neither can be used any more. */
void signals_remove_unfinished(void);

#endif
