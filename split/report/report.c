/*
 * covsplit report: from profiles to a report, in one command. See report.h.
 *
 * The profiles are merged, the sidecars of their images become a union, and llvm-cov makes the
 * report of both, which are in memory. So a report has exactly the images that the profiles are of,
 * and what llvm-cov prints is what it would print of the images before they were split.
 */
#include "split/report/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "split/cli/commands.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/llvm_tool.h"

/* ---- what is left out ---- */

const char *const left_out_words[LEFT_OUT_KINDS + 1] = {"missing", "empty",   "unmapped",
                                                        "earlier", "foreign", "mismatched"};

/* The kind of a word; LEFT_OUT_KINDS if it is none. */
static enum left_out find_kind(const char *word)
{
    size_t kind = 0;

    while (kind < LEFT_OUT_KINDS && strcmp(left_out_words[kind], word) != 0)
        kind++;
    return (enum left_out)kind;
}

bool report_ignores(const struct report *report, enum left_out kind)
{
    const char *word;

    for (size_t i = 0; (word = option_text_at(report->options, OPTION_IGNORE, i)) != NULL; i++) {
        if (find_kind(word) == kind)
            return true;
    }
    return false;
}

void report_leave_out(struct report *report, enum left_out kind, const char *format, ...)
{
    struct error line;
    va_list arguments;

    va_start(arguments, format);
    format_printable(&line, format, arguments);
    va_end(arguments);
    message_warning("%s", line.message);
    buffer_append(&report->left_out, line.message, strlen(line.message));
    exit_unless_allocated(buffer_append(&report->left_out, "\n", 1), report->left_out.size);
    if (!report_ignores(report, kind) && report->unproven++ == 0) {
        report->first_unproven = line;
        report->first_kind = kind;
    }
}

void report_leave_out_lacking(struct report *report, const struct merge_lacking *image)
{
    char hex[UUID_HEX_MAX], count[COUNT_TEXT_MAX];

    if (image->uuid.size == 0)
        report_leave_out(report, LEFT_OUT_MISSING,
                         "%s left out, such as %s: of images that were not split and are not "
                         "named, so the report lacks these",
                         count_text(image->profile_count, "profile", count), image->first);
    else
        report_leave_out(report, LEFT_OUT_MISSING,
                         "%s of the image with UUID %s left out, such as %s: no sidecar of it was "
                         "found, so the report lacks the image",
                         count_text(image->profile_count, "profile", count),
                         uuid_format(&image->uuid, hex), image->first);
}

/* Fails if something is left out of which there is to be a verdict. */
static bool check_verdict(const struct report *report, struct error *error)
{
    const char *option = option_given(report->options, OPTION_FAIL_UNDER) ? "fail-under"
                         : option_given(report->options, OPTION_BASELINE) ? "baseline"
                                                                          : NULL;
    char more[COUNT_TEXT_MAX];

    return option == NULL || report->unproven == 0 ||
           error_set(error,
                     "%.600s%s%s; --%s is about all that is given, so mend this, or give --ignore "
                     "%s",
                     report->first_unproven.message, report->unproven == 1 ? "" : ", and ",
                     report->unproven == 1 ? "" : count_text(report->unproven - 1, "other", more),
                     option, left_out_words[report->first_kind]);
}

/* Tells of the inputs that the merge has left out. It is an error if one is bad for another reason
 * than that no sidecar of its image was found: a sidecar that is damaged or of another build is not
 * missing. */
static bool check_inputs(struct report *report, const struct merge *merge, struct error *error)
{
    char count[COUNT_TEXT_MAX];

    for (size_t i = 0; i < merge->failure_count; i++) {
        if (merge->failures[i].error.number != ENODATA) {
            *error = merge->failures[i].error;
            return false;
        }
    }
    for (size_t i = 0; i < merge->lacking_count; i++)
        report_leave_out_lacking(report, &merge->lacking[i]);
    if (merge->empty_count != 0)
        report_leave_out(report, LEFT_OUT_EMPTY,
                         "%s, such as %s: " PROFILE_EMPTY_BECAUSE "; left out",
                         count_text(merge->empty_count, "profile", count),
                         merge_input_name(merge, merge->first_empty));
    return true;
}

/* ---- making it ---- */

/* By name, then UUID: the same however the profiles are named. */
static int compare_images(const void *a, const void *b)
{
    const struct sidecar *left = ((const struct report_image *)a)->sidecar;
    const struct sidecar *right = ((const struct report_image *)b)->sidecar;
    int order = strcmp(left->image_name, right->image_name);

    return order != 0 ? order : uuid_compare(&left->facts.uuid, &right->facts.uuid);
}

