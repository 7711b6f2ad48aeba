/*
 * What the command says on stderr, and the exit status that goes with it.
 *
 * On a terminal "error:" and "warning:" have a colour, unless NO_COLOR is set and not empty, or
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

/* "covsplit: error: WHAT; run 'covsplit COMMAND --help'", or with NULL for the command 'covsplit
 * --help'. Returns STATUS_USAGE, so that `return message_usage(...)` reads as what it does. */
int message_usage(const char *command_name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints one line, without control bytes, to a stream: results that name files. */
void message_line(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Formats into line->message what will be printed: cut to ERROR_MESSAGE_MAX, control bytes made
 * harmless. */
void format_printable(struct error *line, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
