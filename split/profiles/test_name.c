/*
 * The names of tests: see test_name.h.
 */
#include "split/profiles/test_name.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/stream.h"
#include "common/state/reached.h"
#include "common/state/state.h"

static const char extension[] = ".profraw";

/* The part of the path below the root. */
static const char *below(const char *root, const char *path)
{
    if (root == NULL || strncmp(path, root, strlen(root)) != 0)
        return NULL;
    path += strlen(root);
    return path + strspn(path, "/");
}

/* The length of the file name without the extension. A name that is nothing but the extension is
 * kept. */
static size_t stem_length(const char *file, size_t length)
{
    for (size_t i = length; i-- > 1;) {
        size_t end = i + strlen(extension);

        if (end <= length && memcmp(file + i, extension, strlen(extension)) == 0 &&
            (end == length || file[end] == '.'))
            return i;
    }
    return length;
}

/* The place of the name in the path, and its length. */
static const char *find_name(const char *root, const char *path, size_t *length)
{
    const char *inside = below(root, path), *slash = strrchr(path, '/');
    const char *file = slash == NULL ? path : slash + 1;

    if (inside != NULL && slash != NULL && slash > inside) {
        *length = (size_t)(slash - inside);
        return inside;
    }
    *length = state_claim_name_length(file);
    if (*length != 0)
        file++;
    else
        *length = strlen(file);
    *length = stem_length(file, *length);
    return file;
}

static bool add_name(const char *from, size_t length, struct path_list *tests, struct error *error)
{
    char *name = strndup(from, length);
    bool added;

    if (name == NULL)
        return error_out_of_memory(error, from, length);
    added = reached_check_name(name, error) && path_list_add(tests, name, error);
    free(name);
    return added;
}

bool test_naming_add(const struct test_naming *naming, const char *root, const char *path,
                     struct path_list *tests, struct error *error)
{
    const char *name = naming->name;
    size_t length;

    if (name != NULL)
        return add_name(name, strlen(name), tests, error);
    if (stream_is_standard_input(path))
        return error_set(error, "standard input: has no path to name a test by; use '--by NAME'");
    name = find_name(root, path, &length);
    return add_name(name, length, tests, error);
}
