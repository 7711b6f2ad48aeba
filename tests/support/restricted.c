/*
 * Restrictions by a seccomp filter: see restricted.h. The suite runs itself, sets the filter up,
 * and becomes the command.
 */
#include "tests/support/restricted.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK "--restriction="

struct command command_restrict(const struct command *command, enum restriction restriction)
{
    struct command restricted = *command;
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        abort();
    }
    restricted.arguments = (struct text_list){0};
    text_list_add(&restricted.arguments, self);
    text_list_add_format(&restricted.arguments, MARK "%d", (int)restriction);
    text_list_add_all(&restricted.arguments, (const char *const *)command->arguments.items);
    return restricted;
}

#define LOAD(member)                                                                               \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, member))
#define FAIL(number) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number))

/* The bit that O_TMPFILE has beside O_DIRECTORY. */
#define UNNAMED_BIT (O_TMPFILE & ~O_DIRECTORY)

/* The arguments are the low halves of 64 bits: the machine is little-endian. */
static const struct sock_filter filter[] = {
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
    LOAD(args[2]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, UNNAMED_BIT, 0, 8),
    FAIL(EOPNOTSUPP),
    /* 5: links */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 0, 1),
    FAIL(EPERM),
    /* 8: renames */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
    LOAD(args[4]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, RENAME_NOREPLACE | RENAME_EXCHANGE, 0, 1),
    FAIL(EINVAL),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* A system call that fails, if its argument of that index has that value. */
static const struct failing {
    unsigned call, argument, value, number;
} failing[] = {
    {SYS_fcntl, 1, F_SETLEASE, EINVAL},
    {SYS_fcntl, 1, F_SETLEASE, EACCES},
};

/* Makes the call fail. */
static struct sock_fprog fail_call(const struct failing *what, struct sock_filter chosen[])
{
    const struct sock_filter made[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what->call, 0, 3),
        LOAD(args[what->argument]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what->value, 0, 1),
        FAIL(what->number),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    memcpy(chosen, made, sizeof made);
    return (struct sock_fprog){sizeof made / sizeof *made, chosen};
}

void restriction_enter(int argument_count, char **arguments)
{
    if (argument_count < 3 || strncmp(arguments[1], MARK, strlen(MARK)) != 0) {
        return;
    }
    int restriction = atoi(arguments[1] + strlen(MARK));
    struct sock_filter chosen[sizeof filter / sizeof *filter];
    memcpy(chosen, filter, sizeof filter);
    /* What is not restricted is allowed. */
    const struct sock_filter allow = filter[sizeof filter / sizeof *filter - 1];
    if (restriction < RESTRICTION_NO_NOREPLACE) {
        chosen[11] = allow;
    }
    if (restriction < RESTRICTION_NO_LINKS) {
        chosen[7] = allow;
    }
    if (restriction < RESTRICTION_NO_UNNAMED) {
        chosen[4] = allow;
    }
    struct sock_fprog program = {sizeof filter / sizeof *filter, chosen};
    if (restriction >= RESTRICTION_COUNT) {
        program = fail_call(&failing[restriction - RESTRICTION_COUNT], chosen);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        exit(2);
    }
    execvp(arguments[2], arguments + 2);
    perror(arguments[2]);
    exit(2);
}
