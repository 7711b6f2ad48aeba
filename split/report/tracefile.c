/*
 * Line and branch coverage, read from the output of `llvm-cov export -format=lcov` (the tracefile
 * format of geninfo(1)), and Cobertura's form of it. See report.h.
 */
#include "split/report/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/memory.h"

/* ---- reading ---- */

bool take_line(struct bytes *text, struct bytes *line)
{
    const uint8_t *newline;

    if (text->size == 0)
        return false;
    newline = memchr(text->data, '\n', (size_t)text->size);
    *line = *text;
    line->size = newline == NULL ? text->size : (uint64_t)(newline - text->data);
    bytes_slice(*text, line->size + (newline != NULL), text->size - line->size - (newline != NULL),
                text);
    return true;
}

/* Takes a prefix off the line. */
static bool take_prefix(struct bytes *line, const char *prefix)
{
    uint64_t size = strlen(prefix);

    return line->size >= size && memcmp(line->data, prefix, size) == 0 &&
           bytes_slice(*line, size, line->size - size, line);
}

static bool take_decimal(struct bytes *line, uint64_t *number)
{
    uint64_t digits = 0;

    *number = 0;
    for (; digits < line->size && line->data[digits] >= '0' && line->data[digits] <= '9';
         digits++) {
        if (__builtin_mul_overflow(*number, UINT64_C(10), number) ||
            __builtin_add_overflow(*number, (uint64_t)(line->data[digits] - '0'), number))
            return false;
    }
    return digits != 0 && bytes_slice(*line, digits, line->size - digits, line);
}

static int compare_lines(const void *a, const void *b)
{
    const struct line_coverage *left = a, *right = b;

    return left->line < right->line ? -1 : left->line > right->line;
}

/* DA:line,count. Lines ascend. */
static bool read_line(struct coverage *coverage, struct bytes rest)
{
    struct file_coverage *file = &coverage->files[coverage->count - 1];
    uint64_t line, count;

    if (!take_decimal(&rest, &line) || !take_prefix(&rest, ",") || !take_decimal(&rest, &count) ||
        line > UINT32_MAX ||
        (file->line_count != 0 && coverage->lines[coverage->line_count - 1].line >= line))
        return false;
    COMMAND_ROOM_FOR_ONE(coverage->lines, coverage->line_capacity, coverage->line_count);
    coverage->lines[coverage->line_count++] =
        (struct line_coverage){.line = (uint32_t)line, .count = count};
    file->line_count++;
    return true;
}

/* BRDA:line,block,branch,taken. Adds the branches of a file, whose part of the tracefile it is, to
 * its lines, which may come after them. */
static bool read_branches(struct coverage *coverage, struct bytes part)
{
    const struct file_coverage *file = &coverage->files[coverage->count - 1];
    struct bytes line;

    while (take_line(&part, &line)) {
        struct line_coverage *found, key;
        uint64_t number, ignored, taken = 0;

        if (!take_prefix(&line, "BRDA:"))
            continue;
        if (!take_decimal(&line, &number) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !(take_prefix(&line, "-") || take_decimal(&line, &taken)))
            return false;
        key.line = (uint32_t)number;
        found = file->line_count == 0 ? NULL
                                      : bsearch(&key, coverage->lines + file->first_line,
                                                file->line_count, sizeof(key), compare_lines);
        if (found != NULL && number <= UINT32_MAX) {
            found->branches++;
            found->branches_taken += taken != 0;
        }
    }
    return true;
}

/* FNDA:count,name. */
static bool read_function(struct coverage *coverage, struct bytes rest)
{
    uint64_t count;

    if (!take_decimal(&rest, &count) || !take_prefix(&rest, ","))
        return false;
    COMMAND_ROOM_FOR_ONE(coverage->functions, coverage->function_capacity,
                         coverage->function_count);
    coverage->functions[coverage->function_count++] = (struct function_coverage){rest, count};
    coverage->files[coverage->count - 1].function_count++;
    return true;
}

/* LF:, LH: and the like, which stand at the end of a file. True also for other lines. */
static bool read_sum(struct file_coverage *file, struct bytes line)
{
    const struct {
        const char *prefix;
        uint64_t *number;
    } sums[] = {{"LF:", &file->all_lines.count},  {"LH:", &file->all_lines.covered},
                {"FNF:", &file->functions.count}, {"FNH:", &file->functions.covered},
                {"BRF:", &file->branches.count},  {"BRH:", &file->branches.covered}};

    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        if (take_prefix(&line, sums[i].prefix))
            return take_decimal(&line, sums[i].number);
    }
    return true;
}

/* Begins a file, which is known by its path below the root. */
static void start_file(struct coverage *coverage, struct report *report, struct bytes path)
{
    path = sources_below_root(report, path);
    path.data = arena_copy(&coverage->paths, path);
    exit_unless_allocated(path.data != NULL, path.size);
    COMMAND_ROOM_FOR_ONE(coverage->files, coverage->capacity, coverage->count);
    coverage->files[coverage->count++] =
        (struct file_coverage){.path = path,
                               .first_line = coverage->line_count,
                               .first_function = coverage->function_count};
}

bool coverage_read(struct coverage *coverage, struct report *report, struct bytes tracefile,
                   struct error *error)
{
    struct bytes rest = tracefile, part = {0}, line;
    bool is_open = false, is_sound = true;

