/*
 * The place of a split's sidecar, and what is done if a file is there already: it may have to be
 * kept, or in a store it may serve as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/store/store.h"
#include "split/cli/bases.h"
#include "split/cli/find_sidecar.h"
#include "split/split/split.h"

/* ---- where ---- */

static bool is_for_store(const struct split_job *job)
{
    return option_text(job->options, OPTION_SIDECAR) == NULL &&
           option_text(job->options, OPTION_STORE) != NULL;
}

/* An empty sidecar is written only if its name is given: build tools expect the outputs that they
 * were told of. It has no other use, and stores are only for real sidecars. */
static bool may_write_sidecar(const struct slice_split *split)
{
    const struct image_plan *plan = split->plan;
    bool is_copied = false;

    for (size_t i = 0; i < plan->section_count; i++)
        is_copied |= plan->sections[i].fate == FATE_COPIED;
    return (!plan->already_split && (plan->edits.count != 0 || is_copied)) ||
           option_text(split->job->options, OPTION_SIDECAR) != NULL;
}

bool place_create_outputs(struct slice_split *split, struct error *error)
{
    struct split_job *job = split->job;
    const char *path = option_text(job->options, OPTION_SIDECAR);
    const char *store = option_text(job->options, OPTION_STORE);
    const char *map = option_text(job->options, OPTION_MAP);
    struct output_options sidecar_options = {.mode = file_new_mode()};
    struct output_options image_options = {
        .mode = job->file.status.st_mode & PERMISSION_BITS,
        .in_place = split_replaces_file(job) && !job->container.is_universal ? &job->file : NULL,
        .unkept = &job->unkept,
    };

    if (path != NULL)
        split->sidecar_path = strdup(path);
    else if (store != NULL)
        split->sidecar_path = store_path(store, &split->plan->facts.uuid);
    else if (asprintf(&split->sidecar_path, "%s.covsplit", split->image.path) < 0)
        split->sidecar_path = NULL;
    if (split->sidecar_path == NULL)
        return error_out_of_memory(error, split->image.path, strlen(split->image.path));
    if (store != NULL && !store_check_directory(store, error))
        return false;
    if (paths_refer_to_same_file(split->sidecar_path, job->file.path) ||
        paths_refer_to_same_file(split->sidecar_path, job->output_path))
        return error_set(
            error, "%s: is the image, which the sidecar would replace; give another --sidecar",
            split->sidecar_path);
    if (map != NULL && (paths_refer_to_same_file(map, split->sidecar_path) ||
                        paths_refer_to_same_file(map, job->output_path)))
        return error_set(error, "%s: is the map file, and would be replaced; give another output",
                         map);
    if (may_write_sidecar(split) &&
        !(is_for_store(job) ? store_output_create : output_create)(
            &split->sidecar, split->sidecar_path, &sidecar_options, error))
        return false;
    return output_create(&split->stripped, job->output_path, &image_options, error);
}

/* ---- the file that is there already ---- */

struct existing_sidecar {
    const char *path;
    bool is_there; /* there is a file, or a dangling link */
    struct input input;
    struct sidecar *sidecar;           /* NULL: not a sidecar, or not a readable one */
    bool is_placeholder;               /* which holds nothing */
    const struct sidecar_facts *facts; /* of a sidecar that is no placeholder; else NULL */
    struct error why;                  /* if sidecar is NULL: what is wrong with it */
};

#define OPEN_ATTEMPTS 10

/* Opens the file at the path, if there is one; close it even after a failure. False if there is a
 * file that cannot be examined: it may be one that must not be replaced. */
static bool existing_open(struct existing_sidecar *existing, const char *path, struct error *error)
{
    struct error why = {.number = ENOENT};

    *existing = (struct existing_sidecar){.path = path, .input = {.fd = -1}};
    /* If the file appears or disappears between the two steps, look again. */
    for (unsigned attempt = 0; attempt < OPEN_ATTEMPTS && why.number == ENOENT; attempt++) {
        /* A dangling link counts as a file, too. */
        existing->is_there = !file_is_missing(path, AT_SYMLINK_NOFOLLOW);
        if (!existing->is_there)
            return true;
        if (!input_open(&existing->input, path, &why))
            continue;
        existing->sidecar = sidecar_open(existing->input.bytes, path, &why);
        if (existing->sidecar != NULL) {
            const struct sidecar_facts *facts = &existing->sidecar->facts;

            existing->is_placeholder = facts->is_placeholder;
            existing->facts = facts->is_placeholder ? NULL : facts;
        }
        break;
    }
    existing->why = why;
    /* The last three are what opening a dangling link gives. */
    if (existing->sidecar != NULL || why.number == 0 || why.number == ENOENT ||
        why.number == ENOTDIR || why.number == ELOOP)
        return true;
    *error = why;
    return false;
}

