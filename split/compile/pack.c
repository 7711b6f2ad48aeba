/*
 * covsplit pack: packs the coverage mapping of objects and archives that exist.
 *
 * The files are packed on several threads, each by itself. The messages about a file are kept until
 * all files before it are done, so that they do not depend on the number of threads. If a file is
 * named twice, or is also in a thin archive, whichever comes later finds it packed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/parallel.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"
#include "split/compile/pack_file.h"

struct job {
    const char *path;
    bool done;
    struct pack_report report;
    struct error error;
};

struct pack_run {
    const struct parsed_options *options;
    struct pack_options file_options;
    struct job *jobs; /* one for each operand */
    struct progress progress;
    size_t failed;
};

/* ---- one file ---- */

static void run_job(void *context, void *added)
{
    const struct pack_run *run = context;
    struct job *job = added;

    job->done = pack_file(job->path, &run->file_options, &job->report, &job->error);
    if (job->done && job->report.outcome == PACK_IMAGE)
        job->done = error_set(&job->error,
                              "%s: a linked image, not an object or archive; use 'covsplit split'",
                              job->path);
    if (job->done && job->report.outcome == PACK_OTHER)
        job->done =
            error_set(&job->error, "%s: neither an object nor an archive; leave it out", job->path);
}

static void retire_job(void *context, void *done)
{
    struct pack_run *run = context;
    const struct job *job = done;

    progress_finish(&run->progress);
    pack_report_warn(&job->report);
    if (!job->done)
        message_error(&job->error);
    else if (option_given(run->options, OPTION_VERBOSE))
        pack_report_print(&job->report, job->path);
    run->failed += !job->done;
    progress_add(&run->progress, 1);
}

/* ---- the whole ---- */

static void print_json(const struct pack_run *run)
{
    struct json_writer json = {.stream = stdout};

    json_begin_array(&json, NULL);
    for (size_t i = 0; i < run->options->operand_count; i++) {
        const struct pack_report *report = &run->jobs[i].report;

        if (!run->jobs[i].done)
            continue;
        json_begin_object(&json, NULL);
        json_string(&json, "file", run->jobs[i].path);
        json_number(&json, "size_before", report->size_before);
        json_number(&json, "size_after", report->size_after);
        json_number(&json, "objects_packed", report->object_count);
        json_number(&json, "objects_kept", report->kept_count);
        json_end_object(&json);
    }
    json_end_array(&json);
}

static bool pack_all(struct pack_run *run, struct error *error)
{
    const struct pool_calls calls = {run_job, retire_job, run};
    unsigned threads = option_threads(run->options);
    size_t count = run->options->operand_count;
    struct pool *pool;

    run->jobs = calloc(count, sizeof(*run->jobs));
    pool = run->jobs == NULL ? NULL : pool_open(threads, &calls);
    if (pool == NULL)
        return error_out_of_memory(error, "the files", count * sizeof(*run->jobs));
    run->file_options = (struct pack_options){
        .output_path = option_text(run->options, OPTION_OUTPUT),
        .threads = parallel_share(threads, count),
    };
    progress_start(&run->progress, "all files", count);
    for (size_t i = 0; i < count; i++) {
        run->jobs[i].path = run->options->operands[i];
        pool_add(pool, &run->jobs[i]);
    }
    pool_close(pool);
    progress_finish(&run->progress);
    return true;
}

int command_pack(const struct parsed_options *options)
{
    struct pack_run run = {.options = options};
    struct error error;
    bool done;

    if (option_given(options, OPTION_OUTPUT) && options->operand_count != 1)
        return message_usage("pack", "'--output' is for one file");
    done = pack_all(&run, &error);
    if (!done)
        message_error(&error);
    else if (option_given(options, OPTION_JSON))
        print_json(&run);
    for (size_t i = 0; run.jobs != NULL && i < options->operand_count; i++)
        pack_report_free(&run.jobs[i].report);
    free(run.jobs);
    return done && run.failed == 0 ? STATUS_DONE : STATUS_FAILED;
}
