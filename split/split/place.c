/*
 * The place of a split's sidecar: see place.h.
 */
#include "split/split/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/store/add.h"
#include "common/store/store.h"
#include "split/split/existing_sidecar.h"
#include "split/split/outputs.h"
#include "split/split/report.h"

#define PERMISSION_BITS 07777

/* ---- where ---- */

static bool check_map(const struct slice_split *split, struct error *error)
{
    const char *map = option_text(split->job->options, OPTION_MAP);

    if (map == NULL ||
        (!paths_meet(map, split->sidecar_path) && !paths_meet(map, split->job->output_path)))
        return true;
    return error_set(error, "%s: is the map file, and would be replaced; give another output", map);
}

/* --sidecar, or the place in --store, or IMAGE.covsplit. */
static bool choose_path(struct slice_split *split, struct error *error)
{
    const char *path = option_text(split->job->options, OPTION_SIDECAR);
    const char *store = option_text(split->job->options, OPTION_STORE);

    if (path != NULL)
        split->sidecar_path = strdup(path);
    else if (store != NULL)
        split->sidecar_path = store_path(store, &split->plan->facts.uuid);
    else if (asprintf(&split->sidecar_path, "%s.covsplit", split->image.path) < 0)
        split->sidecar_path = NULL;
    if (split->sidecar_path == NULL)
        return error_out_of_memory(error, split->image.path, strlen(split->image.path));
    if (paths_meet(split->sidecar_path, split->job->file.path) ||
        paths_meet(split->sidecar_path, split->job->output_path))
        return error_set(
            error, "%s: is the image, which the sidecar would replace; give another --sidecar",
            split->sidecar_path);
    return check_map(split, error);
}

static bool is_for_store(const struct split_job *job)
{
    return option_text(job->options, OPTION_SIDECAR) == NULL &&
           option_text(job->options, OPTION_STORE) != NULL;
}

/* Whether anything is taken out of the image, or copied from it for reports. */
static bool has_something_to_keep(const struct image_plan *plan)
{
    bool is_copied = false;

    for (size_t i = 0; i < plan->section_count; i++)
        is_copied |= plan->sections[i].copied;
    return !plan->already_split && (plan->edits.count != 0 || is_copied);
}

/* An empty sidecar is written only if its name is given: build tools expect the outputs that they
 * were told of. It has no other use, and stores are only for real sidecars. */
static bool may_write_sidecar(const struct slice_split *split)
{
    return has_something_to_keep(split->plan) ||
           option_text(split->job->options, OPTION_SIDECAR) != NULL;
}

static bool create_sidecar(struct slice_split *split, struct error *error)
{
    struct output_options options = {.mode = file_new_mode()};

    return (is_for_store(split->job) ? store_output_create : output_create)(
        &split->sidecar, split->sidecar_path, &options, error);
}

bool place_create_outputs(struct slice_split *split, struct error *error)
{
    struct split_job *job = split->job;
    struct output_options image_options = {
        .mode = job->file.status.st_mode & PERMISSION_BITS,
        .in_place = split_replaces_file(job) && !job->container.is_universal ? &job->file : NULL,
        .unkept = &job->unkept,
    };

    return choose_path(split, error) &&
           (!may_write_sidecar(split) || create_sidecar(split, error)) &&
           output_create(&split->stripped, job->output_path, &image_options, error);
}

/* ---- in a store, where several may write it ---- */

/* A sidecar is found in a store by its UUID, so the stripped image must contain that. */
static bool check_uuid(const struct slice_split *split, struct error *error)
{
    const struct sidecar_facts *facts = &split->plan->facts;

    return facts->uuid_source == UUID_FROM_BUILD_ID || facts->has_stub ||
           error_set(
               error,
               "%s: has no UUID by which a store could find the sidecar of the stripped image; "
               "link with --build-id, or use --sidecar",
               split->image.path);
}

/* Keeps the sidecar that is in the store, if it restores the original from the new stripped image,
 * or if neither sidecar is meant to. */
static bool keep_existing(struct slice_split *split, const struct existing_sidecar *existing,
                          struct error *error)
{
    struct error cause;

    if (!existing_sidecar_check_same(existing, split, error))
        return false;
    if (!outputs_check_with(split, existing->sidecar, &cause)) {
        *error = cause;
        return cause.number != 0 ? false
                                 : error_set(error, "%.900s, or give --replace", cause.message);
    }
    split->sidecar_size = existing->input.bytes.size;
    /* Another process may have copied it there, or be just about to sync it. */
    if (fsync(existing->input.fd) != 0 || !path_sync_name(split->sidecar_path))
        return error_set_errno(error, errno, "%s: cannot be synced to the disk",
                               split->sidecar_path);
    return input_unchanged(&split->image, error) && output_sync(&split->stripped, error);
}

