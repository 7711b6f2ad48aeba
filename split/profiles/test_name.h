/*
 * The names of tests, for `covsplit merge --by NAME` and `--by-path`.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_TEST_NAME_H
#define COVSPLIT_SPLIT_PROFILES_TEST_NAME_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"

/* Where the names come from. */
struct test_naming {
    const char *name; /* --by: that of all; or NULL */
    bool by_path;     /* --by-path */
};

/* False if no tests are named. */
static inline bool test_naming_is_on(const struct test_naming *naming)
{
    return naming->name != NULL || naming->by_path;
}

/* Adds the name of the test of the profile at `path`. By path, that is the directory in which the
 * profile is, as seen from `root`, the directory that was named as an operand. For a profile that
 * is directly there, or was itself the operand (NULL), it is the file name without ".profraw" and
 * what follows that. The file of a claim (common/state/state.h) counts as the one that was claimed.
 * Fails if there is no such name. */
bool test_naming_add(const struct test_naming *naming, const char *root, const char *path,
                     struct path_list *tests, struct error *error);

#endif
