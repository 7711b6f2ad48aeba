/*
 * This process and its children: see child.h.
 */
#include "split/cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/output.h"
#include "common/remote/remote.h"
#include "split/cli/message.h"

/* ==== children ==== */

/* The exit statuses that env(1) and shells use. */
#define EXIT_NOT_FOUND 127
#define EXIT_NOT_RUN   126

/* Signals that other processes send to this one, but that are meant for the command. */
static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

/* ---- starting ---- */

void child_hold_signals(struct child *child)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    sigemptyset(&child->waited_for);
    sigaddset(&child->waited_for, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaddset(&child->waited_for, passed_on[i]);
    sigprocmask(SIG_BLOCK, &child->waited_for, &child->mask_before);
    /* If SIGCHLD were ignored, as a parent may have set it, there would be no status to wait
     * for. */
    sigaction(SIGCHLD, &by_default, &child->child_ends_before);
}

/* Becomes the command, or returns the errno that says why not. */
static int become(char **command)
{
    signal(SIGXFSZ, SIG_DFL); /* was ignored by main */
    execvp(command[0], command);
    return errno;
}

/* Runs in the child, which shares the memory of its parent until it is the command: becomes the
 * command, or reports the errno through the pipe. */
static _Noreturn void become_command(const struct child *child, pid_t parent, char **command,
                                     int pipe_end)
{
    int number;

    /* Killing this process must kill the command, which would otherwise go on without its broker.
     * The signal comes when the thread that forked ends: this is the main thread, which ends
     * last. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_NOT_RUN);
    sigaction(SIGCHLD, &child->child_ends_before, NULL);
    sigprocmask(SIG_SETMASK, &child->mask_before, NULL);
    number = become(command);
    (void)!write(pipe_end, &number, sizeof(number));
    _exit(EXIT_NOT_RUN);
}

bool child_start(struct child *child, char **command, int *number, struct error *error)
{
    pid_t parent = getpid();
    int ends[2];
    ssize_t size;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(error, errno, "%s: cannot be run", command[0]);
    /* A copy of the page tables would take longer than all else here. */
    child->process = vfork();
    if (child->process == 0)
        become_command(child, parent, command, ends[1]);
    *number = errno;
    close(ends[1]);
    if (child->process > 0) {
        do
            size = read(ends[0], number, sizeof(*number));
        while (size < 0 && errno == EINTR);
        if (size != (ssize_t)sizeof(*number))
            *number = 0;
    }
    close(ends[0]);
    return child->process > 0 || error_set_errno(error, *number, "%s: cannot be run", command[0]);
}

/* ---- waiting ---- */

int child_wait(const struct child *child)
{
    int status = 0;

    for (;;) {
        siginfo_t signal_info;
        int number = sigwaitinfo(&child->waited_for, &signal_info);

        if (number == SIGCHLD) {
            if (waitpid(child->process, &status, WNOHANG) == child->process)
                return status;
        } else if (number > 0 && signal_info.si_code != SI_KERNEL) {
            kill(child->process, number);
        }
    }
}

int child_held_signal(const struct child *child)
{
    struct sigaction action;
    sigset_t pending;

    sigpending(&pending);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        int number = passed_on[i];

        /* A blocked signal is pending even if it would be ignored. */
        if (number != SIGWINCH && sigismember(&pending, number) == 1 &&
            sigismember(&child->mask_before, number) == 0 &&
            sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            return number;
    }
    return 0;
}

int child_end_like(int status)
{
    static const struct rlimit no_core = {0, 0};
    int number;
    sigset_t set;

    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    number = WTERMSIG(status);
    setrlimit(RLIMIT_CORE, &no_core); /* one core file, the command's, is enough */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return EXIT_BY_SIGNAL(number);
}

