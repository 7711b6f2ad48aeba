/*
 * Running llvm-profdata and llvm-cov: see llvm_tool.h.
 */
#include "split/profiles/llvm_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

extern char **environ;

#define DESCRIPTOR_PATH "/proc/self/fd/"

/* So many bytes of the program's output are kept, unless the caller wants every line. */
#define TEXT_MAX ((size_t)64 << 10)

/* ---- running a program ---- */

void llvm_command_add(struct llvm_command *command, const char *format, ...)
{
    va_list arguments;
    int length;

    exit_unless_allocated(array_make_room(&command->words, &command->capacity, command->count, 2,
                                          sizeof(*command->words)),
                          command->count * sizeof(*command->words));
    va_start(arguments, format);
    length = vasprintf(&command->words[command->count], format, arguments);
    va_end(arguments);
    exit_unless_allocated(length >= 0, strlen(format));
    command->words[++command->count] = NULL;
}

void llvm_command_add_file(struct llvm_command *command, const char *before, int fd,
                           const char *name)
{
    llvm_command_add(command, "%s" DESCRIPTOR_PATH "%d", before, fd);
    COMMAND_ROOM_FOR_ONE(command->files, command->file_capacity, command->file_count);
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

/* Reads everything up to the end of the pipe, and keeps the beginning, up to `most` bytes. */
static void read_text(int fd, size_t most, struct buffer *text)
{
    char piece[4096];
    ssize_t size;

    while ((size = read(fd, piece, sizeof(piece))) > 0 || (size < 0 && errno == EINTR)) {
        if (size > 0 && text->size < most)
            buffer_append(text, piece, (size_t)size);
    }
}

int llvm_command_spawn(const struct llvm_command *command, int output_fd, struct buffer *said,
                       int *status)
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
        read_text(ends[0], command->take_line == NULL ? TEXT_MAX : SIZE_MAX, said);
        while (waitpid(child, status, 0) < 0 && errno == EINTR)
            continue;
    }
    close(ends[0]);
    return result;
}

/* ---- what it says ---- */

/* Appends what the program said with the names of files in place of those of their descriptors, and
 * a 0. */
static void name_files(const struct llvm_command *command, const struct buffer *said,
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
    buffer_append(text, rest == NULL ? "" : rest, rest == NULL ? 1 : strlen(rest) + 1);
    exit_unless_allocated(!text->failed, text->size);
}

/* Takes the next line of the output; false at the end. */
static bool next_line(char **rest, char **line)
{
    do {
        *line = strsep(rest, "\n");
    } while (*line != NULL && **line == '\0');
    return *line != NULL;
}

size_t colour_size(const char *text)
{
    size_t size = text[0] == '\033' && text[1] == '[' ? 2 + strspn(text + 2, "0123456789;") : 0;

    return size != 0 && text[size] == 'm' ? size + 1 : 0;
}

/* Removes the sequences that colour it, which llvm-cov writes with pages to any standard error. */
static void remove_colours(char *text)
{
    char *to = text;

    while (*text != '\0') {
        size_t size = colour_size(text);

        if (size == 0)
            *to++ = *text++;
        text += size;
    }
    *to = '\0';
}

static bool report_run(const struct llvm_command *command, int status, const char *name,
                       struct buffer *said, struct error *error)
{
    const char *program = command->words[0], *verb = command->words[1];
    const char *option = strcmp(verb, "merge") == 0 ? "llvm-profdata" : "llvm-cov";
    struct error all = {0};
    struct buffer text = {0};
    char *rest, *line;

    exit_unless_allocated(buffer_append(said, "", 1), said->size);
    name_files(command, said, &text);
    rest = (char *)text.data;
    remove_colours(rest);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        while (next_line(&rest, &line)) {
            if (command->take_line == NULL || !command->take_line(command->context, line))
                message_warning("%s: %s", program, line);
        }
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

    result = llvm_command_spawn(command, output_fd, &said, &status);
    done = result != 0
               ? error_set_errno(error, result, "%s: '%s' cannot be run", name, command->words[0])
               : report_run(command, status, name, &said, error);
    buffer_free(&said);
    return done;
}

bool llvm_command_capture(const struct llvm_command *command, const char *name,
                          struct llvm_capture *capture, struct error *error)
{
    struct output *output = &capture->output;

    *capture = (struct llvm_capture){.output.fd = -1, .text.fd = -1, .is_made = true};
    return output_create_in_memory(output, name, error) && output_lend(output, error) &&
           llvm_command_run(command, output->fd, output->path, error) &&
           output_take_back(output, error) && output_map(output, &capture->text, error);
}

void llvm_capture_free(struct llvm_capture *capture)
{
    if (capture->is_made) {
        input_close(&capture->text);
        output_discard(&capture->output);
    }
    *capture = (struct llvm_capture){.is_made = false};
}
