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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/parallel.h"
#include "split/cli/commands.h"
#include "split/cli/images.h"
#include "split/cli/jobs.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/path_list.h"
#include "split/cli/table.h"
#include "split/split/split.h"

struct image_job {
    struct job job;   /* its size is that of the image */
    bool is_repeated; /* an earlier job has the same file */
    struct split_results results;
};

struct batch {
    const struct parsed_options *options;
    struct jobs jobs;
    struct digest_set files; /* of all jobs, by device and inode */
    unsigned threads_each;
    size_t repeated; /* number of jobs that are repeated */
};

/* ---- which images ---- */

/* A path_filter. */
static bool is_candidate(void *context, const char *path, const struct stat *status)
{
    (void)context;
    return status->st_size != 0 && found_image_is_linked(path);
}

/* Two threads must not replace the same image: if a file has several names, or was both named and
 * found, only the first of its jobs is done. */
static void add_jobs(struct batch *batch, const struct path_list *paths, bool were_found)
{
    for (size_t i = 0; i < paths->count; i++) {
        struct image_job *job = jobs_add(&batch->jobs, paths->paths[i], 0);
        struct stat status;

        job->results.was_found = were_found;
        if (stat(job->job.path, &status) == 0) {
            const uint64_t numbers[] = {status.st_dev, status.st_ino};
            struct digest file =
                digest_of((struct bytes){(const uint8_t *)numbers, sizeof(numbers)});

            job->job.size = (uint64_t)status.st_size;
            job->is_repeated = digest_set_has(&batch->files, &file);
            batch->repeated += job->is_repeated;
            exit_unless_allocated(digest_set_add(&batch->files, &file), sizeof(file));
        }
    }
}

/* Collects the named files, then those in directories. */
static bool collect(struct batch *batch, struct error *error)
{
    const struct parsed_options *options = batch->options;
    struct path_list directories = {0}, named = {0}, found = {0};
    bool done = true;

    for (size_t i = 0; done && i < options->operand_count; i++) {
        const char *path = options->operands[i];
        bool is_directory = path_is_directory(path);

        if (is_directory && !option_given(options, OPTION_RECURSIVE))
            done = error_set(
                error, "%s: is a directory; give --recursive to split all images in it", path);
        else
            path_list_add(is_directory ? &directories : &named, path);
    }
    for (size_t i = 0; done && i < directories.count; i++)
        done =
            path_list_add_directory(&found, directories.paths[i], false, is_candidate, NULL, error);
    add_jobs(batch, &named, false);
    add_jobs(batch, &found, true);
    path_list_free(&directories);
    path_list_free(&named);
    path_list_free(&found);
    return done;
}

/* ---- splitting ---- */

static bool split_one(void *context, void *item, struct error *error)
{
    const struct batch *batch = context;
    struct image_job *job = item;

    return job->is_repeated ||
           split_file(batch->options, job->job.path, batch->threads_each, &job->results, error);
}

static void tell_of_image(void *context, void *item)
{
    const struct image_job *job = item;

    (void)context;
    notes_print(&job->results.notes);
}

/* ---- the summary ---- */

static struct split_results *results_at(const struct batch *batch, size_t index)
{
    return &((struct image_job *)jobs_at(&batch->jobs, index))->results;
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
    struct digest_set sidecars = {0}; /* of the paths counted so far */
    size_t image_count = 0;

    for (size_t i = 0; i < batch->jobs.count; i++) {
        const struct split_results *results = results_at(batch, i);

        for (size_t j = 0; j < results->row_count; j++) {
            const struct split_row *row = &results->rows[j];
            struct digest path;
            bool is_shared;

            if (row->sidecar_path == NULL)
                continue; /* there was nothing to take out */
            path = digest_of(
                (struct bytes){(const uint8_t *)row->sidecar_path, strlen(row->sidecar_path)});
            is_shared = digest_set_has(&sidecars, &path);
            exit_unless_allocated(is_shared || digest_set_add(&sidecars, &path), sizeof(path));
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
    digest_set_free(&sidecars);
    printf("%s split: %s before, %s after, %s in sidecars\n", number_text(image_count, count),
           human_size(all_before, before), human_size(all_after, after),
           human_size(all_sidecars, sidecar));
}

/* ---- the command ---- */

int split_check_usage(const struct parsed_options *options)
{
    const char *command = options->command->name;

    if (option_given(options, OPTION_STORE))
        return STATUS_DONE;
    if (option_given(options, OPTION_REPLACE))
        return message_usage(command, "'--replace' is for '--store DIR'");
    return option_given(options, OPTION_DELTA)
               ? message_usage(command, "'--delta' is for '--store DIR'")
               : STATUS_DONE;
}

static bool split_many(struct batch *batch, struct error *error)
{
    unsigned threads = option_threads(batch->options);
    struct json_writer array, *json;
    bool is_any = false;

    if (!collect(batch, error))
        return false;
    batch->threads_each = parallel_share(threads, batch->jobs.count);
    jobs_run(&batch->jobs, threads);
    json = json_begin_if(option_given(batch->options, OPTION_JSON), &array);
    for (size_t i = 0; json != NULL && i < batch->jobs.count; i++)
        split_results_print_json(results_at(batch, i), json);
    json_end_if(json);
    if (json == NULL)
        print_summary(batch);
    if (batch->jobs.failed != 0)
        return error_set(error, "%zu of %zu images: not split; see above", batch->jobs.failed,
                         batch->jobs.count - batch->repeated);
    for (size_t i = 0; i < batch->jobs.count; i++) {
        const struct split_results *results = results_at(batch, i);

        is_any |= results->row_count != 0 || results->was_split ||
                  results->notes.size != 0; /* all of it stays */
    }
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
    struct batch batch = {.options = options,
                          .jobs = {.name = "all images",
                                   .item_size = sizeof(struct image_job),
                                   .work = split_one,
                                   .tell = tell_of_image,
                                   .context = &batch}};
    struct error error;
    bool done;

    for (size_t i = 0; i < sizeof(for_one) / sizeof(for_one[0]); i++) {
        if (option_given(options, for_one[i].id))
            return message_usage("split", "'--%s' is for one image", for_one[i].name);
    }
    done = split_many(&batch, &error);
    for (size_t i = 0; i < batch.jobs.count; i++)
        split_results_free(results_at(&batch, i));
    jobs_free(&batch.jobs);
    digest_set_free(&batch.files);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}

static int split_single(const struct parsed_options *options)
{
    struct split_results results = {.shows_progress = true};
    struct json_writer array, *json;
    struct error error;
    bool done =
        split_file(options, options->operands[0], option_threads(options), &results, &error);

    notes_print(&results.notes);
    json = json_begin_if(option_given(options, OPTION_JSON), &array);
    if (json != NULL) {
        split_results_print_json(&results, json);
        json_end_array(json);
    } else if (option_given(options, OPTION_VERBOSE)) {
        split_results_print(&results, stdout);
    } else if (isatty(STDERR_FILENO)) {
        split_results_print(&results, stderr);
    }
    split_results_free(&results);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}

int command_split(const struct parsed_options *options)
{
    int status = split_check_usage(options);

    if (status != STATUS_DONE)
        return status;
    return options->operand_count != 1 || option_given(options, OPTION_RECURSIVE) ||
                   path_is_directory(options->operands[0])
               ? split_batch(options)
               : split_single(options);
}
