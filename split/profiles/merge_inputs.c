/*
 * Collecting inputs: see merge_inputs.h.
 */
#include "split/profiles/merge_inputs.h"

#include <limits.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/stream.h"
#include "common/state/state.h"

struct collecting {
    struct path_list *inputs;
    const char *output;
    const char *outputs; /* a directory of further outputs, which may be missing; or NULL */
    const struct test_naming *naming;
    struct path_list *tests;
    /* The directory of the file that was looked at last, and the state that it belongs to: it, or
     * the one above it. "" if there is none. */
    char directory[PATH_MAX];
    char state[PATH_MAX];
    bool is_outputs;        /* whether it is `outputs` */
    char strange[PATH_MAX]; /* a state that was found below a directory; "": none */
};

/* Finds out what another directory is. */
static void examine_directory(struct collecting *collecting)
{
    char above[PATH_MAX];
    const char *state = "";
    struct stat status;

    collecting->is_outputs = collecting->outputs != NULL &&
                             stat(collecting->directory, &status) == 0 &&
                             file_is(collecting->outputs, &status);
    if (state_is(collecting->directory))
        state = collecting->directory;
    else if (path_directory(collecting->directory, above) && state_is(above))
        state = above;
    memmove(collecting->state, state, strlen(state) + 1);
}

/* A path_filter: passes over outputs of an earlier run, and over what is in a state. */
static bool is_profile(void *context, const char *path, const struct stat *status)
{
    struct collecting *collecting = context;
    char directory[PATH_MAX];
    struct stat state;

    if (file_is(collecting->output, status))
        return false;
    if (!path_directory(path, directory))
        return true;
    if (strcmp(directory, collecting->directory) != 0) {
        memcpy(collecting->directory, directory, strlen(directory) + 1);
        examine_directory(collecting);
    }
    if (collecting->is_outputs)
        return false;
    if (collecting->state[0] == '\0' || stat(collecting->state, &state) != 0)
        return true;
    if (!file_is(collecting->output, &state))
        memcpy(collecting->strange, collecting->state, strlen(collecting->state) + 1);
    return false;
}

static bool add_directory(struct collecting *collecting, const char *path, struct error *error)
{
    struct stat status;

    if (state_is(path) && stat(path, &status) == 0 && file_is(collecting->output, &status))
        return error_set(error, "%s: the state itself; name what is to be added to it", path);
    if (state_is(path))
        return path_list_add(collecting->inputs, path, error);
    if (collecting->outputs != NULL && paths_meet(path, collecting->outputs))
        return error_set(error,
                         "%s: is to be read, and to get the output of each image; give another "
                         "--per-image",
                         path);
    if (!path_list_add_directory(collecting->inputs, path, true, is_profile, collecting, error))
        return false;
    return collecting->strange[0] == '\0' ||
           error_set(error,
                     "%s: a state in a directory of profiles; name it by itself, and move it "
                     "elsewhere",
                     collecting->strange);
}

static bool add_files(struct collecting *collecting, const char *path, struct error *error)
{
    if (stream_is_standard_input(path)) {
        for (size_t i = 0; i < collecting->inputs->count; i++) {
            if (stream_is_standard_input(collecting->inputs->paths[i]))
                return error_set(error, "standard input: named twice ('-'); name it once");
        }
    } else if (path_is_directory(path)) {
        return add_directory(collecting, path, error);
    }
    return path_list_add(collecting->inputs, path, error);
}

/* A claim (state.h) may count in a state already, or do so any moment: here it would count again.
 */
static bool check_not_claimed(const char *path, struct error *error)
{
    return state_claim_name_length(path_file_name(path)) == 0 ||
           error_set(
               error,
               "%s: is being merged into a state; finish that (merge --into STATE --consume), "
               "or give it its name again if that state is gone",
               path);
}

/* An operand_visitor. */
static bool add_one(void *context, const char *path, struct error *error)
{
    struct collecting *collecting = context;
    struct path_list *inputs = collecting->inputs;
    bool is_directory = !stream_is_standard_input(path) && path_is_directory(path);
    size_t before = inputs->count;
    bool done = add_files(collecting, path, error);

    for (size_t i = before; done && i < inputs->count; i++)
        done = check_not_claimed(inputs->paths[i], error) &&
               (!test_naming_is_on(collecting->naming) ||
                test_naming_add(collecting->naming, is_directory ? path : NULL, inputs->paths[i],
                                collecting->tests, error));
    return done;
}

bool merge_inputs_add(struct path_list *inputs, const char *operand, const char *output,
                      const char *outputs, const struct test_naming *naming,
                      struct path_list *tests, struct error *error)
{
    struct collecting collecting = {
        .inputs = inputs, .output = output, .outputs = outputs, .naming = naming, .tests = tests};

    return operand_visit(operand, add_one, &collecting, error);
}
