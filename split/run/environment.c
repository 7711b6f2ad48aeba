/*
 * The environment of a run: see run/environment.h.
 */
#include "split/run/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/run/module.h"
#include "split/run/preload_protocol.h"

/* Characters that separate names in LD_PRELOAD; there is no way to quote them. */
#define SEPARATORS ": "

/* The name of the module for LD_PRELOAD, as a new string. If its path contains a separator, the
 * name refers to a descriptor of this process, which stays open as long as the broker answers. */
static char *find_module(struct error *error)
{
    char *path, *name;
    int fd = module_open(&path, error);

    if (fd < 0)
        return NULL;
    if (path != NULL && strpbrk(path, SEPARATORS) == NULL) {
        close(fd);
        return path;
    }
    free(path);
    if (asprintf(&name, "/proc/%d/fd/%d", (int)getpid(), fd) >= 0)
        return name;
    error_out_of_memory(error, "LD_PRELOAD", PATH_MAX);
    close(fd);
    return NULL;
}

/* ---- variables ---- */

static bool set_variable(const char *name, const char *value, struct error *error)
{
    return setenv(name, value, 1) == 0 ||
           error_set_errno(error, errno, "%s: cannot be set in the environment", name);
}

/* Sets NAME to FIRST:SECOND, or to one of them if the other is empty or NULL. */
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

/* True if the list begins with the name, as it does inside another run. */
static bool begins_with(const char *list, const char *name)
{
    size_t length = strlen(name);

    return list != NULL && strncmp(list, name, length) == 0 &&
           (list[length] == '\0' || strchr(SEPARATORS, list[length]) != NULL);
}

/* AddressSanitizer's runtime, if it is a shared library, refuses to start after another preloaded
 * library, as that might allocate memory. The preload module never does. */
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
