/*
 * Writing the files of a merge: see merge_outputs.h.
 */
#include "split/profiles/merge_outputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/base/array.h"
#include "common/base/directory.h"
#include "common/base/file.h"
#include "split/profiles/llvm_tool.h"

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), ending_length = strlen(ending);

    return length > ending_length && strcmp(text + length - ending_length, ending) == 0;
}

enum profile_format merge_output_format(const struct parsed_options *options)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    if (option_given(options, OPTION_FORMAT))
        return (enum profile_format)option_number(options, OPTION_FORMAT);
    return ends_with(output, ".profraw")    ? FORMAT_RAW
           : ends_with(output, ".profdata") ? FORMAT_INDEXED
                                            : FORMAT_UNKNOWN;
}

/* Some of the groups, by their numbers in ascending order. */
struct selection {
    const size_t *groups;
    size_t count;
};

/* ---- groups into files ---- */

/* A merge_user: writes the profile to an output. */
static bool write_profile(void *context, const struct merge_found *found, struct error *error)
{
    return profile_sidecar_write(found->group->sidecar, found->profile, found->name, context,
                                 error);
}

static bool write_part(const struct profile_group *group, struct bytes part, struct output *output,
                       struct error *error)
{
    struct profile profile;

    return profile_parse(part, 0, group->name, &profile, error) &&
           profile_sidecar_write(group->sidecar, &profile, group->name, output, error);
}

/* ---- .profraw ---- */

struct raw_target {
    const struct profile_group *group;
    struct output *output;
};

/* A profile_sum_visitor. */
static bool append_part(void *context, struct bytes part, uint64_t weight, struct error *error)
{
    struct raw_target *target = context;

    (void)weight;
    return write_part(target->group, part, target->output, error);
}

static bool write_raw(const struct merge *merge, const struct selection *selection,
                      struct output *output, struct error *error)
{
    for (size_t i = 0; i < selection->count; i++) {
        const struct profile_group *group = merge->groups.list[selection->groups[i]];

        if (group->is_temporal)
            return error_set(error,
                             "%s: a temporal profile: a .profraw file cannot hold the order of "
                             "events of several runs; merge into a .profdata file",
                             group->name);
        if (group->can_be_summed
                ? !profile_sum_visit(group->sum, false, append_part,
                                     &(struct raw_target){group, output}, error)
                : !merge_read_again(merge, &group, 1, write_profile, output, error))
            return false;
        profile_sidecar_unload(group->sidecar);
    }
    return true;
}

/* ---- .profdata ---- */

/* The unnamed files that llvm-profdata reads. */
struct spools {
    struct output *files;
    struct llvm_profdata_input *inputs; /* the same files, for llvm_profdata_merge */
    size_t count, file_capacity, input_capacity;
    size_t *starts; /* the number of the first file of each group, and then the number of all */
};

static void free_spools(struct spools *spools)
{
    for (size_t i = 0; i < spools->count; i++)
        output_discard(&spools->files[i]);
    free(spools->files);
    free(spools->inputs);
    free(spools->starts);
}

/* Adds a file in the directory of the output, where there should be room for it, for what messages
 * call `name`. The pointer is valid until the next call. */
static struct output *add_spool(struct spools *spools, const char *path, const char *name,
                                uint64_t weight, struct error *error)
{
    struct output_options options = {.mode = 0600, .is_nameless = true};
    struct output *file;

    if (!ARRAY_ROOM_FOR_ONE(spools->files, spools->file_capacity, spools->count) ||
        !ARRAY_ROOM_FOR_ONE(spools->inputs, spools->input_capacity, spools->count)) {
        error_out_of_memory(error, path, spools->count * sizeof(*file));
        return NULL;
    }
    file = &spools->files[spools->count];
    if (!output_create(file, path, &options, error))
        return NULL;
    spools->inputs[spools->count++] =
        (struct llvm_profdata_input){.fd = file->fd, .name = name, .weight = weight};
    return file;
}

/* llvm-profdata limits what gets too large. */
static uint64_t multiply(uint64_t weight, uint64_t by)
{
    uint64_t product;

    return __builtin_mul_overflow(weight, by, &product) ? UINT64_MAX : product;
}

