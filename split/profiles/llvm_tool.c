/*
 * Running llvm-profdata and llvm-cov: see llvm_tool.h.
 */
#include "split/profiles/llvm_tool.h"

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

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "split/cli/message.h"

extern char **environ;

#define DESCRIPTOR_PATH "/proc/self/fd/"

/* How much of the program's output is kept, in bytes. */
#define TEXT_MAX ((size_t)64 << 10)

/* ---- running a program ---- */

void llvm_command_add(struct llvm_command *command, const char *format, ...)
{
    va_list arguments;

    if (!array_make_room(&command->words, &command->capacity, command->count, 2,
                         sizeof(*command->words))) {
        command->failed = true;
        return;
    }
    va_start(arguments, format);
    if (vasprintf(&command->words[command->count], format, arguments) < 0)
        command->failed = true;
    else
        command->count++;
    va_end(arguments);
    command->words[command->count] = NULL;
}

void llvm_command_add_file(struct llvm_command *command, const char *before, int fd,
                           const char *name)
{
    llvm_command_add(command, "%s" DESCRIPTOR_PATH "%d", before, fd);
    if (!ARRAY_ROOM_FOR_ONE(command->files, command->file_capacity, command->file_count)) {
        command->failed = true;
        return;
    }
    command->files[command->file_count++] = (struct llvm_file){fd, name};
}

