/*
 * Work on several threads.
 *
 * parallel_run calls a function for each of a number of pieces, in no particular order. If threads
 * cannot be created, the work is done with fewer; the calling thread works too. The threads block
 * all signals except those that a thread raises itself (SIGSEGV, SIGBUS and the like, and SIGPIPE).
 */
#ifndef COVSPLIT_COMMON_BASE_PARALLEL_H
#define COVSPLIT_COMMON_BASE_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>

/* No more threads than this are started. */
#define PARALLEL_THREADS_MAX 64

/* Processes one piece. Called by several threads at the same time. */
typedef void (*parallel_piece)(void *context, size_t index);

/* Calls `piece` for 0 to count - 1 on at most `threads` threads (1 or more, including the
 * caller's), and returns when all are done. */
void parallel_run(size_t count, unsigned threads, parallel_piece piece, void *context);

/* The same for work of which is told in order: `tell` is called once for each piece when that and
 * all before it are done, in their order, and never by two threads at a time. False if out of
 * memory; nothing was done then. */
bool parallel_run_in_order(size_t count, unsigned threads, parallel_piece work, parallel_piece tell,
                           void *context);

/* The number of threads that each of `count` jobs can use for itself, if all run at a time. */
unsigned parallel_share(unsigned threads, size_t count);

#endif