static int report_not_run(const char *command, int number)
{
    struct error error;

    error_set(&error, "%s: cannot be run: %s; name a program after '--'", command,
              strerror(number));
    message_error(&error);
    return number == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

int child_report_not_run(const struct child *child, const char *command, int number)
{
    waitpid(child->process, NULL, 0);
    return W_EXITCODE(report_not_run(command, number), 0);
}

/* ---- the whole ---- */

bool child_run(struct child *child, char **command, int *status, struct error *error)
{
    int number = 0;

    if (!child_start(child, command, &number, error))
        return false;
    *status = number == 0 ? child_wait(child) : child_report_not_run(child, command[0], number);
    return true;
}

int child_replace_process(char **command)
{
    return report_not_run(command[0], become(command));
}

/* ==== signals that end this process ====
 *
 * While it is written, an output has no name, so there is nothing to clean up, unless the file
 * system does not support that and the file has a temporary name. No list of these files is kept:
 * the kernel knows which files this process has opened. Finished files never have such names
 * (output.h), so a file that is renamed while it is examined is not mistaken for another: its old
 * name is gone, and its new name is left alone. A name that cannot be seen from the descriptor
 * exists only while the file is locked. Only what POSIX allows in a signal handler is used, and
 * locks, which are one system call.
 */

/* Children between fork and exec run the handlers too, but the files are not theirs. */
static pid_t owner;

/* ---- unfinished outputs ---- */

#define DESCRIPTORS_MAX 65536

#define DESCRIPTOR_LINK "/proc/self/fd/"

/* The link to the file behind a descriptor, as a string at the end of `text`. */
static const char *name_link(int fd, char text[sizeof(DESCRIPTOR_LINK) + 10])
{
    char *start = text + sizeof(DESCRIPTOR_LINK) + 9;

    *start = '\0';
    do
        *--start = (char)('0' + fd % 10);
    while ((fd /= 10) != 0);
    start -= strlen(DESCRIPTOR_LINK);
    memcpy(start, DESCRIPTOR_LINK, strlen(DESCRIPTOR_LINK));
    return start;
}

/* The path of the file behind a descriptor, as a string. */
static bool find_path(int fd, char path[PATH_MAX])
{
    char link[sizeof(DESCRIPTOR_LINK) + 10];
    ssize_t length = readlink(name_link(fd, link), path, PATH_MAX);

    if (length <= 0 || length == PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

/* Unfinished outputs are open for both reading and writing, which no other files here are, and they
 * were not inherited. */
static bool is_output(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    return flags >= 0 && (flags & FD_CLOEXEC) != 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

static bool has_temporary_name(const char *path)
{
    const char *name = strrchr(path, '/');

    return name != NULL && file_temporary_final_length(name + 1) != 0;
}

/* True also for an unnamed file that has been given a name since. */
static bool has_no_name(const char *path)
{
    static const char mark[] = " (deleted)";
    size_t length = strlen(path);

    return length >= strlen(mark) && strcmp(path + length - strlen(mark), mark) == 0;
}

/* Waits until no other thread is giving the file its name, and keeps others from doing so: the lock
 * is held until the process ends. It is a shared lock, so that handlers in several threads do not
 * wait for each other, and its descriptor is not mistaken for an output's. */
static void lock_for_good(int fd)
{
    char link[sizeof(DESCRIPTOR_LINK) + 10];
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int own = open(name_link(fd, link), O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (own >= 0)
        fcntl(own, F_OFD_SETLKW, &lock);
}

void signals_remove_unfinished(void)
{
    char path[PATH_MAX];

    if (getpid() != owner)
        return;
    for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS_MAX; fd++) {
        if (!is_output(fd) || !find_path(fd, path) ||
            (!has_temporary_name(path) && !has_no_name(path)))
            continue;
        lock_for_good(fd);
        if (is_output(fd) && find_path(fd, path) && has_temporary_name(path))
            unlink(path);
    }
    remote_remove_temporary();
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

/* The path of the file that is mapped at the address; NULL if unknown. */
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
        text[(*length)++] = *more;
    text[*length] = '\0';
}

/* Handles SIGBUS: a mapped file shrank, or its disk failed, while it was read. */
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
    text_make_printable(text);
    length = strlen(text);
    text[length++] = '\n';
    (void)!write(STDERR_FILENO, text, length);
    signals_remove_unfinished();
    _exit(STATUS_FAILED);
}

/* Raises the signal again, which ends the process when the handler has returned. */
static void ended(int number)
{
    signals_remove_unfinished();
    raise(number);
}

void signals_prepare(void)
{
    static const int ending[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGTERM,
                                 SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
    struct sigaction lost = {.sa_sigaction = lost_mapped_file, .sa_flags = SA_SIGINFO};
    struct sigaction end = {.sa_handler = ended, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;

    owner = getpid();
    /* With this, writing beyond a file size limit fails with EFBIG, which can be reported. */
    signal(SIGXFSZ, SIG_IGN);
    sigaction(SIGBUS, &lost, NULL);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending[i], &end, NULL);
    }
}
