/*
 * Signal handlers: see signals.h.
 *
 * An output has no name while it is written, so that there is nothing to clean up, unless the file
 * system makes it have one (output.h). Nobody keeps a list of those: the kernel has one, of the
 * files that this process has opened. Only what POSIX allows in a signal handler is used.
 */
#include "split/signals.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/output.h"
#include "split/message.h"

/* Children between fork and exec run the handlers too, but the files are not theirs. */
static pid_t owner;

/* ---- unfinished outputs ---- */

#define DESCRIPTORS_MAX 65536

/* The path of the file behind a descriptor, as a string. */
static bool find_path(int fd, char path[PATH_MAX])
{
    static const char directory[] = "/proc/self/fd/";
    char link[sizeof(directory) + 10] = "";
    char *start = link + sizeof(link) - 1;
    ssize_t length;

    do
        *--start = (char)('0' + fd % 10);
    while ((fd /= 10) != 0);
    start -= strlen(directory);
    memcpy(start, directory, strlen(directory));
    length = readlink(start, path, PATH_MAX);
    if (length <= 0 || length == PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

/* An output of this process that has only a temporary name: it is open for both reading and
 * writing, as nothing else here is, and was not inherited. */
static bool is_unfinished(int fd, char path[PATH_MAX])
{
    const char *name;
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0 || (flags & FD_CLOEXEC) == 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR ||
        !find_path(fd, path))
        return false;
    name = strrchr(path, '/');
    return name != NULL && file_temporary_final_length(name + 1) != 0;
}

static void remove_unfinished(void)
{
    char path[PATH_MAX];

    if (getpid() != owner)
        return;
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++) {
        if (is_unfinished(fd, path))
            unlink(path);
    }
}

/* ---- mapped files ---- */

/* A line of /proc/self/maps: "START-END ... /PATH". */
struct line {
    char text[PATH_MAX + 128];
    size_t length;
};

static bool take_line(int fd, struct line *line)
{
    char byte;

    line->length = 0;
    while (read(fd, &byte, 1) == 1 && byte != '\n') {
        if (line->length + 1 < sizeof(line->text))
            line->text[line->length++] = byte;
    }
    line->text[line->length] = '\0';
    return line->length != 0;
}

static uintptr_t take_number(const char **text)
{
    uintptr_t value = 0;

    for (;; ++*text) {
        char digit = **text;

        if (digit >= '0' && digit <= '9')
            value = value << 4 | (uintptr_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            value = value << 4 | (uintptr_t)(digit - 'a' + 10);
        else
            return value;
    }
}

/* The path of the file that is mapped at the address; NULL where none is known. */
static const char *find_mapped(uintptr_t address, struct line *line)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    const char *path = NULL;

    while (path == NULL && fd >= 0 && take_line(fd, line)) {
        const char *at = line->text;
        uintptr_t start = take_number(&at);

        at += *at == '-';
        if (address >= start && address < take_number(&at))
            path = strchr(at, '/');
    }
    if (fd >= 0)
        close(fd);
    return path;
}

/* ---- handlers ---- */

static void append(char *text, size_t *length, const char *more)
{
    for (; *more != '\0'; more++)
        text[(*length)++] = (unsigned char)*more < 0x20 || *more == 0x7f ? '?' : *more;
}

/* A mapped file that shrinks, or whose disk fails, while it is read. */
static void lost_mapped_file(int number, siginfo_t *information, void *context)
{
    struct line line;
    char text[sizeof(line.text) + 256];
    const char *path = find_mapped((uintptr_t)information->si_addr, &line);
    size_t length = 0;

    (void)number;
    (void)context;
    append(text, &length, "covsplit: error: ");
    append(text, &length, path == NULL ? "a file" : path);
    append(text, &length,
           ": became shorter or unreadable while it was read; run again when nothing changes it");
    text[length++] = '\n';
    (void)!write(STDERR_FILENO, text, length);
    remove_unfinished();
    _exit(STATUS_FAILED);
}

/* The signal comes again when the handler has returned, and ends the process. */
static void ended(int number)
{
    remove_unfinished();
    raise(number);
}

void signals_prepare(void)
{
    static const int ending[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    struct sigaction lost = {.sa_sigaction = lost_mapped_file, .sa_flags = SA_SIGINFO};
    struct sigaction end = {.sa_handler = ended, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;

    owner = getpid();
    /* So that writing beyond a file size limit fails with EFBIG and can be reported. */
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &lost, NULL);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending[i], &end, NULL);
    }
}
