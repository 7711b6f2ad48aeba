/*
 * covsplit join: makes the original image from a stripped one and its sidecar. In a universal
 * image, each slice that was split is joined with its sidecar, and the others are copied.
 *
 * The digest of each original is checked while it is written, and the output gets its name only
 * after that.
 *
 * With --mapping, the original is written to a file without a name first. If objects of it were
 * packed, the output is that file with ordinary coverage mapping (formats/image.h). An image
 * that was not split needs no sidecar for that.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/edit/edit.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

struct joining {
    const struct parsed_options *options;
    struct sidecar_places places;
    struct input stripped;
    struct container container;           /* as in the stripped file; later as in the original */
    struct sidecar *sidecars[SLICES_MAX]; /* by slice; NULL: the slice is copied */
    struct output original;               /* with --mapping; it has no name */
    struct output output;
    struct error unkept; /* of an image that is joined in place: see output_options */
};

/* ---- sidecars ---- */

/* A slice of a universal image for which no plan can be made was not split, and is copied, as is
 * one that was not split. A thin image that was not split has a sidecar too, if there was nothing
 * to take out. Files that --sidecar names may belong to only some of the slices; digests tell to
 * which. */
static bool find_sidecar(struct joining *joining, size_t index, struct error *error)
{
    struct image_options options = {.sections = SECTION_DEFAULT, .drop_signature = true};
    struct slice *slice = &joining->container.slices[index];
    const char *const names[] = {slice->input.path, NULL};
    const struct sidecar_wanted wanted = {
        .name = slice->input.path, .names = names, .stripped = &slice->input};
    struct sidecar *sidecar;

    if (joining->container.is_universal) {
        struct image_plan *plan = image_plan_make(&slice->input, &options, error);
        bool is_split = plan != NULL && plan->already_split, is_known = plan != NULL;

        image_plan_free(plan);
        if (!is_split)
            return is_known || !error_is_of_memory(error);
    }
    sidecar = sidecar_search(&joining->places, &wanted, error);
    if (sidecar == NULL)
        return joining->container.is_universal && joining->places.files.count != 0 &&
               joining->places.directories.count == 0 && error->number == ENODATA;
    joining->sidecars[index] = sidecar;
    slice->size = sidecar->facts.original_size;
    return sidecar_check_output(joining->options, sidecar->name, error);
}

static bool find_sidecars(struct joining *joining, struct error *error)
{
    bool found = false;

    for (size_t i = 0; i < joining->container.count; i++) {
        if (!find_sidecar(joining, i, error))
            return false;
        found |= joining->sidecars[i] != NULL;
    }
    return found || error_set(error,
                              "%s: no slice of the universal image was split, or fits the sidecar; "
                              "give another --sidecar",
                              joining->stripped.path);
}

/* ---- the original ---- */

struct slice_target {
    struct joining *joining;
    struct output *output;
};

/* A slice_writer. */
static bool write_slice(void *context, size_t index, struct error *error)
{
    const struct slice_target *target = context;
    const struct joining *joining = target->joining;
    const struct input *stripped = &joining->container.slices[index].input;
    const struct sidecar *sidecar = joining->sidecars[index];
    struct output *output = target->output;

    return (sidecar != NULL ? sidecar_restore(sidecar, stripped, output_sink, output, error)
                            : output_write(output, stripped->bytes, error)) ||
           report_if_truncated(joining->stripped.path, error);
}

static bool write_original(struct joining *joining, struct output *output, struct error *error)
{
    struct slice_target target = {joining, output};
    const char *name = joining->stripped.path;

    return container_lay_out(&joining->container, name, error) &&
           container_write(&joining->container, name, output_sink, output, write_slice, &target,
                           error) &&
           input_unchanged(&joining->stripped, error);
}

static bool create_output(struct joining *joining, struct error *error)
{
    const struct input *stripped = &joining->stripped;
    const char *path = option_text(joining->options, OPTION_OUTPUT);
    struct output_options options = {
        .mode = stripped->status.st_mode & PERMISSION_BITS,
        .in_place = paths_refer_to_same_file(path, stripped->path) ? stripped : NULL,
        .unkept = &joining->unkept,
    };

    return output_create(&joining->output, path, &options, error);
}

/* ---- ordinary mapping ---- */

/* Writes the image, with ordinary mapping if some is packed. */
static bool write_ordinary(struct joining *joining, const struct input *image, struct error *error)
{
    struct image_plan *plan = image_describe(image, error);
    struct edit_script edits;
    enum output_result result;
    bool done = plan != NULL;

    edit_script_init(&edits, image->bytes.size);
    if (done)
        done = plan->is_packed ? ordinary_plan(image, plan,
                                               option_number(joining->options, OPTION_MEMORY_LIMIT),
                                               &edits, error)
                               : edit_script_finish(&edits, image->path, error);
    done = done && create_output(joining, error) &&
           edit_script_stream(&edits, image, output_sink, &joining->output, error) &&
           input_unchanged(&joining->stripped, error) &&
           output_commit(&joining->output, &result, error);
    edit_script_free(&edits);
    image_plan_free(plan);
    return done;
}

/* ---- the whole ---- */

/* With --mapping, the original is made without a name first. Mach-O objects are not packed, so
 * neither are the slices of a universal image. */
static bool join_with_sidecars(struct joining *joining, bool with_mapping, struct error *error)
{
    const struct output_options nameless = {.mode = 0600, .is_nameless = true};
    const char *path = option_text(joining->options, OPTION_OUTPUT);
    struct input original = {.fd = -1};
    enum output_result result;
    bool done;

    sidecar_places_open(&joining->places, joining->options, NULL);
    if (!find_sidecars(joining, error))
        return false;
    if (!with_mapping || joining->container.is_universal)
        return create_output(joining, error) && write_original(joining, &joining->output, error) &&
               output_commit(&joining->output, &result, error);
    done = output_create(&joining->original, path, &nameless, error) &&
           write_original(joining, &joining->original, error) &&
           output_map(&joining->original, &original, error) &&
           write_ordinary(joining, &original, error);
    input_close(&original);
    return done;
}

static bool join(struct joining *joining, const struct parsed_options *options, struct error *error)
{
    bool with_mapping = option_given(options, OPTION_MAPPING), is_packed = false, done;
    struct split_image split;

    joining->options = options;
    joining->original.fd = joining->output.fd = -1;
    if (!input_open(&joining->stripped, options->operands[0], error))
        return false;
    done = (!sidecar_recognize(joining->stripped.bytes) ||
            error_set(error, "%s: is a sidecar; name the stripped image that it is of",
                      joining->stripped.path)) &&
           container_open(&joining->container, &joining->stripped, error) &&
           sidecar_check_no_output(options, error);
    if (done && with_mapping) {
        is_packed = !image_read_stripped_id(&joining->stripped, &split, error) && split.is_packed;
        done = !error_is_of_memory(error);
    }
    if (done)
        done = is_packed ? write_ordinary(joining, &joining->stripped, error)
                         : join_with_sidecars(joining, with_mapping, error);
    if (done && joining->unkept.message[0] != '\0')
        message_warning("%s", joining->unkept.message);
    for (size_t i = 0; i < SLICES_MAX; i++)
        sidecar_close(joining->sidecars[i]);
    sidecar_places_close(&joining->places);
    output_discard(&joining->original);
    output_discard(&joining->output);
    container_close(&joining->container);
    input_close(&joining->stripped);
    return done;
}

int command_join(const struct parsed_options *options)
{
    struct joining *joining = command_array(1, sizeof(*joining));
    struct error error = {0};
    bool done = join(joining, options, &error);

    free(joining);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}
