/*
 * Errors as values.
 *
 * A function that can fail takes a `struct error *` as its last argument and returns false (or
 * NULL) after it has filled in the message. The message is one line in the form that the command
 * prints: "FILE: what is wrong; what to do". Nothing here allocates, so running out of memory can
 * be reported like anything else.
 *
 * A function that has no file name for a message returns an enum result, and its caller writes the
 * message.
 */
#ifndef COVSPLIT_COMMON_BASE_ERROR_H
#define COVSPLIT_COMMON_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#define ERROR_MESSAGE_MAX 1024

struct error {
    char message[ERROR_MESSAGE_MAX]; /* always NUL-terminated; "" if nothing has failed */
    int number; /* the errno value that caused it, for callers that may retry; 0: none */
};

/* Writes the message and returns false, so that a function can fail with `return error_set(...)`. A
 * message that is too long is truncated. Control characters, as in file names, become '?', and so
 * does each byte that is not UTF-8. */
bool error_set(struct error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Like error_set, with ": " and strerror(number) appended to the message. */
bool error_set_errno(struct error *error, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports that `size` bytes could not be allocated for `name` (a file). The number is ENOMEM, so
 * that code which tests whether something can be read does not take this for "it cannot". */
bool error_out_of_memory(struct error *error, const char *name, uint64_t size);
bool error_is_of_memory(const struct error *error);

/* True if the machine failed: memory, descriptors, a disk or a network. Then nothing is known of
 * the file, and a search must not go on as if it were not there. */
bool error_is_of_system(const struct error *error);

/* Takes a character off the start of the text, which must not be empty. False if its first byte
 * does not begin a valid one of UTF-8; then only that byte is taken. */
bool utf8_take(const char **text, uint32_t *character);

/* True of characters that a terminal may obey: control characters, and those without a shape that
 * break lines or change the order or the look of others. */
bool utf8_is_control(uint32_t character);

/* Replaces these characters, and all that is not UTF-8, by '?'. */
void text_make_printable(char *text);

enum result {
    RESULT_OK,
    /* Encoding: the data is not of the expected form. Decoding: the data is damaged. */
    RESULT_UNFIT,
    RESULT_NO_MEMORY,
    RESULT_OVER_LIMIT, /* decoding: would need more memory than is allowed */
};

#endif
