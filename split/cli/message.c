/*
 * Messages, and the progress bar: see message.h.
 *
 * Every message passes through a struct error, which cuts long messages and removes control bytes:
 * file names may contain any.
 */
#include "split/cli/message.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The colours of gcc and clang (ECMA-48, SGR). */
#define BOLD_RED          "\033[1;31m"
#define BOLD_MAGENTA      "\033[1;35m"
#define NO_COLOUR         "\033[0m"

#define BAR_WIDTH         30
#define NAME_WIDTH        40
#define FIRST_MILLISECOND 500
#define NEXT_MILLISECOND  100

/* The environment does not matter if the output is not a terminal. See no-color.org. */
bool has_colour(int descriptor)
{
    const char *refusal, *terminal;

    if (isatty(descriptor) != 1)
        return false;
    refusal = getenv("NO_COLOR");
    terminal = getenv("TERM");
    return (refusal == NULL || refusal[0] == '\0') && terminal != NULL && terminal[0] != '\0' &&
           strcmp(terminal, "dumb") != 0;
}

/* Prints "covsplit: error: " and the like. */
static void print_start(const char *kind, const char *colour)
{
    bool is_coloured = has_colour(STDERR_FILENO);

    progress_finish();
    fprintf(stderr, "covsplit: %s%s:%s ", is_coloured ? colour : "", kind,
            is_coloured ? NO_COLOUR : "");
}

void format_printable(struct error *line, const char *format, va_list arguments)
{
    char text[ERROR_MESSAGE_MAX];

    vsnprintf(text, sizeof(text), format, arguments);
    error_set(line, "%s", text);
}

void message_error(const struct error *error)
{
    print_start("error", BOLD_RED);
    fprintf(stderr, "%s\n", error->message);
}

void message_warning(const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    print_start("warning", BOLD_MAGENTA);
    fprintf(stderr, "%s\n", line.message);
}

int message_usage(const char *command_name, const char *format, ...)
{
    struct error line;
    va_list arguments;
    const char *separator = command_name != NULL ? " " : "";

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    print_start("error", BOLD_RED);
    fprintf(stderr, "%s; run 'covsplit%s%s --help'\n", line.message, separator,
            command_name != NULL ? command_name : "");
    return STATUS_USAGE;
}

void message_line(FILE *stream, const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    progress_finish();
    fprintf(stream, "%s\n", line.message);
}

/* ---- kept warnings ---- */

void notes_add(struct buffer *notes, const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    /* A command without memory may have to go on: `link` must remove an image that is not split. */
    if (!buffer_reserve(notes, strlen(line.message) + 1)) {
        message_warning("%s", line.message);
        return;
    }
    buffer_append(notes, line.message, strlen(line.message));
    buffer_append(notes, "\n", 1);
}

bool notes_take(struct bytes *notes, struct error *line)
{
    const uint8_t *newline;
    uint64_t length;

    if (notes->size == 0)
        return false;
    newline = memchr(notes->data, '\n', (size_t)notes->size);
    length = (uint64_t)(newline - notes->data);
    error_set(line, "%.*s", (int)length, (const char *)notes->data);
    bytes_slice(*notes, length + 1, notes->size - length - 1, notes);
    return true;
}

void notes_print(const struct buffer *notes)
{
    struct bytes rest = buffer_view(notes);
    struct error line;

    while (notes_take(&rest, &line))
        message_warning("%s", line.message);
}

/* ---- the progress bar ---- */

static atomic_bool is_drawn;

static int64_t milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void progress_start(struct progress *progress, const char *name, uint64_t total)
{
    *progress = (struct progress){
        .name = name,
        .on_terminal = isatty(STDERR_FILENO) == 1,
        .total = total,
        .next = milliseconds() + FIRST_MILLISECOND,
    };
}

static void draw(struct progress *progress)
{
    char bar[BAR_WIDTH + 1], name[NAME_WIDTH + 1];
    uint64_t percent = progress->total == 0 ? 0 : progress->done / (progress->total / 100 + 1);

    if (percent > 99)
        percent = 99;
    for (unsigned i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < percent * BAR_WIDTH / 100 ? '#' : '-';
    bar[BAR_WIDTH] = '\0';
    /* A name could contain bytes that move the cursor. */
    snprintf(name, sizeof(name), "%s", progress->name);
    text_make_printable(name);
    fprintf(stderr, "\r[%s] %2u%% %s", bar, (unsigned)percent, name);
    fflush(stderr);
    is_drawn = true;
}

void progress_add(void *context, uint64_t size)
{
    struct progress *progress = context;

    progress->done += size * (progress->weight == 0 ? 1 : progress->weight);
    if (progress->on_terminal && milliseconds() >= progress->next) {
        draw(progress);
        progress->next = milliseconds() + NEXT_MILLISECOND;
    }
}

void progress_finish(void)
{
    if (atomic_exchange(&is_drawn, false))
        fputs("\r\033[K", stderr);
}
