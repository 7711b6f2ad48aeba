/*
 * covsplit join of a universal image: each slice that was split is joined with its sidecar, the
 * others are copied.
 */
#include <stdlib.h>

#include "common/base/digest.h"
#include "common/sidecar/sidecar.h"
#include "formats/image.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/split/universal.h"

struct slice_join {
    struct input part;
    struct input file; /* of the sidecar */
    char *sidecar_path;
    struct sidecar *sidecar; /* NULL: the slice is copied */
};

struct universal_joining {
    const struct parsed_options *options;
    const struct input *stripped;
    struct universal universal; /* of the stripped image, and later of the original */
    struct slice_join slices[UNIVERSAL_SLICES_MAX];
    struct output output;
};

/* What cannot be planned was not split, and is copied. */
static bool find_out_whether_split(const struct input *part, bool *is_split, struct error *error)
{
    struct image_options options = {.sections = SECTION_REMOVABLE, .drop_signature = true};
    struct image_plan *plan = image_plan_make(part, &options, error);
    bool is_known = plan != NULL || !error_is_of_memory(error);

    *is_split = plan != NULL && plan->already_split;
    image_plan_free(plan);
    return is_known;
}

static bool open_sidecar(struct slice_join *join, uint64_t memory_limit, struct error *error)
{
    if (!input_open(&join->file, join->sidecar_path, error))
        return false;
    join->sidecar = sidecar_open(join->file.bytes, join->sidecar_path, error);
    if (join->sidecar != NULL)
        sidecar_limit_memory(join->sidecar, memory_limit);
    return join->sidecar != NULL;
}

/* --sidecar is for one of the slices; which one, its digest says. */
static bool drop_unless_fitting(struct slice_join *join)
{
    struct digest digest = digest_of(join->part.bytes);

    if (digest_equal(&sidecar_facts(join->sidecar)->stripped_digest, &digest))
        return true;
    sidecar_close(join->sidecar);
    join->sidecar = NULL;
    return false;
}

static bool find_sidecars(struct universal_joining *joining, struct error *error)
{
    bool is_given = option_text(joining->options, OPTION_SIDECAR) != NULL;
    uint64_t memory_limit = option_number(joining->options, OPTION_MEMORY_LIMIT);
    size_t found = 0;

    for (size_t i = 0; i < joining->universal.count; i++) {
        struct slice_join *join = &joining->slices[i];
        bool is_split;

        if (!universal_part(joining->stripped, &joining->universal.slices[i], &join->part, error) ||
            !find_out_whether_split(&join->part, &is_split, error))
            return false;
        if (!is_split)
            continue;
        join->sidecar_path = find_sidecar(joining->options, &join->part, error);
        if (join->sidecar_path == NULL || !open_sidecar(join, memory_limit, error))
            return false;
        if (paths_meet(join->sidecar_path, option_text(joining->options, OPTION_OUTPUT)))
            return error_set(error,
                             "%s: is the sidecar, which joining would replace; give another -o",
                             join->sidecar_path);
        if (is_given && !drop_unless_fitting(join))
            continue;
        joining->universal.slices[i].size = sidecar_facts(join->sidecar)->original_size;
        found++;
    }
    return found != 0 ||
           error_set(error,
                     "%s: no slice of the universal image was split, or fits the sidecar; "
                     "give another --sidecar",
                     joining->stripped->path);
}

static bool write_part(void *context, struct bytes part, struct error *error)
{
    return output_write(context, part, error);
}

static bool write_slices(struct universal_joining *joining, struct error *error)
{
    struct output *output = &joining->output;

    for (size_t i = 0; i < joining->universal.count; i++) {
        const struct slice_join *join = &joining->slices[i];
        bool done = universal_output_pad(&joining->universal, i, output, error);

        if (done && join->sidecar != NULL)
            done = sidecar_restore_input(join->sidecar, &join->part, write_part, output, error);
        else if (done)
            done = output_write(output, join->part.bytes, error);
        if (!done)
            return file_blame(joining->stripped->path, error);
    }
    return true;
}

static bool run(struct universal_joining *joining, struct error *error)
{
    const struct input *stripped = joining->stripped;
    enum output_result result;

    return universal_read(stripped->bytes, stripped->path, &joining->universal, error) &&
           find_sidecars(joining, error) &&
           universal_output_start(&joining->universal, stripped,
                                  option_text(joining->options, OPTION_OUTPUT), &joining->output,
                                  error) &&
           write_slices(joining, error) && input_unchanged(stripped, error) &&
           output_commit(&joining->output, &result, error);
}

bool universal_join(const struct parsed_options *options, const struct input *stripped,
                    struct error *error)
{
    struct universal_joining *joining = calloc(1, sizeof(*joining));
    bool done;

    if (joining == NULL)
        return error_out_of_memory(error, stripped->path, sizeof(*joining));
    joining->options = options;
    joining->stripped = stripped;
    joining->output.fd = -1;
    for (size_t i = 0; i < UNIVERSAL_SLICES_MAX; i++) {
        joining->slices[i].part.fd = -1;
        joining->slices[i].file.fd = -1;
    }
    done = run(joining, error);
    for (size_t i = 0; i < UNIVERSAL_SLICES_MAX; i++) {
        sidecar_close(joining->slices[i].sidecar);
        input_close(&joining->slices[i].file);
        free(joining->slices[i].sidecar_path);
        universal_part_free(&joining->slices[i].part);
    }
    output_discard(&joining->output);
    free(joining);
    return done;
}
