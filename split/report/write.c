/*
 * What `covsplit report` writes: llvm-cov's own table, pages and formats as they are, and what
 * coverage.c and compare.c make of its tracefile.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/profiles/llvm_tool.h"
#include "split/report/report.h"

enum report_format { /* the words of --format */
                     REPORT_LCOV,
                     REPORT_JSON,
                     REPORT_SUMMARY,
                     REPORT_COBERTURA,
};

/* ---- llvm-cov ---- */

/* The output of llvm-cov, in memory. */
struct capture {
    struct output output;
    struct input text;
};

static void capture_free(struct capture *capture)
{
    input_close(&capture->text);
    output_discard(&capture->output);
}

/* Runs `llvm-cov VERB` with the two files, and up to two more options. Its output goes to the
 * capture, which must be freed even after a failure; NULL: it has none but the files in
 * `directory`.
 */
static bool run_llvm_cov(const struct report *report, const char *verb, const char *first,
                         const char *second, struct capture *capture, const char *directory,
                         struct error *error)
{
    const struct parsed_options *options = report->options;
    struct llvm_command command = {0};
    const char *text;
    bool done = true;

    llvm_command_add(&command, "%s", report->program);
    llvm_command_add(&command, "%s", verb);
    llvm_command_add_file(&command, "", report->mapping.fd, report->mapping.path);
    llvm_command_add_file(&command, "-instr-profile=", report->profile, "the merged profile");
    command.lacks_sources = report->lacks_sources;
    if (capture == NULL)
        llvm_command_add(&command, "-format=html");
    if (first != NULL)
        llvm_command_add(&command, "%s", first);
    if (second != NULL)
        llvm_command_add(&command, "%s", second);
    for (size_t i = 0; (text = option_text_at(options, OPTION_IGNORE_FILES, i)) != NULL; i++)
        llvm_command_add(&command, "-ignore-filename-regex=%s", text);
    if (report->is_selected)
        llvm_command_add_file(&command, "@", report->selection.fd, report->selection.path);
    if (capture == NULL) {
        done = llvm_command_run(&command, -1, directory, error);
    } else {
        *capture = (struct capture){.output.fd = -1, .text.fd = -1};
        done = output_create_in_memory(&capture->output, "the report", error) &&
               output_lend(&capture->output, error) &&
               llvm_command_run(&command, capture->output.fd, capture->output.path, error) &&
               output_take_back(&capture->output, error) &&
               output_map(&capture->output, &capture->text, error);
    }
    llvm_command_free(&command);
    return done;
}

/* ---- formats ---- */

/* Writes to -o, or else to standard output. */
static bool write_result(const struct report *report, struct bytes text, struct error *error)
{
    const char *path = option_text(report->options, OPTION_OUTPUT);
    const struct output_options options = {.mode = file_new_mode()};
    enum output_result result;
    struct output output;
    bool done;

    if (path == NULL)
        return fwrite(text.data, 1, (size_t)text.size, stdout) == text.size ||
               error_set_errno(error, errno, "standard output: cannot be written");
    if (!output_create(&output, path, &options, error))
        return false;
    done = output_write(&output, text, error) && output_commit(&output, &result, error);
    output_discard(&output);
    return done;
}

/* True if what is printed may have colours and bars. */
static bool is_for_terminal(const struct report *report)
{
    return !option_given(report->options, OPTION_OUTPUT) && has_colour(STDOUT_FILENO);
}

/* Appends to a JSON object what --ignore-missing left out. */
static void add_left_out(const struct report *report, struct bytes json, struct buffer *text)
{
    struct bytes rest = buffer_view(&report->left_out), line;
    bool is_first = true;

    while (json.size != 0 && json.data[json.size - 1] != '}')
        json.size--;
    buffer_append(text, json.data, (size_t)json.size - (json.size != 0));
    coverage_print(text, ",\"left_out\":[");
    while (take_line(&rest, &line)) {
        coverage_print(text, "%s\"", is_first ? "" : ",");
        for (uint64_t i = 0; i < line.size; i++)
            coverage_print(text, line.data[i] == '"' || line.data[i] == '\\' ? "\\%c" : "%c",
                           line.data[i]);
        coverage_print(text, "\"");
        is_first = false;
    }
    coverage_print(text, "]}");
}

