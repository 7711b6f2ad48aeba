/*
 * Memory that is freed at once: for what lives as long as one command, one file or one profile.
 *
 * An arena replaces the cleanup of each object by one arena_free of the owner. It remembers that
 * memory ran out: from then on every request yields NULL, so that a step makes all that it needs
 * and looks at `failed` once, before it uses any of it. Not for more than one thread at a time.
 */
#ifndef COVSPLIT_COMMON_BASE_ARENA_H
#define COVSPLIT_COMMON_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"

/* Initialize to {0}; free with arena_free, after which it can be used again. */
struct arena {
    struct arena_block *newest;
    size_t used; /* bytes of the newest block */
    bool failed;
};

/* `size` bytes of zeros, aligned for any type, valid until arena_free; NULL if out of memory, now
 * or before. A size of 0 yields a pointer that is not NULL. */
void *arena_allocate(struct arena *arena, size_t size);

/* The same for an array, whose size may overflow. */
void *arena_array(struct arena *arena, size_t count, size_t item_size);

/* A copy of the bytes, followed by a NUL that their size does not count. */
void *arena_copy(struct arena *arena, struct bytes bytes);

/* A formatted text. */
char *arena_text(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void arena_free(struct arena *arena);

#endif
