/*
 * covsplit repack makes sidecars compact that were written quickly; covsplit store delta makes
 * those of a store deltas to others (common/sidecar/delta.h), and covsplit store undelta makes them
 * whole again.
 *
 * Each sidecar is replaced separately, by one rename, after the new one has been checked and synced
 * to disk. So the command can be killed at any time and run again. Other processes may add, replace
 * or remove sidecars of a store meanwhile. Their changes take precedence: if they have replaced a
 * sidecar, the command starts again from the new one.
 *
 * The largest sidecars come first, since most of the smaller ones are in them: one that no
 * base makes small enough becomes a base itself, and stays whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/parallel.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"
#include "split/cli/bases.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/jobs.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/sidecars/selection.h"

/* The most attempts with a sidecar that others keep replacing. */
#define ATTEMPTS 10

enum outcome {
    OUTCOME_FAULT,
    OUTCOME_CHANGED,   /* repacked, made a delta, or made whole */
    OUTCOME_UNCHANGED, /* no compact form fits, and the new bytes are those of the old one */
    OUTCOME_COMPACT,
    OUTCOME_BASE, /* whole, as it is too small for a delta */
    OUTCOME_DELTA,
    OUTCOME_KEPT, /* whole, as the user wants it, or because there is nothing to do */
    OUTCOME_PLACEHOLDER,
    OUTCOME_GONE, /* removed by another process */
    OUTCOME_OVERTAKEN,
    OUTCOME_COUNT,
};

struct repack_job {
    struct job job;
    uint64_t size_before, size_after; /* bytes */
    uint64_t base_size;               /* of the base that was made of it */
    enum outcome outcome;
    struct buffer notes;
};

struct repacking {
    const struct parsed_options *options;
    enum repacking_kind { REPACK, DELTA, UNDELTA } what;
    struct selection selection; /* what stays whole; what is made whole */
    bool has_patterns;
    struct bases bases; /* of DELTA, which works on one sidecar after the other */
    struct jobs jobs;
    unsigned threads_each; /* for one sidecar */
    uint64_t counts[OUTCOME_COUNT];
    uint64_t size_before, size_after; /* bytes; sums for those that were changed */
};

/* ---- one sidecar ---- */

/* Writes the new form to a started output. */
static enum outcome write_form(struct repacking *repacking, struct repack_job *job,
                               struct sidecar *sidecar, struct output *output, struct error *error)
{
    struct bytes bytes = sidecar->input.bytes;
    const struct sidecar_write_options options = {
        .level = (int)option_number(repacking->options, OPTION_LEVEL),
        .threads = repacking->threads_each,
        .portable = repacking->what == UNDELTA && !sidecar_is_compact(sidecar),
    };
    bool fits, done;

    if (repacking->what != DELTA)
        return sidecar_repack(sidecar, &options, output, error) ? OUTCOME_CHANGED : OUTCOME_FAULT;
    done = bases_make_delta(&repacking->bases, sidecar, bytes.size, options.level, false, output,
                            &fits, error);
    /* What is like none becomes a base, and deltas will depend on that. */
    if (done && !fits && bases_are_worth(bytes.size)) {
        done = sidecar_verify(sidecar, error) &&
               bases_add(&repacking->bases, sidecar, bytes, output, error) &&
               bases_make_delta(&repacking->bases, sidecar, bytes.size, options.level, false,
                                output, &fits, error);
        job->base_size = bytes.size;
    }
    if (done && !fits) /* it is too small */
        return OUTCOME_BASE;
    return done && output_sync(output, error) && bases_hold(&repacking->bases, error)
               ? OUTCOME_CHANGED
               : OUTCOME_FAULT;
}

static enum outcome write_again(struct repacking *repacking, struct repack_job *job,
                                struct sidecar *sidecar, struct error *error)
{
    const struct input *input = &sidecar->input;
    struct error unkept = {0};
    const struct output_options output_options = {
        .mode = input->status.st_mode & PERMISSION_BITS,
        .in_place = input,
        .unkept = &unkept,
        .is_other_form = true,
    };
    enum output_result result = OUTPUT_UNCHANGED;
    struct output output;
    enum outcome outcome;

    /* This fails too if the file has changed already. */
    if (!output_create(&output, job->job.path, &output_options, error))
        return error->number == 0 ? OUTCOME_OVERTAKEN : OUTCOME_FAULT;
    sidecar_set_up(sidecar, repacking->options);
    outcome = write_form(repacking, job, sidecar, &output, error);
    job->size_before = input->bytes.size;
    job->size_after = output.size + job->base_size;
    if (outcome == OUTCOME_CHANGED && !output_commit(&output, &result, error))
        outcome = result == OUTPUT_OVERTAKEN ? OUTCOME_OVERTAKEN : OUTCOME_FAULT;
    else if (outcome == OUTCOME_CHANGED && result != OUTPUT_WRITTEN)
        outcome = OUTCOME_UNCHANGED;
    if (outcome == OUTCOME_CHANGED && unkept.message[0] != '\0')
        notes_add(&job->notes, "%s", unkept.message);
    output_discard(&output);
    return outcome;
}

