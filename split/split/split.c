/*
 * covsplit split: takes the coverage data out of an image, or out of many.
 *
 * Several images are split on several threads, each in place and with its own sidecar. The messages
 * about an image are kept until all images before it are done, so that the output does not depend
 * on the number of threads.
 *
 * In a directory, only files that linkers make and that have something to take out are split. All
 * other files of a build tree are silently ignored.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/parallel.h"
#include "split/cli/commands.h"
#include "split/cli/images.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/cli/table.h"
#include "split/split/split.h"

struct job {
    const char *path;
    uint64_t size; /* of the image in bytes; 0: unknown */
    dev_t device;
    ino_t inode;
    bool is_repeated; /* an earlier job has the same file */
    bool has_failed;
    struct error error;
    struct split_report report;
};

struct batch {
    const struct parsed_options *options;
    struct path_list paths;
    size_t named; /* the first so many paths are operands; the others were found */
    struct job *jobs;
    unsigned threads_each;

    struct progress progress;
    size_t failed;
    size_t repeated; /* number of jobs that are repeated */
};

/* ---- which images ---- */

/* A path_filter. */
static bool is_candidate(void *context, const char *path, const struct stat *status)
{
    (void)context;
    return status->st_size != 0 && found_image_is_linked(path);
}

/* Collects the named files, then those in directories. */
static bool collect(struct batch *batch, struct error *error)
{
    const struct parsed_options *options = batch->options;
    struct path_list directories = {0};
    bool done = true;

    for (size_t i = 0; done && i < options->operand_count; i++) {
        const char *path = options->operands[i];
        bool is_directory = path_is_directory(path);

        if (is_directory && !option_given(options, OPTION_RECURSIVE))
            done = error_set(
                error, "%s: is a directory; give --recursive to split all images in it", path);
        else
            path_list_add(is_directory ? &directories : &batch->paths, path);
    }
    batch->named = batch->paths.count;
    for (size_t i = 0; done && i < directories.count; i++)
        done = path_list_add_directory(&batch->paths, directories.paths[i], false, is_candidate,
                                       NULL, error);
    path_list_free(&directories);
    return done;
}

