/*
 * The commands behind process.h: posix_spawn, a pidfd to wait on with a time limit, and memory
 * files for what the command prints, so that no pipe can fill up.
 */
#include "tests/support/process.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/compile_cache.h"
#include "tests/support/delta_stores.h"

extern char **environ;

#define EXIT_NOT_STARTED   127
#define DESCRIBED_TEXT_MAX 6000

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool same_variable(const char *a, const char *b)
{
    size_t size = strcspn(a, "=");
    return strcspn(b, "=") == size && strncmp(a, b, size) == 0;
}

/* Our environment with the command's variables in it. The strings are shared, the array is new. */
static char **merge_environment(const struct text_list *added)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **merged = calloc(count + added->count + 1, sizeof *merged);
    if (merged == NULL) {
        abort();
    }
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool replaced = false;
        for (size_t j = 0; j < added->count && !replaced; j++) {
            replaced = same_variable(environ[i], added->items[j]);
        }
        if (!replaced) {
            merged[used++] = environ[i];
        }
    }
    for (size_t j = 0; j < added->count; j++) {
        merged[used++] = added->items[j];
    }
    return merged;
}

/* Calls the command's main function in a new process, which sees of ours what a program would. */
static pid_t fork_main(const struct command *command, int output, int errors)
{
    fflush(NULL);
    pid_t process = fork();
    if (process != 0) {
        return process;
    }
    int input = open("/dev/null", O_RDONLY);
    if (setpgid(0, 0) != 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0U, 0) != 0 ||
        (command->directory != NULL && chdir(command->directory) != 0)) {
        _exit(EXIT_NOT_STARTED);
    }
    environ = merge_environment(&command->environment);
    _exit(command->main_function((int)command->arguments.count, command->arguments.items));
}

/* Returns the process, or -1 with errno set. */
static pid_t spawn(const struct command *command, int output, int errors)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (command->main_function != NULL) {
        return fork_main(command, output, errors);
    }
    if (posix_spawn_file_actions_init(&actions) != 0 || posix_spawnattr_init(&attributes) != 0) {
        abort();
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (command->directory != NULL) {
        posix_spawn_file_actions_addchdir_np(&actions, command->directory);
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);

    char **environment = merge_environment(&command->environment);
    pid_t process = -1;
    int failure = posix_spawnp(&process, command->arguments.items[0], &actions, &attributes,
                               command->arguments.items, environment);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    errno = failure;
    return failure == 0 ? process : -1;
}

/* A file in memory that commands print to. */
static int capture_open(void)
{
    int descriptor = memfd_create("captured", MFD_CLOEXEC);
    if (descriptor < 0) {
        abort();
    }
    return descriptor;
}

/* Everything in the file, NUL-terminated; closes it. */
static char *capture_close(int descriptor, size_t *size)
{
    off_t end = lseek(descriptor, 0, SEEK_END);
    char *text = malloc((size_t)end + 1);
    if (text == NULL || pread(descriptor, text, (size_t)end, 0) != end) {
        abort();
    }
    text[end] = '\0';
    *size = (size_t)end;
    close(descriptor);
    return text;
}

/* Waits for the process, at most so long, and then has its whole group killed. */
static void wait_for(pid_t process, unsigned timeout_seconds, struct outcome *outcome)
{
    int descriptor = pidfd_open(process, 0);
    struct pollfd ended = {.fd = descriptor, .events = POLLIN};
    int timeout = (int)timeout_seconds * 1000;
    int ready = descriptor < 0 ? -1 : poll(&ended, 1, timeout);
    while (ready < 0 && errno == EINTR) {
        ready = poll(&ended, 1, timeout);
    }
    if (ready != 1) {
        outcome->timed_out = true;
        kill(-process, SIGKILL);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }

    int status = 0;
    struct rusage usage = {0};
    if (wait4(process, &status, 0, &usage) != process) {
        abort();
    }
    outcome->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    outcome->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome->peak_resident_kib = usage.ru_maxrss;
    outcome->processor_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Leaves stores as the command does. */
static struct outcome run_alone(const struct command *command)
{
    struct outcome outcome = {.exit_code = EXIT_NOT_STARTED};
    int output = capture_open();
    int errors = capture_open();
    double start = seconds_now();
    pid_t process = spawn(command, output, errors);
    if (process > 0) {
        unsigned timeout = command->timeout_seconds;
        wait_for(process, timeout != 0 ? timeout : COMMAND_TIMEOUT_SECONDS, &outcome);
    } else {
        dprintf(errors, "cannot start %s: %s\n", command->arguments.items[0], strerror(errno));
    }
    outcome.wall_seconds = seconds_now() - start;
    outcome.output = capture_close(output, &outcome.output_size);
    outcome.errors = capture_close(errors, &outcome.errors_size);
    return outcome;
}

struct outcome command_run(const struct command *command)
{
    struct outcome outcome = run_alone(command);
    if (outcome_exited(&outcome, 0)) {
        delta_stores_settle_after(command);
    }
    return outcome;
}

pid_t command_start(const struct command *command)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t process = nowhere < 0 ? -1 : spawn(command, nowhere, nowhere);
    if (process < 0) {
        ck_abort_msg("cannot start %s: %s", command->arguments.items[0], strerror(errno));
    }
    close(nowhere);
    return process;
}

