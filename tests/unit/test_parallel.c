/*
 * Threads: pieces are each done once, jobs of a pool retired in their order, whoever was done
 * first, and signals are left to the threads that were there before.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/array.h"
#include "common/base/parallel.h"
#include "tests/support/suite.h"

#define PIECES  1000
#define JOBS    500
#define THREADS 4

/* ---- pieces ---- */

static void count_piece(void *context, size_t index)
{
    atomic_uint *counts = context;

    atomic_fetch_add(&counts[index], 1);
}

START_TEST(test_pieces)
{
    static atomic_uint counts[PIECES];

    parallel_run(PIECES, THREADS, count_piece, counts);
    parallel_run(0, THREADS, count_piece, counts);
    for (size_t i = 0; i < PIECES; i++)
        ck_assert_uint_eq(counts[i], 1);
}
END_TEST

struct masks {
    pthread_t caller;
    atomic_bool is_signal_blocked;
    atomic_bool is_fault_blocked;
    atomic_uint others;
};

static void look_at_mask(void *context, size_t index)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    struct masks *masks = context;
    sigset_t mask;

    (void)index;
    nanosleep(&pause, NULL); /* so that no thread does all pieces */
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    if (pthread_equal(pthread_self(), masks->caller)) {
        ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
        return;
    }
    masks->others++;
    if (sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGALRM) == 1)
        masks->is_signal_blocked = true;
    if (sigismember(&mask, SIGBUS) == 1)
        masks->is_fault_blocked = true;
}

START_TEST(test_signal_mask)
{
    struct masks masks = {.caller = pthread_self()};

    parallel_run(THREADS, THREADS, look_at_mask, &masks);
    ck_assert_uint_ne(masks.others, 0);
    ck_assert(masks.is_signal_blocked);
    ck_assert(!masks.is_fault_blocked);
}
END_TEST

/* ---- pools ---- */

struct job {
    size_t number;
    atomic_uint done;
};

struct retired {
    size_t count;
};

/* The first ones take longest. */
static void do_job(void *context, void *added)
{
    struct timespec pause = {0};
    struct job *job = added;

    (void)context;
    if (job->number % 50 == 0)
        pause.tv_nsec = 2000000;
    nanosleep(&pause, NULL);
    atomic_fetch_add(&job->done, 1);
}

static void retire_job(void *context, void *added)
{
    struct retired *retired = context;
    const struct job *job = added;

    ck_assert_uint_eq(job->done, 1);
    ck_assert_uint_eq(job->number, retired->count);
    retired->count++;
}

START_TEST(test_pool_keeps_order)
{
    static const unsigned threads[] = {1, 2, THREADS, 1000};
    const unsigned count = threads[_i];
    struct retired retired = {0};
    const struct pool_calls calls = {do_job, retire_job, &retired};
    struct job *jobs = calloc(JOBS, sizeof(*jobs));
    struct pool *pool = pool_open(count, &calls);

    ck_assert_ptr_nonnull(jobs);
    ck_assert_ptr_nonnull(pool);
    for (size_t i = 0; i < JOBS; i++) {
        jobs[i].number = i;
        pool_add(pool, &jobs[i]);
    }
    pool_close(pool);
    ck_assert_uint_eq(retired.count, JOBS);
    pool = pool_open(count, &calls);
    ck_assert_ptr_nonnull(pool);
    pool_close(pool); /* without a job */
    free(jobs);
}
END_TEST

/* ---- arrays ---- */

START_TEST(test_array_grows)
{
    uint32_t *items = NULL;
    size_t capacity = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert(ARRAY_ROOM_FOR_ONE(items, capacity, i));
        items[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(items[i], i);
    ck_assert(!array_make_room(&items, &capacity, 1000, SIZE_MAX / 2, sizeof(*items)));
    ck_assert_uint_eq(items[999], 999);
    ck_assert(array_make_room(&items, &capacity, capacity, 0, sizeof(*items)));
    free(items);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_pieces, test_signal_mask);
    suite_loops(all, 4, test_pool_keeps_order);
    tcase_add_test(all, test_array_grows);
    return suite_main("parallel", all);
}
