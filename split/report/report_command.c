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

/* ---- what is left out ---- */

static const char *const left_out_words[LEFT_OUT_KINDS] = {"missing", "empty",   "unmapped",
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

/* ---- making it ---- */

static bool make_union(struct report *report, struct error *error)
{
    const struct timespec epoch[2] = {{0, 0}, {0, 0}};
    struct union_writer writer = {.sink = output_sink,
                                  .context = &report->mapping,
                                  .renamer = {sources_rename, report},
                                  .visit = functions_visit,
                                  .visit_context = report};
    bool done = output_create_in_memory(&report->mapping, "the coverage mapping", error);

    if (!done)
        return false;
    writer.name = report->mapping.path;
    for (size_t i = 0; done && i < report->image_count; i++) {
        report->image_read = i;
        done = union_add(&writer, report->images[i].sidecar, error);
        sidecar_drop_cached(report->images[i].sidecar);
    }
    done = done && union_finish(&writer, error) && output_lend(&report->mapping, error);
    union_free(&writer);
    /* llvm-cov warns of images that are newer than their profile. */
    return done && (futimens(report->mapping.fd, epoch) == 0 ||
                    error_set_errno(error, errno, "the coverage mapping: its time cannot be set"));
}

/* Merges the indexed profiles, and the merged one, if there is one. */
static bool merge_indexed(struct report *report, struct error *error)
{
    struct llvm_command command = {0};
    struct output merged = {.fd = -1};
    char *program =
        llvm_tool_find(LLVM_PROFDATA, option_text(report->options, OPTION_LLVM_PROFDATA),
                       report->raw_version, error);
    bool done = program != NULL && output_create_in_memory(&merged, "the merged profile", error) &&
                output_lend(&merged, error);

    if (done) {
        llvm_command_add(&command, "%s", program);
        llvm_command_add(&command, "merge");
        llvm_command_add(&command, "-o");
        llvm_command_add_file(&command, "", merged.fd, merged.path);
        if (report->profile.fd >= 0)
            llvm_command_add_file(&command, "", report->profile.fd, "the merged profile");
        for (size_t i = 0; i < report->indexed_count; i++)
            llvm_command_add(&command, "%s", report->indexed[i]);
        done =
            llvm_command_run(&command, -1, merged.path, error) && output_take_back(&merged, error);
    }
    output_discard(&report->profile);
    report->profile = merged;
    llvm_command_free(&command);
    free(program);
    return done;
}

/* Makes one .profdata file of all profiles. */
static bool merge_profiles(struct report *report, struct error *error)
{
    struct merge *merge = &report->merge;
    struct merge_outputs outputs = {0};
    bool done = report->request.operand_count == 0 || merge_outputs_make(&outputs, merge, error);

    if (done && report->request.operand_count != 0)
        report->profile = outputs.files[--outputs.count];
    merge_outputs_free(&outputs);
    merge->memo.room = 0;
    /* Newer tools read the indexed profiles of older ones. Which release wrote those that are given
     * is not known. */
    for (size_t i = 0; report->indexed_count == 0 && i < merge->groups.count; i++) {
        if (merge->groups.list[i]->version > report->raw_version)
            report->raw_version = merge->groups.list[i]->version;
    }
    if (!done)
        return false;
    report->program = llvm_cov_find(option_text(report->options, OPTION_LLVM_COV),
                                    option_text(report->options, OPTION_LLVM_PROFDATA),
                                    report->raw_version, error);
    return report->program != NULL && (report->indexed_count == 0 || merge_indexed(report, error));
}

/* Reads the operands, and makes of them all that a report is written of: the profile and the union.
 * Close with close_report, even after a failure. */
static bool open_report(struct report *report, const char *const *operands, size_t count,
                        struct error *error)
{
    const struct parsed_options *options = report->options;
    const char *temporary = getenv("TMPDIR");

    report->spool =
        command_text("%s/profiles", temporary == NULL || temporary[0] == '\0' ? "/tmp" : temporary);
    report->request = (struct merge_request){
        .sidecars = &report->sidecars,
        .threads = option_threads(options),
        .memory_limit = option_number(options, OPTION_MEMORY_LIMIT),
        .goes_on = report_ignores(report, LEFT_OUT_MISSING),
        .output = report->spool,
        .is_in_memory = true,
        .format = FORMAT_INDEXED,
        .llvm_profdata = option_text(options, OPTION_LLVM_PROFDATA),
    };
    merge_start(&report->merge, &report->request);
    return report_gather(report, operands, count, error) && merge_profiles(report, error) &&
           sources_choose(report, error) && make_union(report, error) &&
           functions_check(report, error);
}

/* Frees all but the text of the tracefile and what the verdict needs. */
static void close_report(struct report *report)
{
    merge_free(&report->merge);
    report_free_images(report);
    free(report->program);
    free(report->spool);
    sources_free(report->sources);
    free(report->root);
    functions_free(report->functions);
    buffer_free(&report->left_out);
    llvm_capture_free(&report->totals);
    output_discard(&report->profile);
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

int report_profiles(const struct parsed_options *options, const char *const *operands, size_t count)
{
    const char *other = option_text(options, OPTION_BASELINE);
    struct path_maps maps = {0};
    struct report report = {
        .options = options, .profile = {.fd = -1}, .mapping = {.fd = -1}, .maps = &maps};
    struct report baseline = report;
    struct error error = {0};
    int status = path_maps_read(&maps, options);
    bool done = true;

    if (status != STATUS_DONE) {
        path_maps_free(&maps);
        return status;
    }
    if (other != NULL) {
        done = open_report(&baseline, &other, 1, &error) && report_keep_lines(&baseline, &error);
        close_report(&baseline);
        report.lines = baseline.lines;
    }
    if (done) {
        done = open_report(&report, operands, count, &error) && report_write(&report, &error) &&
               check_verdict(&report, &error) && check_verdict(&baseline, &error);
        close_report(&report);
    }
    if (!done)
        message_error(&error);
    else
        path_maps_warn(&maps);
    llvm_capture_free(&report.lines);
    path_maps_free(&maps);
    return done ? STATUS_DONE : STATUS_FAILED;
}

int command_report(const struct parsed_options *options)
{
    int status = report_check_usage(options);

    return status != STATUS_DONE
               ? status
               : report_profiles(options, options->operands, options->operand_count);
}