bool command_kill_after(const struct command *command, double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    pid_t process = command_start(command);
    nanosleep(&time, NULL);
    kill(process, SIGKILL);
    int status = 0;
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    return WIFSIGNALED(status);
}

struct runner {
    const struct command *command;
    struct outcome *outcome;
};

static void *run_one(void *context)
{
    const struct runner *runner = context;
    *runner->outcome = run_alone(runner->command);
    return NULL;
}

void commands_run_together(const struct command *commands, size_t count, struct outcome *outcomes)
{
    struct runner *runners = calloc(count, sizeof *runners);
    pthread_t *threads = calloc(count, sizeof *threads);
    if (runners == NULL || threads == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        runners[i] = (struct runner){&commands[i], &outcomes[i]};
        if (pthread_create(&threads[i], NULL, run_one, &runners[i]) != 0) {
            abort();
        }
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < count; i++) {
        delta_stores_settle_after(&commands[i]);
    }
    free(threads);
    free(runners);
}

void outcome_free(struct outcome *outcome)
{
    free(outcome->output);
    free(outcome->errors);
    *outcome = (struct outcome){0};
}

void command_free(struct command *command)
{
    text_list_free(&command->arguments);
    text_list_free(&command->environment);
}

bool outcome_exited(const struct outcome *outcome, int exit_code)
{
    return !outcome->timed_out && outcome->signal == 0 && outcome->exit_code == exit_code;
}

/* Appends the words, each behind a blank. */
static char *append_words(char *text, const struct text_list *words)
{
    for (size_t i = 0; i < words->count; i++) {
        char *longer = text_format("%s %s", text, words->items[i]);
        free(text);
        text = longer;
    }
    return text;
}

const char *outcome_describe(const struct command *command, const struct outcome *outcome)
{
    char *line = text_format("in %s:", command->directory != NULL ? command->directory : ".");
    line = append_words(line, &command->environment);
    line = append_words(line, &command->arguments);
    const char *end = outcome->timed_out     ? "ran out of time"
                      : outcome->signal != 0 ? strsignal(outcome->signal)
                                             : text_format("exit %d", outcome->exit_code);
    return text_format("%s\n  -> %s\n%.*s%.*s", line, end, DESCRIBED_TEXT_MAX, outcome->output,
                       DESCRIBED_TEXT_MAX, outcome->errors);
}

struct command command_words(const char *directory, const char *format, ...)
{
    struct command command = {.directory = directory};
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    ck_assert_int_gt(size, 0);
    text_list_add_words(&command.arguments, text);
    free(text);
    return command;
}

struct outcome command_expect(const struct command *command, int exit_code)
{
    struct outcome outcome = command_run(command);
    ck_assert_msg(outcome_exited(&outcome, exit_code), "exit %d was expected %s", exit_code,
                  outcome_describe(command, &outcome));
    return outcome;
}

const char *command_run_or_abort(const struct command *command)
{
    if (compile_cache_make(command)) {
        return "";
    }
    struct outcome outcome = command_expect(command, 0);
    free(outcome.errors);
    return outcome.output;
}

const char *run_or_abort(const char *directory, ...)
{
    struct command command = {.directory = directory};
    va_list arguments;
    va_start(arguments, directory);
    for (const char *word = va_arg(arguments, const char *); word != NULL;
         word = va_arg(arguments, const char *)) {
        text_list_add(&command.arguments, word);
    }
    va_end(arguments);
    const char *output = command_run_or_abort(&command);
    command_free(&command);
    return output;
}

/* ---- stops, by ptrace ---- */

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

/* ---- restrictions, by a seccomp filter ----
 *
 * The suite runs itself, sets the filter up, and becomes the command. */

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
