/*
 * Formatting of error messages: see error.h.
 */
#include "common/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- characters ---- */

bool utf8_take(const char **text, uint32_t *character)
{
    const unsigned char *bytes = (const unsigned char *)*text;
    unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte: Unicode, table 3-7 */
    size_t length = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;

    ++*text;
    *character = length == 1 ? bytes[0] : bytes[0] & (0x7fU >> length);
    if (length > 1 && (bytes[0] < 0xc2 || bytes[0] > 0xf4))
        return false;
    if (bytes[0] == 0xe0)
        low = 0xa0; /* overlong */
    else if (bytes[0] == 0xed)
        high = 0x9f; /* surrogates */
    else if (bytes[0] == 0xf0)
        low = 0x90; /* overlong */
    else if (bytes[0] == 0xf4)
        high = 0x8f; /* above U+10FFFF */
    for (size_t i = 1; i < length; i++) {
        if (bytes[i] < low || bytes[i] > high)
            return false;
        *character = *character << 6 | (bytes[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *text += length - 1;
    return true;
}

bool utf8_is_control(uint32_t character)
{
    /* The general categories Cc, Cf, Zl and Zp of Unicode 16. */
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0600, 0x0605},
        {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},
        {0x08e2, 0x08e2},   {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},
        {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
        {0xe0000, 0xe007f},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (character >= ranges[i].first && character <= ranges[i].last)
            return true;
    }
    return false;
}

/* A message is one line on a terminal. File names and names from an image may contain any byte, so
 * what could move the cursor, start a second line or show text in another order is replaced here,
 * where every message passes. A signal handler calls this, too. */
void text_make_printable(char *text)
{
    const char *from = text;
    char *to = text;

    while (*from != '\0') {
        const char *start = from;
        uint32_t character;

        if (!utf8_take(&from, &character) || utf8_is_control(character))
            *to++ = '?';
        else
            while (start != from)
                *to++ = *start++;
    }
    *to = '\0';
}

/* ---- messages ---- */

bool error_set(struct error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    text_make_printable(error->message);
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
    text_make_printable(error->message);
    error->number = number;
    return false;
}

bool error_out_of_memory(struct error *error, const char *name, uint64_t size)
{
    error_set(error, "%s: out of memory (%" PRIu64 " bytes)", name, size);
    error->number = ENOMEM;
    return false;
}

bool error_is_of_memory(const struct error *error)
{
    return error->number == ENOMEM;
}

bool error_is_of_system(const struct error *error)
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
