/*
 * Demangling: see demangle.h.
 */
#include "split/sidecars/demangle.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"

/* ---- the filter ---- */

/* The first one that is in PATH is taken. LLVM's knows Rust, too, whatever its version. */
static const char *const programs[] = {"llvm-cxxfilt",    "llvm-cxxfilt-22", "llvm-cxxfilt-21",
                                       "llvm-cxxfilt-20", "llvm-cxxfilt-19", "llvm-cxxfilt-18",
                                       "llvm-cxxfilt-17", "llvm-cxxfilt-16", "llvm-cxxfilt-15",
                                       "llvm-cxxfilt-14", "c++filt"};

static const char filter_name[] = "the demangler";

const char *demangle_part(const char *name)
{
    const char *part = name;

    for (const char *at = name; *at != '\0'; at++) {
        if (*at == ':' || *at == ';')
            part = at + 1;
    }
    return strncmp(part, "_Z", 2) == 0 || strncmp(part, "_R", 2) == 0 ? part : NULL;
}

/* Starts the first program that is there. Returns an errno. */
static int start(int input, int output, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    int result = posix_spawn_file_actions_init(&actions);

    if (result != 0)
        return result;
    result = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (result == 0)
        result = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (result == 0)
        result = ENOENT;
    for (size_t i = 0; result == ENOENT && i < sizeof(programs) / sizeof(programs[0]); i++) {
        char *command[] = {(char *)(uintptr_t)programs[i], NULL};

        result = posix_spawnp(child, command[0], &actions, NULL, command, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

static bool write_parts(int fd, const char *const *parts, size_t count, struct error *error)
{
    struct buffer lines = {0};
    size_t written = 0;
    bool done = true;

    for (size_t i = 0; done && i < count; i++)
        done = buffer_append(&lines, parts[i], strlen(parts[i])) && buffer_append(&lines, "\n", 1);
    if (!done)
        error_out_of_memory(error, filter_name, lines.size);
    while (done && written < lines.size) {
        ssize_t size = write(fd, lines.data + written, lines.size - written);

        if (size < 0 && errno != EINTR)
            done = error_set_errno(error, errno, "%s: its input cannot be written", filter_name);
        else if (size > 0)
            written += (size_t)size;
    }
    buffer_free(&lines);
    return done && (lseek(fd, 0, SEEK_SET) == 0 ||
                    error_set_errno(error, errno, "%s: its input cannot be read", filter_name));
}

/* Reads as many lines as there were parts. */
static bool read_lines(int fd, size_t count, struct buffer *text, struct error *error)
{
    off_t size = lseek(fd, 0, SEEK_END);
    size_t lines = 0;

    if (size < 0)
        return error_set_errno(error, errno, "%s: its output cannot be read", filter_name);
    text->size = 0;
    if (!buffer_reserve(text, (size_t)size + 1))
        return error_out_of_memory(error, filter_name, (uint64_t)size);
    if (!file_read_at(fd, filter_name, 0, text->data, (size_t)size, error))
        return false;
    text->size = (size_t)size;
    for (size_t i = 0; i < text->size; i++) {
        if (text->data[i] == '\n') {
            text->data[i] = '\0';
            lines++;
        }
    }
    return (lines == count && text->size != 0 && text->data[text->size - 1] == '\0') ||
           error_set(error, "%s: did not print a line for each name; check that it works",
                     filter_name);
}

static bool run(int input, int output, bool *is_there, struct error *error)
{
    pid_t child;
    int status, number = start(input, output, &child);

    *is_there = number != ENOENT;
    if (!*is_there)
        return true;
    if (number != 0)
        return error_set_errno(error, number, "%s: cannot be run", filter_name);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           error_set(error, "%s: has failed; check that it works", filter_name);
}

bool demangle(const char *const *parts, size_t count, struct buffer *text, bool *is_there,
              struct error *error)
{
    int input = memfd_create("names", MFD_CLOEXEC);
    int output = memfd_create("demangled", MFD_CLOEXEC);
    bool done = (input >= 0 && output >= 0) ||
                error_set_errno(error, errno, "%s: its input cannot be made", filter_name);

    done = done && write_parts(input, parts, count, error) && run(input, output, is_there, error) &&
           (!*is_there || count == 0 || read_lines(output, count, text, error));
    if (input >= 0)
        close(input);
    if (output >= 0)
        close(output);
    return done;
}

/* ---- names ---- */

/* The length of the name without its parameters: up to the parenthesis that belongs to the last
 * one, if there is anything before it. */
static size_t without_parameters(const char *name, size_t length)
{
    size_t end = length, depth = 0;

    while (end > 0 && name[end - 1] != ')')
        end--;
    for (size_t i = end; i-- > 1;) {
        depth += name[i] == ')';
        if (name[i] == '(' && --depth == 0)
            return i;
    }
    return length;
}

/* The length without the arguments of the template at the end. */
static size_t without_template(const char *name, size_t length)
{
    size_t depth = 0;

    if (length == 0 || name[length - 1] != '>')
        return length;
    for (size_t i = length; i-- > 1;) {
        depth += name[i] == '>';
        if (name[i] == '<' && --depth == 0)
            return i;
    }
    return length;
}

/* What comes before the name: what the function returns, and a space. */
static size_t return_length(const char *name, size_t length)
{
    size_t depth = 0;

    for (size_t i = length; i-- > 0;) {
        depth += name[i] == ')' || name[i] == '>';
        depth -= depth != 0 && (name[i] == '(' || name[i] == '<');
        if (depth == 0 && name[i] == ' ')
            return i + 1;
    }
    return 0;
}

/* The length without the hash that Rust adds: "::h", and 16 digits. */
static size_t without_hash(const char *name, size_t length)
{
    static const char start[] = "::h";
    const size_t size = strlen(start) + 16;

    return length > size && memcmp(name + length - size, start, strlen(start)) == 0 &&
                   strspn(name + length - 16, "0123456789abcdef") >= 16
               ? length - size
               : length;
}

static bool is_text(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

bool demangled_is(const char *demangled, const char *wanted)
{
    size_t whole = strlen(demangled), length = without_parameters(demangled, whole);
    size_t start = length == whole ? 0 : return_length(demangled, length);
    const char *name = demangled + start;

    return is_text(demangled, whole, wanted) || is_text(demangled, length, wanted) ||
           is_text(demangled, without_hash(demangled, whole), wanted) ||
           is_text(demangled + start, whole - start, wanted) ||
           is_text(name, length - start, wanted) ||
           is_text(name, without_template(name, length - start), wanted);
}

const char *demangled_key(const char *wanted, size_t *length)
{
    size_t end = without_parameters(wanted, strlen(wanted)), start;

    end = without_hash(wanted, without_template(wanted, end));
    for (start = end; start > 0; start--) {
        unsigned char before = (unsigned char)wanted[start - 1];

        if (before < 0x80 && !isalnum(before) && before != '_')
            break;
    }
    *length = strstr(wanted, "operator") != NULL ? 0 : end - start;
    return wanted + start;
}
