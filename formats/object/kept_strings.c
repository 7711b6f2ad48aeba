/*
 * A string table without what is not used: see kept_strings.h.
 */
#include "formats/object/kept_strings.h"

#include <stdlib.h>

#define WORD_BITS 64

static size_t word_count(const struct kept_strings *strings)
{
    return (size_t)(strings->table.size / WORD_BITS + 1);
}

bool kept_strings_start(struct kept_strings *strings, struct bytes table)
{
    strings->table = table;
    strings->kept = calloc(word_count(strings), sizeof(*strings->kept));
    strings->before = calloc(word_count(strings), sizeof(*strings->before));
    if (strings->kept == NULL || strings->before == NULL)
        return false;
    kept_strings_use(strings, 0);
    return true;
}

void kept_strings_free(struct kept_strings *strings)
{
    free(strings->kept);
    free(strings->before);
    *strings = (struct kept_strings){0};
}

/* Marks the bytes [first, last]. */
static void keep_range(struct kept_strings *strings, uint64_t first, uint64_t last)
{
    for (uint64_t word = first / WORD_BITS; word <= last / WORD_BITS; word++) {
        uint64_t mask = UINT64_MAX;

        if (word == first / WORD_BITS)
            mask &= UINT64_MAX << first % WORD_BITS;
        if (word == last / WORD_BITS)
            mask &= UINT64_MAX >> (WORD_BITS - 1 - last % WORD_BITS);
        strings->kept[word] |= mask;
    }
}

void kept_strings_use_all(struct kept_strings *strings)
{
    keep_range(strings, 0, strings->table.size - 1);
}

/* Takes the next string, with its NUL, off the table. False at the end. If something of it is used,
 * *first is the first such byte; otherwise it is the string's end. */
static bool next_string(const struct kept_strings *strings, uint64_t *position, uint64_t *first,
                        uint64_t *end)
{
    const uint8_t *start = strings->table.data + *position, *nul;

    if (*position == strings->table.size)
        return false;
    nul = memchr(start, '\0', (size_t)(strings->table.size - *position));
    *end = (uint64_t)(nul - strings->table.data) + 1;
    *first = *position;
    while (*first < *end) {
        uint64_t bits = strings->kept[*first / WORD_BITS] >> *first % WORD_BITS;

        if (bits != 0) {
            *first += (uint64_t)__builtin_ctzll(bits);
            break;
        }
        *first = (*first / WORD_BITS + 1) * WORD_BITS;
    }
    if (*first > *end)
        *first = *end;
    *position = *end;
    return true;
}

void kept_strings_choose(struct kept_strings *strings)
{
    uint64_t position = 0, first, end;
    uint32_t before = 0;

    while (next_string(strings, &position, &first, &end)) {
        if (first < end)
            keep_range(strings, first, end - 1);
    }
    for (size_t i = 0; i < word_count(strings); i++) {
        strings->before[i] = before;
        before += (uint32_t)__builtin_popcountll(strings->kept[i]);
    }
}

bool kept_strings_append(const struct kept_strings *strings, struct buffer *to)
{
    uint64_t position = 0, first, end;

    while (next_string(strings, &position, &first, &end)) {
        if (!buffer_append(to, strings->table.data + first, (size_t)(end - first)))
            return false;
    }
    return true;
}