    while (is_sound && take_line(&rest, &line)) {
        if (take_prefix(&line, "SF:")) {
            is_sound = !is_open;
            start_file(coverage, report, line);
            is_open = true;
            part = rest;
        } else if (take_prefix(&line, "DA:")) {
            is_sound = is_open && read_line(coverage, line);
        } else if (take_prefix(&line, "FNDA:")) {
            is_sound = is_open && read_function(coverage, line);
        } else if (take_prefix(&line, "end_of_record")) {
            part.size -= rest.size;
            is_sound = is_open && read_branches(coverage, part);
            is_open = false;
        } else if (is_open) {
            is_sound = read_sum(&coverage->files[coverage->count - 1], line);
        }
    }
    return (is_sound && !is_open && coverage->count != 0) ||
           error_set(error,
                     "the report: llvm-cov wrote a tracefile that cannot be read; give another "
                     "--llvm-cov");
}

void coverage_free(struct coverage *coverage)
{
    free(coverage->files);
    free(coverage->lines);
    free(coverage->functions);
    arena_free(&coverage->paths);
    *coverage = (struct coverage){0};
}

/* ---- text ---- */

void coverage_print(struct buffer *text, const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vasprintf(&line, format, arguments);
    va_end(arguments);
    exit_unless_allocated(size >= 0 && buffer_append(text, line, (size_t)size), text->size);
    free(line);
}

/* ---- Cobertura ---- */

/* A value in XML (Extensible Markup Language 1.0, 2.2). What it has no place for becomes '?'. */
static void append_escaped(struct buffer *text, struct bytes value)
{
    char *copy = command_text("%.*s", (int)value.size, (const char *)value.data);

    for (const char *rest = copy, *next = copy; *rest != '\0'; rest = next) {
        uint32_t character;

        if (!utf8_take(&next, &character) || character < 0x20 || (character | 1) == 0xffff)
            buffer_append(text, "?", 1);
        else if (character == '&')
            buffer_append(text, "&amp;", 5);
        else if (character == '<')
            buffer_append(text, "&lt;", 4);
        else if (character == '"')
            buffer_append(text, "&quot;", 6);
        else
            buffer_append(text, rest, (size_t)(next - rest));
    }
    free(copy);
}

struct totals {
    uint64_t lines, lines_covered, branches, branches_taken;
};

static struct totals count_lines(const struct coverage *coverage, size_t first, size_t count)
{
    struct totals totals = {0};

    for (size_t i = first; i < first + count; i++) {
        const struct line_coverage *line = &coverage->lines[i];

        totals.lines++;
        totals.lines_covered += line->count != 0;
        totals.branches += line->branches;
        totals.branches_taken += line->branches_taken;
    }
    return totals;
}

/* Of nothing, everything is covered. */
static double rate(uint64_t covered, uint64_t count)
{
    return count == 0 ? 1 : (double)covered / (double)count;
}

static void append_rates(struct buffer *text, const struct totals *totals)
{
    coverage_print(text, " line-rate=\"%.4f\" branch-rate=\"%.4f\" complexity=\"0\"",
                   rate(totals->lines_covered, totals->lines),
                   rate(totals->branches_taken, totals->branches));
}

static void append_line(struct buffer *text, const struct line_coverage *line)
{
    coverage_print(text, "            <line number=\"%" PRIu32 "\" hits=\"%" PRIu64 "\"",
                   line->line, line->count);
    if (line->branches != 0)
        coverage_print(
            text,
            " branch=\"true\" condition-coverage=\"%" PRIu32 "%% (%" PRIu32 "/%" PRIu32 ")\"/>\n",
            line->branches_taken * 100 / line->branches, line->branches_taken, line->branches);
    else
        coverage_print(text, " branch=\"false\"/>\n");
}

/* A comment, in which "--" is not allowed. */
static void append_comment(struct buffer *text, struct bytes lines)
{
    struct bytes line;
    size_t start;

    coverage_print(text, "<!--\n");
    while (take_line(&lines, &line)) {
        start = text->size;
        append_escaped(text, line);
        for (size_t i = start; !text->failed && i < text->size; i++) {
            if (text->data[i] == '-')
                text->data[i] = '_';
        }
        coverage_print(text, "\n");
    }
    coverage_print(text, "-->\n");
}

void coverage_write_cobertura(const struct coverage *coverage, const struct report *report,
                              struct buffer *text)
{
    struct totals all = count_lines(coverage, 0, coverage->line_count);
    const char *root = report->root;

    coverage_print(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<!DOCTYPE coverage SYSTEM "
                         "\"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">\n");
    if (report->left_out.size != 0)
        append_comment(text, buffer_view(&report->left_out));
    coverage_print(text, "<coverage");
    append_rates(text, &all);
    coverage_print(text,
                   " lines-covered=\"%" PRIu64 "\" lines-valid=\"%" PRIu64
                   "\" branches-covered=\"%" PRIu64 "\" branches-valid=\"%" PRIu64
                   "\" version=\"covsplit\" timestamp=\"%" PRIu64 "\">\n  <sources>\n    <source>",
                   all.lines_covered, all.lines, all.branches_taken, all.branches, report->newest);
    append_escaped(text, (struct bytes){(const uint8_t *)root, strlen(root)});
    coverage_print(text, "</source>\n  </sources>\n  <packages>\n    <package name=\"\"");
    append_rates(text, &all);
    coverage_print(text, ">\n      <classes>\n");
    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        struct totals totals = count_lines(coverage, file->first_line, file->line_count);

        coverage_print(text, "        <class name=\"");
        append_escaped(text, file->path);
        coverage_print(text, "\" filename=\"");
        append_escaped(text, file->path);
        coverage_print(text, "\"");
        append_rates(text, &totals);
        coverage_print(text, ">\n          <methods/>\n          <lines>\n");
        for (size_t j = 0; j < file->line_count; j++)
            append_line(text, &coverage->lines[file->first_line + j]);
        coverage_print(text, "          </lines>\n        </class>\n");
    }
    coverage_print(text, "      </classes>\n    </package>\n  </packages>\n</coverage>\n");
    exit_unless_allocated(!text->failed, text->size);
}
