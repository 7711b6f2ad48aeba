/*
 * Work on several threads.
 *
 * parallel_run calls a function for each of a number of pieces, in no particular order. A pool
 * takes jobs one after the other and retires them in that order. If threads cannot be created, the
 * work is done with fewer; the calling thread works too. The threads block all signals except those
 * that a thread raises itself (SIGSEGV, SIGBUS and the like, and SIGPIPE).
 */
#ifndef COVSPLIT_COMMON_BASE_PARALLEL_H
#define COVSPLIT_COMMON_BASE_PARALLEL_H

#include <stddef.h>

/* No more threads than this are started. */
#define PARALLEL_THREADS_MAX 64

/* Processes one piece. Called by several threads at the same time. */
typedef void (*parallel_piece)(void *context, size_t index);

/* Calls `piece` for 0 to count - 1 on at most `threads` threads (1 or more, including the
 * caller's), and returns when all are done. */
void parallel_run(size_t count, unsigned threads, parallel_piece piece, void *context);

/* The number of threads that each of `count` jobs can use for itself, if all run at a time. */
unsigned parallel_share(unsigned threads, size_t count);

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

/* Starts a pool of `threads` threads (1 or more, including the caller's). NULL if out of memory. */
struct pool *pool_open(unsigned threads, const struct pool_calls *calls);

/* Adds a job. Only one thread may call this. If too many jobs are waiting, the caller works on them
 * until there are fewer. */
void pool_add(struct pool *pool, void *job);

/* Waits until all jobs are retired, and frees the pool. */
void pool_close(struct pool *pool);

#endif