static bool write_format(struct report *report, struct error *error)
{
    static const char *const first[] = {"-format=lcov", "-format=text", "-format=text",
                                        "-format=lcov"};
    enum report_format format = (enum report_format)option_number(report->options, OPTION_FORMAT);
    const char *second = format == REPORT_SUMMARY ? "-summary-only" : NULL;
    struct coverage coverage = {0};
    struct buffer text = {0};
    struct capture capture;
    bool done = run_llvm_cov(report, "export", first[format], second, &capture, NULL, error);

    if (done && format == REPORT_COBERTURA) {
        done = coverage_read(&coverage, capture.text.bytes, error);
        coverage_write_cobertura(&coverage, report->root, report->newest,
                                 buffer_view(&report->left_out), &text);
    } else if (done && format != REPORT_LCOV && report->left_out.size != 0) {
        add_left_out(report, capture.text.bytes, &text);
    }
    done = done &&
           write_result(report, text.size != 0 ? buffer_view(&text) : capture.text.bytes, error);
    coverage_free(&coverage);
    buffer_free(&text);
    capture_free(&capture);
    return done;
}

static bool write_table(struct report *report, struct error *error)
{
    bool is_summary = option_given(report->options, OPTION_SUMMARY);
    struct coverage coverage = {0};
    struct buffer text = {0};
    struct capture capture;
    bool done = run_llvm_cov(report, is_summary ? "export" : "report",
                             is_summary                ? "-format=lcov"
                             : is_for_terminal(report) ? "-use-color"
                                                       : NULL,
                             NULL, &capture, NULL, error);

    if (done && is_summary) {
        done = coverage_read(&coverage, capture.text.bytes, error);
        coverage_write_summary(&coverage, report->root, is_for_terminal(report), &text);
    } else if (done) {
        buffer_append(&text, capture.text.bytes.data, (size_t)capture.text.bytes.size);
    }
    buffer_append(&text, report->left_out.data, report->left_out.size);
    command_require(!text.failed, text.size);
    done = done && write_result(report, buffer_view(&text), error);
    coverage_free(&coverage);
    buffer_free(&text);
    capture_free(&capture);
    return done;
}

static bool write_html(struct report *report, struct error *error)
{
    const char *directory = option_text(report->options, OPTION_HTML);
    char *option = command_text("-output-dir=%s", directory);
    char *title = report->left_out.size == 0
                      ? NULL
                      : command_text("-project-title=%.*s", (int)report->left_out.size - 1,
                                     (const char *)report->left_out.data);
    bool done = run_llvm_cov(report, "show", option, title, NULL, directory, error);

    free(option);
    free(title);
    return done;
}

/* ---- limits ---- */

static const char *const metrics[] = {"lines", "functions", "regions", "branches"};
#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

bool report_read_limit(const char *text, size_t *metric, double *percent)
{
    const char *equals = strchr(text, '=');
    char *end;

    if (equals == NULL)
        return false;
    for (*metric = 0; *metric < METRICS; (*metric)++) {
        if (strlen(metrics[*metric]) == (size_t)(equals - text) &&
            memcmp(text, metrics[*metric], (size_t)(equals - text)) == 0)
            break;
    }
    *percent = strtod(equals + 1, &end);
    return *metric < METRICS && end != equals + 1 && *end == '\0' && *percent >= 0 &&
           *percent <= 100;
}

/* Finds a member of the totals in what `llvm-cov export -summary-only` wrote. */
static bool find_total(struct bytes json, const char *metric, uint64_t *count, uint64_t *covered)
{
    char key[64];
    const char *at = memmem(json.data, (size_t)json.size, "\"totals\":", strlen("\"totals\":"));
    size_t left = at == NULL ? 0 : (size_t)((const char *)json.data + json.size - at);
    char number[64];

    snprintf(key, sizeof(key), "\"%s\":{\"count\":", metric);
    at = left == 0 ? NULL : memmem(at, left, key, strlen(key));
    if (at == NULL)
        return false;
    at += strlen(key);
    left = (size_t)((const char *)json.data + json.size - at);
    snprintf(number, sizeof(number), "%.*s", (int)(left < 60 ? left : 60), at);
    return sscanf(number, "%ju,\"covered\":%ju", count, covered) == 2;
}