/* Keeps the sidecar that exists, or else tries to add one. *settled: one of the two was done. */
static bool try_store(struct slice_split *split, bool *settled, struct error *error)
{
    bool replaces = option_given(split->job->options, OPTION_REPLACE);
    enum output_result result = OUTPUT_NAME_TAKEN;
    struct existing_sidecar existing;
    bool done;

    done = existing_sidecar_open(&existing, split->sidecar_path, error) &&
           existing_sidecar_check_own(&existing, split, error);
    if (done && existing.is_there && (!replaces || existing_sidecar_is_better(&existing, split))) {
        *settled = keep_existing(split, &existing, error);
        /* If the better sidecar is damaged, it is replaced after all. */
        done = *settled || (replaces && error->number == 0);
    }
    existing_sidecar_close(&existing);
    if (!done || *settled)
        return done;
    if (split->sidecar.size == 0 && !outputs_make_sidecar(split, error))
        return false;
    if ((replaces && !split_hold_file(split->job, error)) ||
        !output_can_replace(&split->stripped, error) ||
        !store_output_commit(&split->sidecar, replaces, &result, error))
        return false;
    *settled = result != OUTPUT_NAME_TAKEN;
    return true;
}

/* Other processes may write the same UUID and clean up the store at the same time. A sidecar that
 * has been added stays even if the image then cannot be written: another split may rely on it. */
static bool add_to_store(struct slice_split *split, struct error *error)
{
    bool settled = false;

    for (unsigned attempt = 0; attempt < STORE_ATTEMPTS && !settled; attempt++) {
        if (!try_store(split, &settled, error))
            return false;
    }
    return settled || error_set(error,
                                "%s: other processes keep adding and removing it; run again when "
                                "none removes sidecars",
                                split->sidecar_path);
}

/* ---- at a path of its own ---- */

static bool check_existing(const struct slice_split *split, struct error *error)
{
    struct existing_sidecar existing;
    bool done;

    done = existing_sidecar_open(&existing, split->sidecar_path, error) &&
           existing_sidecar_check_own(&existing, split, error);
    existing_sidecar_close(&existing);
    return done;
}

static bool write_sidecar_file(struct slice_split *split, struct error *error)
{
    return check_existing(split, error) && outputs_make_sidecar(split, error);
}

/* ---- of an image that has nothing to take out ---- */

static void forget_path(struct slice_split *split)
{
    free(split->sidecar_path);
    split->sidecar_path = NULL;
}

/* An existing sidecar may belong to this image even so, if a tool has removed the mark. */
static bool write_none(struct slice_split *split, struct error *error)
{
    bool done = check_existing(split, error);

    forget_path(split);
    return done && input_unchanged(&split->image, error) && output_sync(&split->stripped, error);
}

/* ---- of an image that was split before ---- */

/* Its sidecar must not be replaced: it alone holds the original's sections. A placeholder is
 * written only if there is no sidecar, and the name is given. */
static bool write_placeholder(struct slice_split *split, struct error *error)
{
    struct existing_sidecar existing;
    bool is_known = existing_sidecar_open(&existing, split->sidecar_path, error);
    bool is_there = existing_sidecar_counts(&existing);

    split->sidecar_size = is_there ? existing.input.bytes.size : 0;
    existing_sidecar_close(&existing);
    if (!is_known)
        return false;
    split->has_pending_sidecar = !is_there && may_write_sidecar(split);
    split_warn(split->job, "%s: split already; it is passed on unchanged, and %s",
               split->image.path,
               is_there                     ? "the existing sidecar is kept"
               : split->has_pending_sidecar ? "a placeholder takes the place of its sidecar"
               : is_for_store(split->job)   ? "its sidecar is not in the store"
                                            : "its sidecar is not beside it");
    split->plan->facts.is_placeholder = true;
    if (split->has_pending_sidecar) {
        if (!outputs_write_sidecar(split, error))
            return false;
        split->sidecar_size = split->sidecar.size;
    } else if (!is_there) {
        forget_path(split);
    }
    return true;
}

/* A universal image gets no placeholders: build tools cannot know how many sidecars it has. */
static bool pass_on(struct slice_split *split, struct error *error)
{
    progress_finish(&split->job->progress);
    if (split->job->container.is_universal) {
        split_warn(split->job, "%s: split already; it is passed on unchanged", split->image.path);
        forget_path(split);
    } else if (!write_placeholder(split, error)) {
        return false;
    }
    return input_unchanged(&split->image, error) && output_sync(&split->stripped, error);
}

/* ---- the whole ---- */

bool place_settle_sidecar(struct slice_split *split, struct error *error)
{
    if (split->plan->already_split)
        return pass_on(split, error);
    if (!may_write_sidecar(split))
        return write_none(split, error);
    if (is_for_store(split->job))
        return check_uuid(split, error) && add_to_store(split, error);
    split->has_pending_sidecar = true;
    return write_sidecar_file(split, error);
}