/* Where the parts of a sum go. */
struct spool_target {
    const struct profile_group *group;
    const char *path;
    struct spools *spools;
};

/* A profile_sum_visitor: writes a file for each part, since parts have different weights. */
static bool spool_part(void *context, struct bytes part, uint64_t weight, struct error *error)
{
    struct spool_target *target = context;
    struct output *file = add_spool(target->spools, target->path, target->group->name,
                                    multiply(weight, target->group->weight), error);

    return file != NULL && write_part(target->group, part, file, error) && output_lend(file, error);
}

/* Profiles with value data can be in one file, one after the other. */
static bool spool_read_again(const struct merge *merge, const struct profile_group *group,
                             const char *path, struct spools *spools, struct error *error)
{
    struct output *file = add_spool(spools, path, group->name, group->weight, error);

    return file != NULL && merge_read_again(merge, &group, 1, write_profile, file, error) &&
           output_lend(file, error);
}

/* Every spool is an open file in this process and in llvm-profdata. */
static void allow_many_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool spool_all(const struct merge *merge, const char *path, struct spools *spools,
                      struct error *error)
{
    size_t count = merge->groups.count;

    allow_many_descriptors();
    spools->starts = calloc(count + 1, sizeof(*spools->starts));
    if (spools->starts == NULL)
        return error_out_of_memory(error, path, count * sizeof(*spools->starts));
    for (size_t i = 0; i < count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        spools->starts[i] = spools->count;
        if (group->is_temporal)
            continue;
        if (group->can_be_summed
                ? !profile_sum_visit(group->sum, true, spool_part,
                                     &(struct spool_target){group, path, spools}, error)
                : !spool_read_again(merge, group, path, spools, error))
            return false;
        profile_sidecar_unload(group->sidecar);
    }
    spools->starts[count] = spools->count;
    return true;
}

/* ---- temporal profiles ---- */

/* Where they are written, and the input that the last one was from. */
struct temporal_target {
    struct spools *spools;
    const char *path;
    size_t input;
};

/* Nothing more is written to the last file. */
static bool lend_last(const struct spools *spools, struct error *error)
{
    return spools->count == 0 || output_lend(&spools->files[spools->count - 1], error);
}

/* A merge_user. */
static bool spool_temporal(void *context, const struct merge_found *found, struct error *error)
{
    struct temporal_target *target = context;
    struct spools *spools = target->spools;
    bool is_next = spools->count == 0 || target->input != found->input;

    if (is_next && (!lend_last(spools, error) || add_spool(spools, target->path, found->name,
                                                           found->group->weight, error) == NULL))
        return false;
    target->input = found->input;
    return write_profile(&spools->files[spools->count - 1], found, error);
}

/* Makes a spool for each input with temporal profiles of the groups: llvm-profdata takes all events
 * in a file for those of one run. */
static bool spool_all_temporal(const struct merge *merge, const struct selection *selection,
                               const char *path, struct spools *spools, struct error *error)
{
    const struct profile_group **groups = calloc(selection->count + 1, sizeof(*groups));
    struct temporal_target target = {spools, path, 0};
    size_t count = 0;
    bool done =
        groups != NULL || error_out_of_memory(error, path, selection->count * sizeof(*groups));

    for (size_t i = 0; done && i < selection->count; i++) {
        const struct profile_group *group = merge->groups.list[selection->groups[i]];

        if (group->is_temporal)
            groups[count++] = group;
    }
    done = done &&
           (count == 0 || merge_read_again(merge, groups, count, spool_temporal, &target, error)) &&
           lend_last(spools, error);
    for (size_t i = 0; i < count; i++)
        profile_sidecar_unload(groups[i]->sidecar);
    free(groups);
    return done;
}

/* ---- one file ---- */

/* How the files are made. */
struct maker {
    const struct merge *merge;
    const struct parsed_options *options;
    enum profile_format format;
    char *program; /* llvm-profdata; NULL for .profraw */
    struct spools spools;
};

/* The spools of the groups, and those of their temporal profiles. NULL with an error if out of
 * memory. */
