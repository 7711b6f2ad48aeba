/*
 * Formatting of error messages: see error.h.
 */
#include "common/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line on a terminal. File names and names from an image may contain any byte, so
 * bytes that could move the cursor or start a second line are replaced here, where every message
 * passes. Bytes from 0x80 on are kept, as they are usually UTF-8. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            *text = '?';
    }
}

bool error_set(struct error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    make_printable(error->message);
    error->number = 0;
    return false;
}

bool error_set_errno(struct error *error, int number, const char *format, ...)
{
    va_list arguments;
    size_t length;

    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    length = strlen(error->message);
    snprintf(error->message + length, sizeof(error->message) - length, ": %s", strerror(number));
    make_printable(error->message);
    error->number = number;
    return false;
}

bool error_out_of_memory(struct error *error, const char *name, uint64_t size)
{
    error_set(error, "%s: no memory for %" PRIu64 " bytes; free some and run again", name, size);
    error->number = ENOMEM;
    return false;
}

bool error_is_of_memory(const struct error *error)
{
    return error->number == ENOMEM;
}

bool error_is_of_machine(const struct error *error)
{
    switch (error->number) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EIO:
    case ESTALE:
    case EINTR:
        return true;
    default:
        return false;
    }
}
