/*
 * The environment of a run: see run/environment.h.
 *
 * The module is found by where the command itself is, so that an installation can be moved.
 * COVSPLIT_PRELOAD_INSTALLED and COVSPLIT_PRELOAD_BUILT are the ways from the command's directory
 * to the module, as the build system knows them.
 */
#include "split/run/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/run/preload_protocol.h"

/* What the dynamic linker takes for the end of a name in LD_PRELOAD, without any way to quote it.
 */
#define SEPARATORS ": "

/* ---- the module ---- */

/* The directory of the running program, without a slash at its end. */
static bool find_directory(char directory[PATH_MAX], struct error *error)
{
    ssize_t size = readlink("/proc/self/exe", directory, PATH_MAX - 1);

    if (size < 0)
        return error_set_errno(error, errno, "/proc/self/exe: cannot be read");
    directory[size] = '\0';
    *strrchr(directory, '/') = '\0';
    return true;
}

/* The module's path without "..": what is in LD_PRELOAD is seen by many. NULL where it is not
 * there, with an errno of ENOMEM where that is not known. */
static char *find_below(const char *directory, const char *relative)
{
    char *path, *found;

    if (asprintf(&path, "%s/%s", directory, relative) < 0)
        return NULL;
    found = realpath(path, NULL);
    free(path);
    return found;
}

/* A name for a file whose path cannot be in LD_PRELOAD: through a descriptor of this process, which
 * stays open as long as the broker answers. */
static char *name_by_descriptor(char *path, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *name = NULL;

    if (fd < 0)
        error_set_errno(error, errno, "%s: cannot be read", path);
    else if (asprintf(&name, "/proc/%d/fd/%d", (int)getpid(), fd) < 0) {
        error_out_of_memory(error, path, PATH_MAX);
        name = NULL;
    }
    free(path);
    return name;
}

/* The name of the module for LD_PRELOAD, as a new string. */
static char *find_module(struct error *error)
{
    char directory[PATH_MAX];
    char *path;

    if (!find_directory(directory, error))
        return NULL;
    path = find_below(directory, COVSPLIT_PRELOAD_INSTALLED);
    if (path == NULL && errno != ENOMEM)
        path = find_below(directory, COVSPLIT_PRELOAD_BUILT);
    if (path == NULL && errno == ENOMEM) {
        error_out_of_memory(error, directory, PATH_MAX);
        return NULL;
    }
    if (path == NULL) {
        error_set(error, "%s/%s: the preload module is missing; install covsplit again", directory,
                  COVSPLIT_PRELOAD_INSTALLED);
        return NULL;
    }
    return strpbrk(path, SEPARATORS) == NULL ? path : name_by_descriptor(path, error);
}

/* ---- variables ---- */

static bool set_variable(const char *name, const char *value, struct error *error)
{
    return setenv(name, value, 1) == 0 ||
           error_set_errno(error, errno, "%s: cannot be set in the environment", name);
}

/* Sets NAME to FIRST:SECOND, or to one of them where the other is empty or NULL. */
static bool set_list(const char *name, const char *first, const char *second, struct error *error)
{
    char *value;
    bool done;

    if (first == NULL || first[0] == '\0')
        return set_variable(name, second, error);
    if (second == NULL || second[0] == '\0')
        return set_variable(name, first, error);
    if (asprintf(&value, "%s:%s", first, second) < 0)
        return error_out_of_memory(error, name, strlen(first) + strlen(second));
    done = set_variable(name, value, error);
    free(value);
    return done;
}

/* True where the list begins with that name, as it does inside another run. */
static bool begins_with(const char *list, const char *name)
{
    size_t length = strlen(name);

    return list != NULL && strncmp(list, name, length) == 0 &&
           (list[length] == '\0' || strchr(SEPARATORS, list[length]) != NULL);
}

/* AddressSanitizer's runtime, where it is a shared library, refuses to start behind another one
 * that is preloaded, as that might allocate memory. This one never does. */
static bool set_sanitizer_options(struct error *error)
{
    const char *options = getenv("ASAN_OPTIONS");

    return (options != NULL && strstr(options, "verify_asan_link_order") != NULL) ||
           set_list("ASAN_OPTIONS", options, "verify_asan_link_order=0", error);
}

bool run_environment_set(const char *broker_address, struct error *error)
{
    const char *before = getenv("LD_PRELOAD");
    char *module = find_module(error);
    bool done;

    if (module == NULL)
        return false;
    done = (begins_with(before, module) || set_list("LD_PRELOAD", module, before, error)) &&
           set_variable(PRELOAD_ENVIRONMENT, broker_address, error) && set_sanitizer_options(error);
    free(module);
    return done;
}