static struct llvm_profdata_input *select_spools(const struct spools *spools,
                                                 const struct spools *temporal,
                                                 const struct selection *selection, size_t *count,
                                                 const char *path, struct error *error)
{
    size_t most = spools->count + temporal->count;
    struct llvm_profdata_input *inputs = calloc(most + 1, sizeof(*inputs));

    *count = 0;
    if (inputs == NULL) {
        error_out_of_memory(error, path, most * sizeof(*inputs));
        return NULL;
    }
    for (size_t i = 0; i < selection->count; i++) {
        const size_t *start = &spools->starts[selection->groups[i]];

        for (size_t k = start[0]; k < start[1]; k++)
            inputs[(*count)++] = spools->inputs[k];
    }
    for (size_t i = 0; i < temporal->count; i++)
        inputs[(*count)++] = temporal->inputs[i];
    return inputs;
}

static bool write_indexed(const struct maker *maker, const struct selection *selection,
                          struct output *output, struct error *error)
{
    struct llvm_profdata_job job = {.sparse = option_given(maker->options, OPTION_SPARSE),
                                    .goes_on = maker->merge->goes_on,
                                    .output_fd = output->fd,
                                    .name = output->path};
    struct llvm_profdata_input *inputs = NULL;
    struct spools temporal = {0};
    bool done = spool_all_temporal(maker->merge, selection, output->path, &temporal, error) &&
                (inputs = select_spools(&maker->spools, &temporal, selection, &job.input_count,
                                        output->path, error)) != NULL &&
                output_lend(output, error);

    job.inputs = inputs;
    done =
        done && llvm_profdata_merge(maker->program, &job, error) && output_take_back(output, error);

    free_spools(&temporal);
    free(inputs);
    return done;
}

/* Makes the next file, of some of the groups. */
static bool make_file(const struct maker *maker, const char *path,
                      const struct selection *selection, struct merge_outputs *outputs,
                      struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct output *output = &outputs->files[outputs->count];

    if (!output_create(output, path, &options, error))
        return false;
    outputs->count++;
    return maker->format == FORMAT_RAW ? write_raw(maker->merge, selection, output, error)
                                       : write_indexed(maker, selection, output, error);
}

/* ---- a file for each image ---- */

/* DIR/UUID.profdata, as a new string. Groups of one UUID have one file. An image without a UUID is
 * told by the identity of its profiles. NULL if out of memory. */
static char *image_path(const struct maker *maker, const struct profile_group *group)
{
    const char *directory = option_text(maker->options, OPTION_PER_IMAGE);
    const char *ending = maker->format == FORMAT_RAW ? "profraw" : "profdata";
    struct uuid uuid = profile_group_uuid(group);
    char hex[UUID_HEX_MAX], *path;

    if (uuid.size != 0)
        uuid_format(&uuid, hex);
    else
        digest_format(&group->sum->identity, hex);
    return asprintf(&path, "%s/%s%s.%s", directory, uuid.size != 0 ? "" : "no-uuid-", hex, ending) <
                   0
               ? NULL
               : path;
}

static bool check_path(const struct maker *maker, const char *path, struct error *error)
{
    return !paths_meet(path, option_text(maker->options, OPTION_OUTPUT)) ||
           error_set(error, "%s: is also the output of one image; give another --output", path);
}

/* Makes the file of all groups with this path, of which `first` is the first. */
static bool make_image_file(const struct maker *maker, char *const *paths, size_t first,
                            size_t *numbers, struct merge_outputs *outputs, struct error *error)
{
    struct selection selection = {.groups = numbers};

    for (size_t i = first; i < maker->merge->groups.count; i++) {
        if (strcmp(paths[i], paths[first]) == 0)
            numbers[selection.count++] = i;
    }
    return check_path(maker, paths[first], error) &&
           make_file(maker, paths[first], &selection, outputs, error);
}

static bool is_first(char *const *paths, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(paths[i], paths[index]) == 0)
            return false;
    }
    return true;
}

static bool make_image_files(const struct maker *maker, char **paths, size_t *numbers,
                             struct merge_outputs *outputs, struct error *error)
{
    const struct profile_groups *groups = &maker->merge->groups;

