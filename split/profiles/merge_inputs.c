/*
 * Collecting inputs: see merge_inputs.h.
 */
#include "split/profiles/merge_inputs.h"

#include <stdint.h>

#include <string.h>

#include "common/base/file.h"
#include "common/base/stream.h"

/* A path_filter: passes over the output of an earlier run. */
static bool is_not_output(void *context, const char *path, const struct stat *status)
{
    const char *output = context;

    (void)path;
    return !file_is(output, status);
}

struct collecting {
    struct path_list *inputs;
    const char *output;
};

/* An operand_visitor. */
static bool add_one(void *context, const char *path, struct error *error)
{
    const struct collecting *collecting = context;

    if (stream_is_standard_input(path)) {
        for (size_t i = 0; i < collecting->inputs->count; i++) {
            if (stream_is_standard_input(collecting->inputs->paths[i]))
                return error_set(error, "standard input: named twice ('-'); name it once");
        }
    } else if (path_is_directory(path))
        return path_list_add_directory(collecting->inputs, path, true, is_not_output,
                                       (void *)(uintptr_t)collecting->output, error);
    return path_list_add(collecting->inputs, path, error);
}

bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      struct error *error)
{
    struct collecting collecting = {inputs, output};

    return operand_visit(operand, add_one, &collecting, error);
}
