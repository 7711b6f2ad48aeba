/*
 * Small functions for numbers, which the transforms share.
 */
#ifndef COVSPLIT_COMMON_BASE_NUMBERS_H
#define COVSPLIT_COMMON_BASE_NUMBERS_H

#include <stdint.h>

#include "common/base/bytes.h"

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

/* Like bytes_take_uleb128, but faster for numbers of one byte, which most are. */
static inline bool take_number(struct bytes *view, uint64_t *value)
{
    if (view->size == 0 || *view->data >= 0x80)
        return bytes_take_uleb128(view, value);
    *value = *view->data++;
    view->size--;
    return true;
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

static inline uint8_t *put_32(uint8_t *to, uint32_t number)
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

#endif
