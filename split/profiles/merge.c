/*
 * covsplit merge: profiles of any number of images, added up and correlated.
 *
 * Profiles are read and summed by merge_read.h; here the sums become files. A .profraw file gets
 * one profile for each image. For a .profdata file, each image's profile is written to an unnamed
 * file, and llvm-profdata makes the result from these: it does once for each image what it would
 * otherwise do for every profile. With --into the sums are added to a state instead.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/cli/progress.h"
#include "split/cli/table.h"
#include "split/profiles/llvm_profdata.h"
#include "split/profiles/merge_consume.h"
#include "split/profiles/merge_inputs.h"
#include "split/profiles/merge_into.h"
#include "split/profiles/merge_read.h"

enum profile_format { /* the words of --format */
                      FORMAT_RAW,
                      FORMAT_INDEXED,
                      FORMAT_UNKNOWN,
};

enum failure_mode {
    FAILURE_MODE_ANY,
    FAILURE_MODE_ALL,
};

/* ---- groups into files ---- */

/* Where a profile of a group is written, and what it needs for that. */
struct target {
    struct output *output;
    struct profile_sidecar *sidecar;
};

static bool write_profile(void *context, const struct profile *profile, const char *name,
                          struct error *error)
{
    const struct target *target = context;

    return profile_sidecar_write(target->sidecar, profile, name, target->output, error);
}

static bool write_sum(const struct profile_group *group, struct bytes sum, struct output *output,
                      struct error *error)
{
    struct profile profile;

    return profile_parse(sum, 0, group->name, &profile, error) &&
           profile_sidecar_write(group->sidecar, &profile, group->name, output, error);
}

static bool write_read_again(const struct merge *merge, const struct profile_group *group,
                             struct output *output, struct error *error)
{
    struct target target = {output, group->sidecar};

    return merge_read_again(merge, group, write_profile, &target, error);
}

/* ---- .profraw ---- */

static bool write_raw(const struct merge *merge, struct output *output, struct error *error)
{
    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        if (group->is_temporal)
            return error_set(error,
                             "%s: a temporal profile: a .profraw file cannot hold the order of "
                             "events of several runs; merge into a .profdata file",
                             group->name);
        if (group->sum != NULL ? !write_sum(group, profile_sum_combined(group->sum), output, error)
                               : !write_read_again(merge, group, output, error))
            return false;
    }
    return true;
}

/* ---- .profdata ---- */

/* The unnamed files that llvm-profdata reads. */
struct spools {
    struct output *files;
    struct llvm_profdata_input *inputs; /* the same files, for llvm_profdata_merge */
    size_t count, file_capacity, input_capacity;
};

static void free_spools(struct spools *spools)
{
    for (size_t i = 0; i < spools->count; i++)
        output_discard(&spools->files[i]);
    free(spools->files);
    free(spools->inputs);
}

/* Adds a file in the directory of the output, where there should be room for it. The pointer is
 * valid until the next call. */
static struct output *add_spool(struct spools *spools, const char *path, uint64_t weight,
                                struct error *error)
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
        (struct llvm_profdata_input){.fd = file->fd, .weight = weight};
    return file;
}

/* Writes a file for each plane of the sum: planes have different weights. */
static bool spool_sum(const struct profile_group *group, const char *path, struct spools *spools,
                      struct error *error)
{
    unsigned planes = profile_sum_plane_count(group->sum);

    for (unsigned plane = 0; plane < planes; plane++) {
        struct output *file = add_spool(spools, path, UINT64_C(1) << plane, error);

        if (file == NULL || !write_sum(group, profile_sum_plane(group->sum, plane), file, error) ||
            !output_lend(file, error))
            return false;
    }
    return true;
}

struct spool_target {
    struct spools *spools;
    const char *path;
    struct profile_sidecar *sidecar;
};

static bool spool_profile(void *context, const struct profile *profile, const char *name,
                          struct error *error)
{
    const struct spool_target *target = context;
    struct output *file = add_spool(target->spools, target->path, 1, error);

    return file != NULL && profile_sidecar_write(target->sidecar, profile, name, file, error) &&
           output_lend(file, error);
}

/* Value profiles can be in one file, one after the other. Temporal profiles need a file each:
 * llvm-profdata takes all events in a file for those of one run. */
static bool spool_read_again(const struct merge *merge, const struct profile_group *group,
                             const char *path, struct spools *spools, struct error *error)
{
    struct spool_target target = {spools, path, group->sidecar};
    struct output *file;

    if (group->is_temporal)
        return merge_read_again(merge, group, spool_profile, &target, error);
    file = add_spool(spools, path, 1, error);
    return file != NULL && write_read_again(merge, group, file, error) && output_lend(file, error);
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
    allow_many_descriptors();
    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];

        if (!(group->sum != NULL ? spool_sum(group, path, spools, error)
                                 : spool_read_again(merge, group, path, spools, error)))
            return false;
    }
    return true;
}

