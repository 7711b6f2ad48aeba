/*
 * What `covsplit report` writes: llvm-cov's own table, pages and formats as they are, and what
 * tracefile.c and tables.c make of its tracefile. See report.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "split/cli/child.h"
#include "split/cli/json.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"
#include "split/cli/table.h"
#include "split/report/report.h"

enum report_format { /* the words of --format */
                     REPORT_LCOV,
                     REPORT_JSON,
                     REPORT_SUMMARY,
                     REPORT_COBERTURA,
                     REPORT_TEXT,
                     REPORT_MARKDOWN,
                     REPORT_TABLE, /* without --format */
};

static enum report_format format_of(const struct report *report)
{
    return option_given(report->options, OPTION_FORMAT)
               ? (enum report_format)option_number(report->options, OPTION_FORMAT)
               : REPORT_TABLE;
}

bool report_shows_sources(const struct report *report)
{
    return option_given(report->options, OPTION_HTML) || format_of(report) == REPORT_TEXT;
}

/* ---- llvm-cov ---- */

/* The `take_line` of a command whose context is the report. */
static bool take_message(void *context, const char *line)
{
    struct report *report = context;

    if (strstr(line, "functions have mismatched data") != NULL)
        return report->has_mismatches = true;
    return report->sources_are_missing && (strstr(line, "No such file or directory") != NULL ||
                                           strstr(line, "isn't covered") != NULL);
}

/* Runs `llvm-cov VERB` with the two files and more options, which end with NULL. Its output goes to
 * the capture, which must be freed even after a failure; NULL: it has none but files. */
static bool run_llvm_cov(struct report *report, const char *verb, const char *const *more,
                         struct llvm_capture *capture, struct error *error)
{
    struct llvm_command command = {.take_line = take_message, .context = report};
    bool done;

    llvm_command_add(&command, "%s", report->program);
    llvm_command_add(&command, "%s", verb);
    llvm_command_add_file(&command, "", report->mapping.fd, report->mapping.path);
    llvm_command_add_file(&command, "-instr-profile=", report->profile.fd, "the merged profile");
    llvm_command_add(&command, "-ignore-filename-regex=%s", SOURCES_LEFT_OUT_REGEX);
    for (; *more != NULL; more++)
        llvm_command_add(&command, "%s", *more);
    done = capture != NULL
               ? llvm_command_capture(&command, "the report", capture, error)
               : llvm_command_run(&command, -1, option_text(report->options, OPTION_HTML), error);
    llvm_command_free(&command);
    return done;
}

/* Names the functions that llvm-cov has dropped, once. A verdict does not depend on what it says.
 */
static bool tell_mismatches(struct report *report, struct error *error)
{
    bool has_verdict = option_given(report->options, OPTION_FAIL_UNDER) ||
                       option_given(report->options, OPTION_BASELINE);

    if (report->are_mismatches_told || !(report->has_mismatches || has_verdict))
        return true;
    report->are_mismatches_told = true;
    return functions_check_mismatches(report, error);
}

/* Keeps the totals. */
static bool read_totals(struct report *report, struct error *error)
{
    static const char *const options[] = {"-format=text", "-summary-only", NULL};

    return run_llvm_cov(report, "export", options, &report->totals, error) &&
           tell_mismatches(report, error);
}