static bool check_limit(const char *metric, uint64_t count, uint64_t covered, double percent,
                        struct error *error)
{
    double have = count == 0 ? 100 : (double)covered * 100 / (double)count;
    char all[COUNT_TEXT_MAX], some[COUNT_TEXT_MAX];

    return have >= percent ||
           error_set(error, "%s: %.2f%% covered (%s of %s), and --fail-under wants %g%%", metric,
                     have, number_text(covered, some), number_text(count, all), percent);
}

/* ---- a change ---- */

/* Prints the coverage of the lines that --diff adds, of which --fail-under is then, and how it
 * differs from the baseline. */
static bool report_change(struct report *report, struct error *error)
{
    const char *path = option_text(report->options, OPTION_DIFF), *limit;
    uint64_t size_limit = option_number(report->options, OPTION_MEMORY_LIMIT);
    struct change_coverage change = {0};
    struct coverage coverage = {0}, before = {0};
    struct capture capture = {.output.fd = -1, .text.fd = -1};
    struct input diff = {.fd = -1};
    char added[COUNT_TEXT_MAX], code[COUNT_TEXT_MAX], covered[COUNT_TEXT_MAX];
    bool done = (path == NULL || stream_read_input(&diff, path, memory_limit_given(size_limit),
                                                   NULL, NULL, error)) &&
                run_llvm_cov(report, "export", "-format=lcov", NULL, &capture, NULL, error) &&
                coverage_read(&coverage, capture.text.bytes, error);

    if (done && path != NULL) {
        done = coverage_of_change(&coverage, diff.bytes, stream_name(path), report->root, &change,
                                  error);
        coverage_print(
            &change.table, "%s added, %s with code, %s covered (%.2f%%)\n",
            count_text(change.added, "line", added), number_text(change.with_code, code),
            number_text(change.covered, covered),
            change.with_code == 0 ? 100 : (double)change.covered * 100 / (double)change.with_code);
    }
    if (done && option_given(report->options, OPTION_BASELINE)) {
        done = coverage_read(&before, buffer_view(&report->lines), error);
        coverage_compare(&before, &coverage, path == NULL ? NULL : &diff.bytes, report->root,
                         &change.table);
    }
    buffer_append(&change.table, report->left_out.data, report->left_out.size);
    done = done && write_result(report, buffer_view(&change.table), error);
    for (size_t i = 0; done && path != NULL &&
                       (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL;
         i++) {
        double percent = 0;
        size_t metric;

        report_read_limit(limit, &metric, &percent);
        done = check_limit("new lines", change.with_code, change.covered, percent, error);
    }
    buffer_free(&change.table);
    coverage_free(&coverage);
    coverage_free(&before);
    capture_free(&capture);
    input_close(&diff);
    return done;
}

bool report_keep_lines(struct report *report, struct error *error)
{
    struct capture capture;
    bool done = run_llvm_cov(report, "export", "-format=lcov", NULL, &capture, NULL, error);

    if (done)
        command_require(
            buffer_append(&report->lines, capture.text.bytes.data, (size_t)capture.text.bytes.size),
            capture.text.bytes.size);
    capture_free(&capture);
    return done;
}

static bool check_limits(struct report *report, struct error *error)
{
    struct capture capture;
    bool done =
        run_llvm_cov(report, "export", "-format=text", "-summary-only", &capture, NULL, error);
    const char *limit;

    for (size_t i = 0;
         done && (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        uint64_t count, covered;
        double percent = 0;
        size_t metric;

        report_read_limit(limit, &metric, &percent);
        done = find_total(capture.text.bytes, metrics[metric], &count, &covered)
                   ? check_limit(metrics[metric], count, covered, percent, error)
                   : error_set(error,
                               "--fail-under %s: this llvm-cov does not tell these; give another "
                               "--llvm-cov",
                               limit);
    }
    capture_free(&capture);
    return done;
}

bool report_write(struct report *report, struct error *error)
{
    const struct parsed_options *options = report->options;

    if (option_given(options, OPTION_DIFF) || option_given(options, OPTION_BASELINE))
        return report_change(report, error);
    return (option_given(options, OPTION_HTML)     ? write_html
            : option_given(options, OPTION_FORMAT) ? write_format
                                                   : write_table)(report, error) &&
           (!option_given(options, OPTION_FAIL_UNDER) || check_limits(report, error));
}