/* What is to be done with a sidecar; OUTCOME_CHANGED: it gets another form. */
static enum outcome judge(const struct repacking *repacking, const struct sidecar *sidecar)
{
    if (sidecar->facts.is_placeholder)
        return OUTCOME_PLACEHOLDER;
    if (repacking->what == UNDELTA)
        return sidecar->base.is_needed ? OUTCOME_CHANGED : OUTCOME_KEPT;
    if (sidecar->base.is_needed)
        return OUTCOME_DELTA;
    if (repacking->what == DELTA)
        return sidecar_holds_nothing(sidecar) ? OUTCOME_KEPT : OUTCOME_CHANGED;
    return sidecar_is_compact(sidecar) ? OUTCOME_COMPACT : OUTCOME_CHANGED;
}

static enum outcome repack_one(struct repacking *repacking, struct repack_job *job,
                               struct error *error)
{
    struct sidecar *sidecar = sidecar_read(job->job.path, error);
    enum outcome outcome;

    if (sidecar == NULL)
        return error->number == ENOENT ? OUTCOME_GONE : OUTCOME_FAULT;
    outcome = judge(repacking, sidecar);
    if (outcome == OUTCOME_CHANGED)
        outcome = write_again(repacking, job, sidecar, error);
    sidecar_close(sidecar);
    return outcome;
}

static bool repack_again(void *context, void *item, struct error *error)
{
    struct repack_job *job = item;

    job->outcome = OUTCOME_OVERTAKEN;
    for (unsigned attempt = 0; attempt < ATTEMPTS && job->outcome == OUTCOME_OVERTAKEN; attempt++)
        job->outcome = repack_one(context, job, error);
    return job->outcome != OUTCOME_FAULT && job->outcome != OUTCOME_OVERTAKEN;
}

/* ---- results ---- */

static void tell_outcome(const struct repack_job *job)
{
    static const char *const notes[OUTCOME_COUNT] = {
        [OUTCOME_UNCHANGED] = "unchanged: no compact form fits it",
        [OUTCOME_COMPACT] = "already compact",
        [OUTCOME_BASE] = "stays whole: no delta would be smaller",
        [OUTCOME_DELTA] = "skipped: a delta; 'covsplit store undelta' makes it whole",
        [OUTCOME_KEPT] = "stays whole",
        [OUTCOME_PLACEHOLDER] = "skipped: a placeholder",
        [OUTCOME_GONE] = "skipped: was removed meanwhile",
    };
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];

    if (job->outcome == OUTCOME_CHANGED)
        message_line(stdout, "%s: %s before, %s after", job->job.path,
                     human_size(job->size_before, before), human_size(job->size_after, after));
    else
        message_line(stdout, "%s: %s", job->job.path, notes[job->outcome]);
}

static void tell_of_sidecar(void *context, void *item)
{
    struct repacking *repacking = context;
    struct repack_job *job = item;

    notes_print(&job->notes);
    if (job->outcome == OUTCOME_CHANGED) {
        repacking->size_before += job->size_before;
        repacking->size_after += job->size_after;
    }
    if (job->job.error == NULL && option_given(repacking->options, OPTION_VERBOSE))
        tell_outcome(job);
    repacking->counts[job->job.error != NULL ? OUTCOME_FAULT : job->outcome]++;
    buffer_free(&job->notes);
}

static void start(struct repacking *repacking, const struct parsed_options *options,
                  enum repacking_kind what)
{
    *repacking = (struct repacking){.options = options,
                                    .what = what,
                                    .jobs = {.name = "all sidecars",
                                             .item_size = sizeof(struct repack_job),
                                             .work = repack_again,
                                             .tell = tell_of_sidecar,
                                             .context = repacking}};
}

static void run_all(struct repacking *repacking, unsigned threads)
{
    repacking->threads_each = parallel_share(threads, repacking->jobs.count);
    jobs_run(&repacking->jobs, threads);
}

/* ---- repack ---- */

int command_repack(const struct parsed_options *options)
{
    struct repacking repacking;
    const uint64_t *counts = repacking.counts;
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    struct path_list files = {0};
    char repacked[COUNT_TEXT_MAX], compact[COUNT_TEXT_MAX], skipped[COUNT_TEXT_MAX];

    start(&repacking, options, REPACK);
    sidecar_files_add(&files, options->operands, options->operand_count,
                      &repacking.counts[OUTCOME_FAULT]);
    for (size_t i = 0; i < files.count; i++)
        jobs_add(&repacking.jobs, files.paths[i], 1);
    run_all(&repacking, option_threads(options));
    printf("%s repacked: %s before, %s after; %s already compact, %s skipped\n",
           count_text(counts[OUTCOME_CHANGED], "sidecar", repacked),
           human_size(repacking.size_before, before), human_size(repacking.size_after, after),
           number_text(counts[OUTCOME_COMPACT] + counts[OUTCOME_UNCHANGED], compact),
           number_text(counts[OUTCOME_PLACEHOLDER] + counts[OUTCOME_DELTA] + counts[OUTCOME_GONE],
                       skipped));
    path_list_free(&files);
    jobs_free(&repacking.jobs);
    return counts[OUTCOME_FAULT] == 0 ? STATUS_DONE : STATUS_FAILED;
}

