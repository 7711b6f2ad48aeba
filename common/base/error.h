/*
 * Errors as values.
 *
 * A function that can fail takes a `struct error *` as its last argument and returns false (or
 * NULL) after it has filled in the message. The message is one line in the form that the command
 * prints: "FILE: what is wrong; what to do". Nothing here allocates, so running out of memory can
 * be reported like anything else.
 */
#ifndef COVSPLIT_COMMON_BASE_ERROR_H
#define COVSPLIT_COMMON_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#define ERROR_MESSAGE_MAX 1024

struct error {
    char message[ERROR_MESSAGE_MAX]; /* always NUL-terminated; "" as long as nothing failed */
    int number; /* the errno value behind it, for callers that try again; 0: none */
};

/* Writes the message and returns false, so that `return error_set(...)` reads as what it does. A
 * message that is too long is cut. Control bytes (file names may hold any) become '?'. */
bool error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As error_set, with ": " and the text of the given errno value behind the message. */
bool error_set_errno(struct error *error, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The one message for a failed allocation of `size` bytes made for `name` (a file). The number is
 * ENOMEM: who tries whether something can be read must not take this for "it cannot". */
bool error_out_of_memory(struct error *error, const char *name, uint64_t size);
bool error_is_of_memory(const struct error *error);

#endif
