/*
 * Work on several threads: see parallel.h.
 */
#include "common/base/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- threads ---- */

/* Starts up to `wanted` threads; returns how many were started. */
static size_t start_threads(pthread_t threads[PARALLEL_THREADS_MAX], size_t wanted,
                            void *(*work)(void *), void *context)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE};
    sigset_t others, before;
    size_t started = 0;

    sigfillset(&others);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(&others, own[i]);
    /* A new thread inherits the signal mask of its creator. */
    pthread_sigmask(SIG_BLOCK, &others, &before);
    while (started < wanted && started < PARALLEL_THREADS_MAX &&
           pthread_create(&threads[started], NULL, work, context) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void join_threads(const pthread_t threads[PARALLEL_THREADS_MAX], size_t started)
{
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* ---- pieces ---- */

struct run {
    atomic_size_t next;
    size_t count;
    parallel_piece piece;
    void *context;
};

static void *do_pieces(void *context)
{
    struct run *run = context;

    for (;;) {
        size_t index = atomic_fetch_add(&run->next, 1);

        if (index >= run->count)
            return NULL;
        run->piece(run->context, index);
    }
}

void parallel_run(size_t count, unsigned threads, parallel_piece piece, void *context)
{
    struct run run = {.count = count, .piece = piece, .context = context};
    size_t wanted = threads > count ? count : threads, started = 0;
    pthread_t others[PARALLEL_THREADS_MAX];

    if (wanted > 1)
        started = start_threads(others, wanted - 1, do_pieces, &run);
    do_pieces(&run);
    join_threads(others, started);
}

unsigned parallel_share(unsigned threads, size_t count)
{
    return count == 0 || threads <= count ? 1 : threads / (unsigned)count;
}

/* ---- pieces of which is told in order ---- */

struct ordered_run {
    parallel_piece work, tell;
    void *context;
    pthread_mutex_t lock; /* protects all that follows */
    size_t told;          /* so many of the first pieces */
    bool is_done[];       /* for each piece, and false behind the last one */
};

/* A parallel_piece: the thread that finishes the first piece that was not told of yet tells of it,
 * and of all finished ones after it. */
static void do_in_order(void *context, size_t index)
{
    struct ordered_run *run = context;

    run->work(run->context, index);
    pthread_mutex_lock(&run->lock);
    run->is_done[index] = true;
    for (; run->is_done[run->told]; run->told++)
        run->tell(run->context, run->told);
    pthread_mutex_unlock(&run->lock);
}

bool parallel_run_in_order(size_t count, unsigned threads, parallel_piece work, parallel_piece tell,
                           void *context)
{
    struct ordered_run *run = calloc(1, sizeof(*run) + count + 1);

    if (run == NULL)
        return false;
    run->work = work;
    run->tell = tell;
    run->context = context;
    pthread_mutex_init(&run->lock, NULL);
    parallel_run(count, threads, do_in_order, run);
    pthread_mutex_destroy(&run->lock);
    free(run);
    return true;
}
