/*
 * Questions of preload modules: see broker_question.h.
 */
#include "split/run/broker_question.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "split/run/preload_protocol.h"

/* The number of descriptors to receive with a message. Only one is valid; others are received to be
 * closed. */
#define DESCRIPTORS_MAX 8

union ancillary {
    struct cmsghdr header;
    char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

/* ---- receiving ---- */

/* Takes the single descriptor of a message. If there is another number of them, closes them and
 * returns -1. */
static int take_descriptor(struct msghdr *message)
{
    int taken = -1;
    size_t count = 0;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        size_t size = header->cmsg_len - CMSG_LEN(0);

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < size / sizeof(int); i++, count++) {
            if (taken >= 0)
                close(taken);
            memcpy(&taken, CMSG_DATA(header) + i * sizeof(int), sizeof(taken));
        }
    }
    if (count == 1)
        return taken;
    if (taken >= 0)
        close(taken);
    return -1;
}

bool connection_is_of_same_user(int connection, pid_t *process)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    *process = peer.pid;
    return peer.uid == geteuid();
}

/* The target of a symbolic link; "" if it cannot be read or is too long. */
static void read_link(const char *link, char target[PATH_MAX])
{
    ssize_t size = readlink(link, target, PATH_MAX);

    target[size < 0 || size >= PATH_MAX ? 0 : size] = '\0';
}

/* Makes the client's path valid in this process. The client waits meanwhile, so its directories are
 * still those of its call. If they cannot be read, the real path of the file is used. */
static void make_absolute(struct question *question, int directory)
{
    char link[64], start[PATH_MAX], absolute[PATH_MAX];
    int length;

    if (question->path[0] == '/')
        return;
    if (directory == AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/%d/cwd", (int)question->process);
    else
        snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)question->process, directory);
    read_link(link, start);
    length = snprintf(absolute, sizeof(absolute), "%s/%s", start, question->path);
    if (start[0] == '/' && length > 0 && length < PATH_MAX)
        memcpy(question->path, absolute, (size_t)length + 1);
    else
        memcpy(question->path, question->real_path, sizeof(question->path));
}

static void find_paths(struct question *question, int directory)
{
    char link[64];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", question->file);
    read_link(link, question->real_path);
    make_absolute(question, directory);
}

/* False if the question is invalid. */
static bool receive(struct question *question)
{
    struct preload_question start;
    struct iovec parts[] = {{&start, sizeof(start)}, {question->path, sizeof(question->path) - 1}};
    union ancillary ancillary;
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = &ancillary,
                             .msg_controllen = sizeof(ancillary)};
    ssize_t size = recvmsg(question->connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (size < 0)
        return false;
    question->file = take_descriptor(&message);
    if (question->file < 0 || size < (ssize_t)sizeof(start) ||
        (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        !connection_is_of_same_user(question->connection, &question->process))
        return false;
    find_paths(question, start.directory);
    return true;
}

struct question *question_receive(int connection)
{
    struct question *question = calloc(1, sizeof(*question));

    if (question == NULL) {
        close(connection);
        return NULL;
    }
    question->connection = connection;
    question->file = -1;
    if (receive(question))
        return question;
    question_free(question);
    return NULL;
}

/* ---- the program ---- */

/* Whether an argument is one of llvm-profdata's options that say where the image is. */
static bool is_correlating(const char *argument)
{
    static const char *const names[] = {"binary-file", "debug-info", "correlate"};

    if (argument[0] != '-')
        return false;
    argument += argument[1] == '-' ? 2 : 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i]);

        if (strncmp(argument, names[i], length) == 0 &&
            (argument[length] == '\0' || argument[length] == '='))
            return true;
    }
    return false;
}

bool question_correlates(const struct question *question)
{
    char path[64];
    char *argument = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *arguments;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)question->process);
    arguments = fopen(path, "re");
    while (!found && arguments != NULL && getdelim(&argument, &capacity, '\0', arguments) > 0)
        found = is_correlating(argument);
    free(argument);
    if (arguments != NULL)
        fclose(arguments);
    return found;
}

