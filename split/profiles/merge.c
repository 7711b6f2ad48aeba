/*
 * covsplit merge: profiles of any number of images, added up and correlated, into files or into a
 * state. See merge.h.
 */
#include "split/profiles/merge.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/stream.h"
#include "split/cli/commands.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"

enum failure_mode {
    FAILURE_MODE_ANY,
    FAILURE_MODE_ALL,
};

/* ---- operands ---- */

/* An operand that is taken apart. */
struct operand {
    struct merge *merge;
    uint64_t weight;
    /* The directory of the file that was looked at last, and the state that it belongs to: it, or
     * the one above it. "" if there is none. */
    char directory[PATH_MAX], state[PATH_MAX];
    bool is_outputs;        /* it is the one of --per-image */
    char strange[PATH_MAX]; /* a state that was found below a directory; "": none */
};

/* A path_filter: passes over outputs of an earlier run, over sidecars, which may lie beside
 * profiles, and over what is in a state. */
static bool is_profile(void *context, const char *path, const struct stat *status)
{
    struct operand *operand = context;
    const struct merge_request *request = operand->merge->request;
    char directory[PATH_MAX], above[PATH_MAX];
    struct stat now;

    if (file_is(request->output, status) || store_has_suffix(path_file_name(path)))
        return false;
    if (!path_directory(path, directory))
        return true;
    if (strcmp(directory, operand->directory) != 0) {
        strcpy(operand->directory, directory);
        operand->is_outputs = request->per_image != NULL && stat(directory, &now) == 0 &&
                              file_is(request->per_image, &now);
        operand->state[0] = '\0';
        if (state_is(directory))
            strcpy(operand->state, directory);
        else if (path_directory(directory, above) && state_is(above))
            strcpy(operand->state, above);
    }
    if (operand->is_outputs)
        return false;
    if (operand->state[0] == '\0' || stat(operand->state, &now) != 0)
        return true;
    if (!file_is(request->output, &now))
        strcpy(operand->strange, operand->state);
    return false;
}

/* A directory stands for all regular files in and below it, sorted by name, except for the output,
 * which may be left from an earlier run, or be a state, and for those in the directory of outputs,
 * which must not be an operand. A state stands for itself, but must not be below such a directory,
 * and must not be the output. */
static bool add_directory(struct operand *operand, const char *path, struct error *error)
{
    const struct merge_request *request = operand->merge->request;
    struct path_list *inputs = &operand->merge->inputs;
    struct stat status;

    if (state_is(path) && stat(path, &status) == 0 && file_is(request->output, &status))
        return error_set(error, "%s: the state itself; name what is to be added to it", path);
    if (state_is(path)) {
        path_list_add(inputs, path);
        return true;
    }
    if (request->per_image != NULL && paths_refer_to_same_file(path, request->per_image))
        return error_set(error,
                         "%s: is to be read, and to get the output of each image; give another "
                         "--per-image",
                         path);
    if (!path_list_add_directory(inputs, path, true, is_profile, operand, error))
        return false;
    return operand->strange[0] == '\0' ||
           error_set(error,
                     "%s: a state in a directory of profiles; name it by itself, and move it "
                     "elsewhere",
                     operand->strange);
}

/* An operand_visitor: adds the files that an operand stands for. What is no directory is a file,
 * whether it exists or not. */
static bool add_operand(void *context, const char *path, struct error *error)
{
    struct operand *operand = context;
    struct merge *merge = operand->merge;
    struct path_list *inputs = &merge->inputs;
    bool is_stream = stream_is_standard_input(path);
    bool is_directory = !is_stream && path_is_directory(path);
    size_t before = inputs->count;

    for (size_t i = 0; is_stream && i < before; i++) {
        if (stream_is_standard_input(inputs->paths[i]))
            return error_set(error, "standard input: named twice ('-'); name it once");
    }
    if (!is_directory)
        path_list_add(inputs, path);
    else if (!add_directory(operand, path, error))
        return false;
    for (size_t i = before; i < inputs->count; i++) {
        const char *input = inputs->paths[i];

        /* A claim may count in a state already, or do so any moment: here it would count again. */
        if (state_claim_name_length(path_file_name(input)) != 0)
            return error_set(
                error,
                "%s: is being merged into a state; finish that (merge --into STATE --consume), "
                "or give it its name again if that state is gone",
                input);
        COMMAND_ROOM_FOR_ONE(merge->weights, merge->weight_capacity, i);
        merge->weights[i] = operand->weight;
    }
    return true;
}

/* ---- messages ---- */

