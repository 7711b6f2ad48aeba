/*
 * Splitting a file.
 *
 * The format of each image plans its split, which is done up to the point where the outputs get
 * their names. The stripped slices of a universal image are then put together, and everything gets
 * its name at once: the sidecars before the image.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "split/cli/images.h"
#include "split/cli/message.h"
#include "split/split/split.h"

/* ---- planning ---- */

static bool choose_slices(struct split_job *job, struct error *error)
{
    const char *arch = option_text(job->options, OPTION_ARCH);
    size_t chosen = 0;

    if (arch != NULL && !job->container.is_universal)
        return error_set(
            error, "%s: not a universal image, so --arch has no slice to select; leave --arch out",
            job->file.path);
    for (size_t i = 0; i < job->container.count; i++) {
        job->slices[i].is_chosen = arch == NULL || strcmp(arch, job->container.slices[i].name) == 0;
        chosen += job->slices[i].is_chosen;
    }
    if (chosen == 0)
        return error_set(error, "%s: the universal image has no slice %s; 'lipo -info' lists them",
                         job->file.path, arch);
    if (chosen > 1 && option_text(job->options, OPTION_SIDECAR) != NULL)
        return error_set(error,
                         "%s: the universal image has %zu slices, and a sidecar is for one; use "
                         "--store, or select one with --arch",
                         job->file.path, chosen);
    return true;
}

static bool plan_slice(struct slice_split *split, struct error *error)
{
    const struct parsed_options *options = split->job->options;
    struct image_options image_options = {
        .sections = option_sections(options, OPTION_SECTIONS),
        .uuid = option_uuid(options, OPTION_UUID),
        .drop_signature = option_given(options, OPTION_DROP_SIGNATURE),
        .assume_unreferenced = option_given(options, OPTION_ASSUME_UNREFERENCED),
        .map = option_given(options, OPTION_MAP) ? &split->job->map : NULL,
    };

    split->plan = image_plan_make(&split->image, &image_options, error);
    if (split->plan == NULL)
        return false;
    split->row_name =
        strdup(split->job->container.is_universal ? split->image.path : split->job->output_path);
    if (split->row_name == NULL)
        return error_out_of_memory(error, split->image.path, strlen(split->image.path));
    return true;
}

static bool plan(struct split_job *job, struct error *error)
{
    const char *map = option_text(job->options, OPTION_MAP);
    bool done = (map == NULL || input_open(&job->map, map, error)) && choose_slices(job, error);

    for (size_t i = 0; done && i < job->container.count; i++) {
        struct slice_split *split = &job->slices[i];

        split->job = job;
        split->image = job->container.slices[i].input;
        done = !split->is_chosen || plan_slice(split, error);
    }
    return done;
}

/* ---- the stripped file ---- */

/* A slice_writer. */
static bool write_slice(void *context, size_t index, struct error *error)
{
    struct split_job *job = context;
    struct slice_split *split = &job->slices[index];
    struct input stripped = {.fd = -1};
    bool done;

    if (!split->is_chosen)
        return output_write(&job->universal, split->image.bytes, error) ||
               report_if_truncated(job->file.path, error);
    done = output_map(&split->stripped, &stripped, error) &&
           output_write(&job->universal, stripped.bytes, error);
    input_close(&stripped);
    return done;
}

/* Reads the output back: each slice must be the one that was checked with its sidecar. */
static bool check_universal(struct split_job *job, struct error *error)
{
    struct input file = {.fd = -1};
    struct container container = {.count = 0};
    bool done =
        output_map(&job->universal, &file, error) && container_open(&container, &file, error);

    for (size_t i = 0; done && i < container.count; i++) {
        const struct slice_split *split = &job->slices[i];
        struct digest digest = digest_of(container.slices[i].input.bytes);

        done = split->is_chosen ? digest_equal(&digest, &split->plan->facts.stripped_digest)
                                : bytes_equal(container.slices[i].input.bytes, split->image.bytes);
        if (!done)
            error_set(error, "%s: was changed while it was written; run again", job->output_path);
    }
    container_close(&container);
    input_close(&file);
    return done && input_unchanged(&job->file, error);
}

static bool compose_universal(struct split_job *job, struct error *error)
{
    struct output_options options = {
        .mode = job->file.status.st_mode & PERMISSION_BITS,
        .in_place = split_replaces_file(job) ? &job->file : NULL,
        .unkept = &job->unkept,
    };

    for (size_t i = 0; i < job->container.count; i++) {
        if (job->slices[i].is_chosen)
            job->container.slices[i].size = job->slices[i].stripped.size;
    }
    return container_lay_out(&job->container, job->file.path, error) &&
           output_create(&job->universal, job->output_path, &options, error) &&
           container_write(&job->container, job->file.path, output_sink, &job->universal,
                           write_slice, job, error) &&
           check_universal(job, error) && output_sync(&job->universal, error);
}

/* ---- names for all ---- */

