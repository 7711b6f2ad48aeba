/*
 * covsplit store check: checks that all sidecars of a store are intact and in the right place.
 *
 * The main thread walks through the store and puts what it finds into a pool of jobs; results are
 * printed in the order of the walk, whichever job ends first. Sidecars are decompressed as streams,
 * so memory is needed only for the jobs and a few megabytes for each thread, however large sidecars
 * and store are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/parallel.h"
#include "common/store/store.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"
#include "split/cli/table.h"
#include "split/sidecars/sidecar_check.h"
#include "split/sidecars/store_check.h"

#define LEFTOVER_SECONDS 86400 /* younger files may still be being written */

enum job_result {
    RESULT_NONE, /* not checked yet */
    RESULT_GOOD,
    RESULT_FAULT,
    RESULT_LEFTOVER,
    RESULT_GONE, /* removed by another process */
};

struct job {
    enum job_result result;
    bool is_stray;
    char *path;
    struct uuid uuid;
    uint64_t size; /* bytes */
    struct checked_sidecar checked;
    struct error error;
};

struct check {
    const struct parsed_options *options;
    bool verbose;
    struct json_writer json;
    bool has_json; /* an array instead of lines and totals */
    struct progress progress;
    uint64_t sidecars, bytes, faults;
    struct pool *pool;
};

/* ---- one job ---- */

static bool is_gone(const char *path)
{
    struct stat status;

    return lstat(path, &status) != 0 && errno == ENOENT;
}

static void run_job(void *context, void *added)
{
    const struct check *check = context;
    struct job *job = added;
    struct stat status;
    bool is_seen = true;

    if (job->result != RESULT_NONE)
        return;
    if (stat(job->path, &status) == 0)
        job->size = (uint64_t)status.st_size;
    else
        is_seen = error_set_errno(&job->error, errno, "%s: cannot be read", job->path);
    if (is_seen &&
        check_sidecar(job->path, &job->uuid, NULL, check->options, &job->checked, &job->error))
        job->result = RESULT_GOOD;
    else
        job->result = is_gone(job->path) ? RESULT_GONE : RESULT_FAULT;
}

/* ---- results ---- */

static void report_job(struct check *check, const struct job *job)
{
    if (job->result == RESULT_GONE)
        return;
    progress_add(&check->progress, job->size);
    if (job->result != RESULT_GOOD || check->verbose || check->has_json)
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
    } else if (check->verbose && !check->has_json) {
        message_line(stdout, "%s: ok", job->path);
    }
    if (check->has_json)
        write_checked_sidecar(&check->json, job->path, &job->checked,
                              job->result == RESULT_FAULT ? &job->error : NULL);
}

static void retire_job(void *context, void *added)
{
    struct job *job = added;

    report_job(context, job);
    free(job->path);
    free(job);
}

/* ---- the walk ---- */

static void judge_other(struct job *job, enum store_entry_kind kind)
{
    struct stat status;
    bool is_known = lstat(job->path, &status) == 0;

    job->result = RESULT_GONE;
    job->is_stray = true;
    if (!is_known && errno == ENOENT)
        return;
    if (!is_known) {
        job->result = RESULT_FAULT;
        error_set_errno(&job->error, errno, "%s: cannot be examined", job->path);
    } else if (kind == STORE_STRAY) {
        job->result = RESULT_FAULT;
        error_set(&job->error,
                  "%s: no search finds a sidecar there; move it to the place of its UUID, or "
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
    struct job *job = calloc(1, sizeof(*job));
    char *path = strdup(entry->path);

    if (job == NULL || path == NULL) {
        free(job);
        free(path);
        return error_out_of_memory(error, entry->path, sizeof(*job) + strlen(entry->path));
    }
    *job = (struct job){.path = path, .uuid = entry->uuid};
    if (entry->kind != STORE_SIDECAR)
        judge_other(job, entry->kind);
    pool_add(check->pool, job);
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

/* Counts the work, which takes another walk, only if the progress bar is shown. */
static void begin_progress(struct check *check, const char *directory)
{
    struct error ignored;

    progress_start(&check->progress, directory, 0);
    if (check->progress.on_terminal)
        store_scan(directory, add_size, &check->progress, &ignored);
}

/* ---- the whole ---- */

static void print_totals(const struct check *check)
{
    char sidecars[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], faults[COUNT_TEXT_MAX];

    printf("%s, %s, %s\n", count_text(check->sidecars, "sidecar", sidecars),
           count_text(check->bytes, "byte", bytes), count_text(check->faults, "fault", faults));
}

int check_store(const char *directory, const struct parsed_options *options)
{
    struct check check = {
        .options = options,
        .verbose = option_given(options, OPTION_VERBOSE),
        .has_json = option_given(options, OPTION_JSON),
        .json = {.stream = stdout},
    };
    const struct pool_calls calls = {run_job, retire_job, &check};
    struct error error;
    bool done;

    begin_progress(&check, directory);
    check.pool = pool_open(option_threads(options), &calls);
    if (check.pool == NULL) {
        error_out_of_memory(&error, directory, sizeof(struct job));
        message_error(&error);
        return STATUS_FAILED;
    }
    if (check.has_json)
        json_begin_array(&check.json, NULL);
    done = store_scan(directory, add_job, &check, &error);
    pool_close(check.pool);
    progress_finish(&check.progress);
    if (check.has_json)
        json_end_array(&check.json);
    if (done && !check.has_json)
        print_totals(&check);
    else if (!done)
        message_error(&error);
    return done && check.faults == 0 ? STATUS_DONE : STATUS_FAILED;
}

int command_store_check(const struct parsed_options *options)
{
    return check_store(options->operands[0], options);
}
