/*
 * Work on several threads: independent pieces, each done once, in no particular order.
 */
#ifndef COVSPLIT_COMMON_BASE_PARALLEL_H
#define COVSPLIT_COMMON_BASE_PARALLEL_H

#include <stddef.h>

/* Does the piece of that index. Called by several threads at the same time. */
typedef void (*parallel_piece)(void *context, size_t index);

/* Calls `piece` for 0 to count - 1, on `threads` threads at most (1 or more; the caller's own is
 * one of them), and returns when all are done. Threads that cannot be had are done without. */
void parallel_run(size_t count, unsigned threads, parallel_piece piece, void *context);

#endif
