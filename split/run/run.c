/*
 * covsplit run: runs a command in whose programs sidecars, stripped images and lightweight profiles
 * read as what they stand for.
 *
 * The command is a child; this process stays beside it as the broker that converts files
 * (broker.h).
 */
#include <signal.h>

#include "common/base/error.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/run/broker.h"
#include "split/run/environment.h"

/* Runs the command; *status is that of waitpid. */
static bool run(const struct parsed_options *options, struct broker *broker, int *status,
                struct error *error)
{
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    struct child child = {0};
    int number = 0;

    child_hold_signals(&child);
    if (!child_start(&child, command, &number, error))
        return false;
    if (number != 0) {
        *status = child_report_not_run(&child, command[0], number);
        return true;
    }
    if (!broker_start(broker, error)) {
        kill(child.process, SIGKILL);
        return false;
    }
    *status = child_wait(&child);
    return true;
}

int command_run(const struct parsed_options *options)
{
    struct error error = {0};
    struct broker *broker = broker_open(options, &error);
    int status;
    bool done = broker != NULL && run_environment_set(broker_address(broker), &error) &&
                run(options, broker, &status, &error);

    broker_close(broker);
    if (done)
        return child_end_like(status);
    message_error(&error);
    return STATUS_FAILED;
}
