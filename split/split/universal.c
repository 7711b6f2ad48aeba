/*
 * covsplit split of a universal image: see universal.h.
 *
 * Each slice is split as a thin image is, up to the point where its files get their names. The
 * stripped slices are then put together; the sidecars get their names before the image does.
 */
#include "split/split/universal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "split/cli/message.h"
#include "split/split/job.h"

#define PERMISSION_BITS 07777

/* ---- what splitting and joining share ---- */

bool universal_part(const struct input *whole, const struct universal_slice *slice,
                    struct input *part, struct error *error)
{
    *part = *whole;
    bytes_slice(whole->bytes, slice->offset, slice->size, &part->bytes);
    if (asprintf(&part->path, "%s.%s", whole->path, slice->name) >= 0)
        return true;
    part->path = NULL;
    return error_out_of_memory(error, whole->path, strlen(whole->path));
}

void universal_part_free(struct input *part)
{
    free(part->path);
    *part = (struct input){.fd = -1};
}

bool universal_output_start(struct universal *universal, const struct input *image,
                            const char *path, struct output *output, struct error *error)
{
    struct output_options output_options = {
        .mode = image->status.st_mode & PERMISSION_BITS,
        .in_place = paths_meet(path, image->path) ? image : NULL,
    };
    struct buffer header = {0};
    bool done;

    if (!universal_lay_out(universal))
        return error_set(error, "%s: the slices have no place in the universal image; use lipo",
                         image->path);
    if (!universal_append_header(universal, &header))
        return error_out_of_memory(error, image->path, universal->header.size);
    done = output_create(output, path, &output_options, error) &&
           output_write(output, buffer_view(&header), error);
    buffer_free(&header);
    return done;
}

bool universal_output_pad(const struct universal *universal, size_t index, struct output *output,
                          struct error *error)
{
    return output_write_zeros(output, universal->slices[index].offset - output->size, error);
}

/* ---- splitting ---- */

struct universal_job {
    const struct parsed_options *options;
    const struct split *whole;
    const struct input *image;
    struct universal universal; /* of the original, and later of the result */
    struct input parts[UNIVERSAL_SLICES_MAX];
    struct split splits[UNIVERSAL_SLICES_MAX];
    bool is_chosen[UNIVERSAL_SLICES_MAX];
    struct output output;
};

static bool choose_slices(struct universal_job *job, struct error *error)
{
    const char *arch = option_text(job->options, OPTION_ARCH);
    size_t chosen = 0;

    for (size_t i = 0; i < job->universal.count; i++) {
        job->is_chosen[i] = arch == NULL || strcmp(arch, job->universal.slices[i].name) == 0;
        chosen += job->is_chosen[i];
    }
    if (chosen == 0)
        return error_set(error, "%s: the universal image has no slice %s; 'lipo -info' lists them",
                         job->image->path, arch);
    if (chosen > 1 && option_text(job->options, OPTION_SIDECAR) != NULL)
        return error_set(error,
                         "%s: the universal image has %zu slices, and a sidecar is for one; use "
                         "--store, or select one with --arch",
                         job->image->path, chosen);
    return true;
}

static bool plan_slice(struct universal_job *job, size_t index, struct error *error)
{
    struct split *split = &job->splits[index];

    if (!universal_part(job->image, &job->universal.slices[index], &job->parts[index], error))
        return false;
    split_end(split); /* of the name of the whole */
    *split =
        split_start(job->options, job->parts[index].path, job->whole->threads, job->whole->report);
    split->output_path = job->whole->output_path;
    split->whole_path = job->image->path;
    split->image = job->parts[index];
    return !job->is_chosen[index] || split_plan(split, error);
}

/* True where there is nothing to do about any slice, and nobody has asked for it. */
static bool is_needless(const struct universal_job *job)
{
    for (size_t i = 0; i < job->universal.count; i++) {
        if (job->is_chosen[i] && !split_is_needless(&job->splits[i]))
            return false;
    }
    return true;
}

static bool append_slice(struct universal_job *job, size_t index, struct error *error)
{
    struct input stripped = {.fd = -1};
    bool done;

    if (!universal_output_pad(&job->universal, index, &job->output, error))
        return false;
    if (!job->is_chosen[index])
        return output_write(&job->output, job->parts[index].bytes, error) ||
               file_blame(job->image->path, error);
    done = output_map(&job->splits[index].stripped, &stripped, error) &&
           output_write(&job->output, stripped.bytes, error);
    input_close(&stripped);
    return done;
}