/* Says which inputs were left out, unless the caller does. False if that makes the merge fail. */
static bool report_inputs(const struct merge *merge, struct error *error)
{
    const struct merge_request *request = merge->request;
    size_t more = merge->empty_count - 1;

    if (merge->failure_count != 0 && (!request->goes_on || merge->groups.count == 0)) {
        *error = merge->failures[0].error;
        if (error->number == ENODATA && !merge->stops)
            lacking_images_tell(&merge->lacking, error);
        return false;
    }
    for (size_t i = 0; !request->is_in_memory && i < merge->failure_count; i++)
        message_warning("%s (left out)", merge->failures[i].error.message);
    if (merge->empty_count != 0 && merge->groups.count == 0)
        return error_set(error, "%s: " PROFILE_EMPTY_BECAUSE "; run it again, and name its profile",
                         merge_input_name(merge, merge->first_empty));
    if (merge->groups.count == 0)
        return error_set(
            error, "%s%s: no profile to merge; name a directory or state that has some",
            request->operands[0].path, request->operand_count < 2 ? "" : " and others");
    if (merge->empty_count == 0 || request->is_in_memory)
        return true;
    if (merge->empty_count == 1)
        message_warning("%s: " PROFILE_EMPTY_BECAUSE "; left out",
                        merge_input_name(merge, merge->first_empty));
    else if (merge->empty_count > 1)
        message_warning("%s: " PROFILE_EMPTY_BECAUSE "; left out, as %zu more %s",
                        merge_input_name(merge, merge->first_empty), more,
                        more == 1 ? "that is empty too" : "that are empty too");
    return true;
}

static void print_done(const struct merge *merge)
{
    char files[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], profiles[COUNT_TEXT_MAX];
    char images[COUNT_TEXT_MAX], empty[COUNT_TEXT_MAX], bad[COUNT_TEXT_MAX];
    uint64_t count = 0;

    for (size_t i = 0; i < merge->groups.count; i++) {
        const struct profile_group *group = merge->groups.list[i];
        uint64_t of_group = group->sum->profile_count;

        count += of_group;
        if (group->sidecar != NULL)
            message_line(stdout, "%s: %s, by %s", group->sidecar->sidecar->image_name,
                         count_text(of_group, "lightweight profile", profiles),
                         group->sidecar->sidecar->name);
        else
            message_line(stdout, "%s%s: %s", group->name, of_group == 1 ? "" : " and others",
                         count_text(of_group, "full profile", profiles));
    }
    message_line(stdout, "%s: %s of %s; read %s of %s, %s empty, %s left out",
                 merge->request->output, count_text(count, "profile", profiles),
                 count_text(merge->groups.count, "image", images),
                 count_text(merge->inputs.count, "file", files),
                 count_text(merge->bytes_read, "byte", bytes),
                 number_text(merge->empty_count, empty), number_text(merge->failure_count, bad));
}

/* ---- what is made ---- */

/* Adds what the merge has read to the state, as one batch. What is committed counts, even if it
 * could not be folded: to add it again would be wrong. */
static bool add_to_state(struct state *state, const struct merge *merge, struct error *error)
{
    struct state_batch *batch;
    struct error failure = {0};
    bool done = state_batch_start(state, &batch, error);

    for (size_t i = 0; done && i < merge->groups.count; i++)
        done = state_batch_add(batch, merge->groups.list[i]->sum, error);
    done = done && state_batch_commit(batch, error);
    state_batch_free(batch);
    return done && (state_fold(state, &failure) ||
                    error_set(error, "%.900s (the profiles count already; do not add them again)",
                              failure.message));
}

/* Room for what is read of sidecars several times. A report reads the mapping again. */
#define ROOM            ((uint64_t)4 << 20)
#define ROOM_FOR_REPORT ((uint64_t)32 << 20)

bool merge_open(struct merge *merge, struct error *error)
{
    const struct merge_request *request = merge->request;
    struct progress *progress = &merge->progress;
    struct operand operand = {.merge = merge};
    struct stat status;
    bool done = true;

    for (size_t i = 0; done && i < request->operand_count; i++) {
        operand.weight = request->operands[i].weight;
        done = operand_visit(request->operands[i].path, add_operand, &operand, error);
    }
    if (!done)
        return false;
    progress_start(progress, request->is_in_memory ? "profiles" : request->output, 0);
    for (size_t i = 0; progress->on_terminal && i < merge->inputs.count; i++) {
        if (stat(merge->inputs.paths[i], &status) == 0 && status.st_size > 0)
            progress->total += (uint64_t)status.st_size;
    }
    done = merge_read(merge, error);
    progress_finish();
    profile_groups_finish(&merge->groups);
    done = done && report_inputs(merge, error);
    if (!done || request->is_into_state)
        return done;
    done = profile_groups_combine(&merge->groups, error);
    merge->memo.room = request->is_in_memory ? ROOM_FOR_REPORT : ROOM;
    for (size_t i = 0; i < merge->groups.count; i++) {
        struct profile_sidecar *found = profile_group_sidecar(merge->groups.list[i]);

        if (found != NULL) {
            found->sidecar->memo = &merge->memo;
            sidecar_drop_cached(found->sidecar);
        }
    }
    return done;
}

/* Adds what was read to the state, or makes the files, explains, and only then gives the files
 * their names. */
static bool merge_inputs(const struct merge_request *request, struct state *state,
                         struct error *error)
{
    struct merge_outputs outputs = {0};
    struct merge merge;
    bool done;

