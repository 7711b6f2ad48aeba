/*
 * covsplit store check: are all sidecars of a store whole, and where they belong?
 *
 * The main thread walks through the store and puts what it finds into a ring of jobs, others take
 * them from there; results are printed in the order of the walk, whoever was done first. A sidecar
 * is decompressed as a stream, so the memory needed is that for the ring and a few megabytes a
 * thread, however large sidecars and store are.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/store/store.h"
#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"
#include "split/sidecars/sidecar_check.h"

/* Enough that threads with small sidecars are not held up by one with a large one. */
#define JOBS_A_THREAD    32

#define LEFTOVER_SECONDS 86400 /* a file that is being written is not left over */

enum job_state {
    JOB_WAITING,
    JOB_TAKEN,
    JOB_DONE,
};

enum job_result {
    RESULT_GOOD,
    RESULT_FAULT,
    RESULT_LEFTOVER,
    RESULT_GONE, /* removed by somebody else */
};

struct job {
    enum job_state state;
    enum job_result result;
    bool is_stray;
    char *path;
    struct uuid uuid;
    uint64_t memory_limit;
    uint64_t size; /* bytes */
    struct error error;
};

struct check {
    bool verbose;
    uint64_t memory_limit;
    struct progress progress;
    uint64_t sidecars, bytes, faults;
    /* The ring: jobs[n % job_count] for n from `first` to before `end`. Those from `next` on have
     * not been looked at by a thread. All guarded by the lock, but for a job that is taken, which
     * is the taker's own. */
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    pthread_cond_t has_result;
    struct job *jobs;
    size_t job_count;
    size_t first, next, end;
    bool is_closed; /* no more will come */
};

/* ---- one job ---- */

static bool is_gone(const char *path)
{
    struct stat status;

    return lstat(path, &status) != 0 && errno == ENOENT;
}

static void run_job(struct job *job)
{
    struct stat status;
    bool is_empty;

    if (stat(job->path, &status) == 0)
        job->size = (uint64_t)status.st_size;
    if (check_sidecar(job->path, &job->uuid, NULL, job->memory_limit, &is_empty, &job->error))
        job->result = RESULT_GOOD;
    else
        job->result = is_gone(job->path) ? RESULT_GONE : RESULT_FAULT;
}

/* With the lock held; false where no job waits. */
static bool take_job(struct check *check)
{
    struct job *job;

    while (check->next != check->end &&
           check->jobs[check->next % check->job_count].state != JOB_WAITING)
        check->next++;
    if (check->next == check->end)
        return false;
    job = &check->jobs[check->next++ % check->job_count];
    job->state = JOB_TAKEN;
    pthread_mutex_unlock(&check->lock);
    run_job(job);
    pthread_mutex_lock(&check->lock);
    job->state = JOB_DONE;
    pthread_cond_signal(&check->has_result);
    return true;
}

static void *work(void *context)
{
    struct check *check = context;

    pthread_mutex_lock(&check->lock);
    while (take_job(check) || !check->is_closed) {
        if (check->next == check->end && !check->is_closed)
            pthread_cond_wait(&check->has_work, &check->lock);
    }
    pthread_mutex_unlock(&check->lock);
    return NULL;
}

/* ---- results ---- */

static void report_job(struct check *check, const struct job *job)
{
    if (job->result == RESULT_GONE)
        return;
    progress_add(&check->progress, job->size);
    if (job->result != RESULT_GOOD || check->verbose)
        progress_finish(&check->progress);
    if (job->result == RESULT_LEFTOVER) {
        message_warning("%s", job->error.message);
        return;
    }
    if (!job->is_stray) {
        check->sidecars++;
        check->bytes += job->size;
    }
    if (job->result == RESULT_FAULT) {
        check->faults++;
        message_error(&job->error);
    } else if (check->verbose) {
        message_line(stdout, "%s: ok", job->path);
    }
}

/* Waits for the oldest job, working meanwhile, and prints what came of it. */
static void retire_job(struct check *check)
{
    struct job *job = &check->jobs[check->first % check->job_count];

    pthread_mutex_lock(&check->lock);
    while (job->state != JOB_DONE) {
        if (!take_job(check))
            pthread_cond_wait(&check->has_result, &check->lock);
    }
    pthread_mutex_unlock(&check->lock);
    report_job(check, job);
    free(job->path);
    pthread_mutex_lock(&check->lock);
    check->first++;
    pthread_mutex_unlock(&check->lock);
}

/* ---- the walk ---- */