    if (!directory_make(option_text(maker->options, OPTION_PER_IMAGE), error))
        return false;
    for (size_t i = 0; i < groups->count; i++) {
        paths[i] = image_path(maker, groups->list[i]);
        if (paths[i] == NULL)
            return error_out_of_memory(error, groups->list[i]->name, groups->count);
    }
    for (size_t i = 0; i < groups->count; i++) {
        if (is_first(paths, i) && !make_image_file(maker, paths, i, numbers, outputs, error))
            return false;
    }
    return true;
}

/* ---- all files ---- */

/* Makes the files of the images, if they are wanted, and the one of all. */
static bool make_files(const struct maker *maker, struct merge_outputs *outputs,
                       struct error *error)
{
    size_t count = maker->merge->groups.count;
    const char *path = option_text(maker->options, OPTION_OUTPUT);
    size_t *numbers = calloc(count + 1, sizeof(*numbers));
    char **paths = calloc(count + 1, sizeof(*paths));
    struct selection all = {.groups = numbers, .count = count};
    bool done;

    outputs->files = calloc(count + 1, sizeof(*outputs->files));
    done = (numbers != NULL && paths != NULL && outputs->files != NULL) ||
           error_out_of_memory(error, path, count * sizeof(*outputs->files));
    done = done && (!option_given(maker->options, OPTION_PER_IMAGE) ||
                    make_image_files(maker, paths, numbers, outputs, error));
    for (size_t i = 0; done && i < count; i++)
        numbers[i] = i;
    done = done && make_file(maker, path, &all, outputs, error);
    for (size_t i = 0; paths != NULL && i < count; i++)
        free(paths[i]);
    free(paths);
    free(numbers);
    return done;
}

bool merge_outputs_make(struct merge_outputs *outputs, const struct merge *merge,
                        const struct parsed_options *options, struct error *error)
{
    struct maker maker = {
        .merge = merge, .options = options, .format = merge_output_format(options)};
    bool done = true;

    if (maker.format == FORMAT_INDEXED) {
        maker.program = llvm_tool_find(LLVM_PROFDATA, option_text(options, OPTION_LLVM_PROFDATA),
                                       merge->groups.list[0]->version, error);
        done = maker.program != NULL &&
               spool_all(merge, option_text(options, OPTION_OUTPUT), &maker.spools, error);
    }
    done = done && make_files(&maker, outputs, error);
    free_spools(&maker.spools);
    free(maker.program);
    return done;
}

bool merge_outputs_make_in_memory(struct output *output, const struct merge *merge,
                                  const struct parsed_options *options, struct error *error)
{
    const char *path = option_text(options, OPTION_OUTPUT);
    struct maker maker = {.merge = merge, .options = options, .format = FORMAT_INDEXED};
    size_t count = merge->groups.count, *numbers = calloc(count + 1, sizeof(*numbers));
    const struct selection all = {.groups = numbers, .count = count};
    bool done = numbers != NULL || error_out_of_memory(error, path, count * sizeof(*numbers));

    for (size_t i = 0; done && i < count; i++)
        numbers[i] = i;
    if (done)
        maker.program = llvm_tool_find(LLVM_PROFDATA, option_text(options, OPTION_LLVM_PROFDATA),
                                       merge->groups.list[0]->version, error);
    done = maker.program != NULL && spool_all(merge, path, &maker.spools, error) &&
           output_create_in_memory(output, "the merged profile", error) &&
           write_indexed(&maker, &all, output, error);
    free_spools(&maker.spools);
    free(maker.program);
    free(numbers);
    return done;
}

bool merge_outputs_commit(struct merge_outputs *outputs, struct error *error)
{
    enum output_result result;

    for (size_t i = 0; i < outputs->count; i++) {
        if (!output_commit(&outputs->files[i], &result, error))
            return false;
    }
    return true;
}

void merge_outputs_free(struct merge_outputs *outputs)
{
    for (size_t i = 0; i < outputs->count; i++)
        output_discard(&outputs->files[i]);
    free(outputs->files);
    *outputs = (struct merge_outputs){0};
}
