/*
 * Work on many files: see jobs.h.
 */
#include "split/cli/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/parallel.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

struct run {
    struct jobs *jobs;
    struct progress progress;
};

void *jobs_at(const struct jobs *jobs, size_t index)
{
    return (char *)jobs->items + index * jobs->item_size;
}

void *jobs_add(struct jobs *jobs, const char *path, uint64_t size)
{
    struct job *job;

    exit_unless_allocated(
        array_make_room(&jobs->items, &jobs->capacity, jobs->count, 1, jobs->item_size),
        jobs->item_size);
    job = jobs_at(jobs, jobs->count++);
    memset(job, 0, jobs->item_size);
    job->path = command_copy(path);
    job->size = size;
    return job;
}

/* A parallel_piece. */
static void work_on(void *context, size_t index)
{
    const struct jobs *jobs = ((struct run *)context)->jobs;
    struct job *job = jobs_at(jobs, index);
    struct error error = {0};

    if (jobs->work(jobs->context, job, &error))
        return;
    job->error = command_array(1, sizeof(error));
    *job->error = error;
}

/* A parallel_piece. */
static void tell_of(void *context, size_t index)
{
    struct run *run = context;
    struct jobs *jobs = run->jobs;
    struct job *job = jobs_at(jobs, index);

    jobs->tell(jobs->context, job);
    if (job->error != NULL)
        message_error(job->error);
    jobs->failed += job->error != NULL;
    progress_add(&run->progress, job->size);
}

void jobs_run(struct jobs *jobs, unsigned threads)
{
    struct run run = {.jobs = jobs};
    uint64_t total = 0;

    for (size_t i = 0; i < jobs->count; i++)
        total += ((struct job *)jobs_at(jobs, i))->size;
    progress_start(&run.progress, jobs->name, total);
    exit_unless_allocated(parallel_run_in_order(jobs->count, threads, work_on, tell_of, &run),
                          jobs->count);
    progress_finish();
}

void jobs_free(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct job *job = jobs_at(jobs, i);

        free(job->path);
        free(job->error);
    }
    free(jobs->items);
}
