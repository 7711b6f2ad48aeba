/*
 * Asking the linker who refers to names and data: see link_trace.h.
 */
#include "split/split/link_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "split/cli/memory.h"

/* In the order of kinds: two for names, two for data. */
static const char *const symbols[TRACE_SYMBOLS] = {
    "__start___llvm_prf_names",
    "__stop___llvm_prf_names",
    "__start___llvm_prf_data",
    "__stop___llvm_prf_data",
};

/* The runtime's object that has the bounds, from its sources' name: also in Rust's library. */
#define RUNTIME_OBJECT "InstrProfilingPlatform"

/* ---- whether the linker can be asked ---- */

/* Words by which the command is another one than it seems, prints its own words, or lets the linker
 * make symbols, which it does not trace; and files that may have such words. */
static const char *const others[] = {
    "@*",         "*,@*",     "--config*", "--",        "-v*",     "-###",     "*trace-symbol*",
    "-Wl,-y*",    "-y*",      "*defsym*",  "-T*",       "-Wl,-T*", "*script*", "*.ld",
    "*.lds",      "*darwin*", "*apple*",   "*windows*", "*mingw*", "*msvc*",   "*wasm*",
    "*-verbose*",
};

static bool is_known_linker(const char *word)
{
    static const char *const names[] = {"*bfd", "*gold", "*lld", "*mold", "*lld-[0-9]*"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (fnmatch(names[i], word, 0) == 0)
            return true;
    }
    return false;
}

static bool allows_trace(const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++) {
            if (fnmatch(others[j], words[i], 0) == 0)
                return false;
        }
        if ((strncmp(words[i], "-fuse-ld=", 9) == 0 || strncmp(words[i], "--ld-path=", 10) == 0) &&
            !is_known_linker(words[i]))
            return false;
    }
    return true;
}

/* What is understood are the linkers' English words. */
static bool speaks_english(void)
{
    static const char *const names[] = {"LC_ALL", "LC_MESSAGES", "LANG"};
    const char *language = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && language == NULL; i++) {
        const char *value = getenv(names[i]);

        language = value != NULL && value[0] != '\0' ? value : NULL;
    }
    return language == NULL || strncmp(language, "en", 2) == 0 || language[0] == 'C' ||
           strcmp(language, "POSIX") == 0;
}

void link_trace_open(struct link_trace *trace, const struct link_command *command,
                     const char *const *words, size_t count)
{
    *trace = (struct link_trace){.command = NULL};
    for (size_t i = 0; i < TRACE_STREAMS; i++)
        trace->streams[i].from = trace->streams[i].to = -1;
    if (!command->links || command->asked == LINK_ASKED_NOT || isatty(STDOUT_FILENO) ||
        isatty(STDERR_FILENO) || !speaks_english() || !allows_trace(words, count))
        return;
    trace->command = command_array(count + TRACE_SYMBOLS + 1, sizeof(*trace->command));
    /* The words are main's arguments, which execvp may take. */
    for (size_t i = 0; i < count; i++)
        trace->command[i] = (char *)(uintptr_t)words[i];
    for (size_t i = 0; i < TRACE_SYMBOLS; i++) {
        trace->words[i] =
            command_text("%s--trace-symbol=%s",
                         command->asked == LINK_ASKED_THROUGH_COMPILER ? "-Wl," : "", symbols[i]);
        trace->command[count + i] = trace->words[i];
    }
}

/* ---- the lines ---- */

/* The object that a line names: "[PROGRAM: ]OBJECT: [weak ]reference to SYMBOL". Empty if the line
 * ends otherwise. */
static struct bytes object_in(const char *line, size_t size, const char *ending)
{
    size_t length = strlen(ending);
    const char *colon, *start;

    if (size < length || memcmp(line + size - length, ending, length) != 0)
        return (struct bytes){0};
    colon = memrchr(line, ':', size - length);
    if (colon == NULL)
        return (struct bytes){0};
    start = line;
    for (const char *c = line; c + 1 < colon; c++) {
        if (c[0] == ':' && c[1] == ' ')
            start = c + 2;
    }
    return (struct bytes){(const uint8_t *)start, (uint64_t)(colon - start)};
}

/* Takes a line, without its end, if it is one that was asked for. */
static bool take_line(struct link_trace *trace, const char *line, size_t size)
{
    for (size_t i = 0; i < TRACE_SYMBOLS; i++) {
        char *reference = command_text("reference to %s", symbols[i]);
        char *definition = command_text("definition of %s", symbols[i]);
        struct bytes object = object_in(line, size, reference);
        bool is_definition = object_in(line, size, definition).size != 0;

        free(reference);
        free(definition);
        if (object.size == 0 && !is_definition)
            continue;
        if (object.size != 0 &&
            memmem(object.data, object.size, RUNTIME_OBJECT, strlen(RUNTIME_OBJECT)) != NULL)
            trace->is_seen[i] = true;
        else if (object.size != 0 && trace->objects[i] == NULL)
            trace->objects[i] = command_text("%.*s", (int)object.size, (const char *)object.data);
        return true;
    }
    return false;
}