/* Runs it, and names the functions that it dropped. */
static bool capture_llvm_cov(struct report *report, const char *verb, const char *first,
                             const char *second, struct llvm_capture *capture, struct error *error)
{
    const char *const options[] = {first, second, NULL};

    if (!run_llvm_cov(report, verb, first == NULL ? options + 2 : options, capture, error))
        return false;
    /* Sources that are not there have no text. */
    if (capture->text.bytes.size == 0 && format_of(report) != REPORT_TEXT)
        return error_set(error, "the report: '%s %s' wrote nothing; give another --llvm-cov",
                         report->program, verb);
    return tell_mismatches(report, error);
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

/* Appends lines with names in them, without what a terminal may obey but colours. */
static void append_printable(struct buffer *text, struct bytes lines)
{
    struct bytes line;

    while (take_line(&lines, &line)) {
        char *copy = command_text("%.*s", (int)line.size, (const char *)line.data);

        for (const char *rest = copy, *next; *rest != '\0'; rest = next) {
            size_t size = colour_size(rest);
            uint32_t character = '\t';

            next = rest + size;
            if (size != 0 || (utf8_take(&next, &character) &&
                              (character == '\t' || !utf8_is_control(character))))
                buffer_append(text, rest, (size_t)(next - rest));
            else
                buffer_append(text, "?", 1);
        }
        buffer_append(text, "\n", 1);
        free(copy);
    }
}

/* Appends a JSON object of llvm-cov's with what is left out, and without the mark in front of the
 * names of files that are. */
static void append_json(const struct report *report, struct bytes json, struct buffer *text)
{
    static const char mark[] = "\"" SOURCES_LEFT_OUT;
    struct bytes lines = buffer_view(&report->left_out), line;
    struct json_writer writer = {.stream = NULL};
    const uint8_t *found;

    while (json.size != 0 &&
           (found = memmem(json.data, (size_t)json.size, mark, sizeof(mark) - 1)) != NULL) {
        size_t size = (size_t)(found - json.data) + 1;

        buffer_append(text, json.data, size);
        bytes_slice(json, size + sizeof(mark) - 2, json.size - (size + sizeof(mark) - 2), &json);
    }
    buffer_append(text, json.data, (size_t)json.size);
    if (lines.size == 0)
        return;
    while (!text->failed && text->size != 0 && text->data[text->size - 1] != '}')
        text->size--;
    text->size -= text->size != 0;
    coverage_print(text, ",\"left_out\":");
    writer.stream = json_text_stream(text);
    json_begin_array(&writer, NULL);
    while (take_line(&lines, &line)) {
        char *copy = command_text("%.*s", (int)line.size, (const char *)line.data);

        json_string(&writer, NULL, copy);
        free(copy);
    }
    json_end_array(&writer);
    json_close_text(writer.stream, text);
    coverage_print(text, "}");
}

/* True for the forms that are made of the tracefile. */
static bool is_own(const struct report *report)
{
    return option_given(report->options, OPTION_BASELINE) ||
           format_of(report) == REPORT_COBERTURA || format_of(report) == REPORT_MARKDOWN ||
           option_given(report->options, OPTION_SUMMARY);
}

/* Appends what llvm-cov writes in this format. */
static bool append_from_llvm(struct report *report, struct buffer *text, struct error *error)
{
    static const struct {
        const char *verb, *first, *second;
    } formats[] = {
        [REPORT_LCOV] = {"export", "-format=lcov", NULL},
        [REPORT_JSON] = {"export", "-format=text", NULL},
        [REPORT_SUMMARY] = {"export", "-format=text", "-summary-only"},
        [REPORT_TEXT] = {"show", "-show-instantiations=false", NULL},
        [REPORT_TABLE] = {"report", NULL, NULL},
    };
    enum report_format format = format_of(report);
    const char *first = formats[format].first;
    struct llvm_capture capture;
    bool done;

    if (format == REPORT_TEXT && option_given(report->options, OPTION_INSTANTIATIONS))
        first = "-show-instantiations=true";
    if (format == REPORT_TABLE && is_for_terminal(report))
        first = "-use-color";
    done = capture_llvm_cov(report, formats[format].verb, first, formats[format].second, &capture,
                            error);
    if (done && (format == REPORT_JSON || format == REPORT_SUMMARY))
        append_json(report, capture.text.bytes, text);
    else if (done && (format == REPORT_LCOV || (format == REPORT_TEXT && !isatty(STDOUT_FILENO))))
        buffer_append(text, capture.text.bytes.data, (size_t)capture.text.bytes.size);
    else if (done)
        append_printable(text, capture.text.bytes);
    llvm_capture_free(&capture);
    return done;
}

bool report_keep_lines(struct report *report, struct error *error)
{
    return capture_llvm_cov(report, "export", "-format=lcov", NULL, &report->lines, error);
}

/* Appends what is made of the tracefile. */
static bool append_from_lines(struct report *report, struct buffer *text, struct error *error)
{
    struct coverage coverage = {0}, before = {0};
    struct buffer names = {0};
    struct llvm_capture capture;
    bool done = capture_llvm_cov(report, "export", "-format=lcov", NULL, &capture, error) &&
                coverage_read(&coverage, report, capture.text.bytes, error);

    if (done && option_given(report->options, OPTION_BASELINE)) {
        done = coverage_read(&before, report, report->lines.text.bytes, error);
        if (done)
            coverage_compare(&before, &coverage, &names);
    }
    if (done && format_of(report) == REPORT_COBERTURA)
        coverage_write_cobertura(&coverage, report, text);
    else if (done && format_of(report) == REPORT_MARKDOWN)
        coverage_write_markdown(&coverage, &names);
    else if (done && option_given(report->options, OPTION_SUMMARY))
        coverage_write_summary(&coverage, is_for_terminal(report), &names);
    if (done && option_given(report->options, OPTION_MISSING_LINES)) {
        coverage_print(&names, "\nlines that were not executed:\n");
        coverage_write_missing(&coverage, &names);
    }
    append_printable(text, buffer_view(&names));
    buffer_free(&names);
    coverage_free(&coverage);
    coverage_free(&before);
    llvm_capture_free(&capture);
    return done;
}

static bool write_text(struct report *report, struct error *error)
{
    bool has_lines = is_own(report) || option_given(report->options, OPTION_MISSING_LINES);
    struct buffer text = {0};
    struct bytes rest, line;
    bool done = (is_own(report) || append_from_llvm(report, &text, error)) &&
                (!has_lines || append_from_lines(report, &text, error));

    rest = buffer_view(&report->left_out);
    if (format_of(report) == REPORT_TABLE)
        buffer_append(&text, rest.data, (size_t)rest.size);
    while (format_of(report) == REPORT_MARKDOWN && take_line(&rest, &line))
        coverage_print(&text, "\n%.*s\n", (int)line.size, (const char *)line.data);
    exit_unless_allocated(!text.failed, text.size);
    done = done && write_result(report, buffer_view(&text), error);
    buffer_free(&text);
    return done;
}

/* ---- pages ---- */

/* Shows the index by the program that opens files, or by that of BROWSER. */
static bool open_pages(const char *directory, struct error *error)
{
    const char *browser = getenv("BROWSER");
    char *page = command_text("%s/index.html", directory);
    char *words[] = {command_copy(browser != NULL && browser[0] != '\0' ? browser : "xdg-open"),
                     page, NULL};
    struct child child = {0};
    int number = 0;
    bool done;

    child_hold_signals(&child);
    done = child_start(&child, words, &number, error) &&
           ((number == 0 && child_wait(&child) == 0) ||
            error_set(error, "%s: '%s' cannot show it; open it yourself, or set BROWSER", page,
                      words[0]));
    sigprocmask(SIG_SETMASK, &child.mask_before, NULL);
    free(words[0]);
    free(page);
    return done;
}

/* Makes the directory, and those above it. */
static bool make_directories(const char *path, struct error *error)
{
    char *copy = command_copy(path);

    for (char *slash = copy; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        mkdir(copy, 0777);
    }
    free(copy);
    return directory_make(path, error) &&
           (access(path, W_OK | X_OK) == 0 ||
            error_set_errno(error, errno,
                            "%s: no pages can be written there; name another "
                            "directory",
                            path));
}

static bool write_html(struct report *report, struct error *error)
{
    const char *directory = option_text(report->options, OPTION_HTML);
    char *option = command_text("-output-dir=%s", directory), *title = NULL, *demangler = NULL;
    const char *more[8] = {"-format=html", option};
    size_t count = 2;
    bool done;

    /* First, as the pages tell what is left out. */
    done = make_directories(directory, error) && read_totals(report, error);
    demangler = llvm_demangler_find(report->program, report->has_rust);
    if (report->left_out.size != 0)
        more[count++] = title = command_text("-project-title=%.*s", (int)report->left_out.size - 1,
                                             (const char *)report->left_out.data);
    if (demangler != NULL) {
        more[count++] = "-Xdemangler";
        more[count++] = demangler;
    }
    if (!option_given(report->options, OPTION_INSTANTIATIONS))
        more[count++] = "-show-instantiations=false";
    if (llvm_tool_release(report->program) >= 18)
        more[count++] = "-show-directory-coverage";
    done = done && run_llvm_cov(report, "show", more, NULL, error) &&
           (!option_given(report->options, OPTION_OPEN) || open_pages(directory, error));
    free(demangler);
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
    const char *at =
        json.size == 0 ? NULL
                       : memmem(json.data, (size_t)json.size, "\"totals\":", strlen("\"totals\":"));
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

static bool check_limits(struct report *report, struct error *error)
{
    bool done = report->totals.is_made || read_totals(report, error);
    const char *limit;

    for (size_t i = 0;
         done && (limit = option_text_at(report->options, OPTION_FAIL_UNDER, i)) != NULL; i++) {
        char all[COUNT_TEXT_MAX], some[COUNT_TEXT_MAX];
        uint64_t count, covered;
        double percent = 0, have;
        size_t metric;

        report_read_limit(limit, &metric, &percent);
        if (!find_total(report->totals.text.bytes, metrics[metric], &count, &covered))
            return error_set(error,
                             "--fail-under %s: this llvm-cov does not tell these; give another "
                             "--llvm-cov",
                             limit);
        if (count == 0)
            return error_set(error,
                             "--fail-under %s: the report has no %s, so nothing is known of them; "
                             "leave out this limit",
                             limit, metrics[metric]);
        have = (double)covered * 100 / (double)count;
        done =
            have >= percent ||
            error_set(
                error,
                "%s: %.2f%% covered (%s of %s in llvm-cov's totals), and --fail-under wants %g%%",
                metrics[metric], have, number_text(covered, some), number_text(count, all),
                percent);
    }
    return done;
}

bool report_write(struct report *report, struct error *error)
{
    const struct parsed_options *options = report->options;

    return (option_given(options, OPTION_HTML) ? write_html : write_text)(report, error) &&
           (!option_given(options, OPTION_FAIL_UNDER) || check_limits(report, error));
}