/* The kind of a program: "/usr/bin/llvm-objcopy-19" is an objcopy,
 * "/usr/bin/x86_64-linux-gnu-ld.bfd" an ld. This is the part of the name after the last '-' that no
 * version follows, up to a '.'. The text is changed. */
static const char *find_trade(char *program)
{
    char *slash = strrchr(program, '/'), *name = slash == NULL ? program : slash + 1;
    char *hyphen = strrchr(name, '-');

    if (hyphen != NULL && hyphen[1] != '\0' &&
        hyphen[1 + strspn(hyphen + 1, ".0123456789")] == '\0')
        *hyphen = '\0';
    hyphen = strrchr(name, '-');
    if (hyphen != NULL)
        name = hyphen + 1;
    name[strcspn(name, ".")] = '\0';
    return name;
}

/* For a program that does different things under different names, the name that it was called
 * by. */
static void find_called_name(const struct question *question, char program[PATH_MAX])
{
    static const char *const boxes[] = {"busybox", "coreutils", "llvm", "toybox"};
    const char *name = strrchr(program, '/');
    char path[64];
    FILE *file;

    for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++) {
        if (name == NULL || strcmp(name + 1, boxes[i]) != 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)question->process);
        file = fopen(path, "re");
        if (file != NULL && fgets(program, PATH_MAX, file) != NULL)
            program[strcspn(program, "\n")] = '\0';
        if (file != NULL)
            fclose(file);
        return;
    }
}

/* The kind of the program that asks. Valid as long as `program`. */
static const char *trade_of(const struct question *question, char program[PATH_MAX])
{
    char link[64];

    snprintf(link, sizeof(link), "/proc/%d/exe", (int)question->process);
    read_link(link, program);
    find_called_name(question, program);
    return find_trade(program);
}

bool question_is_for_files(const struct question *question)
{
    static const char *const trades[] = {
        "7z",   "ar",    "bsdtar",   "bzip2", "chrpath", "cmake",    "cp",      "cpio",
        "dd",   "dwz",   "ginstall", "git",   "gold",    "gzip",     "install", "ld",
        "ld64", "lld",   "mold",     "mv",    "objcopy", "patchelf", "pigz",    "rsync",
        "scp",  "strip", "tar",      "xz",    "zip",     "zstd",
    };
    char program[PATH_MAX];
    const char *trade = trade_of(question, program);

    for (size_t i = 0; i < sizeof(trades) / sizeof(trades[0]); i++) {
        if (strcmp(trade, trades[i]) == 0)
            return true;
    }
    return false;
}

bool question_is_for_reports(const struct question *question)
{
    char program[PATH_MAX];

    return strcmp(trade_of(question, program), "cov") == 0;
}

/* ---- answering ---- */

void question_answer(const struct question *question, int content, const char *text)
{
    struct preload_answer start = {0};
    char line[PRELOAD_TEXT_MAX];
    struct iovec parts[] = {{&start, sizeof(start)}, {line, 0}};
    union ancillary ancillary = {.header = {.cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS,
                                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    if (text[0] != '\0')
        start.text_size =
            (uint32_t)snprintf(line, sizeof(line), "%.*s\n", (int)sizeof(line) - 2, text);
    parts[1].iov_len = start.text_size;
    if (content >= 0) {
        memcpy(CMSG_DATA(&ancillary.header), &content, sizeof(content));
        message.msg_control = &ancillary;
        message.msg_controllen = CMSG_SPACE(sizeof(int));
    }
    /* Nothing has been written to this socket before, so it has room. A client that has gone needs
     * no answer. */
    (void)!sendmsg(question->connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void question_free(struct question *question)
{
    close(question->connection);
    if (question->file >= 0)
        close(question->file);
    free(question);
}
