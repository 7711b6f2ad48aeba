/*
 * Threads: pieces are each done once, and told of in their order, whoever was done first, and
 * signals are left to the threads that were there before.
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

/* ---- pieces that are told of in order ---- */

struct order {
    atomic_uint done[JOBS];
    size_t told;
};

/* The first ones take longest. */
static void do_job(void *context, size_t index)
{
    struct timespec pause = {.tv_nsec = index % 50 == 0 ? 2000000 : 0};
    struct order *order = context;

    nanosleep(&pause, NULL);
    order->done[index]++;
}

static void tell_of_job(void *context, size_t index)
{
    struct order *order = context;

    ck_assert_uint_eq(order->done[index], 1);
    ck_assert_uint_eq(index, order->told);
    order->told++;
}

START_TEST(test_order)
{
    static const unsigned threads[] = {1, 2, THREADS, 1000};
    FREED_BY(drop_memory) struct order *order = calloc(1, sizeof(*order));

    ck_assert_ptr_nonnull(order);
    ck_assert(parallel_run_in_order(JOBS, threads[_i], do_job, tell_of_job, order));
    ck_assert_uint_eq(order->told, JOBS);
    ck_assert(parallel_run_in_order(0, threads[_i], do_job, tell_of_job, order));
}
END_TEST

/* ---- arrays ---- */

START_TEST(test_array_grows)
{
    FREED_BY(drop_memory) uint32_t *items = NULL;
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
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_pieces, test_signal_mask);
    suite_loops(all, 4, test_order);
    tcase_add_test(all, test_array_grows);
    return suite_main("parallel", all);
}