static void existing_close(struct existing_sidecar *existing)
{
    sidecar_close(existing->sidecar);
    input_close(&existing->input);
}

/* Checks that a split, whose stripped image is written already, may write its sidecar there at all:
 * it must not replace what was taken out of the same image before. */
static bool existing_check_own(const struct existing_sidecar *existing,
                               const struct slice_split *split, struct error *error)
{
    const struct sidecar_facts *theirs = existing->facts, *ours = &split->plan->facts;
    bool is_stored = is_for_store(split->job);

    /* If this image is the stripped image of the sidecar, the sidecar holds what the image lacks,
     * even if a tool has removed covsplit's marks from the image. */
    if (theirs != NULL && !digest_equal(&theirs->stripped_digest, &theirs->original_digest) &&
        digest_equal(&theirs->stripped_digest, &ours->original_digest))
        return error_set(
            error,
            "%s: holds what was taken out of this image before, and would be replaced; join "
            "the image first, or give another %s",
            existing->path, is_stored ? "--store" : "--sidecar");
    /* A sidecar without sections must not replace one that holds what the image lacks: it may
     * belong to this image, with the mark removed by a later tool. Only the sidecar of another
     * build, known by its build ID, may be replaced. */
    if (!existing->is_there || existing->is_placeholder || split->plan->removes_sections)
        return true;
    if (theirs != NULL &&
        (digest_equal(&theirs->original_digest, &theirs->stripped_digest) ||
         (ours->uuid_source == UUID_FROM_BUILD_ID && theirs->uuid_source == UUID_FROM_BUILD_ID &&
          !uuid_equal(&ours->uuid, &theirs->uuid))))
        return true;
    if (is_stored)
        return error_set(error,
                         "%s: %s has nothing to take out, and this sidecar of its UUID may be what "
                         "was taken out of it before; link each build %s, or give another --store",
                         existing->path, split->image.path, uuid_link_advice(ours->format));
    return error_set(error,
                     "%s: the image has nothing to take out, and this file may be what was taken "
                     "out of it before; remove it if nobody needs it, or give another --sidecar",
                     existing->path);
}

/* Checks that the file that a store has under the UUID is a readable sidecar of the same image and
 * the same split of it. Other differences do not matter, such as the name of the image or the
 * compression level. */
static bool existing_check_same(const struct existing_sidecar *existing,
                                const struct slice_split *split, struct error *error)
{
    const struct sidecar_facts *theirs = existing->facts, *ours = &split->plan->facts;
    char their_digest[DIGEST_HEX_MAX], our_digest[DIGEST_HEX_MAX], uuid[UUID_HEX_MAX];

    if (existing->is_placeholder)
        return error_set(error, "%s: is a placeholder, which holds nothing; give --replace",
                         existing->path);
    /* It may just be from another version of covsplit. */
    if (theirs == NULL && sidecar_recognize(existing->input.bytes))
        return error_set(error, "%.900s, or give --replace if nobody needs it",
                         existing->why.message);
    if (theirs == NULL)
        return error_set(
            error, "%s: exists, but cannot be read as a sidecar; give --replace if nobody needs it",
            existing->path);
    if (!uuid_equal(&theirs->uuid, &ours->uuid))
        return error_set(error,
                         "%s: is the sidecar of UUID %s, not of the one it is named after; put it "
                         "where it belongs, or give --replace",
                         existing->path, uuid_format(&theirs->uuid, uuid));
    uuid_format(&ours->uuid, uuid);
    if (!digest_equal(&theirs->original_digest, &ours->original_digest))
        return error_set(error,
                         "%.400s: under the UUID %s the store has another image, %.100s (digest "
                         "%s), than %.200s (digest %s); link each build %s, or give --replace",
                         existing->path, uuid, existing->sidecar->image_name,
                         digest_format(&theirs->original_digest, their_digest), split->image.path,
                         digest_format(&ours->original_digest, our_digest),
                         uuid_link_advice(ours->format));
    if (!digest_equal(&theirs->stripped_digest, &ours->stripped_digest))
        return error_set(error,
                         "%s: the store has the sidecar of another split of the same image (UUID "
                         "%s); use the same --sections, another store, or --replace",
                         existing->path, uuid);
    return true;
}

