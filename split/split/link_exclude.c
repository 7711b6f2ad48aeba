/*
 * Outputs that are left alone: see link_exclude.h.
 */
#include "split/split/link_exclude.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Outputs that the named tools make only to throw them away. */
static const char *const defaults[] = {
    /* autoconf and libtool */
    "conftest",
    "conftest.*",
    /* CMake: the identification of compilers, try_compile, and checks of link-time optimization */
    "CMakeFiles/*/CompilerId*/*",
    "CMakeFiles/CMakeScratch/*",
    "CMakeFiles/CMakeTmp/*",
    "CMakeFiles/_CMakeLTOTest-*",
    /* Meson */
    "meson-private/*",
};

/* Makes a path absolute; NULL with an error. */
static char *make_absolute(const char *path, struct error *error)
{
    char directory[PATH_MAX];
    char *absolute;

    if (path[0] == '/')
        directory[0] = '\0';
    else if (getcwd(directory, sizeof(directory)) == NULL) {
        error_set_errno(error, errno, "%s: its directory is not known", path);
        return NULL;
    }
    if (asprintf(&absolute, "%s%s%s", directory, path[0] == '/' ? "" : "/", path) >= 0)
        return absolute;
    error_out_of_memory(error, path, strlen(path));
    return NULL;
}

/* A pattern without a slash is compared with the file name only. Otherwise "test*" would match
 * every output below "/home/tester", because '*' matches slashes too. */
static bool matches(const char *pattern, const char *absolute)
{
    const char *slash = absolute;

    if (strchr(pattern, '/') == NULL)
        return fnmatch(pattern, strrchr(absolute, '/') + 1, 0) == 0;
    if (fnmatch(pattern, absolute, 0) == 0)
        return true;
    while ((slash = strchr(slash, '/')) != NULL) {
        slash++;
        if (fnmatch(pattern, slash, 0) == 0)
            return true;
    }
    return false;
}

/* The user's patterns come before the defaults, as messages name the pattern that matched. */
static const char *find_pattern(const struct parsed_options *options, const char *absolute)
{
    const char *pattern;

    for (size_t i = 0; (pattern = option_text_at(options, OPTION_EXCLUDE, i)) != NULL; i++) {
        if (matches(pattern, absolute))
            return pattern;
    }
    if (option_given(options, OPTION_NO_DEFAULT_EXCLUDES))
        return NULL;
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (matches(defaults[i], absolute))
            return defaults[i];
    }
    return NULL;
}

bool link_exclude_find_file(const struct parsed_options *options, const char *path,
                            const char **pattern, struct error *error)
{
    char *absolute = make_absolute(path, error);

    if (absolute == NULL)
        return false;
    *pattern = find_pattern(options, absolute);
    free(absolute);
    return true;
}

/* Without an output, the inputs count: autoconf's first test links conftest.c to a.out. */
bool link_exclude_find(const struct parsed_options *options, const struct link_command *command,
                       const char **pattern, struct error *error)
{
    bool done = link_exclude_find_file(options, command->output, pattern, error);

    if (command->names_output)
        return done;
    for (size_t i = 0; done && *pattern == NULL && i < command->inputs.count; i++)
        done = link_exclude_find_file(options, command->inputs.paths[i], pattern, error);
    return done;
}
