/*
 * A command that is run as a child, by a process that looks like the command to whoever started it:
 * signals are passed on, and it ends as the command does. Both are in one process group, so what a
 * terminal sends reaches both anyway.
 *
 * Killing this process kills the command.
 */
#ifndef COVSPLIT_SPLIT_CLI_CHILD_H
#define COVSPLIT_SPLIT_CLI_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Start from {0}. */
struct child {
    pid_t process;
    sigset_t waited_for;
    /* What the command gets back of what this process changes for itself. */
    sigset_t mask_before;
    struct sigaction child_ends_before; /* SIGCHLD: its disposition */
};

/* From here on the signals wait until they are asked for, also in threads to come. */
void child_hold_signals(struct child *child);

/* Starts the command, whose words end with NULL. *number is why it could not be run (an errno), and
 * is 0 where it runs. False where not even that is known. */
bool child_start(struct child *child, char **command, int *number, struct error *error);

/* Passes signals on until the command has ended; returns its status, as of waitpid. */
int child_wait(const struct child *child);

/* A signal that came after the command had ended, and ends a process; 0: none did. */
int child_held_signal(const struct child *child);

/* Says why the command could not be run; returns the status of a process that ended so. */
int child_report_not_run(const struct child *child, const char *command, int number);

/* Ends as a command with that status did; returns its exit code where that was by exit. */
int child_end_like(int status);

#endif
