/*
 * Collecting inputs: see merge_inputs.h.
 */
#include "split/profiles/merge_inputs.h"

#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"

/* What an earlier run may have put there. */
static bool is_not_output(void *context, const char *path, const struct stat *status)
{
    const char *output = context;

    (void)path;
    return !file_is(output, status);
}

static bool add_one(struct path_list *inputs, const char *path, const char *output,
                    struct error *error)
{
    struct stat status;

    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return path_list_add_directory(inputs, path, true, is_not_output, (void *)(uintptr_t)output,
                                       error);
    return path_list_add(inputs, path, error);
}

/* ---- lists ---- */

static bool add_list(struct path_list *inputs, const char *path, const char *output,
                     struct error *error)
{
    struct buffer text = {0};
    char *rest, *line;
    bool added = file_read_into(&text, path, MEMORY_LIMIT_MOST, error);

    /* The lines are strings from here on: what follows a zero would be lost without a word. */
    if (added && text.size != 0 && memchr(text.data, '\0', text.size) != NULL)
        added = error_set(error,
                          "%s: has NUL bytes in it, which no path has; list one path a line "
                          "(find -print, not -print0)",
                          path);
    if (added && !buffer_append(&text, "", 1))
        added = error_out_of_memory(error, path, text.size);
    rest = (char *)text.data;
    while (added && (line = strsep(&rest, "\n")) != NULL) {
        size_t length = strlen(line);

        if (length != 0 && line[length - 1] == '\r')
            line[length - 1] = '\0';
        if (line[0] != '\0' && line[0] != '#')
            added = add_one(inputs, line, output, error);
    }
    buffer_free(&text);
    return added;
}

bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      struct error *error)
{
    if (operand[0] == '@' && operand[1] != '\0')
        return add_list(inputs, operand + 1, output, error);
    return add_one(inputs, operand, output, error);
}
