/*
 * The stops behind traced.h, by ptrace.
 */
#include "tests/support/traced.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void become(const struct command *command, int errors)
{
    int nowhere = open("/dev/null", O_RDWR);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(errors, STDERR_FILENO) < 0 ||
        (command->directory != NULL && chdir(command->directory) != 0) ||
        ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
        _exit(2);
    }
    for (size_t i = 0; i < command->environment.count; i++) {
        putenv(command->environment.items[i]);
    }
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* that needs ptrace for itself */
    execvp(command->arguments.items[0], command->arguments.items);
    _exit(2);
}

/* Where a command is to stop for good. */
struct end {
    unsigned long stops;
    bool (*has_come)(void *context); /* NULL: never, before that many stops */
    void *context;
};

static bool is_at_end(const struct end *end, unsigned long seen)
{
    return seen == end->stops || (end->has_come != NULL && end->has_come(end->context));
}

/* Returns the thread that has stopped last; 0 where the process ended before. */
static pid_t run_to_end(pid_t process, const struct end *end, unsigned long *seen, int *status)
{
    pid_t stopped = process;
    ck_assert_int_eq(waitpid(process, status, 0), process);
    ck_assert(WIFSTOPPED(*status)); /* at the exec */
    ptrace(PTRACE_SETOPTIONS, process, NULL,
           PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD);
    for (*seen = 0; !is_at_end(end, *seen);) {
        ptrace(PTRACE_SYSCALL, stopped, NULL, NULL);
        stopped = waitpid(-1, status, __WALL);
        if (stopped == process && !WIFSTOPPED(*status)) {
            return 0;
        }
        *seen += WIFSTOPPED(*status) && WSTOPSIG(*status) == (SIGTRAP | 0x80);
    }
    return stopped;
}

/* The signal that a thread has got; 0 where it has stopped for us alone. */
static int signal_of_stop(int status)
{
    int number = WSTOPSIG(status);
    return number == SIGSTOP || (number & ~0x80) == SIGTRAP ? 0 : number;
}

static const char *take_errors(int errors)
{
    char *text = text_format("%4096s", "");
    ssize_t size = pread(errors, text, 4096, 0);
    ck_assert_int_ge(size, 0);
    text[size] = '\0';
    close(errors);
    return text;
}

/* `signal` as kill(2) takes it. */
static struct traced trace(const struct command *command, const struct end *end, int signal,
                           void (*act)(void *context), void *context)
{
    int errors = memfd_create("errors", MFD_CLOEXEC);
    pid_t process = fork();
    if (process == 0) {
        become(command, errors);
    }
    ck_assert_int_gt(process, 0);
    int status = 0;
    unsigned long seen;
    pid_t stopped = run_to_end(process, end, &seen, &status);
    if (stopped != 0 && act != NULL) {
        act(context);
    }
    if (stopped != 0) {
        kill(process, signal);
    }
    if (stopped != 0 && signal != SIGKILL) {
        ptrace(PTRACE_DETACH, stopped, NULL, NULL);
    }
    for (int other = 0; stopped != 0;) {
        pid_t changed = waitpid(-1, &other, __WALL);
        if (changed < 0) {
            ck_assert_int_eq(errno, ECHILD);
            break;
        }
        if (WIFSTOPPED(other)) {
            ptrace(PTRACE_DETACH, changed, NULL, (void *)(uintptr_t)signal_of_stop(other));
        } else if (changed == process) {
            status = other;
        }
    }
    return (struct traced){
        .was_stopped = stopped != 0,
        .stops = seen,
        .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
        .errors = take_errors(errors),
    };
}

struct traced command_trace(const struct command *command, unsigned long stops,
                            void (*act)(void *context), void *context)
{
    const struct end end = {.stops = stops};
    return trace(command, &end, 0, act, context);
}

struct traced command_trace_and_signal(const struct command *command, unsigned long stops,
                                       int signal)
{
    const struct end end = {.stops = stops};
    return trace(command, &end, signal, NULL, NULL);
}

struct traced command_trace_and_kill(const struct command *command, unsigned long stops)
{
    const struct end end = {.stops = stops};
    return trace(command, &end, SIGKILL, NULL, NULL);
}

struct traced command_trace_and_kill_when(const struct command *command,
                                          bool (*has_come)(void *context), void *context)
{
    const struct end end = {ULONG_MAX, has_come, context};
    return trace(command, &end, SIGKILL, NULL, NULL);
}
