/*
 * covsplit link: runs a link, and splits what it has written, as one step of a build.
 *
 * Build systems that call the linker themselves (cargo, CMake, Bazel) have no place for a step
 * behind it, but let it be wrapped. So everything that is linked in a build comes by here: programs
 * without coverage too, and commands that only compile. The wrapper must not be seen where there is
 * nothing to do, and what it cannot split must not be taken for done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/error.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/split/found_image.h"
#include "split/split/link_output.h"
#include "split/split/split_file.h"

struct link {
    const struct parsed_options *options;
    char *output;
    bool was_there; /* before the link, as `before` says */
    struct stat before;
    struct stat linked; /* what the command has written */
};

/* ---- the output ---- */

static bool is_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_changed(const struct stat *before, const struct stat *now)
{
    return now->st_size != before->st_size || now->st_mtim.tv_sec != before->st_mtim.tv_sec ||
           now->st_mtim.tv_nsec != before->st_mtim.tv_nsec ||
           now->st_ctim.tv_sec != before->st_ctim.tv_sec ||
           now->st_ctim.tv_nsec != before->st_ctim.tv_nsec;
}

/* A file that is as it was before was not written by this command: a compiler without -o and a
 * link has a.out for its output, but writes no such file. */
static bool is_written(struct link *link)
{
    const struct stat *now = &link->linked;

    if (stat(link->output, &link->linked) != 0 || !S_ISREG(now->st_mode))
        return false;
    return !link->was_there || !is_inode(&link->before, now) || is_changed(&link->before, now);
}

/* Nobody may take it for the result. But by now it may be that of somebody else, which is not ours
 * to remove. Of a file with several names, which is written over, some of the new bytes may be
 * ours; there the others keep what it is. */
static void remove_output(const struct link *link)
{
    struct stat now;

    if (stat(link->output, &now) == 0 && is_inode(&link->linked, &now) &&
        (link->linked.st_nlink > 1 || !is_changed(&link->linked, &now)))
        unlink(link->output);
}

static bool split_output(const struct link *link, struct error *error)
{
    struct split_report report = {.was_found = true};
    bool done =
        !found_image_is_linked(link->output) ||
        split_file(link->options, link->output, option_threads(link->options), &report, error);

    split_report_print_notes(&report);
    if (option_given(link->options, OPTION_VERBOSE)) {
        split_report_print_rows(&report);
        if (done && report.row_count == 0)
            message_line(stdout, "%s: nothing to split", link->output);
    }
    split_report_free(&report);
    return done;
}

/* ---- the whole ---- */

/* Runs the command; *status is that of the process, as of waitpid. */
static bool run_link(const struct link *link, struct child *child, int *status, struct error *error)
{
    /* The operands are those of main, whose strings execvp may have. */
    char **command = (char **)(uintptr_t)link->options->operands;
    int number = 0;

    if (!child_start(child, command, &number, error))
        return false;
    *status = number == 0 ? child_wait(child) : child_report_not_run(child, command[0], number);
    return true;
}

static bool run(struct link *link, int *status, struct error *error)
{
    struct child child = {0};
    int number;

    link->was_there = stat(link->output, &link->before) == 0;
    child_hold_signals(&child);
    if (!run_link(link, &child, status, error))
        return false;
    if (*status != 0 || !is_written(link))
        return true;
    if (!split_output(link, error)) {
        /* A sidecar that is there is of an earlier image, which may need it. */
        remove_output(link);
        return false;
    }
    number = child_held_signal(&child);
    if (number != 0)
        *status = W_EXITCODE(0, number);
    return true;
}

int command_link(const struct parsed_options *options)
{
    struct link link = {.options = options};
    struct error error;
    int status = 0;
    bool done;

    if (option_given(options, OPTION_REPLACE) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("link", "'--replace' is for '--store DIR'");
    link.output = link_output_find(options->operands, options->operand_count, &error);
    done = link.output != NULL && run(&link, &status, &error);
    free(link.output);
    if (done)
        return child_end_like(status);
    message_error(&error);
    return STATUS_FAILED;
}
