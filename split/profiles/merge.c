/*
 * covsplit merge: profiles of any number of images, added up and correlated.
 *
 * Profiles are read and summed by merge_read.h. merge_outputs.h writes the sums to files; with
 * --into they are added to a state instead. explain.h says what became of the inputs.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "split/cli/commands.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/explain.h"
#include "split/profiles/merge.h"
#include "split/profiles/merge_consume.h"
#include "split/profiles/merge_inputs.h"
#include "split/profiles/merge_into.h"
#include "split/profiles/merge_outputs.h"
#include "split/profiles/merge_read.h"

enum failure_mode {
    FAILURE_MODE_ANY,
    FAILURE_MODE_ALL,
};

/* ---- what was read ---- */

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
static bool report_inputs(const struct merge *merge, const struct parsed_options *options,
                          struct error *error)
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
        return error_set(error,
                         "%s%s: no profile to merge; name a directory or state that has some",
                         options->operands[0], options->operand_count == 1 ? "" : " and others");
    if (merge->empty_count != 0)
        warn_of_empty(merge);
    return true;
}

/* ---- what is written ---- */

/* Finds out about which functions the images disagree. If that fails, it is an error only if it was
 * asked for: the outputs do not depend on it. */
static bool find_conflicts(const struct merge *merge, const struct parsed_options *options,
                           struct conflicts *conflicts, struct error *error)
{
    bool thorough = option_given(options, OPTION_EXPLAIN);

    if (merge->groups.count < 2 || explain_find(merge, thorough, conflicts, error))
        return true;
    if (thorough || error_is_of_memory(error))
        return false;
    message_warning("%s (so it is not known whether the images disagree)", error->message);
    return true;
}

static bool explain(const struct merge *merge, const struct parsed_options *options,
                    const struct conflicts *conflicts, struct error *error)
{
    if (!option_given(options, OPTION_EXPLAIN)) {
        explain_warn(conflicts);
        return true;
    }
    if (option_given(options, OPTION_JSON))
        return explain_print_json(merge, conflicts, error);
    explain_print(merge, conflicts);
    return true;
}

static bool write_all(const struct merge *merge, const struct parsed_options *options,
                      struct error *error)
{
    struct merge_outputs outputs = {0};
    struct conflicts conflicts = {0};
    bool done = merge_outputs_make(&outputs, merge, options, error) &&
                find_conflicts(merge, options, &conflicts, error) &&
                explain(merge, options, &conflicts, error) && merge_outputs_commit(&outputs, error);

    merge_outputs_free(&outputs);
    conflicts_free(&conflicts);
    return done;
}

/* ---- what was done ---- */

static void print_group(const struct profile_group *group)
{
    char count[COUNT_TEXT_MAX];

    if (group->sidecar != NULL)
        message_line(stdout, "%s: %s, by %s", sidecar_image_name(group->sidecar->sidecar),
                     count_text(group->sum->profile_count, "lightweight profile", count),
                     sidecar_name(group->sidecar->sidecar));
    else
        message_line(stdout, "%s%s: %s", group->name,
                     group->sum->profile_count == 1 ? "" : " and others",
                     count_text(group->sum->profile_count, "full profile", count));
}

