/*
 * Collecting inputs: see merge_inputs.h.
 */
#include "split/merge_inputs.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/file.h"

static bool add_path(struct merge_inputs *inputs, const char *path, struct error *error)
{
    /* Grows at powers of two. */
    if ((inputs->count & (inputs->count - 1)) == 0) {
        size_t capacity = inputs->count == 0 ? 1 : inputs->count * 2;
        char **paths = realloc(inputs->paths, capacity * sizeof(*paths));

        if (paths == NULL)
            return error_out_of_memory(error, path, capacity * sizeof(*paths));
        inputs->paths = paths;
    }
    inputs->paths[inputs->count] = strdup(path);
    if (inputs->paths[inputs->count] == NULL)
        return error_out_of_memory(error, path, strlen(path));
    inputs->count++;
    return true;
}

void merge_inputs_free(struct merge_inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        free(inputs->paths[i]);
    free(inputs->paths);
    *inputs = (struct merge_inputs){0};
}

/* ---- directories ---- */

static int compare_names(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool add_entry(struct merge_inputs *inputs, const FTSENT *entry, const char *output,
                      struct error *error)
{
    switch (entry->fts_info) {
    case FTS_F:
        return file_is(output, entry->fts_statp) || add_path(inputs, entry->fts_path, error);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return error_set_errno(error, entry->fts_errno, "%s: cannot be read", entry->fts_path);
    case FTS_DC:
        return error_set(error, "%s: a directory inside of itself; name files", entry->fts_path);
    default:
        return true; /* directories on the way, and what is no regular file */
    }
}

static bool add_directory(struct merge_inputs *inputs, const char *path, const char *output,
                          struct error *error)
{
    char *copy = strdup(path);
    char *const roots[] = {copy, NULL};
    FTS *walk = copy == NULL ? NULL : fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, compare_names);
    const FTSENT *entry;
    bool added = true;

    if (walk == NULL) {
        free(copy);
        return error_set_errno(error, errno, "%s: cannot be read", path);
    }
    while (added && (entry = fts_read(walk)) != NULL)
        added = add_entry(inputs, entry, output, error);
    fts_close(walk);
    free(copy);
    return added;
}

static bool add_one(struct merge_inputs *inputs, const char *path, const char *output,
                    struct error *error)
{
    struct stat status;

    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return add_directory(inputs, path, output, error);
    return add_path(inputs, path, error);
}

/* ---- lists ---- */

static bool add_list(struct merge_inputs *inputs, const char *path, const char *output,
                     struct error *error)
{
    struct buffer text = {0};
    char *rest, *line;
    bool added = file_read_into(&text, path, error);

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

bool merge_inputs_add(struct merge_inputs *inputs, const char *operand, const char *output,
                      struct error *error)
{
    if (operand[0] == '@' && operand[1] != '\0')
        return add_list(inputs, operand + 1, output, error);
    return add_one(inputs, operand, output, error);
}
