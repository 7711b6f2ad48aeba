/*
 * Running llvm-profdata: see llvm_profdata.h.
 *
 * Inputs and output are unnamed files, which no other process can see or damage. The child inherits
 * their descriptors and opens them as /proc/self/fd/N.
 */
#include "split/profiles/llvm_profdata.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "split/cli/message.h"

extern char **environ;

/* How much of the program's output is kept, in bytes. */
#define TEXT_MAX ((size_t)64 << 10)

/* ---- running a program ---- */

/* A growing command line. Initialize to {0}. */
struct words {
    char **items; /* ends with NULL */
    size_t count;
    bool failed; /* out of memory */
};

static void words_add(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void words_add(struct words *words, const char *format, ...)
{
    char **items = realloc(words->items, (words->count + 2) * sizeof(*items));
    va_list arguments;

    if (items == NULL) {
        words->failed = true;
        return;
    }
    words->items = items;
    va_start(arguments, format);
    if (vasprintf(&items[words->count], format, arguments) < 0)
        words->failed = true;
    else
        words->count++;
    va_end(arguments);
    items[words->count] = NULL;
}

static void words_free(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(words->items);
}

/* Reads everything up to the end of the pipe, and keeps the beginning. */
static void read_text(int fd, struct buffer *text)
{
    char piece[4096];
    ssize_t size;

    while ((size = read(fd, piece, sizeof(piece))) > 0 || (size < 0 && errno == EINTR)) {
        if (size > 0 && text->size < TEXT_MAX)
            buffer_append(text, piece, (size_t)size);
    }
}

/* Starts the command with its output and errors going to one pipe, and the given descriptors
 * inherited. Returns an errno. */
static int start(char **command, const int *descriptors, size_t count, int pipe_end, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int result = posix_spawn_file_actions_init(&actions);

    if (result != 0)
        return result;
    /* Duplicating a descriptor onto itself keeps it open in the child. */
    for (size_t i = 0; i < count && result == 0; i++)
        result = posix_spawn_file_actions_adddup2(&actions, descriptors[i], descriptors[i]);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(&actions, pipe_end, STDOUT_FILENO);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(&actions, pipe_end, STDERR_FILENO);
    if (result == 0)
        result = posix_spawnp(child, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

/* Runs the command and waits for it; *status is that of waitpid, and `text` is what it printed.
 * Returns an errno. */
static int run(char **command, const int *descriptors, size_t count, struct buffer *text,
               int *status)
{
    int ends[2], result;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    result = start(command, descriptors, count, ends[1], &child);
    close(ends[1]);
    if (result == 0) {
        read_text(ends[0], text);
        while (waitpid(child, status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    return result;
}

/* ---- finding it ---- */

/* Which LLVM releases write and read a raw version. */
static const struct {
    unsigned raw_version;
    unsigned first, last;
} releases[] = {
    {7, 13, 13},  {8, 14, 17},  {9, 18, 18},
    {10, 19, 22}, {11, 23, 39}, /* the releases known so far */
};

static void release_range(unsigned raw_version, unsigned *first, unsigned *last)
{
    *first = *last = 0;
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
        if (releases[i].raw_version == raw_version) {
            *first = releases[i].first;
            *last = releases[i].last;
        }
    }
}

/* The LLVM release of a program, from its --version output; 0 if it fails or does not say. */
static unsigned release_of(const char *program)
{
    char version[] = "--version";
    char *command[] = {(char *)(uintptr_t)program, version, NULL};
    struct buffer text = {0};
    unsigned release = 0;
    int status = -1;

    if (run(command, NULL, 0, &text, &status) == 0 && buffer_append(&text, "", 1)) {
        const char *found = strstr((const char *)text.data, "LLVM version ");

        if (found != NULL)
            release = (unsigned)strtoul(found + strlen("LLVM version "), NULL, 10);
    }
    buffer_free(&text);
    return release;
}

/* Whether PATH has the program: a cheap check before it is run. */
static bool is_in_path(const char *program)
{
    const char *path = getenv("PATH");

    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        char *candidate;
        bool found;

        if (asprintf(&candidate, "%.*s/%s", (int)length, path, program) < 0)
            return false;
        found = length != 0 && access(candidate, X_OK) == 0;
        free(candidate);
        if (found)
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static char *copy_program(const char *program, struct error *error)
{
    char *copy = strdup(program);

    if (copy == NULL)
        error_out_of_memory(error, program, strlen(program));
    return copy;
}

char *llvm_profdata_find(const char *given, unsigned raw_version, struct error *error)
{
    const char *environment = getenv(LLVM_PROFDATA_ENVIRONMENT);
    unsigned first, last, release;
    char name[64] = "llvm-profdata";

    if (given != NULL)
        return copy_program(given, error);
    if (environment != NULL && environment[0] != '\0')
        return copy_program(environment, error);
    release_range(raw_version, &first, &last);
    release = is_in_path(name) ? release_of(name) : 0;
    if (release >= first && release <= last && release != 0)
        return copy_program(name, error);
    for (release = first; release != 0 && release <= last; release++) {
        snprintf(name, sizeof(name), "llvm-profdata-%u", release);
        if (is_in_path(name))
            return copy_program(name, error);
    }
    error_set(error,
              "llvm-profdata: none in PATH reads raw profiles of version %u (LLVM %u to %u do); "
              "install one, or give --llvm-profdata",
              raw_version, first, last);
    return NULL;
}

/* ---- merging ---- */

#define DESCRIPTOR_PATH "/proc/self/fd/"

static void make_command(struct words *command, const char *program,
                         const struct llvm_profdata_job *job)
{
    words_add(command, "%s", program);
    words_add(command, "merge");
    if (job->sparse)
        words_add(command, "-sparse");
    if (job->goes_on)
        words_add(command, "-failure-mode=all");
    /* With one thread the order, and so the output, is always the same. */
    words_add(command, "-num-threads=1");
    words_add(command, "-o");
    words_add(command, DESCRIPTOR_PATH "%d", job->output_fd);
    for (size_t i = 0; i < job->input_count; i++)
        words_add(command, "-weighted-input=%" PRIu64 "," DESCRIPTOR_PATH "%d",
                  job->inputs[i].weight, job->inputs[i].fd);
}

/* The file that the descriptor stands for; NULL: none of the job. */
static const char *file_name(const struct llvm_profdata_job *job, unsigned long fd)
{
    for (size_t i = 0; i < job->input_count; i++) {
        if ((unsigned long)job->inputs[i].fd == fd)
            return job->inputs[i].name;
    }
    return (unsigned long)job->output_fd == fd ? job->name : NULL;
}

/* Appends what the program said with the names of files in place of those of their descriptors, and
 * a 0. False if out of memory. */
static bool name_files(const struct llvm_profdata_job *job, const struct buffer *said,
                       struct buffer *text)
{
    const char *rest = (const char *)said->data, *found;

    while (rest != NULL && (found = strstr(rest, DESCRIPTOR_PATH)) != NULL) {
        const char *digits = found + strlen(DESCRIPTOR_PATH);
        const char *end = digits + strspn(digits, "0123456789");
        const char *name = end == digits ? NULL : file_name(job, strtoul(digits, NULL, 10));

        if (!buffer_append(text, rest, (size_t)((name == NULL ? end : found) - rest)) ||
            (name != NULL && !buffer_append(text, name, strlen(name))))
            return false;
        rest = end;
    }
    return buffer_append(text, rest == NULL ? "" : rest, rest == NULL ? 1 : strlen(rest) + 1);
}

/* Takes the next line of the output; false at the end. */
static bool next_line(char **rest, char **line)
{
    do {
        *line = strsep(rest, "\n");
    } while (*line != NULL && **line == '\0');
    return *line != NULL;
}

static bool report_run(const char *program, int status, const struct llvm_profdata_job *job,
                       struct buffer *said, struct error *error)
{
    struct error all = {0};
    struct buffer text = {0};
    char *rest, *line;

    if (!buffer_append(said, "", 1) || !name_files(job, said, &text)) {
        buffer_free(&text);
        return error_out_of_memory(error, job->name, said->size);
    }
    rest = (char *)text.data;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        while (next_line(&rest, &line))
            message_warning("%s: %s", program, line);
        buffer_free(&text);
        return true;
    }
    while (next_line(&rest, &line)) {
        struct error before = all;

        error_set(&all, "%.400s%s%s", before.message, before.message[0] == '\0' ? "" : "; ", line);
    }
    buffer_free(&text);
    if (WIFSIGNALED(status))
        return error_set(error,
                         "%s: '%s merge' was ended by signal %d (%.600s); give another "
                         "--llvm-profdata",
                         job->name, program, WTERMSIG(status), all.message);
    return error_set(error, "%s: '%s merge' failed: %.600s; give another --llvm-profdata",
                     job->name, program, all.message);
}

/* The descriptors of the inputs, then that of the output. NULL if out of memory. */
static int *list_descriptors(const struct llvm_profdata_job *job)
{
    int *descriptors = calloc(job->input_count + 1, sizeof(*descriptors));

    for (size_t i = 0; descriptors != NULL && i < job->input_count; i++)
        descriptors[i] = job->inputs[i].fd;
    if (descriptors != NULL)
        descriptors[job->input_count] = job->output_fd;
    return descriptors;
}

bool llvm_profdata_merge(const char *program, const struct llvm_profdata_job *job,
                         struct error *error)
{
    int *descriptors = list_descriptors(job);
    struct words command = {0};
    struct buffer said = {0};
    bool merged = false;
    int status = 0;

    make_command(&command, program, job);
    if (command.failed || descriptors == NULL) {
        error_out_of_memory(error, job->name, (job->input_count + 1) * sizeof(*descriptors));
    } else {
        int result = run(command.items, descriptors, job->input_count + 1, &said, &status);

        if (result != 0)
            error_set_errno(error, result, "%s: '%s' cannot be run", job->name, program);
        else
            merged = report_run(program, status, job, &said, error);
    }
    buffer_free(&said);
    words_free(&command);
    free(descriptors);
    return merged;
}
