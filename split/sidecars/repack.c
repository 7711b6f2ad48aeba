/*
 * covsplit repack: makes sidecars compact that were written quickly.
 *
 * Each sidecar is replaced separately, by one rename, after the new one has been checked and synced
 * to disk. So the command can be killed at any time and run again. Other processes may add, replace
 * or remove sidecars of a store meanwhile. Their changes take precedence: if they have replaced a
 * sidecar, repacking starts again from the new one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/parallel.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

#define PERMISSION_BITS 07777

/* The most attempts with a sidecar that others keep replacing. */
#define ATTEMPTS 10

enum outcome {
    OUTCOME_FAULT,
    OUTCOME_REPACKED,
    OUTCOME_UNCHANGED, /* no compact form fits, and the new bytes are those of the old one */
    OUTCOME_COMPACT,
    OUTCOME_PLACEHOLDER,
    OUTCOME_INEXACT,
    OUTCOME_DIFFERENCE,
    OUTCOME_GONE, /* removed by another process */
    OUTCOME_OVERTAKEN,
    OUTCOME_COUNT,
};

struct job {
    const char *path;
    uint64_t size_before, size_after; /* bytes */
    enum outcome outcome;
    struct error error;
    struct error unkept; /* see output_options */
};

struct repacking {
    const struct parsed_options *options;
    struct path_list files;
    unsigned threads_each; /* for one sidecar */
    struct progress progress;
    uint64_t counts[OUTCOME_COUNT];
    uint64_t size_before, size_after; /* bytes; sums for those that were repacked */
};

/* ---- one sidecar ---- */

static enum outcome write_again(const struct repacking *repacking, struct job *job,
                                const struct sidecar *sidecar, const struct input *input)
{
    const struct sidecar_write_options write_options = {
        .level = (int)option_number(repacking->options, OPTION_LEVEL),
        .threads = repacking->threads_each,
    };
    const struct output_options output_options = {
        .mode = input->status.st_mode & PERMISSION_BITS,
        .in_place = input,
        .unkept = &job->unkept,
        .is_other_form = true,
    };
    enum output_result result = OUTPUT_UNCHANGED;
    struct output output;
    bool done;

    /* This fails too if the file has changed already. */
    if (!output_create(&output, job->path, &output_options, &job->error))
        return job->error.number == 0 ? OUTCOME_OVERTAKEN : OUTCOME_FAULT;
    done = sidecar_repack(sidecar, &write_options, &output, &job->error);
    job->size_before = input->bytes.size;
    job->size_after = output.size;
    if (done)
        done = output_commit(&output, &result, &job->error);
    output_discard(&output);
    if (result == OUTPUT_OVERTAKEN)
        return OUTCOME_OVERTAKEN;
    return !done ? OUTCOME_FAULT : result == OUTPUT_WRITTEN ? OUTCOME_REPACKED : OUTCOME_UNCHANGED;
}

static enum outcome repack_one(const struct repacking *repacking, struct job *job)
{
    struct sidecar *sidecar;
    enum outcome outcome = OUTCOME_FAULT;
    struct input input;

    if (!input_read(&input, job->path, &job->error))
        return job->error.number == ENOENT ? OUTCOME_GONE : OUTCOME_FAULT;
    sidecar = sidecar_open(input.bytes, job->path, &job->error);
    if (sidecar != NULL && sidecar->facts.is_placeholder) {
        outcome = OUTCOME_PLACEHOLDER;
    } else if (sidecar != NULL && sidecar->facts.is_inexact) {
        outcome = OUTCOME_INEXACT;
    } else if (sidecar != NULL && sidecar->base.is_needed) {
        outcome = OUTCOME_DIFFERENCE;
    } else if (sidecar != NULL && sidecar_is_compact(sidecar)) {
        outcome = OUTCOME_COMPACT;
    } else if (sidecar != NULL) {
        sidecar_limit_memory(sidecar, option_number(repacking->options, OPTION_MEMORY_LIMIT));
        outcome = write_again(repacking, job, sidecar, &input);
    }
    sidecar_close(sidecar);
    input_close(&input);
    return outcome;
}