static bool compose(struct universal_job *job, struct error *error)
{
    for (size_t i = 0; i < job->universal.count; i++) {
        if (job->is_chosen[i])
            job->universal.slices[i].size = job->splits[i].stripped.size;
    }
    if (!universal_output_start(&job->universal, job->image, job->splits[0].output_path,
                                &job->output, error))
        return false;
    for (size_t i = 0; i < job->universal.count; i++) {
        if (!append_slice(job, i, error))
            return false;
    }
    return true;
}

/* Reads back what was written: each slice must be the one that was checked with its sidecar. */
static bool check_output(struct universal_job *job, struct error *error)
{
    struct input whole = {.fd = -1};
    struct universal universal;
    bool done = output_map(&job->output, &whole, error) &&
                universal_read(whole.bytes, job->splits[0].output_path, &universal, error);

    for (size_t i = 0; done && i < universal.count; i++) {
        const struct universal_slice *slice = &universal.slices[i];
        struct bytes bytes;
        struct digest digest;

        bytes_slice(whole.bytes, slice->offset, slice->size, &bytes);
        digest = digest_of(bytes);
        done = job->is_chosen[i]
                   ? digest_equal(&digest, &job->splits[i].plan->facts.stripped_digest)
                   : bytes_equal(bytes, job->parts[i].bytes);
        if (!done)
            error_set(error, "%s: what was written is not what was meant; run again",
                      job->splits[0].output_path);
    }
    input_close(&whole);
    return done && input_unchanged(job->image, error);
}

/* True where the slice has a sidecar that waits for its name. */
static bool has_pending_sidecar(const struct universal_job *job, size_t index)
{
    return job->is_chosen[index] && !job->splits[index].plan->already_split &&
           !split_is_for_store(&job->splits[index]);
}

static bool sync_all(struct universal_job *job, struct error *error)
{
    for (size_t i = 0; i < job->universal.count; i++) {
        if (has_pending_sidecar(job, i) && !output_sync(&job->splits[i].sidecar, error))
            return false;
    }
    return output_sync(&job->output, error);
}

static bool commit_all(struct universal_job *job, struct error *error)
{
    bool is_new[UNIVERSAL_SLICES_MAX] = {false};
    bool done = output_can_replace(&job->output, error);
    enum output_result result = OUTPUT_UNCHANGED;

    for (size_t i = 0; done && i < job->universal.count; i++) {
        const char *path = job->splits[i].sidecar_path;

        if (!has_pending_sidecar(job, i))
            continue;
        is_new[i] = file_is_missing(path, AT_SYMLINK_NOFOLLOW);
        done = output_commit(&job->splits[i].sidecar, &result, error);
        is_new[i] = is_new[i] && done;
    }
    if (done && output_commit(&job->output, &result, error))
        return true;
    for (size_t i = 0; i < job->universal.count && result != OUTPUT_HALF_WRITTEN; i++) {
        if (is_new[i])
            unlink(job->splits[i].sidecar_path);
    }
    return false;
}

static void report(struct universal_job *job)
{
    for (size_t i = 0; i < job->universal.count; i++) {
        struct split *split = &job->splits[i];

        if (job->is_chosen[i] && split->plan->already_split)
            split_warn(split, "%s: split already; it is passed on unchanged", split->image_path);
        else if (job->is_chosen[i])
            split_tell(split, split->image_path);
    }
}

static bool run(struct universal_job *job, struct error *error)
{
    bool done = universal_read(job->image->bytes, job->image->path, &job->universal, error) &&
                choose_slices(job, error);

    for (size_t i = 0; done && i < job->universal.count; i++)
        done = plan_slice(job, i, error);
    if (done && is_needless(job))
        return true;
    for (size_t i = 0; done && i < job->universal.count; i++)
        done = !job->is_chosen[i] || split_prepare(&job->splits[i], error);
    done = done && compose(job, error) && check_output(job, error) && sync_all(job, error) &&
           commit_all(job, error);
    if (done)
        report(job);
    return done;
}

bool universal_split(const struct split *whole, struct error *error)
{
    struct universal_job *job = calloc(1, sizeof(*job));
    bool done;

    if (job == NULL)
        return error_out_of_memory(error, whole->image_path, sizeof(*job));
    job->options = whole->options;
    job->whole = whole;
    job->image = &whole->image;
    job->output.fd = -1;
    for (size_t i = 0; i < UNIVERSAL_SLICES_MAX; i++) {
        job->splits[i] = split_start(whole->options, whole->image_path, whole->threads, NULL);
        job->parts[i].fd = -1;
    }
    done = run(job, error);
    for (size_t i = 0; i < UNIVERSAL_SLICES_MAX; i++) {
        split_end(&job->splits[i]);
        universal_part_free(&job->parts[i]);
    }
    output_discard(&job->output);
    free(job);
    return done;
}
