/*
 * Bounds-checked views of bytes, and a buffer that grows.
 *
 * Everything that comes from a file is read through a `struct bytes`, a pointer with a size. Parts
 * of one are taken with bytes_slice, which checks that they lie inside, even if offset + size
 * overflows.
 */
#ifndef COVSPLIT_COMMON_BASE_BYTES_H
#define COVSPLIT_COMMON_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"

/* A view: it does not own the bytes. */
struct bytes {
    const uint8_t *data;
    uint64_t size;
};

/* Receives output piece by piece, in order. To stop, it fills in the error and returns false. */
typedef bool (*bytes_sink)(void *context, struct bytes part, struct error *error);

/* Sets *part to the `size` bytes of `whole` at `offset`. If they are not all inside, returns false
 * and leaves *part unchanged. An empty part at the very end counts as inside. */
bool bytes_slice(struct bytes whole, uint64_t offset, uint64_t size, struct bytes *part);

/* True if every byte is zero (and for an empty view). */
bool bytes_all_zero(struct bytes view);

/* The same of the `size` bytes at `offset`; false also if they are not all inside. */
bool bytes_zero_at(struct bytes whole, uint64_t offset, uint64_t size);

bool bytes_equal(struct bytes a, struct bytes b);

/* True if the text starts with this one, whatever follows. */
static inline bool bytes_start_with(struct bytes text, const char *start)
{
    size_t size = strlen(start);

    return size <= text.size && memcmp(text.data, start, size) == 0;
}

/* Sets *sum to a + b; false if that overflows 64 bits. */
static inline bool add_fits(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

/* True if [a, a + a_size) and [b, b + b_size) share a byte. Neither end may overflow. */
static inline bool ranges_overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a_size != 0 && b_size != 0 && a < b + b_size && b < a + a_size;
}

/* True if [inner, inner + inner_size) lies in [outer, outer + outer_size). Computed so that nothing
 * can overflow. */
static inline bool range_within(uint64_t inner, uint64_t inner_size, uint64_t outer,
                                uint64_t outer_size)
{
    return inner >= outer && inner - outer <= outer_size &&
           inner_size <= outer_size - (inner - outer);
}

/* The alignment must be a power of two. The result of align_up wraps around near 2^64. */
static inline uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + (alignment - 1)) & ~(alignment - 1);
}

static inline uint64_t align_down(uint64_t value, uint64_t alignment)
{
    return value & ~(alignment - 1);
}

static inline bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Little- and big-endian numbers at any alignment. The memcpy and the byte swap compile to one
 * instruction each. */
#define HOST_IS_BIG_ENDIAN (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)

static inline uint16_t load_u16(const uint8_t *from, bool big_endian)
{
    uint16_t value;

    memcpy(&value, from, sizeof(value));
    return big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap16(value);
}

static inline uint32_t load_u32(const uint8_t *from, bool big_endian)
{
    uint32_t value;

    memcpy(&value, from, sizeof(value));
    return big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap32(value);
}

static inline uint64_t load_u64(const uint8_t *from, bool big_endian)
{
    uint64_t value;

    memcpy(&value, from, sizeof(value));
    return big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap64(value);
}

static inline void store_u16(uint8_t *to, uint16_t value, bool big_endian)
{
    value = big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap16(value);
    memcpy(to, &value, sizeof(value));
}

static inline void store_u32(uint8_t *to, uint32_t value, bool big_endian)
{
    value = big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap32(value);
    memcpy(to, &value, sizeof(value));
}

static inline void store_u64(uint8_t *to, uint64_t value, bool big_endian)
{
    value = big_endian == HOST_IS_BIG_ENDIAN ? value : __builtin_bswap64(value);
    memcpy(to, &value, sizeof(value));
}

/* The number of equal bytes at the start of `a` and `b`, at most `most`. */
static inline unsigned bytes_common_length(const uint8_t *a, const uint8_t *b, unsigned most)
{
    unsigned length = 0;

    while (length + 8 <= most) {
        uint64_t left = load_u64(a + length, false), right = load_u64(b + length, false);

        if (left != right)
            return length + (unsigned)__builtin_ctzll(left ^ right) / 8;
        length += 8;
    }
    while (length < most && a[length] == b[length])
        length++;
    return length;
}

/* Bytes as two hexadecimal digits each, in lower case, into text[2 * size + 1]; returns text. */
const char *hex_format(struct bytes bytes, char *text);

/* Reads `size` bytes from exactly as many digits as they need, in lower case. */
bool hex_parse(const char *text, size_t length, uint8_t *bytes, size_t size);

/* A byte array on the heap that grows. Initialize to {0}; free with buffer_free. */
struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool failed; /* memory ran out; to use the buffer again, free it */
};

/* Each returns false if out of memory, now or before: once memory ran out, nothing is appended, so
 * that a writer appends all that it has and looks at `failed` at the end. buffer_reserve makes room
 * for `more` bytes after the first `size`. */
bool buffer_reserve(struct buffer *buffer, size_t more);
bool buffer_append(struct buffer *buffer, const void *data, size_t size);
bool buffer_append_zeros(struct buffer *buffer, size_t size);
/* An unsigned LEB128 number (DWARF 5, 7.6): 1 to 10 bytes. */
bool buffer_append_uleb128(struct buffer *buffer, uint64_t value);
void buffer_free(struct buffer *buffer);

/* buffer_append for a few bytes in a hot loop: a call only if there is no room. */
static inline bool buffer_append_few(struct buffer *buffer, const void *data, size_t size)
{
    if (buffer->failed || size > buffer->capacity - buffer->size)
        return buffer_append(buffer, data, size);
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

/* Takes an unsigned LEB128 number off the front of *view. If it is truncated or does not fit 64
 * bits, returns false and leaves *view unchanged. */
bool bytes_take_uleb128(struct bytes *view, uint64_t *value);

static inline struct bytes buffer_view(const struct buffer *buffer)
{
    struct bytes view = {buffer->data, buffer->size};
    return view;
}

#endif
