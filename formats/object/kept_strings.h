/*
 * A string table without the strings that are no longer used.
 *
 * Strings are used by their offsets, and may share their ends: a name can be that of another from
 * some byte on. What is kept of each string is everything from the first byte that is used. The
 * order stays, so the result depends on the table and on what is used alone.
 */
#ifndef COVSPLIT_FORMATS_OBJECT_KEPT_STRINGS_H
#define COVSPLIT_FORMATS_OBJECT_KEPT_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

/* Initialize to {0}; free with kept_strings_free. */
struct kept_strings {
    struct bytes table;
    uint64_t *kept;   /* a bit for each byte */
    uint32_t *before; /* how many are kept in front of each word of `kept` */
};

/* The table must end with a NUL, and have less than 2^32 bytes. Its first byte, which is the empty
 * string, is always kept. False if out of memory. */
bool kept_strings_start(struct kept_strings *strings, struct bytes table);
void kept_strings_free(struct kept_strings *strings);

/* The string at this offset, which must be inside the table, is used. */
static inline void kept_strings_use(struct kept_strings *strings, uint32_t offset)
{
    strings->kept[offset / 64] |= UINT64_C(1) << offset % 64;
}

/* The whole table is used. */
void kept_strings_use_all(struct kept_strings *strings);

/* To be called when everything that is used has been told, before what is below. */
void kept_strings_choose(struct kept_strings *strings);

/* Where a string that is used is in the new table. */
static inline uint32_t kept_strings_offset(const struct kept_strings *strings, uint32_t offset)
{
    uint64_t in_front = (UINT64_C(1) << offset % 64) - 1;

    return strings->before[offset / 64] +
           (uint32_t)__builtin_popcountll(strings->kept[offset / 64] & in_front);
}

/* Appends the new table. False if out of memory. */
bool kept_strings_append(const struct kept_strings *strings, struct buffer *to);

#endif
