/*
 * Small things that transforms do with numbers.
 */
#ifndef COVSPLIT_COMMON_BASE_NUMBERS_H
#define COVSPLIT_COMMON_BASE_NUMBERS_H

#include <stdint.h>

#include "common/base/bytes.h"

/* Differences of either sign as numbers that are small where the difference is: 0, -1, 1, -2, ...
 */
static inline uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (0 - (difference >> 63));
}

static inline uint64_t unzigzag(uint64_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

/* The low `width` bytes (1 to 8) of a number as a signed one. */
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

/* As bytes_take_uleb128, for loops over numbers that mostly have one byte. */
static inline bool take_number(struct bytes *view, uint64_t *value)
{
    if (view->size == 0 || *view->data >= 0x80)
        return bytes_take_uleb128(view, value);
    *value = *view->data++;
    view->size--;
    return true;
}

/* Bytes of a number as unsigned LEB128. */
static inline unsigned uleb128_size(uint64_t value)
{
    unsigned size = 1;

    while ((value >>= 7) != 0)
        size++;
    return size;
}

/* Puts a number as unsigned LEB128 where there is room for NUMBER_32_SIZE_MAX bytes; gives back
 * where the next one goes. Nearly all numbers take one byte or two, which come without a branch. */
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

/* Takes bytes off the front of a view; NULL where it has not so many, and where it has no bytes at
 * all and none are wanted. */
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
