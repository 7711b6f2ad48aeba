/*
 * UUIDs as text: see uuid.h.
 */
#include "common/base/uuid.h"

#include <string.h>

const char *uuid_format(const struct uuid *uuid, char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *out = text;

    for (size_t i = 0; i < uuid->size; i++) {
        *out++ = digits[uuid->bytes[i] >> 4];
        *out++ = digits[uuid->bytes[i] & 15];
    }
    *out = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool uuid_parse(const char *text, struct uuid *uuid)
{
    struct uuid result = {.size = 0};

    while (*text != '\0') {
        int high, low;

        if (*text == '-' && result.size != 0 && text[1] != '-' && text[1] != '\0') {
            text++;
            continue;
        }
        high = hex_digit(text[0]);
        low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0 || result.size == UUID_SIZE_MAX)
            return false;
        result.bytes[result.size++] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    if (result.size == 0)
        return false;
    *uuid = result;
    return true;
}

bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

int uuid_compare(const struct uuid *a, const struct uuid *b)
{
    int order = memcmp(a->bytes, b->bytes, a->size < b->size ? a->size : b->size);

    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

void uuid_stub(const struct uuid *uuid, uint8_t stub[UUID_STUB_SIZE])
{
    memset(stub, 0, UUID_STUB_SIZE);
    memcpy(stub, uuid->bytes, uuid->size < UUID_STUB_SIZE ? uuid->size : UUID_STUB_SIZE);
}

bool uuid_has_stub(const struct uuid *uuid, const uint8_t stub[UUID_STUB_SIZE])
{
    uint8_t own[UUID_STUB_SIZE];

    uuid_stub(uuid, own);
    return memcmp(own, stub, sizeof(own)) == 0;
}
