/*
 * Inputs that consist of parts: see parts.h.
 */
#include "tests/fuzz/parts.h"
#include "tests/support/freed.h"

#include <string.h>

/* libFuzzer's own mutations. Missing where inputs are only replayed. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) __attribute__((weak));

/* How much a part may grow by in one mutation. */
#define GROWTH 64

void parts_read(struct parts *parts, struct bytes input, size_t fixed_size)
{
    size_t have = input.size < fixed_size ? (size_t)input.size : fixed_size;
    uint64_t size;

    memset(parts->fixed, 0, sizeof(parts->fixed));
    if (have != 0)
        memcpy(parts->fixed, input.data, have);
    parts->fixed_size = fixed_size;
    parts->count = 0;
    bytes_slice(input, have, input.size - have, &input);
    while (parts->count < PARTS_MAX && bytes_take_uleb128(&input, &size)) {
        if (size > input.size)
            size = input.size;
        parts->part[parts->count++] = (struct bytes){input.data, size};
        bytes_slice(input, size, input.size - size, &input);
    }
}

struct bytes parts_get(const struct parts *parts, size_t index)
{
    return index < parts->count ? parts->part[index] : (struct bytes){0};
}

size_t parts_write(const struct parts *parts, uint8_t *to, size_t size, size_t most)
{
    FREED_BY(buffer_free) struct buffer input = {0};
    bool done = buffer_append(&input, parts->fixed, parts->fixed_size);

    for (size_t i = 0; done && i < parts->count; i++)
        done = buffer_append_uleb128(&input, parts->part[i].size) &&
               buffer_append(&input, parts->part[i].data, (size_t)parts->part[i].size);
    if (done && input.size <= most) {
        memcpy(to, input.data, input.size);
        size = input.size;
    }
    return size;
}

/* ---- mutations ---- */

size_t mutate_bytes(uint8_t *bytes, size_t size, size_t most)
{
    return LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(bytes, size, most) : size;
}

/* Replaces the number at a place in the part by one near it, or at an edge. */
static bool mutate_number(struct bytes part, struct random_state *random, struct buffer *room)
{
    static const uint64_t edges[] = {0,          1,          2,        3,
                                     126,        127,        128,      255,
                                     256,        UINT32_MAX, 1u << 31, (uint64_t)UINT32_MAX + 1,
                                     UINT64_MAX, 1u << 16};
    size_t at = (size_t)random_below(random, (size_t)part.size);
    struct bytes rest = {part.data + at, part.size - at};
    uint64_t number;

    if (!bytes_take_uleb128(&rest, &number))
        return false;
    switch ((size_t)random_below(random, 4)) {
    case 0:
        number = edges[(size_t)random_below(random, sizeof(edges) / sizeof(edges[0]))];
        break;
    case 1:
        number++;
        break;
    case 2:
        number--;
        break;
    default:
        number ^= UINT64_C(1) << (size_t)random_below(random, 33);
        break;
    }
    return buffer_append(room, part.data, at) && buffer_append_uleb128(room, number) &&
           buffer_append(room, rest.data, (size_t)rest.size);
}

static bool mutate_freely(struct bytes part, struct buffer *room)
{
    size_t most = (size_t)part.size + GROWTH;

    if (!buffer_reserve(room, most))
        return false;
    if (part.size != 0)
        memcpy(room->data, part.data, (size_t)part.size);
    room->size = mutate_bytes(room->data, (size_t)part.size, most);
    return true;
}

/* A part that has bytes, mostly. */
static size_t choose(const struct parts *parts, struct random_state *random)
{
    size_t index = (size_t)random_below(random, parts->count);

    for (size_t tries = 0; tries < 32 && parts->part[index].size == 0; tries++)
        index = (size_t)random_below(random, parts->count);
    return index;
}

/* Changes the list of parts. */
static void mutate_list(struct parts *parts, size_t least, struct random_state *random)
{
    size_t index = (size_t)random_below(random, parts->count);
    struct bytes *part = &parts->part[index];

    switch ((size_t)random_below(random, 4)) {
    case 0:
        *part = parts->part[choose(parts, random)];
        break;
    case 1:
        part->size = (size_t)random_below(random, (size_t)part->size + 1);
        break;
    case 2:
        if (parts->count < PARTS_MAX) {
            parts->part[parts->count] = parts->part[choose(parts, random)];
            parts->count++;
        }
        break;
    default:
        if (parts->count > least)
            parts->count--;
        break;
    }
}

void part_mutate(struct bytes part, struct random_state *random, struct buffer *room)
{
    room->size = 0;
    if (random_below(random, 2) == 0 && part.size != 0 && mutate_number(part, random, room))
        return;
    room->size = 0;
    mutate_freely(part, room);
}

void parts_mutate(struct parts *parts, size_t least, struct random_state *random,
                  struct buffer *room)
{
    bool in_list = random_below(random, 10) == 0, any = random_below(random, 10) == 0;
    size_t index;

    while (parts->count < least || parts->count == 0)
        parts->part[parts->count++] = (struct bytes){0};
    if (in_list) {
        mutate_list(parts, least, random);
        return;
    }
    index = any ? random_below(random, parts->count) : choose(parts, random);
    part_mutate(parts->part[index], random, room);
    parts->part[index] = buffer_view(room);
}
