/*
 * covsplit run: runs a command whose programs read sidecars, stripped images and lightweight
 * profiles as what they stand for.
 *
 * The command is a child; this process stays beside it as the broker that converts files
 * (broker.h). To whoever started it, it looks like the command: signals are passed on, and it ends
 * as the command does. Both are in one process group, so what a terminal sends reaches both anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "split/broker.h"
#include "split/commands.h"
#include "split/message.h"
#include "split/run_environment.h"

/* As env(1) and shells exit. */
#define EXIT_NOT_FOUND    127
#define EXIT_NOT_RUN      126
#define EXIT_BY_SIGNAL(n) (128 + (n))

/* Signals that other processes may send to this one, meaning the command. */
static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

/* What the command gets back of what this process changes for itself. */
struct signals_before {
    sigset_t mask;
    struct sigaction child_ends; /* SIGCHLD: its disposition */
};

struct running {
    pid_t process;
    sigset_t waited_for;
    struct signals_before before;
};

/* ---- starting ---- */

/* From here on the signals wait until they are asked for, also in threads to come. */
static void hold_signals(struct running *running)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};

    sigemptyset(&running->waited_for);
    sigaddset(&running->waited_for, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        sigaddset(&running->waited_for, passed_on[i]);
    sigprocmask(SIG_BLOCK, &running->waited_for, &running->before.mask);
    /* Where the parent ignores it, there would be no status to wait for. */
    sigaction(SIGCHLD, &by_default, &running->before.child_ends);
}

/* In the child: becomes the command, or tells the errno through the pipe. */
static _Noreturn void become_command(const struct running *running, pid_t parent, char **command,
                                     int pipe_end)
{
    int number;

    /* So that killing this process kills the command, which would otherwise go on without its
     * broker. The main thread is the one that counts, and it ends last. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_NOT_RUN);
    signal(SIGXFSZ, SIG_DFL); /* ignored by main */
    sigaction(SIGCHLD, &running->before.child_ends, NULL);
    sigprocmask(SIG_SETMASK, &running->before.mask, NULL);
    execvp(command[0], command);
    number = errno;
    (void)!write(pipe_end, &number, sizeof(number));
    _exit(EXIT_NOT_RUN);
}

/* *number is why the command could not be run; 0: it runs. False where not even that is known. */
static bool start(struct running *running, char **command, int *number, struct error *error)
{
    pid_t parent = getpid();
    int ends[2];
    ssize_t size;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_set_errno(error, errno, "%s: cannot be run", command[0]);
    running->process = fork();
    if (running->process == 0)
        become_command(running, parent, command, ends[1]);
    *number = errno;
    close(ends[1]);
    if (running->process > 0) {
        do
            size = read(ends[0], number, sizeof(*number));
        while (size < 0 && errno == EINTR);
        if (size != (ssize_t)sizeof(*number))
            *number = 0;
    }
    close(ends[0]);
    return running->process > 0 || error_set_errno(error, *number, "%s: cannot be run", command[0]);
}

/* ---- waiting ---- */

/* Returns the status, as of waitpid. */
static int wait_for(const struct running *running)
{
    int status = 0;

    for (;;) {
        siginfo_t signal_info;
        int number = sigwaitinfo(&running->waited_for, &signal_info);

        if (number == SIGCHLD) {
            if (waitpid(running->process, &status, WNOHANG) == running->process)
                return status;
        } else if (number > 0 && signal_info.si_code != SI_KERNEL) {
            kill(running->process, number);
        }
    }
}

/* Ends as the command did; returns where that was by exit. */
static int end_like(int status)
{
    static const struct rlimit no_core = {0, 0};
    int number;
    sigset_t set;

    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    number = WTERMSIG(status);
    setrlimit(RLIMIT_CORE, &no_core); /* one, of the command, is enough */
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return EXIT_BY_SIGNAL(number);
}

/* ---- the subcommand ---- */

/* Returns the status of a process that ended so. */
static int report_not_run(const char *command, int number)
{
    struct error error;

    error_set(&error, "%s: cannot be run: %s; name a program behind '--'", command,
              strerror(number));
    message_error(&error);
    return W_EXITCODE(number == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN, 0);
}

/* Runs the command; *status is that of the process, as of waitpid. */
static bool run(const struct parsed_options *options, struct broker *broker, int *status,
                struct error *error)
{
    /* The operands are those of main, whose strings execvp may have. */
    char **command = (char **)(uintptr_t)options->operands;
    struct running running = {0};
    int number = 0;

    hold_signals(&running);
    if (!start(&running, command, &number, error))
        return false;
    if (number != 0) {
        waitpid(running.process, NULL, 0);
        *status = report_not_run(command[0], number);
        return true;
    }
    if (!broker_start(broker, error)) {
        kill(running.process, SIGKILL);
        return false;
    }
    *status = wait_for(&running);
    return true;
}

int command_run(const struct parsed_options *options)
{
    struct error error = {0};
    struct broker *broker = broker_open(options, &error);
    int status;
    bool done = broker != NULL && run_environment_set(broker_address(broker), &error) &&
                run(options, broker, &status, &error);

    broker_close(broker);
    if (done)
        return end_like(status);
    message_error(&error);
    return STATUS_FAILED;
}