static int compare_files(const void *left, const void *right)
{
    const struct job *a = *(struct job *const *)left, *b = *(struct job *const *)right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Two threads must not replace the same image: if a file has several names, or was both named and
 * found, only the first of its jobs is done. */
static void mark_repeated(struct batch *batch)
{
    size_t count = batch->paths.count;
    struct job **order = command_array(count, sizeof(*order));

    for (size_t i = 0; i < count; i++)
        order[i] = &batch->jobs[i];
    qsort(order, count, sizeof(*order), compare_files);
    for (size_t i = 1; i < count; i++) {
        order[i]->is_repeated = order[i]->inode != 0 && order[i]->inode == order[i - 1]->inode &&
                                order[i]->device == order[i - 1]->device;
        batch->repeated += order[i]->is_repeated;
    }
    free(order);
}

static void make_jobs(struct batch *batch)
{
    size_t count = batch->paths.count;

    batch->jobs = command_array(count, sizeof(*batch->jobs));
    for (size_t i = 0; i < count; i++) {
        struct job *job = &batch->jobs[i];
        struct stat status;

        job->path = batch->paths.paths[i];
        job->report.was_found = i >= batch->named;
        if (stat(job->path, &status) == 0) {
            job->size = (uint64_t)status.st_size;
            job->device = status.st_dev;
            job->inode = status.st_ino;
        }
    }
    mark_repeated(batch);
}

/* ---- splitting ---- */

static void split_one(void *context, void *added)
{
    const struct batch *batch = context;
    struct job *job = added;

    job->has_failed =
        !job->is_repeated &&
        !split_file(batch->options, job->path, batch->threads_each, &job->report, &job->error);
}

static void retire_job(void *context, void *done)
{
    struct batch *batch = context;
    const struct job *job = done;

    progress_finish(&batch->progress);
    split_report_print_notes(&job->report);
    if (job->has_failed)
        message_error(&job->error);
    batch->failed += job->has_failed;
    progress_add(&batch->progress, job->size);
}

static void split_all(struct batch *batch)
{
    const struct pool_calls calls = {split_one, retire_job, batch};
    unsigned threads = option_threads(batch->options);
    size_t count = batch->paths.count;
    struct pool *pool;
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += batch->jobs[i].size;
    progress_start(&batch->progress, "all images", total);
    batch->threads_each = parallel_share(threads, count);
    pool = pool_open(threads < count ? threads : count == 0 ? 1 : (unsigned)count, &calls);
    exit_unless_allocated(pool != NULL, sizeof(calls));
    for (size_t i = 0; i < count; i++)
        pool_add(pool, &batch->jobs[i]);
    pool_close(pool);
    progress_finish(&batch->progress);
}

/* ---- the summary ---- */

static int compare_paths(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void keep_path(void *path)
{
    (void)path; /* the tree does not own the paths */
}

/* A table of the images that were split, and a line with the totals, which are computed from exact
 * sizes; those in the table are rounded. Copies of an image share one sidecar in a store, which is
 * counted once. */
static void print_summary(const struct batch *batch)
{
    static const struct table_column columns[] = {
        {"image", TABLE_LEFT},  {"UUID", TABLE_LEFT},     {"before", TABLE_RIGHT},
        {"after", TABLE_RIGHT}, {"sidecar", TABLE_RIGHT}, {"saved", TABLE_RIGHT},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 0);
    char count[COUNT_TEXT_MAX], before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    char sidecar[HUMAN_SIZE_MAX], hex[UUID_HEX_MAX];
    uint64_t all_before = 0, all_after = 0, all_sidecars = 0;
    void *sidecars = NULL; /* a tsearch tree of the paths counted so far */
    size_t image_count = 0;

    for (size_t i = 0; i < batch->paths.count; i++) {
        const struct split_report *report = &batch->jobs[i].report;

        for (size_t j = 0; j < report->row_count; j++) {
            const struct split_row *row = &report->rows[j];
            bool is_shared;

            if (row->sidecar_path == NULL)
                continue; /* there was nothing to take out */
            is_shared = tfind(row->sidecar_path, &sidecars, compare_paths) != NULL;
            exit_unless_allocated(is_shared ||
                                      tsearch(row->sidecar_path, &sidecars, compare_paths) != NULL,
                                  sizeof(row));
            table_cell(table, "%s", row->name);
            table_cell(table, "%s", uuid_format(&row->uuid, hex));
            table_cell(table, "%s", human_size(row->size_before, before));
            table_cell(table, "%s", human_size(row->size_after, after));
            table_cell(table, "%s",
                       is_shared ? "the same" : human_size(row->sidecar_size, sidecar));
            table_cell(table, "%.1f%%",
                       (double)(row->size_before - row->size_after) / (double)row->size_before *
                           100);
            image_count++;
            all_before += row->size_before;
            all_after += row->size_after;
            all_sidecars += is_shared ? 0 : row->sidecar_size;
        }
    }
    table_print(table, stdout);
    table_free(table);
    tdestroy(sidecars, keep_path);
    printf("%s split: %s before, %s after, %s in sidecars\n", number_text(image_count, count),
           human_size(all_before, before), human_size(all_after, after),
           human_size(all_sidecars, sidecar));
}

/* ---- the command ---- */

static bool split_many(struct batch *batch, struct error *error)
{
    bool is_any = false;

    if (!collect(batch, error))
        return false;
    make_jobs(batch);
    split_all(batch);
    if (option_given(batch->options, OPTION_JSON)) {
        struct json_writer json = {.stream = stdout};

        json_begin_array(&json, NULL);
        for (size_t i = 0; i < batch->paths.count; i++)
            split_report_print_json(&batch->jobs[i].report, &json);
        json_end_array(&json);
    } else {
        print_summary(batch);
    }
    if (batch->failed != 0)
        return error_set(error, "%zu of %zu images: not split; see above", batch->failed,
                         batch->paths.count - batch->repeated);
    for (size_t i = 0; i < batch->paths.count; i++)
        is_any |= batch->jobs[i].report.row_count != 0 || batch->jobs[i].report.was_split ||
                  batch->jobs[i].report.notes.size != 0; /* all of it stays */
    return is_any || error_set(error,
                               "%s%s: no image with coverage found; name another directory, or "
                               "build with -fprofile-instr-generate -fcoverage-mapping (rustc: "
                               "-C instrument-coverage)",
                               batch->options->operands[0],
                               batch->options->operand_count > 1 ? " and others" : "");
}

/* Splits all images, even if some of them fail, and prints a table of what was saved. */
static int split_batch(const struct parsed_options *options)
{
    static const struct {
        enum option_id id;
        const char *name;
    } for_one[] = {{OPTION_OUTPUT, "output"},
                   {OPTION_SIDECAR, "sidecar"},
                   {OPTION_UUID, "uuid"},
                   {OPTION_MAP, "map"}};
    struct batch batch = {.options = options};
    struct error error;
    bool done;

    for (size_t i = 0; i < sizeof(for_one) / sizeof(for_one[0]); i++) {
        if (option_given(options, for_one[i].id))
            return message_usage("split", "'--%s' is for one image", for_one[i].name);
    }
    done = split_many(&batch, &error);
    for (size_t i = 0; batch.jobs != NULL && i < batch.paths.count; i++)
        split_report_free(&batch.jobs[i].report);
    free(batch.jobs);
    path_list_free(&batch.paths);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}

static int split_single(const struct parsed_options *options)
{
    struct split_report report = {.shows_progress = true};
    struct json_writer json = {.stream = stdout};
    struct error error;
    bool done = split_file(options, options->operands[0], option_threads(options), &report, &error);

    split_report_print_notes(&report);
    if (option_given(options, OPTION_JSON)) {
        json_begin_array(&json, NULL);
        split_report_print_json(&report, &json);
        json_end_array(&json);
    } else if (option_given(options, OPTION_VERBOSE)) {
        split_report_print_rows(&report, stdout);
    } else if (isatty(STDERR_FILENO)) {
        split_report_print_rows(&report, stderr);
    }
    split_report_free(&report);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}

int command_split(const struct parsed_options *options)
{
    if (option_given(options, OPTION_REPLACE) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("split", "'--replace' is for '--store DIR'");
    if (option_given(options, OPTION_DELTA) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("split", "'--delta' is for '--store DIR'");
    return options->operand_count != 1 || option_given(options, OPTION_RECURSIVE) ||
                   path_is_directory(options->operands[0])
               ? split_batch(options)
               : split_single(options);
}