/* ---- in a store, where several may write it ---- */

/* Keeps the sidecar that is in the store, if it restores the original from the new stripped image,
 * or if neither sidecar is meant to. */
static bool keep_existing(struct slice_split *split, const struct existing_sidecar *existing,
                          struct error *error)
{
    struct error cause;

    if (!existing_check_same(existing, split, error))
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

/* Makes the new sidecar a base, and writes the delta to that. Otherwise it stays whole. */
static bool make_base_and_delta(struct slice_split *split, struct bases *bases,
                                const struct sidecar *whole, struct bytes bytes,
                                struct output *delta_file, bool *fits, struct error *error)
{
    struct error why;

    if (!bases_are_worth(bytes.size))
        return true;
    if (bases_add(bases, whole, bytes, delta_file, &why))
        return bases_make_delta(bases, whole, bytes.size,
                                (int)option_number(split->job->options, OPTION_LEVEL), true,
                                delta_file, fits, error);
    notes_add(&split->job->results->notes, "%.900s; it is whole, and no base", why.message);
    return true;
}

/* With --delta, puts the delta to a base in place of the new sidecar, if it is small.
 * Otherwise bases->used stays NULL. */
static bool make_delta(struct slice_split *split, struct bases *bases, struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct output delta_file = {.fd = -1};
    struct sidecar *whole = sidecar_read_back(&split->sidecar, error), *delta = NULL;
    bool fits = false, done = whole != NULL;

    if (done) {
        struct bytes bytes = whole->input.bytes;

        sidecar_help_restore(whole, split->job->threads, &split->proved);
        done =
            store_output_create(&delta_file, split->sidecar_path, &options, error) &&
            bases_make_delta(bases, whole, bytes.size,
                             (int)option_number(split->job->options, OPTION_LEVEL), true,
                             &delta_file, &fits, error) &&
            (fits || make_base_and_delta(split, bases, whole, bytes, &delta_file, &fits, error)) &&
            (!fits || (output_sync(&delta_file, error) &&
                       (delta = sidecar_read_back(&delta_file, error)) != NULL));
    }
    if (done && fits) {
        outputs_note_sizes(split, delta);
        output_discard(&split->sidecar);
        split->sidecar = delta_file;
        split->sidecar_size = delta_file.size;
    } else {
        output_discard(&delta_file);
        free(bases->used);
        bases->used = NULL;
    }
    sidecar_close(delta);
    sidecar_close(whole);
    return done;
}

/* Keeps the sidecar that exists, or else tries to add one. *settled: one of the two was done. */
static bool try_store(struct slice_split *split, struct bases *bases, bool *settled,
                      struct error *error)
{
    bool makes_delta = option_given(split->job->options, OPTION_DELTA);
    bool replaces = option_given(split->job->options, OPTION_REPLACE), done;
    enum output_result result = OUTPUT_NAME_TAKEN;
    struct existing_sidecar existing;