static bool write_indexed(const struct merge *merge, const struct parsed_options *options,
                          struct output *output, struct error *error)
{
    char *program = llvm_profdata_find(option_text(options, OPTION_LLVM_PROFDATA),
                                       merge->groups.list[0]->version, error);
    struct spools spools = {0};
    bool done = program != NULL && spool_all(merge, output->path, &spools, error) &&
                output_lend(output, error) &&
                llvm_profdata_merge(program, spools.inputs, spools.count,
                                    option_given(options, OPTION_SPARSE), output->fd, output->path,
                                    error) &&
                output_take_back(output, error);

    free_spools(&spools);
    free(program);
    return done;
}

/* ---- what was read ---- */

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), ending_length = strlen(ending);

    return length > ending_length && strcmp(text + length - ending_length, ending) == 0;
}

static enum profile_format output_format(const struct parsed_options *options)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    if (option_given(options, OPTION_FORMAT))
        return (enum profile_format)option_number(options, OPTION_FORMAT);
    return ends_with(output, ".profraw")    ? FORMAT_RAW
           : ends_with(output, ".profdata") ? FORMAT_INDEXED
                                            : FORMAT_UNKNOWN;
}

static void warn_of_empty(const struct merge *merge)
{
    const char *first = merge_input_name(merge, merge->first_empty);
    size_t more = merge->empty_count - 1;

    if (more == 0)
        message_warning("%s: " PROFILE_EMPTY_BECAUSE "; left out", first);
    else
        message_warning("%s: " PROFILE_EMPTY_BECAUSE "; left out, as %zu more %s", first, more,
                        more == 1 ? "that is empty too" : "that are empty too");
}

/* Says which inputs were left out. False if that makes the merge fail. */
static bool report_inputs(const struct merge *merge, struct error *error)
{
    if (merge->failure_count != 0 && (!merge->goes_on || merge->groups.count == 0)) {
        *error = merge->failures[0].error;
        return false;
    }
    for (size_t i = 0; i < merge->failure_count; i++)
        message_warning("%s (left out)", merge->failures[i].error.message);
    if (merge->empty_count != 0 && merge->groups.count == 0)
        return error_set(error, "%s: " PROFILE_EMPTY_BECAUSE "; run it again, and name its profile",
                         merge_input_name(merge, merge->first_empty));
    if (merge->groups.count == 0)
        return error_set(error, "the named directories: no profile to merge; name one that has "
                                "profiles in it");
    if (merge->empty_count != 0)
        warn_of_empty(merge);
    return true;
}

static bool write_output(const struct merge *merge, const struct parsed_options *options,
                         struct error *error)
{
    const char *path = option_text(options, OPTION_OUTPUT);
    struct output_options output_options = {.mode = file_new_mode()};
    enum output_result result;
    struct output output;

    if (!output_create(&output, path, &output_options, error))
        return false;
    if (!(output_format(options) == FORMAT_RAW ? write_raw(merge, &output, error)
                                               : write_indexed(merge, options, &output, error))) {
        output_discard(&output);
        return false;
    }
    return output_commit(&output, &result, error);
}

/* ---- what was done ---- */

static void print_group(const struct profile_group *group)
{
    char count[COUNT_TEXT_MAX];

    if (group->sidecar != NULL)
        message_line(stdout, "%s: %s, by %s", sidecar_image_name(group->sidecar->sidecar),
                     count_text(group->profile_count, "lightweight profile", count),
                     sidecar_name(group->sidecar->sidecar));
    else
        message_line(stdout, "%s%s: %s", group->name,
                     group->profile_count == 1 ? "" : " and others",
                     count_text(group->profile_count, "full profile", count));
}

static void print_done(const struct merge *merge, const char *output)
{
    char files[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], profiles[COUNT_TEXT_MAX];
    char images[COUNT_TEXT_MAX], empty[COUNT_TEXT_MAX], bad[COUNT_TEXT_MAX];
    uint64_t count = 0;

    for (size_t i = 0; i < merge->groups.count; i++) {
        print_group(merge->groups.list[i]);
        count += merge->groups.list[i]->profile_count;
    }
    message_line(stdout, "%s: %s of %s; read %s of %s, %s empty, %s left out", output,
                 count_text(count, "profile", profiles),
                 count_text(merge->groups.count, "image", images),
                 count_text(merge->inputs->count, "file", files),
                 count_text(merge->bytes_read, "byte", bytes),
                 number_text(merge->empty_count, empty), number_text(merge->failure_count, bad));
}

/* ---- the command ---- */

static bool goes_on(const struct parsed_options *options)
{
    return option_number(options, OPTION_FAILURE_MODE) == FAILURE_MODE_ALL;
}