    merge_start(&merge, request);
    done = merge_open(&merge, error);
    if (state != NULL)
        done = done && add_to_state(state, &merge, error);
    else
        done = done && merge_outputs_make(&outputs, &merge, error) &&
               explain_merge(&merge, error) && merge_outputs_commit(&outputs, error);
    if (done && request->is_verbose)
        print_done(&merge);
    merge_outputs_free(&outputs);
    merge_free(&merge);
    return done;
}

/* First, the batches that others have left in the state are finished. */
bool merge_into_state(const struct merge_request *request, int *ended_by, struct error *error)
{
    struct state *state;
    bool done = state_open(&state, request->output, STATE_CREATE, request->memory_limit, error);

    if (!done)
        return false;
    done = state_fold(state, error) &&
           (request->consumes ? merge_consume(request, state, ended_by, error)
                              : merge_inputs(request, state, error));
    state_close(state);
    return done;
}

/* ---- the command ---- */

/* Takes N,FILE apart, as llvm-profdata does. False if it is something else. */
static bool take_weight(const char *text, struct merge_operand *operand)
{
    char *end;

    errno = 0;
    operand->weight = strtoull(text, &end, 10);
    operand->path = end + 1;
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && operand->weight != 0 &&
           end[0] == ',' && end[1] != '\0';
}

/* Takes the operands, those with weights last, as in llvm-profdata, and reports errors of the
 * command line that parsing cannot find. Returns an enum exit_status. */
static int check_usage(const struct parsed_options *options, struct merge_request *request)
{
    struct merge_operand *next = request->operands;
    const char *text;

    for (size_t i = 0; i < options->operand_count; i++)
        *next++ = (struct merge_operand){options->operands[i], 1};
    for (size_t i = 0; (text = option_text_at(options, OPTION_WEIGHTED_INPUT, i)) != NULL; i++) {
        if (!take_weight(text, next++))
            return message_usage("merge", "'--weighted-input %s' is not N,FILE with N from 1 on",
                                 text);
    }
    request->operand_count = (size_t)(next - request->operands);
    if (request->operand_count == 0)
        return message_usage("merge", "PROFILE is missing");
    if (request->is_json && !request->explains)
        return message_usage("merge", "'--json' is for '--explain'");
    if (option_given(options, OPTION_INTO))
        return STATUS_DONE;
    if (request->consumes)
        return message_usage("merge", "'--consume' and '--watch' are for '--into'");
    if (request->output == NULL)
        return message_usage("merge", "'--output' or '--into' is missing");
    if (request->format == FORMAT_UNKNOWN)
        return message_usage("merge",
                             "'--output %s' ends neither in .profraw nor in .profdata, and "
                             "--format is missing",
                             request->output);
    if (request->format == FORMAT_RAW && request->is_sparse)
        return message_usage("merge", "'--sparse' is for the format profdata");
    if (request->format == FORMAT_RAW && option_given(options, OPTION_WEIGHTED_INPUT))
        return message_usage("merge", "'--weighted-input' is for the format profdata");
    return STATUS_DONE;
}

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
    return output == NULL                   ? FORMAT_UNKNOWN
           : ends_with(output, ".profraw")  ? FORMAT_RAW
           : ends_with(output, ".profdata") ? FORMAT_INDEXED
                                            : FORMAT_UNKNOWN;
}

int command_merge(const struct parsed_options *options)
{
    const char *into = option_text(options, OPTION_INTO);
    struct profile_sidecars sidecars = {0};
    struct merge_request request = {
        .sidecars = &sidecars,
        .threads = option_threads(options),
        .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
        .goes_on = option_number(options, OPTION_FAILURE_MODE) == FAILURE_MODE_ALL,
        .is_verbose = option_given(options, OPTION_VERBOSE),
        .operands = command_array(options->operand_count + options->use_count,
                                  sizeof(struct merge_operand)),
        .output = into != NULL ? into : option_text(options, OPTION_OUTPUT),
        .per_image = option_text(options, OPTION_PER_IMAGE),
        .format = output_format(options),
        .llvm_profdata = option_text(options, OPTION_LLVM_PROFDATA),
        .is_sparse = option_given(options, OPTION_SPARSE),
        .explains = option_given(options, OPTION_EXPLAIN),
        .is_json = option_given(options, OPTION_JSON),
        .is_into_state = into != NULL,
        .consumes = option_given(options, OPTION_CONSUME) || option_given(options, OPTION_WATCH),
        .watches = option_given(options, OPTION_WATCH)};
    struct error error = {0};
    int status = check_usage(options, &request), ended_by = 0;

    if (status == STATUS_DONE) {
        bool done = profile_sidecars_open(&sidecars, options, &error) &&
                    (into != NULL ? merge_into_state(&request, &ended_by, &error)
                                  : merge_inputs(&request, NULL, &error));

        status = done ? STATUS_DONE : STATUS_FAILED;
        if (!done)
            message_error(&error);
        profile_sidecars_close(&sidecars);
    }
    free(request.operands);
    if (ended_by != 0)
        raise(ended_by);
    return status;
}