void llvm_command_free(struct llvm_command *command)
{
    for (size_t i = 0; i < command->count; i++)
        free(command->words[i]);
    free(command->words);
    free(command->files);
    *command = (struct llvm_command){0};
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

/* Runs the command, whose first word is the program, and waits for it. Its output goes to
 * output_fd, or if that is -1, with its errors to `said`. *status is that of waitpid. Returns an
 * errno. */
static int run(const struct llvm_command *command, int output_fd, struct buffer *said, int *status)
{
    posix_spawn_file_actions_t actions;
    int ends[2], result;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    result = posix_spawn_file_actions_init(&actions);
    if (result == 0) {
        /* Duplicating a descriptor onto itself keeps it open in the child. */
        for (size_t i = 0; i < command->file_count && result == 0; i++)
            result = posix_spawn_file_actions_adddup2(&actions, command->files[i].fd,
                                                      command->files[i].fd);
        if (result == 0)
            result = posix_spawn_file_actions_adddup2(&actions, output_fd < 0 ? ends[1] : output_fd,
                                                      STDOUT_FILENO);
        if (result == 0)
            result = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
        if (result == 0)
            result =
                posix_spawnp(&child, command->words[0], &actions, NULL, command->words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (result == 0) {
        read_text(ends[0], said);
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
    struct llvm_command command = {0};
    struct buffer text = {0};
    unsigned release = 0;
    int status = -1;

    llvm_command_add(&command, "%s", program);
    llvm_command_add(&command, "--version");
    if (!command.failed && run(&command, -1, &text, &status) == 0 && buffer_append(&text, "", 1)) {
        const char *found = strstr((const char *)text.data, "LLVM version ");

        if (found != NULL)
            release = (unsigned)strtoul(found + strlen("LLVM version "), NULL, 10);
    }
    buffer_free(&text);
    llvm_command_free(&command);
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

char *llvm_tool_find(enum llvm_tool tool, const char *given, unsigned raw_version,
                     struct error *error)
{
    static const struct {
        const char *name, *environment;
    } tools[] = {{"llvm-profdata", LLVM_PROFDATA_ENVIRONMENT}, {"llvm-cov", LLVM_COV_ENVIRONMENT}};
    const char *environment = getenv(tools[tool].environment);
    unsigned first, last, release;
    char name[64];

    snprintf(name, sizeof(name), "%s", tools[tool].name);
    if (given != NULL)
        return copy_program(given, error);
    if (environment != NULL && environment[0] != '\0')
        return copy_program(environment, error);
    release_range(raw_version, &first, &last);
    release = is_in_path(name) ? release_of(name) : 0;
    if (release >= first && release <= last && release != 0)
        return copy_program(name, error);
    for (release = first; release != 0 && release <= last; release++) {
        snprintf(name, sizeof(name), "%s-%u", tools[tool].name, release);
        if (is_in_path(name))
            return copy_program(name, error);
    }
    error_set(error,
              "%s: none in PATH reads raw profiles of version %u (LLVM %u to %u do); "
              "install one, or give --%s",
              tools[tool].name, raw_version, first, last, tools[tool].name);
    return NULL;
}

/* ---- what it says ---- */

/* Appends what the program said with the names of files in place of those of their descriptors, and
 * a 0. False if out of memory. */
static bool name_files(const struct llvm_command *command, const struct buffer *said,
                       struct buffer *text)
{
    const char *rest = (const char *)said->data, *found;

    while (rest != NULL && (found = strstr(rest, DESCRIPTOR_PATH)) != NULL) {
        const char *digits = found + strlen(DESCRIPTOR_PATH), *name = NULL;
        const char *end = digits + strspn(digits, "0123456789");
        unsigned long fd = strtoul(digits, NULL, 10);

        for (size_t i = 0; end != digits && i < command->file_count; i++) {
            if ((unsigned long)command->files[i].fd == fd)
                name = command->files[i].name;
        }
        buffer_append(text, rest, (size_t)((name == NULL ? end : found) - rest));
        if (name != NULL)
            buffer_append(text, name, strlen(name));
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

static bool report_run(const struct llvm_command *command, int status, const char *name,
                       struct buffer *said, struct error *error)
{
    const char *program = command->words[0], *verb = command->words[1];
    const char *option = strcmp(verb, "merge") == 0 ? "llvm-profdata" : "llvm-cov";
    struct error all = {0};
    struct buffer text = {0};
    char *rest, *line;

    if (!buffer_append(said, "", 1) || !name_files(command, said, &text)) {
        buffer_free(&text);
        return error_out_of_memory(error, name, said->size);
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
        return error_set(error, "%s: '%s %s' was ended by signal %d (%.600s); give another --%s",
                         name, program, verb, WTERMSIG(status), all.message, option);
    return error_set(error, "%s: '%s %s' failed: %.600s; give another --%s", name, program, verb,
                     all.message, option);
}

bool llvm_command_run(const struct llvm_command *command, int output_fd, const char *name,
                      struct error *error)
{
    struct buffer said = {0};
    int status = 0, result;
    bool done;

    if (command->failed)
        return error_out_of_memory(error, name, command->count * sizeof(*command->words));
    result = run(command, output_fd, &said, &status);
    done = result != 0
               ? error_set_errno(error, result, "%s: '%s' cannot be run", name, command->words[0])
               : report_run(command, status, name, &said, error);
    buffer_free(&said);
    return done;
}

bool llvm_profdata_merge(const char *program, const struct llvm_profdata_job *job,
                         struct error *error)
{
    struct llvm_command command = {0};
    bool merged;

    llvm_command_add(&command, "%s", program);
    llvm_command_add(&command, "merge");
    if (job->sparse)
        llvm_command_add(&command, "-sparse");
    if (job->goes_on)
        llvm_command_add(&command, "-failure-mode=all");
    /* With one thread the order, and so the output, is always the same. */
    llvm_command_add(&command, "-num-threads=1");
    llvm_command_add(&command, "-o");
    llvm_command_add_file(&command, "", job->output_fd, job->name);
    for (size_t i = 0; i < job->input_count; i++) {
        char before[64];

        snprintf(before, sizeof(before), "-weighted-input=%" PRIu64 ",", job->inputs[i].weight);
        llvm_command_add_file(&command, before, job->inputs[i].fd, job->inputs[i].name);
    }
    merged = llvm_command_run(&command, -1, job->name, error);
    llvm_command_free(&command);
    return merged;
}
