/*
 * covsplit: the command.
 *
 * This file sets up and ends the process; command_table.c lists the subcommands.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "split/cli/child.h"
#include "split/cli/dispatch.h"
#include "split/cli/message.h"

/* ---- the process ---- */

/* If the caller has closed stdin, stdout or stderr, the next file opened would get that descriptor,
 * and messages would go into an image. The descriptors are opened for the wrong direction, so that
 * using them still fails. */
static bool occupy_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1)
            continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    }
    return true;
}

/* Writing buffered output may fail only here: a full disk must not look like success. */
static int finish_output(int status)
{
    bool failed = ferror(stdout) != 0;
    struct error error;

    if (fclose(stdout) == 0 && !failed)
        return status;
    if (failed)
        error_set(&error, "standard output: cannot be written; make room or send it elsewhere");
    else
        error_set(&error, "standard output: cannot be written: %s; make room or send it elsewhere",
                  strerror(errno));
    message_error(&error);
    return status == STATUS_DONE ? STATUS_FAILED : status;
}

int main(int argc, char **argv)
{
    if (!occupy_standard_descriptors())
        return STATUS_FAILED;
    signals_prepare();
    return finish_output(dispatch(argc, argv));
}