static void judge_other(struct job *job, enum store_entry_kind kind)
{
    struct stat status;
    bool is_known = lstat(job->path, &status) == 0;

    job->state = JOB_DONE;
    job->result = RESULT_GONE;
    job->is_stray = true;
    if (!is_known && errno == ENOENT)
        return;
    if (!is_known) {
        job->result = RESULT_FAULT;
        error_set_errno(&job->error, errno, "%s: cannot be looked at", job->path);
    } else if (kind == STORE_STRAY) {
        job->result = RESULT_FAULT;
        error_set(&job->error,
                  "%s: is where no search looks for a sidecar; move it to where its UUID says, or "
                  "remove it",
                  job->path);
    } else if (time(NULL) - status.st_mtime > LEFTOVER_SECONDS) {
        job->result = RESULT_LEFTOVER;
        error_set(&job->error,
                  "%s: left by a split that was killed; 'covsplit store gc' removes it", job->path);
    }
}

static bool add_job(void *context, const struct store_entry *entry, struct error *error)
{
    struct check *check = context;
    struct job job = {.state = JOB_WAITING,
                      .path = strdup(entry->path),
                      .uuid = entry->uuid,
                      .memory_limit = check->memory_limit};

    if (job.path == NULL)
        return error_out_of_memory(error, entry->path, strlen(entry->path));
    if (entry->kind != STORE_SIDECAR)
        judge_other(&job, entry->kind);
    if (check->end - check->first == check->job_count)
        retire_job(check);
    pthread_mutex_lock(&check->lock);
    check->jobs[check->end++ % check->job_count] = job;
    pthread_cond_signal(&check->has_work);
    pthread_mutex_unlock(&check->lock);
    return true;
}

static bool add_size(void *context, const struct store_entry *entry, struct error *error)
{
    struct progress *progress = context;
    struct stat status;

    (void)error;
    if (entry->kind == STORE_SIDECAR && stat(entry->path, &status) == 0)
        progress->total += (uint64_t)status.st_size;
    return true;
}

/* How much there is to do is only worth another walk if somebody sees it. */
static void begin_progress(struct check *check, const char *directory)
{
    struct error ignored;

    progress_start(&check->progress, directory, 0);
    if (check->progress.on_terminal)
        store_scan(directory, add_size, &check->progress, &ignored);
}

/* ---- the whole ---- */

/* The main thread works too while it waits, so one less is started; with none at all it does
 * everything. */
static bool run_check(struct check *check, const char *directory, unsigned threads,
                      struct error *error)
{
    pthread_t *helpers = calloc(threads, sizeof(*helpers));
    unsigned started = 0;
    bool done;

    while (helpers != NULL && started + 1 < threads &&
           pthread_create(&helpers[started], NULL, work, check) == 0)
        started++;
    begin_progress(check, directory);
    done = store_scan(directory, add_job, check, error);
    while (check->first != check->end)
        retire_job(check);
    pthread_mutex_lock(&check->lock);
    check->is_closed = true;
    pthread_cond_broadcast(&check->has_work);
    pthread_mutex_unlock(&check->lock);
    for (unsigned i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    free(helpers);
    progress_finish(&check->progress);
    return done;
}

int check_store(const char *directory, const struct parsed_options *options)
{
    unsigned threads = option_threads(options);
    struct check check = {.verbose = option_given(options, OPTION_VERBOSE),
                          .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
                          .job_count = (size_t)threads * JOBS_A_THREAD};
    struct error error;
    bool done;

    check.jobs = calloc(check.job_count, sizeof(*check.jobs));
    if (check.jobs == NULL) {
        error_out_of_memory(&error, directory, check.job_count * sizeof(*check.jobs));
        message_error(&error);
        return STATUS_FAILED;
    }
    pthread_mutex_init(&check.lock, NULL);
    pthread_cond_init(&check.has_work, NULL);
    pthread_cond_init(&check.has_result, NULL);
    done = run_check(&check, directory, threads, &error);
    if (done)
        printf("%" PRIu64 " sidecars, %" PRIu64 " bytes, %" PRIu64 " faults\n", check.sidecars,
               check.bytes, check.faults);
    else
        message_error(&error);
    pthread_cond_destroy(&check.has_result);
    pthread_cond_destroy(&check.has_work);
    pthread_mutex_destroy(&check.lock);
    free(check.jobs);
    return done && check.faults == 0 ? STATUS_DONE : STATUS_FAILED;
}

int command_store_check(const struct parsed_options *options)
{
    return check_store(options->operands[0], options);
}
