/*
 * Names of functions: see show.h.
 */
#include "split/sidecars/show.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "split/cli/memory.h"

/* The most names that an error lists if several functions match. */
#define LISTED_MOST 8

/* ---- the demangler ----
 *
 * That of LLVM or binutils, run as a filter: it knows C++ and Rust. */

/* The first one that is in PATH is taken. LLVM's knows Rust, too, whatever its version. */
static const char *const programs[] = {"llvm-cxxfilt",    "llvm-cxxfilt-22", "llvm-cxxfilt-21",
                                       "llvm-cxxfilt-20", "llvm-cxxfilt-19", "llvm-cxxfilt-18",
                                       "llvm-cxxfilt-17", "llvm-cxxfilt-16", "llvm-cxxfilt-15",
                                       "llvm-cxxfilt-14", "c++filt"};

static const char filter_name[] = "the demangler";

/* The part of a function's name that can be demangled; NULL if there is none: "_Z4workv" in
 * "file.cc:_Z4workv". */
static const char *demangle_part(const char *name)
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

    for (size_t i = 0; i < count; i++) {
        buffer_append(&lines, parts[i], strlen(parts[i]));
        buffer_append(&lines, "\n", 1);
    }
    exit_unless_allocated(!lines.failed, lines.size);
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
    exit_unless_allocated(buffer_reserve(text, (size_t)size + 1), (uint64_t)size);
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

/* Sets the empty `text` to the demangled names, each with a NUL at its end; a part that is not a
 * name after all is unchanged. *is_there is false if no demangler is installed. */
static bool demangle(const char *const *parts, size_t count, struct buffer *text, bool *is_there,
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

/* ---- demangled names ---- */

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

/* The length of what comes before the name: the returned type, and a space. */
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

/* True if the demangled name is the one that was asked for: as it is, or without its parameters,
 * what it returns, the arguments of its template, and the hash of Rust. */
static bool demangled_is(const char *demangled, const char *wanted)
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

/* The last identifier in such a name, which its mangled form contains; *length is 0 if it has
 * none. */
static const char *demangled_key(const char *wanted, size_t *length)
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

/* ---- the search ---- */

struct search {
    const char *wanted;
    const char *key; /* what a mangled name must contain */
    size_t key_length;
    bool is_exact;           /* the state has just this name */
    struct text_set in_file; /* names that are this one behind that of a file */
    struct text_set mangled; /* names that may be this one, demangled */
};

/* ---- all names ---- */

static void add_text(struct text_set *set, const char *text)
{
    exit_unless_allocated(text_set_add(set, &text, 1), strlen(text));
}

/* LLVM 17 and later put a ';' behind the file, those before a ':'. */
static bool is_in_file(const char *name, const char *wanted)
{
    size_t length = strlen(name), wanted_length = strlen(wanted);
    const char *end = name + length - wanted_length;

    return length > wanted_length + 1 && strcmp(end, wanted) == 0 &&
           (end[-1] == ':' || end[-1] == ';');
}

static bool may_be_mangled(const struct search *search, const char *name)
{
    const char *part = demangle_part(name);

    return part != NULL && (search->key_length == 0 ||
                            memmem(part, strlen(part), search->key, search->key_length) != NULL);
}

/* A state_image_visitor. */
static bool look_at_names(void *context, struct state_image *image, struct error *error)
{
    struct search *search = context;
    const struct names *names = &image->functions.names;

    (void)error;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = (const char *)names_get(names, i).data;

        if (strcmp(name, search->wanted) == 0)
            search->is_exact = true;
        else if (is_in_file(name, search->wanted))
            add_text(&search->in_file, name);
        else if (may_be_mangled(search, name))
            add_text(&search->mangled, name);
    }
    return true;
}

/* ---- the result ---- */

static bool is_ambiguous(const char *wanted, const struct text_set *found, struct error *error)
{
    char list[ERROR_MESSAGE_MAX] = "";
    size_t listed = found->count <= LISTED_MOST ? found->count : LISTED_MOST, length = 0;

    for (size_t i = 0; i < listed && length < sizeof(list); i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s", i == 0 ? "" : ", ",
                                   found->items[i]);
    return error_set(error, "%s: %zu functions have this name; give one of these: %.800s%s", wanted,
                     found->count, list, listed < found->count || length > 800 ? ", ..." : "");
}

/* Adds the mangled names whose demangled forms are wanted; *is_one is set if these forms are
 * equal. */
static void keep_demangled(const struct search *search, const struct buffer *text,
                           struct text_set *kept, bool *is_one)
{
    const char *demangled = (const char *)text->data, *first = NULL;

    *is_one = true;
    for (size_t i = 0; i < search->mangled.count; i++) {
        if (demangled_is(demangled, search->wanted)) {
            add_text(kept, search->mangled.items[i]);
            if (first == NULL)
                first = demangled;
            *is_one = *is_one && strcmp(first, demangled) == 0;
        }
        demangled += strlen(demangled) + 1;
    }
}

/* Adds the wanted names to those that were kept. */
static bool find_demangled(const struct search *search, struct text_set *kept, struct error *error)
{
    size_t count = search->mangled.count;
    const char **parts = command_array(count, sizeof(*parts));
    struct buffer text = {0};
    bool is_there = true, is_one = true, done = true;

    for (size_t i = 0; i < count; i++)
        parts[i] = demangle_part(search->mangled.items[i]);
    if (count != 0)
        done = demangle(parts, count, &text, &is_there, error);
    if (done && is_there && count != 0)
        keep_demangled(search, &text, kept, &is_one);
    if (done && kept->count == 0)
        done = error_set(error, "%s: no function has this name%s", search->wanted,
                         is_there ? "; give it as llvm-profdata or llvm-cov show it"
                                  : " as in profiles; to find it by its name in the source, "
                                    "install llvm-cxxfilt or c++filt");
    else if (done && !is_one)
        done = is_ambiguous(search->wanted, kept, error);
    buffer_free(&text);
    free(parts);
    return done;
}

bool function_names_find(struct state *state, const struct profile_sidecar_source *source,
                         uint64_t memory_limit, const char *wanted, struct text_set *names,
                         struct error *error)
{
    struct search search = {.wanted = wanted};
    bool done;

    search.key = demangled_key(wanted, &search.key_length);
    done = state_visit_images(state, source, true, memory_limit, look_at_names, &search, error);
    if (done && search.is_exact)
        add_text(names, wanted);
    else if (done && search.in_file.count == 1)
        add_text(names, search.in_file.items[0]);
    else if (done && search.in_file.count > 1)
        done = is_ambiguous(wanted, &search.in_file, error);
    else if (done)
        done = find_demangled(&search, names, error);
    text_set_free(&search.in_file);
    text_set_free(&search.mangled);
    return done;
}
