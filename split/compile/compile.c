/*
 * covsplit compile: runs a compiler, and packs the objects that it wrote.
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
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/compile/compile.h"

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
    struct pack_result result = {.outcome = PACK_NOTHING};
    bool done = pack_file(path, &options, &result, error);

    if (done)
        notes_print(&result.notes);
    if (done && is_told)
        pack_result_print(&result, path);
    pack_result_free(&result);
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

int command_compile(const struct parsed_options *options)
{
    struct compile compile = {.options = options};
    struct path_list *outputs = &compile.outputs;
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    struct error error;
    int status = STATUS_FAILED;

    if (!compiler_outputs_read(outputs, options->operands, options->operand_count, &error)) {
        message_error(&error);
    } else if (outputs->count == 0) {
        status = child_replace_process(command);
    } else {
        compile.before = command_array(outputs->count, sizeof(*compile.before));
        for (size_t i = 0; i < outputs->count; i++)
            compile.before[i] = file_look_before(outputs->paths[i]);
        status = run(&compile, command, &error);
    }
    free(compile.before);
    path_list_free(outputs);
    return status;
}