static void print_done(const struct merge *merge, const char *output)
{
    char files[COUNT_TEXT_MAX], bytes[COUNT_TEXT_MAX], profiles[COUNT_TEXT_MAX];
    char images[COUNT_TEXT_MAX], empty[COUNT_TEXT_MAX], bad[COUNT_TEXT_MAX];
    uint64_t count = 0;

    for (size_t i = 0; i < merge->groups.count; i++) {
        print_group(merge->groups.list[i]);
        count += merge->groups.list[i]->sum->profile_count;
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
    uint64_t *weights;
    /* Gets the merged profile, in memory, in place of a file; NULL: writes files. */
    merge_reader reader;
    void *reader_context;
};

static bool read_merged(const struct parsed_options *options, const struct merge *merge,
                        const struct merge_operands *operands, struct error *error)
{
    struct conflicts conflicts = {0};
    struct output merged = {.fd = -1};
    bool done = merge_outputs_make_in_memory(&merged, merge, options, error) &&
                find_conflicts(merge, options, &conflicts, error);

    if (done)
        explain_warn(&conflicts);
    done = done && operands->reader(operands->reader_context, merge, merged.fd, error);
    output_discard(&merged);
    conflicts_free(&conflicts);
    return done;
}

static bool merge_all(const struct parsed_options *options, const struct merge_operands *operands,
                      struct profile_sidecars *sidecars, struct state *state, struct error *error)
{
    const struct path_list *inputs = &operands->inputs;
    struct test_recorder recorder;
    struct progress progress;
    struct merge merge = {
        .inputs = inputs,
        .weights = operands->weights,
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
    done = done && report_inputs(&merge, options, error) &&
           (state != NULL
                ? merge_into_add(state, &merge, error)
                : profile_groups_combine(&merge.groups, error) &&
                      (operands->reader != NULL ? read_merged(options, &merge, operands, error)
                                                : write_all(&merge, options, error)));
    if (done && option_given(options, OPTION_VERBOSE))
        print_done(&merge, target_path(options));
    merge_free(&merge);
    test_recorder_free(&recorder);
    return done;
}

static bool collect_input(const struct parsed_options *options, const char *operand,
                          uint64_t weight, struct merge_operands *operands, struct error *error)
{
    size_t before = operands->inputs.count, count;
    uint64_t *weights;

    if (!merge_inputs_add(&operands->inputs, operand, target_path(options),
                          option_text(options, OPTION_PER_IMAGE), &operands->naming,
                          &operands->tests, error))
        return false;
    count = operands->inputs.count;
    weights = reallocarray(operands->weights, count + 1, sizeof(*weights));
    if (weights == NULL)
        return error_out_of_memory(error, operand, count * sizeof(*weights));
    for (size_t i = before; i < count; i++)
        weights[i] = weight;
    operands->weights = weights;
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
static bool collect_inputs(const struct parsed_options *options, struct merge_operands *operands,
                           struct error *error)
{
    const char *text, *file;
    uint64_t weight;

    for (size_t i = 0; i < options->operand_count; i++) {
        if (!collect_input(options, options->operands[i], 1, operands, error))
            return false;
    }
    for (size_t i = 0; (text = option_text_at(options, OPTION_WEIGHTED_INPUT, i)) != NULL; i++) {
        if (take_weight(text, &weight, &file) &&
            !collect_input(options, file, weight, operands, error))
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
    const char *output = option_text(options, OPTION_OUTPUT), *text, *file;
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
    if (option_given(options, OPTION_BY) || option_given(options, OPTION_BY_PATH))
        return message_usage("merge", "'--by' and '--by-path' are for '--into'");
    if (consumes(options))
        return message_usage("merge", "'--consume' and '--watch' are for '--into'");
    if (output == NULL)
        return message_usage("merge", "'--output' or '--into' is missing");
    if (merge_output_format(options) == FORMAT_UNKNOWN)
        return message_usage("merge",
                             "'--output %s' ends neither in .profraw nor in .profdata, and "
                             "--format is missing",
                             output);
    if (merge_output_format(options) == FORMAT_RAW && option_given(options, OPTION_SPARSE))
        return message_usage("merge", "'--sparse' is for the format profdata");
    if (merge_output_format(options) == FORMAT_RAW && option_given(options, OPTION_WEIGHTED_INPUT))
        return message_usage("merge", "'--weighted-input' is for the format profdata");
    return STATUS_DONE;
}

bool merge_for_reader(const struct parsed_options *options, const char *const *profiles,
                      size_t count, struct profile_sidecars *sidecars, merge_reader reader,
                      void *context, struct error *error)
{
    struct merge_operands operands = {.reader = reader, .reader_context = context};
    bool done = true;

    for (size_t i = 0; done && i < count; i++)
        done = collect_input(options, profiles[i], 1, &operands, error);
    done = done && merge_all(options, &operands, sidecars, NULL, error);
    path_list_free(&operands.inputs);
    path_list_free(&operands.tests);
    free(operands.weights);
    return done;
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
    free(operands.weights);
    profile_sidecars_close(&sidecars);
    if (ended_by != 0)
        raise(ended_by);
    return done ? STATUS_DONE : STATUS_FAILED;
}