    done = existing_open(&existing, split->sidecar_path, error) &&
           existing_check_own(&existing, split, error);
    if (done && existing.is_there && !replaces) {
        done = keep_existing(split, &existing, error);
        *settled = done;
    }
    existing_close(&existing);
    if (!done || *settled)
        return done;
    if (split->sidecar.size == 0 &&
        (!outputs_make_sidecar(split, error) || (makes_delta && !make_delta(split, bases, error))))
        return false;
    if ((bases->used != NULL && !bases_hold(bases, error)) ||
        (replaces && !split_hold_file(split->job, error)) ||
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
    const struct sidecar_facts *facts = &split->plan->facts;
    struct bases bases = {.count = 0};
    bool settled = false, done = true;

    if (facts->uuid_source != UUID_FROM_BUILD_ID && !facts->has_stub)
        return error_set(
            error,
            "%s: has no UUID by which a store could find the sidecar of the stripped image; "
            "link %s, or use --sidecar",
            split->image.path, uuid_link_advice(facts->format));
    if (option_given(split->job->options, OPTION_DELTA))
        done = bases_open(&bases, option_text(split->job->options, OPTION_STORE), error);
    for (unsigned attempt = 0; done && attempt < STORE_ATTEMPTS && !settled; attempt++)
        done = try_store(split, &bases, &settled, error);
    bases_close(&bases);
    if (!done)
        return false;
    return settled || error_set(error,
                                "%s: other processes keep adding and removing it; run again when "
                                "none removes sidecars",
                                split->sidecar_path);
}

/* ---- elsewhere ---- */

static void forget_path(struct slice_split *split)
{
    free(split->sidecar_path);
    split->sidecar_path = NULL;
}

/* The path of the sidecar of an image that was split before, wherever commands look for it; NULL if
 * it is not found. */
static char *find_sidecar(const struct slice_split *split)
{
    const struct input *image = &split->image;
    struct sidecar_places places;
    struct sidecar *sidecar = NULL;
    struct split_image found;
    struct error ignored;
    char *path = NULL;

    sidecar_places_open(&places, split->job->options, NULL);
    places.are_near = true; /* a build does not wait for a network to say where something is */
    places.fault = (struct error){0};
    /* For other commands the option may be repeated, and such are the places. */
    if (places.are_given && places.files.count == 0)
        path_list_add(&places.files, option_text(split->job->options, OPTION_SIDECAR));
    if (image_read_stripped_id(image, &found, &ignored))
        sidecar = sidecar_search_of_image(&places, image, &found, &ignored);
    if (sidecar != NULL)
        path = strdup(sidecar->name);
    sidecar_close(sidecar);
    sidecar_places_close(&places);
    return path;
}

#define SPLIT_ALREADY "%s: split already, by 'covsplit split' or 'link'; it is passed on unchanged"

/* Says where the sidecar of an image is that was split before. A file in its place that is of
 * another image stays, too. */
static void tell_of_sidecar(struct slice_split *split, bool is_there)
{
    char *found = split->has_pending_sidecar ? NULL : find_sidecar(split);
    const char *image = split->image.path;

    if (found != NULL)
        notes_add(&split->job->results->notes, SPLIT_ALREADY ", and its sidecar is %s", image,
                  found);
    else if (is_there)
        notes_add(&split->job->results->notes,
                  SPLIT_ALREADY ", and %s is kept, which is not its sidecar", image,
                  split->sidecar_path);
    else if (split->has_pending_sidecar)
        notes_add(&split->job->results->notes,
                  SPLIT_ALREADY ", and a placeholder takes the place of its sidecar", image);
    else
        notes_add(&split->job->results->notes,
                  SPLIT_ALREADY ", and its sidecar is not %s, but where that split put it", image,
                  is_for_store(split->job) ? "in the store" : "beside it");
    free(found);
}

/* The sidecar of an image that was split before must not be replaced: it alone holds the original's
 * sections. A placeholder is written only if there is no sidecar, and the name is given. A
 * universal image gets no placeholders: build tools cannot know how many sidecars it has. */
static bool pass_on(struct slice_split *split, struct error *error)
{
    struct existing_sidecar existing;
    bool is_known, is_there;

    if (split->job->container.is_universal) {
        notes_add(&split->job->results->notes, SPLIT_ALREADY, split->image.path);
        forget_path(split);
        return true;
    }
    is_known = existing_open(&existing, split->sidecar_path, error);
    is_there = existing.is_there && !existing.is_placeholder;
    split->sidecar_size = is_there ? existing.input.bytes.size : 0;
    existing_close(&existing);
    if (!is_known)
        return false;
    split->has_pending_sidecar = !is_there && may_write_sidecar(split);
    tell_of_sidecar(split, is_there);
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

bool place_settle_sidecar(struct slice_split *split, struct error *error)
{
    struct existing_sidecar existing;
    bool done;

    if (!split->plan->already_split && may_write_sidecar(split) && is_for_store(split->job))
        return add_to_store(split, error);
    if (split->plan->already_split) {
        done = pass_on(split, error);
    } else {
        done = existing_open(&existing, split->sidecar_path, error) &&
               existing_check_own(&existing, split, error);
        existing_close(&existing);
        if (may_write_sidecar(split)) {
            split->has_pending_sidecar = true;
            return done && outputs_make_sidecar(split, error);
        }
        forget_path(split);
    }
    return done && input_unchanged(&split->image, error) && output_sync(&split->stripped, error);
}
