/*
 * Reading untrusted bytes in order.
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

#endif