static void pass_on(const struct trace_stream *stream, const char *bytes, size_t size)
{
    while (size != 0) {
        ssize_t written = write(stream->to, bytes, size);

        if (written < 0 && errno != EINTR)
            return; /* nobody reads it */
        bytes += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
}

/* Passes on the lines that are whole, and of what is too long for a line all. */
static void pass_lines(struct link_trace *trace, struct trace_stream *stream)
{
    size_t start = 0;
    char *newline;

    while ((newline = memchr(stream->line + start, '\n', stream->size - start)) != NULL) {
        size_t next = (size_t)(newline + 1 - stream->line);

        if (stream->is_long || !take_line(trace, stream->line + start, next - 1 - start))
            pass_on(stream, stream->line + start, next - start);
        stream->is_long = false;
        start = next;
    }
    stream->size -= start;
    memmove(stream->line, stream->line + start, stream->size);
    if (stream->size == TRACE_LINE) {
        pass_on(stream, stream->line, stream->size);
        stream->is_long = true;
        stream->size = 0;
    }
}

static void read_some(struct link_trace *trace, struct trace_stream *stream)
{
    ssize_t size = read(stream->from, stream->line + stream->size, TRACE_LINE - stream->size);

    if (size > 0) {
        stream->size += (size_t)size;
        pass_lines(trace, stream);
    } else if (size == 0 || errno != EINTR) {
        pass_on(stream, stream->line, stream->size);
        close(stream->from);
        stream->from = -1;
    }
}

static void *read_all(void *context)
{
    struct link_trace *trace = context;
    struct trace_stream *streams = trace->streams;

    while (streams[0].from >= 0 || streams[1].from >= 0) {
        struct pollfd polled[TRACE_STREAMS] = {{.fd = streams[0].from, .events = POLLIN},
                                               {.fd = streams[1].from, .events = POLLIN}};

        if (poll(polled, TRACE_STREAMS, -1) <= 0)
            continue;
        for (size_t i = 0; i < TRACE_STREAMS; i++) {
            if (streams[i].from >= 0 && polled[i].revents != 0)
                read_some(trace, &streams[i]);
        }
    }
    return NULL;
}

/* ---- the streams ---- */

static bool are_one_file(int first, int second)
{
    struct stat one, other;

    return fstat(first, &one) == 0 && fstat(second, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* Puts a pipe in the place of a descriptor. */
static bool redirect(struct trace_stream *stream, int descriptor)
{
    int ends[2];
    bool done;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    stream->from = ends[0];
    stream->to = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    done = stream->to >= 0 && dup2(ends[1], descriptor) == descriptor;
    close(ends[1]);
    return done;
}

static const int descriptors[TRACE_STREAMS] = {STDOUT_FILENO, STDERR_FILENO};

static void restore(const struct link_trace *trace)
{
    for (size_t i = 0; i < TRACE_STREAMS; i++) {
        int to = trace->streams[trace->is_one ? 0 : i].to;

        if (to >= 0)
            dup2(to, descriptors[i]);
    }
}

/* If both descriptors are one file, they stay one, so that the order of lines does. */
bool link_trace_start(struct link_trace *trace)
{
    bool done = trace->command != NULL;

    trace->is_one = done && are_one_file(STDOUT_FILENO, STDERR_FILENO);
    done = done && redirect(&trace->streams[0], STDOUT_FILENO) &&
           (trace->is_one ? dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO
                          : redirect(&trace->streams[1], STDERR_FILENO));
    trace->is_read = done && pthread_create(&trace->reader, NULL, read_all, trace) == 0;
    if (!trace->is_read)
        restore(trace);
    return trace->is_read;
}

void link_trace_started(struct link_trace *trace)
{
    if (trace->is_read)
        restore(trace);
}

void link_trace_end(struct link_trace *trace)
{
    if (trace->is_read)
        pthread_join(trace->reader, NULL);
    for (size_t i = 0; i < TRACE_STREAMS; i++) {
        if (trace->streams[i].from >= 0)
            close(trace->streams[i].from);
        if (trace->streams[i].to >= 0)
            close(trace->streams[i].to);
    }
}

struct section_users link_trace_users(const struct link_trace *trace, enum section_kind kind)
{
    size_t first = kind == SECTION_NAMES ? 0 : 2;
    struct section_users users = {.are_known = trace->is_seen[first] && trace->is_seen[first + 1]};

    if (users.are_known)
        users.object =
            trace->objects[first] != NULL ? trace->objects[first] : trace->objects[first + 1];
    return users;
}

void link_trace_free(struct link_trace *trace)
{
    for (size_t i = 0; i < TRACE_SYMBOLS; i++) {
        free(trace->words[i]);
        free(trace->objects[i]);
    }
    free(trace->command);
}