/* The output, or the state. */
static const char *target_path(const struct parsed_options *options)
{
    const char *into = option_text(options, OPTION_INTO);

    return into != NULL ? into : option_text(options, OPTION_OUTPUT);
}

/* Starts the progress display; on a terminal with the total size to be read, as far as it can be
 * known. */
static void start_progress(struct progress *progress, const struct parsed_options *options,
                           const struct path_list *inputs)
{
    struct stat status;

    progress_start(progress, target_path(options), 0);
    for (size_t i = 0; progress->on_terminal && i < inputs->count; i++) {
        if (stat(inputs->paths[i], &status) == 0 && status.st_size > 0)
            progress->total += (uint64_t)status.st_size;
    }
}

/* The inputs, and for each the name of its test, if there are tests. */
struct merge_operands {
    struct path_list inputs;
    struct path_list tests;
    struct test_naming naming;
};

static bool merge_all(const struct parsed_options *options, const struct merge_operands *operands,
                      struct profile_sidecars *sidecars, struct state *state, struct error *error)
{
    const struct path_list *inputs = &operands->inputs;
    struct test_recorder recorder;
    struct progress progress;
    struct merge merge = {
        .inputs = inputs,
        .sidecars = sidecars,
        .threads = option_threads(options),
        .goes_on = goes_on(options),
        .only_sums = state != NULL,
        .recorder = state != NULL ? &recorder : NULL,
        .tests = test_naming_is_on(&operands->naming) ? &operands->tests : NULL,
        .progress = &progress,
        .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
    };
    bool done;

    test_recorder_start(&recorder);
    start_progress(&progress, options, inputs);
    done = merge_read(&merge, error);
    progress_finish(&progress);
    done = done && report_inputs(&merge, error) &&
           (state != NULL ? merge_into_add(state, &merge, error)
                          : profile_groups_combine(&merge.groups, error) &&
                                write_output(&merge, options, error));
    if (done && option_given(options, OPTION_VERBOSE))
        print_done(&merge, target_path(options));
    merge_free(&merge);
    test_recorder_free(&recorder);
    return done;
}

static bool collect_inputs(const struct parsed_options *options, struct merge_operands *operands,
                           struct error *error)
{
    for (size_t i = 0; i < options->operand_count; i++) {
        if (!merge_inputs_add(&operands->inputs, options->operands[i], target_path(options),
                              &operands->naming, &operands->tests, error))
            return false;
    }
    return true;
}

/* Whether profiles are deleted. */
static bool consumes(const struct parsed_options *options)
{
    return option_given(options, OPTION_CONSUME) || option_given(options, OPTION_WATCH);
}

/* What parsing cannot check. */
static int check_usage(const struct parsed_options *options)
{
    const char *output = option_text(options, OPTION_OUTPUT);

    if (option_given(options, OPTION_INTO))
        return STATUS_DONE;
    if (option_given(options, OPTION_BY) || option_given(options, OPTION_BY_PATH))
        return message_usage("merge", "'--by' and '--by-path' are for '--into'");
    if (consumes(options))
        return message_usage("merge", "'--consume' and '--watch' are for '--into'");
    if (output == NULL)
        return message_usage("merge", "'--output' or '--into' is missing");
    if (output_format(options) == FORMAT_UNKNOWN)
        return message_usage("merge",
                             "'--output %s' ends neither in .profraw nor in .profdata, and "
                             "--format is missing",
                             output);
    if (output_format(options) == FORMAT_RAW && option_given(options, OPTION_SPARSE))
        return message_usage("merge", "'--sparse' is for the format profdata");
    return STATUS_DONE;
}

static bool open_state(const struct parsed_options *options, struct state **state,
                       struct error *error)
{
    const char *into = option_text(options, OPTION_INTO);

    return into == NULL ||
           merge_into_open(state, into, option_number(options, OPTION_MEMORY_LIMIT), error);
}

int command_merge(const struct parsed_options *options)
{
    struct profile_sidecars sidecars = {0};
    struct merge_operands operands = {0};
    struct state *state = NULL;
    struct error error = {0};
    int status = check_usage(options), ended_by = 0;
    bool done;

    if (status != STATUS_DONE)
        return status;
    operands.naming = (struct test_naming){option_text(options, OPTION_BY),
                                           option_given(options, OPTION_BY_PATH)};
    done = profile_sidecars_open(&sidecars, options, &error) && open_state(options, &state, &error);
    if (consumes(options))
        done =
            done && merge_consume(options, &operands.naming, state, &sidecars, &ended_by, &error);
    else
        done = done && collect_inputs(options, &operands, &error) &&
               merge_all(options, &operands, &sidecars, state, &error);
    if (!done)
        message_error(&error);
    state_close(state);
    path_list_free(&operands.inputs);
    path_list_free(&operands.tests);
    profile_sidecars_close(&sidecars);
    if (ended_by != 0)
        raise(ended_by);
    return done ? STATUS_DONE : STATUS_FAILED;
}
