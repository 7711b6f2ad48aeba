/*
 * Reading untrusted bytes in order, and small functions for numbers in them.
 *
 * A cursor goes bad when it is asked for bytes that are not there, or for a number that does not
 * fit. From then on it is at its end and yields zeros and empty views, so that a reader takes
 * everything that it expects and looks at `bad` once, before it relies on anything. Two things
 * cannot wait for that: a loop whose end is a number that was read must look in each round, and
 * whoever allocates looks before.
 */
#ifndef COVSPLIT_COMMON_BASE_CURSOR_H
#define COVSPLIT_COMMON_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

struct cursor {
    const uint8_t *at, *end;
    bool big_endian;
    bool wide; /* cursor_word takes 8 bytes instead of 4 */
    bool bad;
};

static inline struct cursor cursor_open(struct bytes bytes, bool big_endian, bool wide)
{
    return (struct cursor){bytes.data, bytes.data == NULL ? NULL : bytes.data + bytes.size,
                           big_endian, wide, bytes.data == NULL && bytes.size != 0};
}

static inline uint64_t cursor_left(const struct cursor *cursor)
{
    return (uint64_t)(cursor->end - cursor->at);
}

/* True if everything was there and nothing is left. */
static inline bool cursor_finished(const struct cursor *cursor)
{
    return !cursor->bad && cursor->at == cursor->end;
}

static inline void cursor_spoil(struct cursor *cursor)
{
    cursor->at = cursor->end;
    cursor->bad = true;
}

/* The next `size` bytes; empty if they are not there. */
static inline struct bytes cursor_bytes(struct cursor *cursor, uint64_t size)
{
    struct bytes taken = {cursor->at, size};

    if (size > cursor_left(cursor)) {
        cursor_spoil(cursor);
        return (struct bytes){0};
    }
    if (size != 0)
        cursor->at += size;
    return taken;
}

static inline struct bytes cursor_rest(struct cursor *cursor)
{
    return cursor_bytes(cursor, cursor_left(cursor));
}

static inline void cursor_skip(struct cursor *cursor, uint64_t size)
{
    cursor_bytes(cursor, size);
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
    struct bytes taken = cursor_bytes(cursor, 1);

    return taken.size == 0 ? 0 : taken.data[0];
}

static inline uint16_t cursor_u16(struct cursor *cursor)
{
    struct bytes taken = cursor_bytes(cursor, 2);

    return taken.size == 0 ? 0 : load_u16(taken.data, cursor->big_endian);
}

static inline uint32_t cursor_u32(struct cursor *cursor)
{
    struct bytes taken = cursor_bytes(cursor, 4);

    return taken.size == 0 ? 0 : load_u32(taken.data, cursor->big_endian);
}

static inline uint64_t cursor_u64(struct cursor *cursor)
{
    struct bytes taken = cursor_bytes(cursor, 8);

    return taken.size == 0 ? 0 : load_u64(taken.data, cursor->big_endian);
}

/* An address or a size of the file's class. */
static inline uint64_t cursor_word(struct cursor *cursor)
{
    return cursor->wide ? cursor_u64(cursor) : cursor_u32(cursor);
}

/* An unsigned LEB128 number (DWARF 5, 7.6) that fits 64 bits. */
static inline uint64_t cursor_uleb128(struct cursor *cursor)
{
    struct bytes left = {cursor->at, cursor_left(cursor)};
    uint64_t value = 0;

    if (left.size != 0 && left.data[0] < 0x80)
        return *cursor->at++;
    if (!bytes_take_uleb128(&left, &value))
        cursor_spoil(cursor);
    else
        cursor->at = left.data;
    return value;
}

/* The same for 32 bits: a larger number makes the cursor bad. */
static inline uint32_t cursor_uleb128_32(struct cursor *cursor)
{
    uint64_t value = cursor_uleb128(cursor);

    if (value > UINT32_MAX) {
        cursor_spoil(cursor);
        return 0;
    }
    return (uint32_t)value;
}

/* ---- numbers ---- */

/* Zigzag encoding: maps the differences 0, -1, 1, -2, ... to 0, 1, 2, 3, ..., so that small
 * differences of either sign become small numbers. */
static inline uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unzigzag(uint64_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* Sign-extends the low `width` bytes (1 to 8) of a number. */
static inline uint64_t sign_extend(uint64_t number, unsigned width)
{
    unsigned unused = 64 - 8 * width;

    return (uint64_t)((int64_t)(number << unused) >> unused);
}

/* Numbers of 2, 4 and 8 bytes in the image's byte order. */
static inline uint64_t load_number(const uint8_t *from, unsigned width, bool big_endian)
{
    return width == 2   ? load_u16(from, big_endian)
           : width == 4 ? load_u32(from, big_endian)
                        : load_u64(from, big_endian);
}

static inline void store_number(uint8_t *to, uint64_t value, unsigned width, bool big_endian)
{
    if (width == 2)
        store_u16(to, (uint16_t)value, big_endian);
    else if (width == 4)
        store_u32(to, (uint32_t)value, big_endian);
    else
        store_u64(to, value, big_endian);
}

/* The size of a number as unsigned LEB128, in bytes. */
static inline unsigned uleb128_size(uint64_t value)
{
    unsigned size = 1;

    while ((value >>= 7) != 0)
        size++;
    return size;
}

/* Writes a number as unsigned LEB128 to `to`, which must have room for NUMBER_32_SIZE_MAX bytes.
 * Returns the end of what was written. Nearly all numbers take one byte or two; the choice between
 * these needs no branch. */
#define NUMBER_32_SIZE_MAX 5

static inline uint8_t *uleb128_put_32(uint8_t *to, uint32_t number)
{
    unsigned longer = number >= 0x80;

    if (number < 0x4000) {
        to[0] = (uint8_t)(number | longer << 7);
        to[1] = (uint8_t)(number >> 7);
        return to + 1 + longer;
    }
    while (number >= 0x80) {
        *to++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *to++ = (uint8_t)number;
    return to;
}

/* Takes bytes off the front of a view. Returns NULL if it does not have that many; also if `size`
 * is 0 and the view's data is NULL. */
static inline const uint8_t *take_bytes(struct bytes *view, uint64_t size)
{
    const uint8_t *taken = view->data;

    if (size > view->size)
        return NULL;
    if (size != 0)
        view->data += size;
    view->size -= size;
    return taken;
}

/* ---- layouts that are told once for both directions ---- */

/* A coder either appends what it is given to a buffer, or it ignores that and gives back what it
 * reads. So a function that goes through the fields of a structure serves to write it and to read
 * it. Reading, it goes bad like its cursor; writing, it fails like the buffer. */
struct coder {
    struct buffer *to; /* NULL: it reads */
    struct cursor from;
};

/* A number as unsigned LEB128. */
static inline uint64_t code_uleb128(struct coder *coder, uint64_t number)
{
    if (coder->to == NULL)
        return cursor_uleb128(&coder->from);
    buffer_append_uleb128(coder->to, number);
    return number;
}

/* Bytes as they are; unchanged if they are not there. */
static inline void code_bytes(struct coder *coder, void *bytes, size_t size)
{
    struct bytes taken;

    if (coder->to != NULL) {
        buffer_append(coder->to, bytes, size);
        return;
    }
    taken = cursor_bytes(&coder->from, size);
    if (taken.size != 0)
        memcpy(bytes, taken.data, size);
}

#endif
