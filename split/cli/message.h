/*
 * The messages that covsplit prints to stderr, its exit statuses, and the progress bar.
 *
 * On a terminal, "error:" and "warning:" are coloured, unless NO_COLOR is set and not empty, or
 * TERM is "dumb" or not set.
 */
#ifndef COVSPLIT_SPLIT_CLI_MESSAGE_H
#define COVSPLIT_SPLIT_CLI_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
};

/* True if what is written to the descriptor may be coloured. */
bool has_colour(int descriptor);

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

/* Warnings that are kept until those about other files are printed, one on each line: adds one;
 * takes the first off a view of them, false if there is none; prints them all. If there is no
 * memory to keep one, it is printed now, and notes->failed. */
void notes_add(struct buffer *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool notes_take(struct bytes *notes, struct error *line);
void notes_print(const struct buffer *notes);

/* ---- the progress bar ----
 *
 * For long work, on a terminal only. Work is counted in bytes. Nothing is drawn for the first half
 * second, and the bar is erased at the end and by the messages above, so that only these stay on
 * the screen. */

struct progress {
    const char *name; /* the name of what is being processed */
    bool on_terminal;
    uint64_t total;
    uint64_t done;
    uint64_t weight; /* the cost of a byte in the current phase; 0 means 1 */
    int64_t next;    /* when to draw again, in milliseconds */
};

/* Starts a bar on stderr. The name must outlive it. */
void progress_start(struct progress *progress, const char *name, uint64_t total);

/* Reports that `size` more bytes are done. The first argument is a struct progress, so that this
 * can be the `released` of an input. */
void progress_add(void *progress, uint64_t size);

/* Erases the bar. To be called at the end of the work, and before anything else is printed than
 * these messages; it may be called again. */
void progress_finish(void);

#endif