static bool make_union(struct report *report, struct error *error)
{
    const struct timespec epoch[2] = {{0, 0}, {0, 0}};
    struct union_writer writer = {.sink = output_sink,
                                  .context = &report->mapping,
                                  .renamer = sources_renamer(report),
                                  .visit = functions_visit,
                                  .visit_context = report};
    bool done = output_create_in_memory(&report->mapping, "the coverage mapping", error);

    if (!done)
        return false;
    report->functions = functions_new();
    writer.name = report->mapping.path;
    for (size_t i = 0; done && i < report->image_count; i++) {
        done = union_add(&writer, report->images[i].sidecar, error);
        functions_next_image(report);
        sidecar_drop_cached(report->images[i].sidecar);
    }
    done = done && union_finish(&writer, error) && output_lend(&report->mapping, error);
    union_free(&writer);
    /* llvm-cov warns of images that are newer than their profile. */
    return done && (futimens(report->mapping.fd, epoch) == 0 ||
                    error_set_errno(error, errno, "the coverage mapping: its time cannot be set"));
}

static void note_time(struct report *report, const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && status.st_mtime > 0 &&
        (uint64_t)status.st_mtime > report->newest)
        report->newest = (uint64_t)status.st_mtime;
}

/* Merges the indexed profiles, and the merged one, if there is one, to `merged`. */
static bool merge_indexed(struct report *report, struct output *merged, struct error *error)
{
    struct llvm_command command = {0};
    char *program =
        llvm_tool_find(LLVM_PROFDATA, option_text(report->options, OPTION_LLVM_PROFDATA),
                       report->raw_version, error);
    bool done = program != NULL && output_create_in_memory(merged, "the merged profile", error) &&
                output_lend(merged, error);

    if (done) {
        llvm_command_add(&command, "%s", program);
        llvm_command_add(&command, "merge");
        llvm_command_add(&command, "-o");
        llvm_command_add_file(&command, "", merged->fd, merged->path);
        if (report->profile >= 0)
            llvm_command_add_file(&command, "", report->profile, "the merged profile");
        for (size_t i = 0; i < report->indexed_count; i++)
            llvm_command_add(&command, "%s", report->indexed[i]);
        done =
            llvm_command_run(&command, -1, merged->path, error) && output_take_back(merged, error);
        report->profile = merged->fd;
    }
    llvm_command_free(&command);
    free(program);
    return done;
}

/* The `choose` of a merge_reader; without raw profiles, the merge is NULL. */
static bool choose(void *context, struct merge *merge, struct error *error)
{
    struct report *report = context;
    bool done = merge == NULL ||
                (check_inputs(report, merge, error) && report_add_merged(report, merge, error));

    for (size_t i = 0; done && i < report->indexed_count; i++) {
        note_time(report, report->indexed[i]);
        done = report_add_indexed(report, report->indexed[i], error);
    }
    return done &&
           (!option_given(report->options, OPTION_ALL) || report_add_stored(report, error)) &&
           report_choose_images(report, merge, error) &&
           (merge == NULL || merge->groups.count != 0 ||
            error_set(error,
                      "%s: no raw profile is left for the report; give profiles of the images "
                      "that are named",
                      report->profiles[0]));
}

/* Makes the report of the images that are chosen. */
static bool make_with_images(struct report *report, struct error *error)
{
    struct output merged = {.fd = -1};
    bool done;

    report->program = llvm_cov_find(option_text(report->options, OPTION_LLVM_COV),
                                    option_text(report->options, OPTION_LLVM_PROFDATA),
                                    report->raw_version, error);
    done = report->program != NULL &&
           (report->indexed_count == 0 || merge_indexed(report, &merged, error));
    if (report->image_count > 1)
        qsort(report->images, report->image_count, sizeof(*report->images), compare_images);
    done = done && sources_choose(report, error) && make_union(report, error);
    if (done)
        functions_check_forms(report);
    if (done && (report->indexed_count != 0 || report->has_strangers))
        done = functions_check_foreign(report, error);
    done = done && report->make(report, error);
    output_discard(&merged);
    return done;
}

/* The `read` of a merge_reader. */
static bool make_merged(void *context, const struct merge *merge, int profile, struct error *error)
{
    struct report *report = context;

    report->profile = profile;
    /* Newer tools read the indexed profiles of older ones. Which release wrote those that are given
     * is not known. */
    for (size_t i = 0; report->indexed_count == 0 && i < merge->groups.count; i++) {
        if (merge->groups.list[i]->version > report->raw_version)
            report->raw_version = merge->groups.list[i]->version;
    }
    for (size_t i = 0; i < merge->inputs->count; i++)
        note_time(report, merge->inputs->paths[i]);
    return make_with_images(report, error);
}

/* Reads the operands, and calls report->make. */
static bool run_report(struct report *report, const char *const *operands, size_t count,
                       struct error *error)
{
    const struct merge_reader reader = {choose, make_merged, report};

