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

/* The inputs, and for each its weight. */
struct operands {
    const char *output;  /* the output, or the state */
    const char *outputs; /* a directory of further outputs, which may be missing; or NULL */
    struct path_list inputs;
    uint64_t *weights;
    size_t weight_capacity;
    uint64_t weight; /* of the operand that is taken apart */
    /* The directory of the file that was looked at last, and the state that it belongs to: it, or
     * the one above it. "" if there is none. */
    char directory[PATH_MAX], state[PATH_MAX];
    bool is_outputs;        /* it is `outputs` */
    char strange[PATH_MAX]; /* a state that was found below a directory; "": none */
};

static void free_operands(struct operands *operands)
{
    path_list_free(&operands->inputs);
    free(operands->weights);
}

/* A path_filter: passes over outputs of an earlier run, over sidecars, which may lie beside
 * profiles, and over what is in a state. */
static bool is_profile(void *context, const char *path, const struct stat *status)
{
    struct operands *operands = context;
    char directory[PATH_MAX], above[PATH_MAX];
    struct stat now;

    if (file_is(operands->output, status) || store_has_suffix(path_file_name(path)))
        return false;
    if (!path_directory(path, directory))
        return true;
    if (strcmp(directory, operands->directory) != 0) {
        strcpy(operands->directory, directory);
        operands->is_outputs = operands->outputs != NULL && stat(directory, &now) == 0 &&
                               file_is(operands->outputs, &now);
        operands->state[0] = '\0';
        if (state_is(directory))
            strcpy(operands->state, directory);
        else if (path_directory(directory, above) && state_is(above))
            strcpy(operands->state, above);
    }
    if (operands->is_outputs)
        return false;
    if (operands->state[0] == '\0' || stat(operands->state, &now) != 0)
        return true;
    if (!file_is(operands->output, &now))
        strcpy(operands->strange, operands->state);
    return false;
}

/* A directory stands for all regular files in and below it, sorted by name, except for the output,
 * which may be left from an earlier run, or be a state, and for those in the directory of outputs,
 * which must not be an operand. A state stands for itself, but must not be below such a directory,
 * and must not be the output. */
static bool add_directory(struct operands *operands, const char *path, struct error *error)
{
    struct stat status;

    if (state_is(path) && stat(path, &status) == 0 && file_is(operands->output, &status))
        return error_set(error, "%s: the state itself; name what is to be added to it", path);
    if (state_is(path)) {
        path_list_add(&operands->inputs, path);
        return true;
    }
    if (operands->outputs != NULL && paths_refer_to_same_file(path, operands->outputs))
        return error_set(error,
                         "%s: is to be read, and to get the output of each image; give another "
                         "--per-image",
                         path);
    if (!path_list_add_directory(&operands->inputs, path, true, is_profile, operands, error))
        return false;
    return operands->strange[0] == '\0' ||
           error_set(error,
                     "%s: a state in a directory of profiles; name it by itself, and move it "
                     "elsewhere",
                     operands->strange);
}

/* An operand_visitor: adds the files that an operand stands for. What is no directory is a file,
 * whether it exists or not. */
static bool add_operand(void *context, const char *path, struct error *error)
{
    struct operands *operands = context;
    struct path_list *inputs = &operands->inputs;
    bool is_stream = stream_is_standard_input(path);
    bool is_directory = !is_stream && path_is_directory(path);
    size_t before = inputs->count;

    for (size_t i = 0; is_stream && i < before; i++) {
        if (stream_is_standard_input(inputs->paths[i]))
            return error_set(error, "standard input: named twice ('-'); name it once");
    }
    if (!is_directory)
        path_list_add(inputs, path);
    else if (!add_directory(operands, path, error))
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
        COMMAND_ROOM_FOR_ONE(operands->weights, operands->weight_capacity, i);
        operands->weights[i] = operands->weight;
    }
    return true;
}

/* Takes N,FILE apart, as llvm-profdata does. False if it is something else. */
static bool take_weight(const char *text, uint64_t *weight, const char **file)
{
    char *end;

    errno = 0;
    *weight = strtoull(text, &end, 10);
    *file = end + 1;
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && *weight != 0 && end[0] == ',' &&
           end[1] != '\0';
}