/* ---- store delta and store undelta ---- */

/* A store_visitor. Only headers and notes are read; deltas stay as they are. */
static bool add_stored(void *context, const char *path, const struct uuid *uuid,
                       struct error *error)
{
    struct repacking *repacking = context;
    struct error fault = {.number = 0};
    struct sidecar *sidecar = sidecar_map(path, &fault);
    struct stat status;

    (void)error;
    if (sidecar != NULL && store_check_uuid(path, &sidecar->facts.uuid, uuid, &fault)) {
        bool matches = repacking->has_patterns &&
                       selection_has(&repacking->selection, uuid, sidecar->image_name);
        /* The file that a link leads to may be changed or removed without the store. */
        bool is_link = lstat(path, &status) == 0 && S_ISLNK(status.st_mode);

        if (sidecar->base.is_needed == (repacking->what == DELTA))
            repacking->counts[sidecar->base.is_needed ? OUTCOME_DELTA : OUTCOME_KEPT]++;
        else if (repacking->what == DELTA ? matches || is_link
                                          : repacking->has_patterns && !matches)
            repacking->counts[OUTCOME_KEPT]++;
        else
            ((struct repack_job *)jobs_add(&repacking->jobs, path, 1))->size_before =
                sidecar->input.bytes.size;
    } else if (fault.number != ENOENT) {
        message_error(&fault);
        repacking->counts[OUTCOME_FAULT]++;
    }
    sidecar_close(sidecar);
    return true;
}

/* The largest first; in the order of the UUIDs among those of one size. */
static int compare_jobs(const void *a, const void *b)
{
    const struct repack_job *left = a, *right = b;

    if (left->size_before != right->size_before)
        return left->size_before > right->size_before ? -1 : 1;
    return strcmp(left->job.path, right->job.path);
}

static int change_store(struct repacking *repacking, const char *const *patterns, size_t count)
{
    const char *directory = repacking->options->operands[0];
    const uint64_t *counts = repacking->counts;
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    char changed[COUNT_TEXT_MAX], deltas[COUNT_TEXT_MAX], whole[COUNT_TEXT_MAX];
    struct error error;
    bool done;

    repacking->has_patterns = count != 0;
    done = selection_open(&repacking->selection, patterns, count, &error) &&
           store_walk(directory, add_stored, repacking, &error) &&
           (repacking->what != DELTA || bases_open(&repacking->bases, directory, &error));
    if (done) {
        if (repacking->jobs.count != 0)
            qsort(repacking->jobs.items, repacking->jobs.count, repacking->jobs.item_size,
                  compare_jobs);
        run_all(repacking, repacking->what == DELTA ? 1 : option_threads(repacking->options));
        if (counts[OUTCOME_FAULT] == 0)
            selection_report_unused(&repacking->selection, directory, false);
        printf("%s: %s before, %s after",
               count_text(counts[OUTCOME_CHANGED],
                          repacking->what == DELTA ? "new delta" : "restored sidecar", changed),
               human_size(repacking->size_before, before),
               human_size(repacking->size_after, after));
        if (repacking->what == DELTA)
            printf("; %s already, %s whole", count_text(counts[OUTCOME_DELTA], "delta", deltas),
                   number_text(counts[OUTCOME_BASE] + counts[OUTCOME_KEPT] +
                                   counts[OUTCOME_PLACEHOLDER],
                               whole));
        printf("\n");
    } else {
        message_error(&error);
    }
    jobs_free(&repacking->jobs);
    bases_close(&repacking->bases);
    selection_close(&repacking->selection);
    return done && counts[OUTCOME_FAULT] == 0 ? STATUS_DONE : STATUS_FAILED;
}

int command_store_delta(const struct parsed_options *options)
{
    struct repacking repacking;
    const char **patterns, *pattern;
    size_t count = 0;
    int status;

    while (option_text_at(options, OPTION_KEEP_WHOLE, count) != NULL)
        count++;
    patterns = command_array(count + 1, sizeof(*patterns));
    for (size_t i = 0; (pattern = option_text_at(options, OPTION_KEEP_WHOLE, i)) != NULL; i++)
        patterns[i] = pattern;
    start(&repacking, options, DELTA);
    status = change_store(&repacking, patterns, count);
    free(patterns);
    return status;
}

int command_store_undelta(const struct parsed_options *options)
{
    struct repacking repacking;

    start(&repacking, options, UNDELTA);
    return change_store(&repacking, options->operands + 1, options->operand_count - 1);
}
