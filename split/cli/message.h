/*
 * The messages that covsplit prints to stderr, and its exit statuses.
 *
 * On a terminal, "error:" and "warning:" are coloured, unless NO_COLOR is set and not empty, or
 * TERM is "dumb" or not set.
 */
#ifndef COVSPLIT_SPLIT_CLI_MESSAGE_H
#define COVSPLIT_SPLIT_CLI_MESSAGE_H

#include <stdarg.h>
#include <stdio.h>

#include "common/base/error.h"

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
};

/* "covsplit: error: FILE: what is wrong; what to do" */
void message_error(const struct error *error);

/* "covsplit: warning: ..." */
void message_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "covsplit: error: WHAT; run 'covsplit COMMAND --help'"; if the command is NULL, 'covsplit
 * --help'. Returns STATUS_USAGE, so callers can `return message_usage(...)`. */
int message_usage(const char *command_name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints one line to a stream, without control bytes: for results with file names. */
void message_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Formats a line for printing into line->message: cut to ERROR_MESSAGE_MAX, with control bytes made
 * harmless. */
void format_printable(struct error *line, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
