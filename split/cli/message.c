/*
 * Messages: see message.h.
 *
 * Every message passes through a struct error, which cuts what is too long and takes out control
 * bytes: file names may hold any.
 */
#include "split/cli/message.h"

#include <errno.h>

void format_printable(struct error *line, const char *format, va_list arguments)
{
    char text[ERROR_MESSAGE_MAX];

    vsnprintf(text, sizeof(text), format, arguments);
    error_set(line, "%s", text);
}

void message_error(const struct error *error)
{
    fprintf(stderr, "covsplit: error: %s\n", error->message);
}

void message_warning(const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "covsplit: warning: %s\n", line.message);
}

int message_usage(const char *command_name, const char *format, ...)
{
    struct error line;
    va_list arguments;
    const char *separator = command_name != NULL ? " " : "";

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "covsplit: error: %s; run 'covsplit%s%s --help'\n", line.message, separator,
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
