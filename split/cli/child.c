/*
 * Running commands as children: see child.h.
 */
#include "split/cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "split/cli/message.h"

/* The exit statuses that env(1) and shells use. */
#define EXIT_NOT_FOUND    127
#define EXIT_NOT_RUN      126
#define EXIT_BY_SIGNAL(n) (128 + (n))

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

/* A blocked signal is pending even if it would be ignored. */
static bool ends_process(int number)
{
    struct sigaction action;

    return number != SIGWINCH && sigaction(number, NULL, &action) == 0 &&
           action.sa_handler != SIG_IGN;
}

int child_held_signal(const struct child *child)
{
    sigset_t pending;

    sigpending(&pending);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        if (sigismember(&pending, passed_on[i]) == 1 &&
            sigismember(&child->mask_before, passed_on[i]) == 0 && ends_process(passed_on[i]))
            return passed_on[i];
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
