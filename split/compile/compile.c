/*
 * covsplit compile: runs a compiler, and packs the objects that it wrote (pack_file.h).
 *
 * All compilations of a build pass through here, so all that this adds to them counts: a command
 * that writes no objects replaces this process. Ordinary objects are as good as packed ones, only
 * larger: whatever goes wrong, the object that the compiler wrote stays whole.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/compile/compiler_outputs.h"
#include "split/compile/pack_file.h"

struct compile {
    const struct parsed_options *options;
    struct path_list outputs;
    struct file_before *before; /* for each of them */
};

/* Packs an output of the compiler. Whatever is not an object is left alone. */
static bool pack_output(const char *path, bool is_told, struct error *error)
{
    /* The build makes the object again if power fails: compilers do not wait for the disk. */
    struct pack_options options = {.threads = 1, .is_fast = true};
    struct pack_report report = {.outcome = PACK_NOTHING};
    bool done = pack_file(path, &options, &report, error);

    if (done)
        pack_report_warn(&report);
    if (done && is_told)
        pack_report_print(&report, path);
    pack_report_free(&report);
    return done;
}

/* Packs all outputs that were written, also if one fails. */
static bool pack_outputs(const struct compile *compile)
{
    bool is_told = option_given(compile->options, OPTION_VERBOSE);
    bool done = true;

    for (size_t i = 0; i < compile->outputs.count; i++) {
        const char *path = compile->outputs.paths[i];
        struct error error;
        struct stat now;
        bool written;

        if (file_was_written(&compile->before[i], path, &now, &written, &error) &&
            (!written || pack_output(path, is_told, &error)))
            continue;
        message_error(&error);
        done = false;
    }
    return done;
}

/* Runs the compiler and packs; returns the exit code. */
static int run(const struct compile *compile, char **command, struct error *error)
{
    struct child child = {0};
    int status = 0, number;
    bool is_packed;

    child_hold_signals(&child);
    if (!child_run(&child, command, &status, error)) {
        message_error(error);
        return STATUS_FAILED;
    }
    if (status != 0)
        return child_end_like(status);
    is_packed = pack_outputs(compile);
    number = child_held_signal(&child);
    if (number != 0)
        return child_end_like(W_EXITCODE(0, number));
    return is_packed ? STATUS_DONE : STATUS_FAILED;
}

static bool find_outputs(struct compile *compile, struct error *error)
{
    const struct parsed_options *options = compile->options;
    size_t count;

    if (!compiler_outputs_read(&compile->outputs, options->operands, options->operand_count, error))
        return false;
    count = compile->outputs.count;
    compile->before = calloc(count + 1, sizeof(*compile->before));
    if (compile->before == NULL)
        return error_out_of_memory(error, "the command line", count * sizeof(*compile->before));
    for (size_t i = 0; i < count; i++)
        compile->before[i] = file_look_before(compile->outputs.paths[i]);
    return true;
}

int command_compile(const struct parsed_options *options)
{
    struct compile compile = {.options = options};
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    struct error error;
    int status = STATUS_FAILED;

    if (!find_outputs(&compile, &error))
        message_error(&error);
    else if (compile.outputs.count == 0)
        status = child_replace_process(command);
    else
        status = run(&compile, command, &error);
    free(compile.before);
    path_list_free(&compile.outputs);
    return status;
}
