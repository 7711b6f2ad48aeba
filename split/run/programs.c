/*
 * The programs that open files in a `covsplit run`, as far as /proc tells: what they are called,
 * and what their command lines say.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/cli/command_words.h"
#include "split/run/run.h"

bool program_find_option(pid_t process, const char *const *names, size_t count,
                         char value[PATH_MAX])
{
    char path[64], *argument = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *arguments;

    value[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)process);
    arguments = fopen(path, "re");
    while (!found && arguments != NULL && getdelim(&argument, &capacity, '\0', arguments) > 0) {
        const char *name = argument + strspn(argument, "-");
        size_t length = strcspn(name, "=");

        for (size_t i = 0; i < count; i++)
            found |= (name == argument + 1 || name == argument + 2) && length == strlen(names[i]) &&
                     memcmp(name, names[i], length) == 0;
        if (found && name[length] == '=')
            snprintf(value, PATH_MAX, "%s", name + length + 1);
        else if (found && getdelim(&argument, &capacity, '\0', arguments) > 0)
            snprintf(value, PATH_MAX, "%s", argument);
    }
    free(argument);
    if (arguments != NULL)
        fclose(arguments);
    return found;
}

bool program_correlates(pid_t process)
{
    static const char *const names[] = {"binary-file", "debug-info", "correlate"};
    char value[PATH_MAX];

    return program_find_option(process, names, sizeof(names) / sizeof(names[0]), value);
}

const char *program_role(pid_t process, char program[PATH_MAX])
{
    static const char *const multicall_programs[] = {"busybox", "coreutils", "llvm", "toybox"};
    char path[64], *name, *hyphen;
    ssize_t size;

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process);
    size = readlink(path, program, PATH_MAX);
    program[size < 0 || size >= PATH_MAX ? 0 : size] = '\0';
    name = (char *)(uintptr_t)path_file_name(program);
    for (size_t i = 0; i < sizeof(multicall_programs) / sizeof(multicall_programs[0]); i++) {
        FILE *called;

        if (strcmp(name, multicall_programs[i]) != 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)process);
        called = fopen(path, "re");
        if (called != NULL && fgets(program, PATH_MAX, called) != NULL) {
            program[strcspn(program, "\n")] = '\0';
            name = program;
        }
        if (called != NULL)
            fclose(called);
        break;
    }
    hyphen = strrchr(name, '-');
    if (hyphen != NULL && hyphen[1] != '\0' &&
        hyphen[1 + strspn(hyphen + 1, ".0123456789")] == '\0')
        *hyphen = '\0';
    hyphen = strrchr(name, '-');
    if (hyphen != NULL)
        name = hyphen + 1;
    name[strcspn(name, ".")] = '\0';
    return name;
}

bool program_must_see_the_file_itself(const char *role)
{
    static const char *const roles[] = {
        "7z",    "ar",   "bsdtar", "bzip2",    "chrpath", "cmake",   "covsplit", "cp",
        "cpio",  "dd",   "dwz",    "ginstall", "git",     "gold",    "gzip",     "install",
        "ld",    "ld64", "lld",    "mold",     "mv",      "objcopy", "patchelf", "pigz",
        "rsync", "scp",  "strip",  "tar",      "xz",      "zip",     "zstd",     NULL,
    };

    return word_is_listed(role, roles);
}
