/*
 * covsplit run: runs a command in whose programs sidecars, stripped images and lightweight profiles
 * read as what they stand for.
 *
 * The command is a child; this process stays beside it as the broker that converts files
 * (broker.c). The environment makes the preload module (preload.c) a part of the command and all
 * its children. The module is installed beside the command or, if the command is static, contained
 * in it (module_inside.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "split/cli/child.h"
#include "split/cli/commands.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/run/preload_protocol.h"
#include "split/run/run.h"

#define MODULE_NAME "libcovsplit-preload.so"

/* Characters that separate names in LD_PRELOAD; there is no way to quote them. */
#define SEPARATORS ": "

/* ---- the preload module ---- */

/* The module in the command; NULL if it is not there. */
extern const uint8_t preload_module[] __attribute__((weak));
extern const uint8_t preload_module_end[] __attribute__((weak));

/* A name for the descriptor, which stays open as long as the broker answers. */
static char *name_descriptor(int fd)
{
    return command_text("/proc/%d/fd/%d", (int)getpid(), fd);
}

/* Writes the module that the command contains to a file in memory, which the dynamic linkers of
 * other programs load. */
static char *unpack_module(struct error *error)
{
    size_t size = (size_t)(preload_module_end - preload_module), done = 0;
    int fd = memfd_create("covsplit:" MODULE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    while (fd >= 0 && done < size) {
        ssize_t written = write(fd, preload_module + done, size - done);

        if (written < 0 && errno != EINTR)
            break;
        done += written < 0 ? 0 : (size_t)written;
    }
    if (done == size && fd >= 0 && fchmod(fd, 0555) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return name_descriptor(fd);
    error_set_errno(error, errno, MODULE_NAME ": cannot be written to memory");
    return NULL;
}

/* Finds the installed module relative to the command itself, so that an installation can be moved.
 * COVSPLIT_PRELOAD_INSTALLED and COVSPLIT_PRELOAD_BUILT are its paths relative to the command's
 * directory, set by the build system. */
static char *find_module(struct error *error)
{
    static const char *const places[] = {COVSPLIT_PRELOAD_INSTALLED, COVSPLIT_PRELOAD_BUILT};
    char directory[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", directory, sizeof(directory) - 1);
    char *found = NULL;
    int fd;

    if (size < 0) {
        error_set_errno(error, errno, "/proc/self/exe: cannot be read");
        return NULL;
    }
    directory[size] = '\0';
    *strrchr(directory, '/') = '\0';
    for (size_t i = 0; found == NULL && i < 2; i++) {
        char *path = command_text("%s/%s", directory, places[i]);

        found = realpath(path, NULL); /* without "..", as LD_PRELOAD is seen by many */
        exit_unless_allocated(found != NULL || errno != ENOMEM, sizeof(directory));
        free(path);
    }
    if (found == NULL) {
        error_set(error, "%s/%s: the preload module is missing; install covsplit again", directory,
                  COVSPLIT_PRELOAD_INSTALLED);
        return NULL;
    }
    fd = open(found, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_set_errno(error, errno, "%s: cannot be read", found);
    } else if (strpbrk(found, SEPARATORS) == NULL) {
        close(fd);
        return found;
    }
    free(found);
    return fd < 0 ? NULL : name_descriptor(fd);
}

/* ---- the environment ---- */

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
    value = command_text("%s:%s", first, second);
    done = set_variable(name, value, error);
    free(value);
    return done;
}

/* Sets LD_PRELOAD, so that the preload module is loaded first, PRELOAD_ENVIRONMENT, and
 * ASAN_OPTIONS: AddressSanitizer's runtime, if it is a shared library, refuses to start after
 * another preloaded library, as that might allocate memory. The preload module never does. */
static bool set_environment(const char *broker_address, struct error *error)
{
    const char *before = getenv("LD_PRELOAD"), *sanitizer = getenv("ASAN_OPTIONS");
    char *module = preload_module != NULL ? unpack_module(error) : find_module(error);
    size_t length = module == NULL ? 0 : strlen(module);
    bool done = module != NULL;

    /* Inside another run, the list begins with the module already. */
    if (done && (before == NULL || strncmp(before, module, length) != 0 ||
                 (before[length] != '\0' && strchr(SEPARATORS, before[length]) == NULL)))
        done = set_list("LD_PRELOAD", module, before, error);
    done = done && set_variable(PRELOAD_ENVIRONMENT, broker_address, error);
    if (done && (sanitizer == NULL || strstr(sanitizer, "verify_asan_link_order") == NULL))
        done = set_list("ASAN_OPTIONS", sanitizer, "verify_asan_link_order=0", error);
    free(module);
    return done;
}

/* ---- the command ---- */

/* Runs the command; *status is that of waitpid. */
static bool run(const struct parsed_options *options, struct broker *broker, int *status,
                struct error *error)
{
    /* The operands are main's arguments, which execvp may take. */
    char **command = (char **)(uintptr_t)options->operands;
    struct child child = {0};
    int number = 0;

    child_hold_signals(&child);
    if (!child_start(&child, command, &number, error))
        return false;
    if (number != 0) {
        *status = child_report_not_run(&child, command[0], number);
        return true;
    }
    if (!broker_start(broker, error)) {
        kill(child.process, SIGKILL);
        return false;
    }
    *status = child_wait(&child);
    return true;
}

int command_run(const struct parsed_options *options)
{
    struct error error = {0};
    struct broker *broker = broker_open(options, &error);
    int status;
    bool done = broker != NULL && set_environment(broker_address(broker), &error) &&
                run(options, broker, &status, &error);

    broker_close(broker);
    if (done)
        return child_end_like(status);
    message_error(&error);
    return STATUS_FAILED;
}