/* Gives all outputs their names. If that fails, new sidecars are removed, but not if the image has
 * been written, or half of it, or may be after a power failure: then they hold the rest of it. */
static bool commit(struct split_job *job, struct error *error)
{
    struct output *stripped =
        job->container.is_universal ? &job->universal : &job->slices[0].stripped;
    bool is_new[SLICES_MAX] = {false};
    bool done = split_hold_file(job, error) && output_can_replace(stripped, error);
    bool is_as_before;
    enum output_result result;

    for (size_t i = 0; done && i < job->container.count; i++) {
        struct slice_split *split = &job->slices[i];

        if (!split->has_pending_sidecar)
            continue;
        is_new[i] = file_is_missing(split->sidecar_path, AT_SYMLINK_NOFOLLOW);
        done = output_commit(&split->sidecar, &result, error);
        is_new[i] = is_new[i] && (done || result == OUTPUT_NOT_SYNCED);
    }
    result = OUTPUT_UNCHANGED;
    if (done && output_commit(stripped, &result, error))
        return true;
    is_as_before = result != OUTPUT_HALF_WRITTEN && result != OUTPUT_NOT_SYNCED;
    for (size_t i = 0; i < job->container.count; i++) {
        if (is_new[i] && is_as_before)
            unlink(job->slices[i].sidecar_path);
    }
    return false;
}

/* ---- the whole ---- */

/* Writes the stripped image and its sidecar, which get their names later. */
static bool make_outputs(struct slice_split *split, struct error *error)
{
    split->notes_begin = split->job->results->notes.size;
    if (!place_create_outputs(split, error) || !outputs_write_stripped(split, error) ||
        !place_settle_sidecar(split, error))
        return false;
    if (!split->plan->already_split)
        split_warn_of_sections(split);
    split->notes_end = split->job->results->notes.size;
    split_describe(split);
    return true;
}

static bool run(struct split_job *job, struct error *error)
{
    bool done = container_open(&job->container, &job->file, error) && plan(job, error);
    bool is_needed = !job->results->was_found;

    if (!done)
        return false;
    /* A file that the user did not name is ignored if no image in it needs a split: without a word
     * if it has nothing to take out, with the reasons if all of that stays. */
    for (size_t i = 0; i < job->container.count; i++) {
        const struct slice_split *split = &job->slices[i];

        job->results->was_split |= split->is_chosen && split->plan->already_split;
        is_needed |=
            split->is_chosen && !split->plan->already_split && split->plan->removes_sections;
    }
    for (size_t i = 0; !is_needed && i < job->container.count; i++) {
        if (job->slices[i].is_chosen && !job->slices[i].plan->already_split)
            split_warn_of_what_stays(&job->slices[i]);
    }
    if (!is_needed)
        return true;
    for (size_t i = 0; done && i < job->container.count; i++)
        done = !job->slices[i].is_chosen || make_outputs(&job->slices[i], error);
    done = done && (!job->container.is_universal || compose_universal(job, error)) &&
           commit(job, error);
    if (done && job->unkept.message[0] != '\0')
        notes_add(&job->results->notes, "%s", job->unkept.message);
    for (size_t i = 0; done && i < job->container.count; i++) {
        if (job->slices[i].is_chosen)
            split_add_row(&job->slices[i]);
    }
    return done;
}

static void end(struct split_job *job)
{
    /* That of a batch is not this file's. */
    if (job->results->shows_progress)
        progress_finish();
    for (size_t i = 0; i < SLICES_MAX; i++) {
        struct slice_split *split = &job->slices[i];

        output_discard(&split->stripped);
        output_discard(&split->sidecar);
        for (size_t kind = 0; kind <= SECTION_KIND_MAX; kind++)
            buffer_free(&split->made[kind]);
        image_plan_free(split->plan);
        buffer_free(&split->json);
        free(split->sidecar_path);
        free(split->row_name);
    }
    output_discard(&job->universal);
    container_close(&job->container);
    input_close(&job->map);
    input_close(&job->file);
    free(job);
}

bool split_file(const struct parsed_options *options, const char *path, unsigned threads,
                struct split_results *results, struct error *error)
{
    const char *output = option_text(options, OPTION_OUTPUT);
    struct split_job *job = calloc(1, sizeof(*job));
    bool done;

    if (job == NULL)
        return error_out_of_memory(error, path, sizeof(*job));
    job->options = options;
    job->results = results;
    job->threads = threads;
    job->output_path = output != NULL ? output : path;
    job->map.fd = job->universal.fd = -1;
    for (size_t i = 0; i < SLICES_MAX; i++)
        job->slices[i].stripped.fd = job->slices[i].sidecar.fd = -1;
    done = input_open(&job->file, path, error);
    if (done && !results->was_found && sidecar_recognize(job->file.bytes))
        done = error_set(error, "%s: is a sidecar; split the image that it is of", path);
    else if (done)
        done =
            run(job, error) || (results->was_found && found_image_has_no_coverage(job->file.bytes));
    end(job);
    return done;
}
