/*
 * covsplit split of many images: see split/batch.h.
 *
 * Images are split on several threads, each in place and with its own sidecar. The messages about
 * an image are kept until all images before it are done, so that the output does not depend on the
 * number of threads.
 *
 * In a directory, only files that linkers make and that have something to take out are split. All
 * other files of a build tree are silently ignored.
 */
#include "split/split/batch.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/parallel.h"
#include "split/cli/found_image.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/cli/progress.h"
#include "split/cli/table.h"
#include "split/split/split_file.h"

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

static bool collect_operands(struct batch *batch, struct path_list *directories,
                             struct error *error)
{
    const struct parsed_options *options = batch->options;

    for (size_t i = 0; i < options->operand_count; i++) {
        const char *path = options->operands[i];
        bool is_directory = path_is_directory(path);

        if (is_directory && !option_given(options, OPTION_RECURSIVE))
            return error_set(
                error, "%s: is a directory; give --recursive to split all images in it", path);
        if (!path_list_add(is_directory ? directories : &batch->paths, path, error))
            return false;
    }
    batch->named = batch->paths.count;
    return true;
}

/* Collects the named files, then those in directories. */
static bool collect(struct batch *batch, struct error *error)
{
    struct path_list directories = {0};
    bool done = collect_operands(batch, &directories, error);

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
static bool mark_repeated(struct batch *batch, struct error *error)
{
    size_t count = batch->paths.count;
    struct job **order = malloc((count == 0 ? 1 : count) * sizeof(*order));

    if (order == NULL)
        return error_out_of_memory(error, "the images", count * sizeof(*order));
    for (size_t i = 0; i < count; i++)
        order[i] = &batch->jobs[i];
    qsort(order, count, sizeof(*order), compare_files);
    for (size_t i = 1; i < count; i++) {
        order[i]->is_repeated = order[i]->inode != 0 && order[i]->inode == order[i - 1]->inode &&
                                order[i]->device == order[i - 1]->device;
        batch->repeated += order[i]->is_repeated;
    }
    free(order);
    return true;
}

static bool make_jobs(struct batch *batch, struct error *error)
{
    size_t count = batch->paths.count;

    batch->jobs = calloc(count == 0 ? 1 : count, sizeof(*batch->jobs));
    if (batch->jobs == NULL)
        return error_out_of_memory(error, "the images", count * sizeof(*batch->jobs));
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
    return mark_repeated(batch, error);
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

static bool split_all(struct batch *batch, struct error *error)
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
    if (pool == NULL)
        return error_out_of_memory(error, "the images", sizeof(calls));
    for (size_t i = 0; i < count; i++)
        pool_add(pool, &batch->jobs[i]);
    pool_close(pool);
    progress_finish(&batch->progress);
    return true;
}

/* ---- the summary ---- */

/* The totals of a batch. */
struct summary {
    struct table *table;
    void *sidecars; /* a tsearch tree of the paths counted so far */
    size_t image_count;
    uint64_t size_before, size_after, sidecar_size; /* bytes */
};

static int compare_paths(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void keep_path(void *path)
{
    (void)path; /* the tree does not own the paths */
}

/* Copies of an image share one sidecar in a store, which is counted once. False if out of
 * memory. */
static bool add_sidecar(struct summary *summary, const struct split_row *row, bool *is_shared)
{
    *is_shared = tfind(row->sidecar_path, &summary->sidecars, compare_paths) != NULL;
    if (*is_shared)
        return true;
    summary->sidecar_size += row->sidecar_size;
    return tsearch(row->sidecar_path, &summary->sidecars, compare_paths) != NULL;
}

static void add_cells(struct table *table, const struct split_row *row, bool is_shared)
{
    char before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX], sidecar[HUMAN_SIZE_MAX];
    char hex[UUID_HEX_MAX];
    double saved = (double)(row->size_before - row->size_after) / (double)row->size_before;

    table_cell(table, "%s", row->name);
    table_cell(table, "%s", uuid_format(&row->uuid, hex));
    table_cell(table, "%s", human_size(row->size_before, before));
    table_cell(table, "%s", human_size(row->size_after, after));
    table_cell(table, "%s", is_shared ? "the same" : human_size(row->sidecar_size, sidecar));
    table_cell(table, "%.1f%%", saved * 100);
}

/* An image with nothing to take out does not count as split. */
static bool add_row(struct summary *summary, const struct split_row *row)
{
    bool is_shared;

    if (row->sidecar_path == NULL)
        return true;
    if (!add_sidecar(summary, row, &is_shared))
        return false;
    add_cells(summary->table, row, is_shared);
    summary->image_count++;
    summary->size_before += row->size_before;
    summary->size_after += row->size_after;
    return true;
}

static bool add_rows(struct summary *summary, const struct batch *batch)
{
    for (size_t i = 0; i < batch->paths.count; i++) {
        for (size_t j = 0; j < batch->jobs[i].report.row_count; j++) {
            if (!add_row(summary, &batch->jobs[i].report.rows[j]))
                return false;
        }
    }
    return true;
}

/* The totals are computed from exact sizes; those in the table are rounded. */
static bool print_summary(const struct batch *batch, struct error *error)
{
    static const struct table_column columns[] = {
        {"image", TABLE_LEFT},  {"UUID", TABLE_LEFT},     {"before", TABLE_RIGHT},
        {"after", TABLE_RIGHT}, {"sidecar", TABLE_RIGHT}, {"saved", TABLE_RIGHT},
    };
    struct summary summary = {
        .table = table_new(columns, sizeof(columns) / sizeof(columns[0]), 0),
    };
    char count[COUNT_TEXT_MAX], before[HUMAN_SIZE_MAX], after[HUMAN_SIZE_MAX];
    char sidecars[HUMAN_SIZE_MAX];
    bool done = summary.table != NULL && add_rows(&summary, batch) &&
                (summary.image_count == 0 || table_print(summary.table, stdout));

    table_free(summary.table);
    tdestroy(summary.sidecars, keep_path);
    if (!done)
        return error_out_of_memory(error, "the summary", batch->paths.count);
    printf("%s split: %s before, %s after, %s in sidecars\n",
           number_text(summary.image_count, count), human_size(summary.size_before, before),
           human_size(summary.size_after, after), human_size(summary.sidecar_size, sidecars));
    return true;
}

static bool print_json(const struct batch *batch)
{
    struct json_writer json = {.stream = stdout};

    json_begin_array(&json, NULL);
    for (size_t i = 0; i < batch->paths.count; i++)
        split_report_print_json(&batch->jobs[i].report, &json);
    json_end_array(&json);
    return true;
}

/* ---- the whole ---- */

static bool run(struct batch *batch, struct error *error)
{
    if (!collect(batch, error) || !make_jobs(batch, error) || !split_all(batch, error) ||
        !(option_given(batch->options, OPTION_JSON) ? print_json(batch)
                                                    : print_summary(batch, error)))
        return false;
    return batch->failed == 0 || error_set(error, "%zu of %zu images: not split; see above",
                                           batch->failed, batch->paths.count - batch->repeated);
}

static int check_options(const struct parsed_options *options)
{
    static const struct {
        enum option_id id;
        const char *name;
    } for_one[] = {{OPTION_OUTPUT, "output"},
                   {OPTION_SIDECAR, "sidecar"},
                   {OPTION_UUID, "uuid"},
                   {OPTION_MAP, "map"}};

    for (size_t i = 0; i < sizeof(for_one) / sizeof(for_one[0]); i++) {
        if (option_given(options, for_one[i].id))
            return message_usage("split", "'--%s' is for one image", for_one[i].name);
    }
    return STATUS_DONE;
}

int split_batch(const struct parsed_options *options)
{
    struct batch batch = {.options = options};
    struct error error;
    bool done;
    int status = check_options(options);

    if (status != STATUS_DONE)
        return status;
    done = run(&batch, &error);
    for (size_t i = 0; batch.jobs != NULL && i < batch.paths.count; i++)
        split_report_free(&batch.jobs[i].report);
    free(batch.jobs);
    path_list_free(&batch.paths);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}
