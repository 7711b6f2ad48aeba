/*
 * Work on several threads.
 *
 * Pieces are known by their number and come in no particular order; the jobs of a pool come one
 * after the other, and are done with in their order. Threads that cannot be had are done without:
 * the caller's own works too. The threads leave signals to those that were there before, but for
 * the ones that a thread raises itself (SIGSEGV, SIGBUS and the like, and SIGPIPE).
 */
#ifndef COVSPLIT_COMMON_BASE_PARALLEL_H
#define COVSPLIT_COMMON_BASE_PARALLEL_H

#include <stddef.h>

/* However many threads are asked for, no more are started. */
#define PARALLEL_THREADS_MAX 64

/* Does the piece of that index. Called by several threads at the same time. */
typedef void (*parallel_piece)(void *context, size_t index);

/* Calls `piece` for 0 to count - 1, on `threads` threads at most (1 or more; the caller's own is
 * one of them), and returns when all are done. */
void parallel_run(size_t count, unsigned threads, parallel_piece piece, void *context);

/* ---- pools ---- */

struct pool_calls {
    /* Does the job; called by several threads at the same time. */
    void (*work)(void *context, void *job);
    /* Called once for each job that is done, in the order in which they were added, and never by
     * two threads at a time. */
    void (*retire)(void *context, void *job);
    void *context;
};

struct pool;

/* Starts a pool of so many threads (1 or more; the caller's own is one of them). NULL where there
 * is no memory. */
struct pool *pool_open(unsigned threads, const struct pool_calls *calls);

/* Adds a job, for one thread to call. Where there are many that nobody has come to yet, the caller
 * works until there are fewer. */
void pool_add(struct pool *pool, void *job);

/* Returns when all jobs are retired. */
void pool_close(struct pool *pool);

#endif
