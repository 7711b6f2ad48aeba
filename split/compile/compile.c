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

/* Packs those of the compiler's outputs that were written, also if one fails. Whatever is not an
 * object is left alone. */
static bool pack_outputs(const struct path_list *outputs, const struct file_before *before,
                         bool is_told)
{
    /* The build makes the object again if power fails: compilers do not wait for the disk. */
    const struct pack_options options = {.threads = 1, .is_fast = true};
    bool all = true;

    for (size_t i = 0; i < outputs->count; i++) {
        const char *path = outputs->paths[i];
        struct pack_result result = {.outcome = PACK_NOTHING};
        struct error error;
        struct stat now;
        bool written = false, done = file_was_written(&before[i], path, &now, &written, &error);

        if (done && written)
            done = pack_file(path, &options, &result, &error);
        if (done)
            notes_print(&result.notes);
        else
            message_error(&error);
        if (done && written && is_told)
            pack_result_print(&result, path);
        pack_result_free(&result);
        all = all && done;
    }
    return all;
}

/* Runs the compiler and packs; returns the exit code. */
static int run(char **command, const struct path_list *outputs, bool is_told)
{
    struct file_before *before = command_array(outputs->count, sizeof(*before));
    struct child child = {0};
    struct error error;
    bool is_packed = false;
    int status = 0, number;

    for (size_t i = 0; i < outputs->count; i++)
        before[i] = file_look_before(outputs->paths[i]);
    child_hold_signals(&child);
    if (!child_run(&child, command, &status, &error)) {
        message_error(&error);
        status = W_EXITCODE(STATUS_FAILED, 0);
    } else if (status == 0) {
        is_packed = pack_outputs(outputs, before, is_told);
        number = child_held_signal(&child);
        status = number != 0 ? W_EXITCODE(0, number)
                             : W_EXITCODE(is_packed ? STATUS_DONE : STATUS_FAILED, 0);
    }
    free(before);
    return child_end_like(status);
}

int command_compile(const struct parsed_options *options)
{
    struct path_list outputs = {0};
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    struct error error;
    int status = STATUS_FAILED;

    if (!compiler_outputs_read(&outputs, options->operands, options->operand_count, &error))
        message_error(&error);
    else if (outputs.count == 0)
        status = child_replace_process(command);
    else
        status = run(command, &outputs, option_given(options, OPTION_VERBOSE));
    path_list_free(&outputs);
    return status;
}