    if (!profile_sidecars_open(&report->sidecars, report->options, error) ||
        !report_read_operands(report, operands, count, error))
        return false;
    if (report->profile_count == 0 && report->indexed_count == 0)
        return error_set(error, "%s: an image, and no profile is named; name the profiles, too",
                         operands[0]);
    return report->profile_count == 0
               ? choose(report, NULL, error) && make_with_images(report, error)
               : merge_for_reader(&report->merging, report->profiles, report->profile_count,
                                  &report->sidecars, &reader, error);
}

static void free_report(struct report *report)
{
    report_free_images(report);
    free(report->program);
    sources_free(report->sources);
    functions_free(report->functions);
    buffer_free(&report->left_out);
    buffer_free(&report->totals);
    output_discard(&report->mapping);
    profile_sidecars_close(&report->sidecars);
}

/* ---- the command ---- */

int report_check_usage(const struct parsed_options *options)
{
    static const struct {
        enum option_id one, other;
        const char *names[2];
    } apart[] = {
        {OPTION_SUMMARY, OPTION_HTML, {"summary", "html"}},
        {OPTION_HTML, OPTION_OUTPUT, {"html", "output"}},
        {OPTION_BASELINE, OPTION_HTML, {"baseline", "html"}},
        {OPTION_BASELINE, OPTION_FORMAT, {"baseline", "format"}},
        {OPTION_BASELINE, OPTION_SUMMARY, {"baseline", "summary"}},
        {OPTION_BASELINE, OPTION_MISSING_LINES, {"baseline", "show-missing-lines"}},
        {OPTION_HTML, OPTION_MISSING_LINES, {"html", "show-missing-lines"}},
        {OPTION_FORMAT, OPTION_MISSING_LINES, {"format", "show-missing-lines"}},
    };
    const char *command = options->command->name, *text;
    size_t metric;
    double percent;

    for (size_t i = 0; (text = option_text_at(options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        if (!report_read_limit(text, &metric, &percent))
            return message_usage(command,
                                 "'--fail-under %s' is not METRIC=PERCENT, with lines, functions, "
                                 "regions or branches",
                                 text);
    }
    for (size_t i = 0; (text = option_text_at(options, OPTION_IGNORE, i)) != NULL; i++) {
        if (find_kind(text) == LEFT_OUT_KINDS)
            return message_usage(command,
                                 "'--ignore %s' is not missing, empty, unmapped, earlier, foreign "
                                 "or mismatched",
                                 text);
    }
    for (size_t i = 0; i < sizeof(apart) / sizeof(apart[0]); i++) {
        if (option_given(options, apart[i].one) && option_given(options, apart[i].other))
            return message_usage(command, "'--%s' is not for '--%s'", apart[i].names[1],
                                 apart[i].names[0]);
    }
    if (option_given(options, OPTION_OPEN) && !option_given(options, OPTION_HTML))
        return message_usage(command, "'--open' is for '--html'");
    return STATUS_DONE;
}

int command_report(const struct parsed_options *options)
{
    const char *temporary = getenv("TMPDIR"), *other = option_text(options, OPTION_BASELINE);
    struct path_maps maps = {0};
    struct report start = {.options = options,
                           .merging = *options,
                           .mapping = {.fd = -1},
                           .maps = &maps,
                           .profile = -1};
    struct report report, baseline;
    struct error error = {0};
    int status = report_check_usage(options);
    char *spool;
    bool done;

    if (status == STATUS_DONE)
        status = path_maps_read(&maps, options);
    if (status != STATUS_DONE) {
        path_maps_free(&maps);
        return status;
    }
    /* merge puts unnamed files there. */
    spool =
        command_text("%s/profiles", temporary == NULL || temporary[0] == '\0' ? "/tmp" : temporary);
    start.merging.values[OPTION_OUTPUT] = (struct option_value){.given = true, .text = spool};
    start.merging.values[OPTION_FORMAT] = (struct option_value){.given = false};
    start.merging.values[OPTION_INTO] = (struct option_value){.given = false};
    start.merging.values[OPTION_FAILURE_MODE].number =
        report_ignores(&start, LEFT_OUT_MISSING) ? 1 : 0;
    report = baseline = start;
    report.make = report_write;
    baseline.make = report_keep_lines;
    done = other == NULL || run_report(&baseline, &other, 1, &error);
    report.lines = baseline.lines;
    done = done && run_report(&report, options->operands, options->operand_count, &error) &&
           check_verdict(&report, &error) && check_verdict(&baseline, &error);
    if (!done)
        message_error(&error);
    else
        path_maps_warn(&maps);
    free_report(&report);
    free_report(&baseline);
    buffer_free(&baseline.lines);
    path_maps_free(&maps);
    free(spool);
    return done ? STATUS_DONE : STATUS_FAILED;
}