static void run_job(void *context, void *added)
{
    struct job *job = added;

    job->outcome = OUTCOME_OVERTAKEN;
    for (unsigned attempt = 0; attempt < ATTEMPTS && job->outcome == OUTCOME_OVERTAKEN; attempt++)
        job->outcome = repack_one(context, job);
}

/* ---- results ---- */

static void report_verbose(const struct job *job)
{
    static const char *const notes[OUTCOME_COUNT] = {
        [OUTCOME_UNCHANGED] = "unchanged: no compact form fits it",
        [OUTCOME_COMPACT] = "already compact",
        [OUTCOME_PLACEHOLDER] = "skipped: a placeholder",
        [OUTCOME_INEXACT] = "skipped: made with --no-exact",
        [OUTCOME_DIFFERENCE] = "skipped: a difference; 'covsplit store unpack' makes it whole",
        [OUTCOME_GONE] = "skipped: was removed meanwhile",
    };
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];

    if (job->outcome == OUTCOME_REPACKED)
        message_line(stdout, "%s: %s before, %s after", job->path,
                     human_size(job->size_before, before), human_size(job->size_after, after));
    else
        message_line(stdout, "%s: %s", job->path, notes[job->outcome]);
}

static void retire_job(void *context, void *added)
{
    struct repacking *repacking = context;
    struct job *job = added;
    bool is_fault = job->outcome == OUTCOME_FAULT || job->outcome == OUTCOME_OVERTAKEN;
    bool is_repacked = job->outcome == OUTCOME_REPACKED;
    bool is_verbose = option_given(repacking->options, OPTION_VERBOSE);
    bool is_noted = is_repacked && job->unkept.message[0] != '\0';

    progress_add(&repacking->progress, 1);
    if (is_fault || is_noted || is_verbose)
        progress_finish(&repacking->progress);
    if (is_noted)
        message_warning("%s", job->unkept.message);
    if (is_fault)
        message_error(&job->error);
    else if (is_verbose)
        report_verbose(job);
    repacking->counts[is_fault ? OUTCOME_FAULT : job->outcome]++;
    repacking->size_before += is_repacked ? job->size_before : 0;
    repacking->size_after += is_repacked ? job->size_after : 0;
    free(job);
}

/* ---- the whole ---- */

static void repack_all(struct repacking *repacking)
{
    const struct pool_calls calls = {run_job, retire_job, repacking};
    unsigned threads = option_threads(repacking->options);
    size_t count = repacking->files.count;
    struct pool *pool = pool_open(threads, &calls);

    command_require(pool != NULL, sizeof(calls));
    repacking->threads_each = parallel_share(threads, count);
    progress_start(&repacking->progress, "all sidecars", count);
    for (size_t i = 0; i < count; i++) {
        struct job *job = command_array(1, sizeof(*job));

        job->path = repacking->files.paths[i];
        pool_add(pool, job);
    }
    pool_close(pool);
    progress_finish(&repacking->progress);
}

int command_repack(const struct parsed_options *options)
{
    struct repacking repacking = {.options = options};
    const uint64_t *counts = repacking.counts;
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    char repacked[COUNT_TEXT_MAX], compact[COUNT_TEXT_MAX], skipped[COUNT_TEXT_MAX];

    sidecar_files_add(&repacking.files, options->operands, options->operand_count,
                      &repacking.counts[OUTCOME_FAULT]);
    repack_all(&repacking);
    printf("%s repacked: %s before, %s after; %s already compact, %s skipped\n",
           count_text(counts[OUTCOME_REPACKED], "sidecar", repacked),
           human_size(repacking.size_before, before), human_size(repacking.size_after, after),
           number_text(counts[OUTCOME_COMPACT] + counts[OUTCOME_UNCHANGED], compact),
           number_text(counts[OUTCOME_PLACEHOLDER] + counts[OUTCOME_INEXACT] +
                           counts[OUTCOME_DIFFERENCE] + counts[OUTCOME_GONE],
                       skipped));
    path_list_free(&repacking.files);
    return counts[OUTCOME_FAULT] == 0 ? STATUS_DONE : STATUS_FAILED;
}
