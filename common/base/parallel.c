/*
 * Work on several threads: see parallel.h.
 *
 * The jobs of a pool wait in a ring. The thread that finishes the first job in it retires that job,
 * and all finished ones after it.
 */
#include "common/base/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* The size of the ring: large enough that one large job does not hold up many small ones. */
#define JOBS_A_THREAD 32

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

/* ---- pools ---- */

struct slot {
    void *job;
    bool is_done;
};

struct pool {
    struct pool_calls calls;
    pthread_t threads[PARALLEL_THREADS_MAX];
    size_t started;
    pthread_mutex_t lock; /* protects all that follows */
    pthread_cond_t has_work;
    pthread_cond_t has_room;
    size_t first, next, end; /* jobs before `first` are retired, those before `next` are taken */
    bool is_closed;          /* no more jobs will be added */
    size_t slot_count;
    struct slot slots[]; /* job n is in slot n % slot_count */
};

static void retire(struct pool *pool)
{
    while (pool->first != pool->next && pool->slots[pool->first % pool->slot_count].is_done) {
        pool->calls.retire(pool->calls.context, pool->slots[pool->first % pool->slot_count].job);
        pool->first++;
    }
    pthread_cond_signal(&pool->has_room);
}

/* Does one job. Called with the lock held; false if no job is waiting. */
static bool do_job(struct pool *pool)
{
    struct slot *slot = &pool->slots[pool->next % pool->slot_count];

    if (pool->next == pool->end)
        return false;
    pool->next++;
    pthread_mutex_unlock(&pool->lock);
    pool->calls.work(pool->calls.context, slot->job);
    pthread_mutex_lock(&pool->lock);
    slot->is_done = true;
    retire(pool);
    return true;
}

static void *do_jobs(void *context)
{
    struct pool *pool = context;

    pthread_mutex_lock(&pool->lock);
    while (do_job(pool) || !pool->is_closed) {
        if (pool->next == pool->end && !pool->is_closed)
            pthread_cond_wait(&pool->has_work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct pool *pool_open(unsigned threads, const struct pool_calls *calls)
{
    size_t slots =
        (size_t)(threads < PARALLEL_THREADS_MAX ? threads : PARALLEL_THREADS_MAX) * JOBS_A_THREAD;
    struct pool *pool = calloc(1, sizeof(*pool) + slots * sizeof(pool->slots[0]));

    if (pool == NULL)
        return NULL;
    pool->calls = *calls;
    pool->slot_count = slots;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    pthread_cond_init(&pool->has_room, NULL);
    pool->started = start_threads(pool->threads, threads - 1, do_jobs, pool);
    return pool;
}

void pool_add(struct pool *pool, void *job)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->end - pool->first == pool->slot_count) {
        if (!do_job(pool))
            pthread_cond_wait(&pool->has_room, &pool->lock);
    }
    pool->slots[pool->end++ % pool->slot_count] = (struct slot){.job = job};
    pthread_cond_signal(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
}

void pool_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    do_jobs(pool);
    join_threads(pool->threads, pool->started);
    pthread_cond_destroy(&pool->has_room);
    pthread_cond_destroy(&pool->has_work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
