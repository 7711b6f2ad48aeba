/*
 * Messages: see message.h.
 *
 * Every message passes through a struct error, which cuts long messages and removes control bytes:
 * file names may contain any.
 */
#include "split/cli/message.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The colours of gcc and clang (ECMA-48, SGR). */
#define BOLD_RED     "\033[1;31m"
#define BOLD_MAGENTA "\033[1;35m"
#define NO_COLOUR    "\033[0m"

/* The environment does not matter if the output is not a terminal. See no-color.org. */
static bool has_colour(void)
{
    const char *refusal, *terminal;

    if (isatty(STDERR_FILENO) != 1)
        return false;
    refusal = getenv("NO_COLOR");
    terminal = getenv("TERM");
    return (refusal == NULL || refusal[0] == '\0') && terminal != NULL && terminal[0] != '\0' &&
           strcmp(terminal, "dumb") != 0;
}

/* Prints "covsplit: error: " and the like. */
static void print_start(const char *kind, const char *colour)
{
    bool is_coloured = has_colour();

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
    fprintf(stream, "%s\n", line.message);
}
