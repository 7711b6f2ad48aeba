/*
 * Arenas: see arena.h.
 *
 * Small objects share blocks; an object that would take more than a quarter of a block gets one of
 * its own, put behind the newest, so that little is wasted and the newest is still filled up.
 */
#include "common/base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_SIZE 65536

struct arena_block {
    struct arena_block *older;
    alignas(max_align_t) uint8_t bytes[];
};

static struct arena_block *add_block(struct arena *arena, size_t size)
{
    struct arena_block *block =
        size <= SIZE_MAX - sizeof(*block) ? calloc(1, sizeof(*block) + size) : NULL;

    arena->failed = block == NULL;
    return block;
}

void *arena_allocate(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->newest;
    void *object;

    if (arena->failed)
        return NULL;
    if (size > BLOCK_SIZE / 4) {
        block = add_block(arena, size);
        if (block == NULL)
            return NULL;
        if (arena->newest == NULL) {
            arena->newest = block;
            arena->used = BLOCK_SIZE; /* it has no room for others */
        } else {
            block->older = arena->newest->older;
            arena->newest->older = block;
        }
        return block->bytes;
    }
    if (block == NULL || size > BLOCK_SIZE - arena->used) {
        block = add_block(arena, BLOCK_SIZE);
        if (block == NULL)
            return NULL;
        block->older = arena->newest;
        arena->newest = block;
        arena->used = 0;
    }
    object = block->bytes + arena->used;
    /* Never beyond the block: its size is a multiple of the alignment. */
    arena->used += (size_t)align_up(size, alignof(max_align_t));
    return object;
}

void *arena_array(struct arena *arena, size_t count, size_t item_size)
{
    size_t size;

    return arena_allocate(arena, __builtin_mul_overflow(count, item_size, &size) ? SIZE_MAX : size);
}

void *arena_copy(struct arena *arena, struct bytes bytes)
{
    uint8_t *copy = arena_allocate(arena, bytes.size < SIZE_MAX ? bytes.size + 1 : SIZE_MAX);

    if (copy != NULL && bytes.size != 0)
        memcpy(copy, bytes.data, bytes.size);
    return copy;
}

char *arena_text(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    char *text;
    int length;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = arena_allocate(arena, length < 0 ? SIZE_MAX : (size_t)length + 1);
    if (text == NULL)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void arena_free(struct arena *arena)
{
    struct arena_block *block = arena->newest;

    while (block != NULL) {
        struct arena_block *older = block->older;

        free(block);
        block = older;
    }
    *arena = (struct arena){0};
}
