/*
 * Bounds-checked views and growing buffers: see bytes.h.
 */
#include "common/base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

bool bytes_slice(struct bytes whole, uint64_t offset, uint64_t size, struct bytes *part)
{
    if (offset > whole.size || size > whole.size - offset)
        return false;
    part->data = whole.data == NULL ? NULL : whole.data + offset;
    part->size = size;
    return true;
}

bool bytes_all_zero(struct bytes view)
{
    /* All bytes are the same exactly if the view equals itself shifted by one byte. One memcmp is
     * much faster than a loop over bytes. */
    return view.size == 0 ||
           (view.data[0] == 0 && memcmp(view.data, view.data + 1, (size_t)view.size - 1) == 0);
}

bool bytes_zero_at(struct bytes whole, uint64_t offset, uint64_t size)
{
    struct bytes part;

    return bytes_slice(whole, offset, size, &part) && bytes_all_zero(part);
}

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

const char *hex_format(struct bytes bytes, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < bytes.size; i++) {
        text[2 * i] = digits[bytes.data[i] >> 4];
        text[2 * i + 1] = digits[bytes.data[i] & 15];
    }
    text[2 * bytes.size] = '\0';
    return text;
}

bool hex_parse(const char *text, size_t length, uint8_t *bytes, size_t size)
{
    if (length != 2 * size)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool is_letter = text[i] >= 'a' && text[i] <= 'f';

        if (!is_letter && (text[i] < '0' || text[i] > '9'))
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | (text[i] - (is_letter ? 'a' - 10 : '0')));
    }
    return true;
}

bool buffer_reserve(struct buffer *buffer, size_t more)
{
    if (!buffer->failed && more > buffer->capacity - buffer->size)
        buffer->failed = !array_make_room(&buffer->data, &buffer->capacity, buffer->size, more, 1);
    return !buffer->failed;
}

bool buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    if (!buffer_reserve(buffer, size))
        return false;
    if (size != 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

bool buffer_append_zeros(struct buffer *buffer, size_t size)
{
    if (!buffer_reserve(buffer, size))
        return false;
    if (size != 0)
        memset(buffer->data + buffer->size, 0, size);
    buffer->size += size;
    return true;
}

bool buffer_append_uleb128(struct buffer *buffer, uint64_t value)
{
    uint8_t encoded[10];
    size_t size = 0;

    if (value < 0x80 && buffer->size < buffer->capacity && !buffer->failed) {
        buffer->data[buffer->size++] = (uint8_t)value;
        return true;
    }
    do {
        uint8_t low = value & 0x7f;
        value >>= 7;
        encoded[size++] = value != 0 ? (uint8_t)(low | 0x80) : low;
    } while (value != 0);
    return buffer_append(buffer, encoded, size);
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

bool bytes_take_uleb128(struct bytes *view, uint64_t *value)
{
    uint64_t result = 0;

    if (view->size != 0 && view->data[0] < 0x80) {
        *value = *view->data++;
        view->size--;
        return true;
    }
    for (unsigned i = 0; i < 10 && i < view->size; i++) {
        uint64_t low = view->data[i] & 0x7f;
        if (i == 9 && low > 1)
            return false;
        result |= low << (7 * i);
        if ((view->data[i] & 0x80) == 0) {
            *value = result;
            view->data += i + 1;
            view->size -= i + 1;
            return true;
        }
    }
    return false;
}
