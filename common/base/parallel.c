/*
 * Work on several threads: see parallel.h.
 */
#include "common/base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS_MAX 64

struct run {
    atomic_size_t next;
    size_t count;
    parallel_piece piece;
    void *context;
};

static void *work(void *context)
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
    pthread_t others[THREADS_MAX];
    size_t started = 0, wanted = threads > count ? count : threads;

    if (wanted > THREADS_MAX + 1)
        wanted = THREADS_MAX + 1;
    while (started + 1 < wanted && pthread_create(&others[started], NULL, work, &run) == 0)
        started++;
    work(&run);
    for (size_t i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}