/* Those with weights come last, as in llvm-profdata. */
static bool collect_operands(const struct parsed_options *options, const char *const *profiles,
                             size_t count, struct operands *operands, struct error *error)
{
    const char *text, *file;

    operands->weight = 1;
    for (size_t i = 0; i < count; i++) {
        if (!operand_visit(profiles[i], add_operand, operands, error))
            return false;
    }
    for (size_t i = 0; (text = option_text_at(options, OPTION_WEIGHTED_INPUT, i)) != NULL; i++) {
        if (take_weight(text, &operands->weight, &file) &&
            !operand_visit(file, add_operand, operands, error))
            return false;
    }
    return true;
}

/* ---- messages ---- */

/* Says which inputs were left out, unless a reader does. False if that makes the merge fail. */
static bool report_inputs(const struct merge *merge, const struct parsed_options *options,
                          bool has_reader, struct error *error)
{
    size_t more = merge->empty_count - 1;

    if (merge->failure_count != 0 && (!merge->goes_on || merge->groups.count == 0)) {
        *error = merge->failures[0].error;
        if (error->number == ENODATA && !merge->stops)
            merge_lacking_tell(merge->lacking, merge->lacking_count, error);
        return false;
    }
    for (size_t i = 0; !has_reader && i < merge->failure_count; i++)
        message_warning("%s (left out)", merge->failures[i].error.message);
    if (merge->empty_count != 0 && merge->groups.count == 0)
        return error_set(error, "%s: " PROFILE_EMPTY_BECAUSE "; run it again, and name its profile",
                         merge_input_name(merge, merge->first_empty));
    if (merge->groups.count == 0)
        return error_set(error,
                         "%s%s: no profile to merge; name a directory or state that has some",
                         options->operand_count == 0 ? option_text(options, OPTION_WEIGHTED_INPUT)
                                                     : options->operands[0],
                         options->operand_count < 2 ? "" : " and others");
    if (merge->empty_count == 0 || has_reader)
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

static void print_done(const struct merge *merge, const char *output)
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
    message_line(stdout, "%s: %s of %s; read %s of %s, %s empty, %s left out", output,
                 count_text(count, "profile", profiles),
                 count_text(merge->groups.count, "image", images),
                 count_text(merge->inputs->count, "file", files),
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

/* Room for what is read of sidecars several times. A reader reads the mapping again. */
#define ROOM            ((uint64_t)4 << 20)
#define ROOM_FOR_READER ((uint64_t)32 << 20)

static void use_memo(const struct merge *merge, struct sidecar_memo *memo)
{
    for (size_t i = 0; i < merge->groups.count; i++) {
        struct profile_sidecar *found = profile_group_sidecar(merge->groups.list[i]);

        if (found != NULL) {
            found->sidecar->memo = memo;
            sidecar_drop_cached(found->sidecar);
        }
    }
}

/* Makes the files, or what the reader gets, explains, and only then gives the files their names. */
static bool make_files(struct merge *merge, const struct parsed_options *options,
                       const struct merge_reader *reader, struct error *error)
{
    struct sidecar_memo memo = {.room = reader != NULL ? ROOM_FOR_READER : ROOM};
    struct merge_outputs outputs = {0};
    bool done;

    use_memo(merge, &memo);
    done = (reader == NULL || reader->choose(reader->context, merge, error)) &&
           merge_outputs_make(&outputs, merge, options, reader != NULL, error) &&
           (reader != NULL || explain_merge(merge, options, error));
    memo.room = 0;
    done =
        done && (reader != NULL ? reader->read(reader->context, merge, outputs.files[0].fd, error)
                                : merge_outputs_commit(&outputs, error));
    use_memo(merge, NULL);
    zlib_memo_free(&memo.streams);
    merge_outputs_free(&outputs);
    return done;
}

/* ---- the command ---- */

/* The output, or the state. */
static const char *target_path(const struct parsed_options *options)
{
    const char *into = option_text(options, OPTION_INTO);

    return into != NULL ? into : option_text(options, OPTION_OUTPUT);
}

static bool merge_all(const struct parsed_options *options, const struct operands *operands,
                      struct profile_sidecars *sidecars, struct state *state,
                      const struct merge_reader *reader, struct error *error)
{
    struct progress progress;
    struct merge merge;
    struct stat status;
    bool done;

    merge_start(&merge);
    merge.inputs = &operands->inputs;
    merge.weights = operands->weights;
    merge.sidecars = sidecars;
    merge.threads = option_threads(options);
    merge.goes_on = option_number(options, OPTION_FAILURE_MODE) == FAILURE_MODE_ALL;
    merge.only_sums = state != NULL;
    merge.progress = &progress;
    merge.memory_limit = option_number(options, OPTION_MEMORY_LIMIT);
    progress_start(&progress, reader != NULL ? "profiles" : target_path(options), 0);
    for (size_t i = 0; progress.on_terminal && i < operands->inputs.count; i++) {
        if (stat(operands->inputs.paths[i], &status) == 0 && status.st_size > 0)
            progress.total += (uint64_t)status.st_size;
    }
    done = merge_read(&merge, error);
    progress_finish();
    profile_groups_finish(&merge.groups);
    done = done && report_inputs(&merge, options, reader != NULL, error) &&
           (state != NULL ? add_to_state(state, &merge, error)
                          : profile_groups_combine(&merge.groups, error) &&
                                make_files(&merge, options, reader, error));
    if (done && option_given(options, OPTION_VERBOSE))
        print_done(&merge, target_path(options));
    merge_free(&merge);
    return done;
}

bool merge_for_reader(const struct parsed_options *options, const char *const *profiles,
                      size_t count, struct profile_sidecars *sidecars,
                      const struct merge_reader *reader, struct error *error)
{
    struct operands operands = {.output = target_path(options)};
    bool done = collect_operands(options, profiles, count, &operands, error) &&
                merge_all(options, &operands, sidecars, NULL, reader, error);

    free_operands(&operands);
    return done;
}

/* Reports errors of the command line that parsing cannot find. Returns an enum exit_status. */
static int check_usage(const struct parsed_options *options, bool consumes)
{
    const char *output = option_text(options, OPTION_OUTPUT), *text, *file;
    enum profile_format format;
    uint64_t weight;

    if (options->operand_count == 0 && !option_given(options, OPTION_WEIGHTED_INPUT))
        return message_usage("merge", "PROFILE is missing");
    for (size_t i = 0; (text = option_text_at(options, OPTION_WEIGHTED_INPUT, i)) != NULL; i++) {
        if (!take_weight(text, &weight, &file))
            return message_usage("merge", "'--weighted-input %s' is not N,FILE with N from 1 on",
                                 text);
    }
    if (option_given(options, OPTION_JSON) && !option_given(options, OPTION_EXPLAIN))
        return message_usage("merge", "'--json' is for '--explain'");
    if (option_given(options, OPTION_INTO))
        return STATUS_DONE;
    if (consumes)
        return message_usage("merge", "'--consume' and '--watch' are for '--into'");
    if (output == NULL)
        return message_usage("merge", "'--output' or '--into' is missing");
    format = merge_output_format(options);
    if (format == FORMAT_UNKNOWN)
        return message_usage("merge",
                             "'--output %s' ends neither in .profraw nor in .profdata, and "
                             "--format is missing",
                             output);
    if (format == FORMAT_RAW && option_given(options, OPTION_SPARSE))
        return message_usage("merge", "'--sparse' is for the format profdata");
    if (format == FORMAT_RAW && option_given(options, OPTION_WEIGHTED_INPUT))
        return message_usage("merge", "'--weighted-input' is for the format profdata");
    return STATUS_DONE;
}

int command_merge(const struct parsed_options *options)
{
    bool consumes = option_given(options, OPTION_CONSUME) || option_given(options, OPTION_WATCH);
    struct operands operands = {.output = target_path(options),
                                .outputs = option_text(options, OPTION_PER_IMAGE)};
    const char *into = option_text(options, OPTION_INTO);
    struct profile_sidecars sidecars = {0};
    struct state *state = NULL;
    struct error error = {0};
    int status = check_usage(options, consumes), ended_by = 0;
    bool done;

    if (status != STATUS_DONE)
        return status;
    /* First, the batches that others have left in the state are finished. */
    done = profile_sidecars_open(&sidecars, options, &error) &&
           (into == NULL || (state_open(&state, into, STATE_CREATE,
                                        option_number(options, OPTION_MEMORY_LIMIT), &error) &&
                             state_fold(state, &error)));
    if (done && consumes)
        done = merge_consume(options, state, &sidecars, &ended_by, &error);
    else if (done)
        done = collect_operands(options, options->operands, options->operand_count, &operands,
                                &error) &&
               merge_all(options, &operands, &sidecars, state, NULL, &error);
    if (!done)
        message_error(&error);
    state_close(state);
    free_operands(&operands);
    profile_sidecars_close(&sidecars);
    if (ended_by != 0)
        raise(ended_by);
    return done ? STATUS_DONE : STATUS_FAILED;
}
