/*
 * UUIDs as text: see uuid.h.
 */
#include "common/base/uuid.h"

#include <string.h>

#include "common/base/bytes.h"

const char *uuid_format(const struct uuid *uuid, char *text)
{
    return hex_format((struct bytes){uuid->bytes, uuid->size}, text);
}

bool uuid_parse(const char *text, struct uuid *uuid)
{
    struct uuid result = {.size = 0};

    while (*text != '\0') {
        char digits[2];

        if (*text == '-' && result.size != 0 && text[1] != '-' && text[1] != '\0') {
            text++;
            continue;
        }
        for (size_t i = 0; i < sizeof(digits); i++, text++) {
            if (*text == '\0')
                return false;
            digits[i] = *text >= 'A' && *text <= 'F' ? (char)(*text - 'A' + 'a') : *text;
        }
        if (result.size == UUID_SIZE_MAX ||
            !hex_parse(digits, sizeof(digits), &result.bytes[result.size++], 1))
            return false;
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
