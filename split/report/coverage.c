/*
 * Line and branch coverage, and Cobertura's form of it: see report.h.
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

const struct line_coverage *coverage_find_line(const struct coverage *coverage,
                                               const struct file_coverage *file, uint64_t number)
{
    const struct line_coverage key = {.line = (uint32_t)number};

    return file->line_count == 0 || number > UINT32_MAX
               ? NULL
               : bsearch(&key, coverage->lines + file->first_line, file->line_count, sizeof(key),
                         compare_lines);
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
        const struct line_coverage *found;
        uint64_t number, ignored, taken = 0;

        if (!take_prefix(&line, "BRDA:"))
            continue;
        if (!take_decimal(&line, &number) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !(take_prefix(&line, "-") || take_decimal(&line, &taken)))
            return false;
        found = coverage_find_line(coverage, file, number);
        if (found != NULL) {
            struct line_coverage *own = &coverage->lines[found - coverage->lines];

            own->branches++;
            own->branches_taken += taken != 0;
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

bool coverage_read(struct coverage *coverage, struct bytes tracefile, struct error *error)
{
    struct bytes rest = tracefile, part = {0}, line;
    bool is_open = false, is_sound = true;

    while (is_sound && take_line(&rest, &line)) {
        if (take_prefix(&line, "SF:")) {
            is_sound = !is_open;
            COMMAND_ROOM_FOR_ONE(coverage->files, coverage->capacity, coverage->count);
            coverage->files[coverage->count++] =
                (struct file_coverage){.path = line,
                                       .first_line = coverage->line_count,
                                       .first_function = coverage->function_count};
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
    return (is_sound && !is_open) ||
           error_set(error,
                     "the report: llvm-cov wrote a tracefile that cannot be read; give another "
                     "--llvm-cov");
}

void coverage_free(struct coverage *coverage)
{
    free(coverage->files);
    free(coverage->lines);
    free(coverage->functions);
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
    command_require(size >= 0 && buffer_append(text, line, (size_t)size), text->size);
    free(line);
}

/* ---- Cobertura ---- */

/* An attribute's value. Bytes that XML has no place for become '?'. */
static void append_escaped(struct buffer *text, struct bytes value)
{
    for (uint64_t i = 0; i < value.size; i++) {
        uint8_t byte = value.data[i];

        if (byte == '&')
            buffer_append(text, "&amp;", 5);
        else if (byte == '<')
            buffer_append(text, "&lt;", 4);
        else if (byte == '"')
            buffer_append(text, "&quot;", 6);
        else
            buffer_append(text, byte < 0x20 ? (const void *)"?" : &byte, 1);
    }
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

struct bytes path_below(struct bytes path, const char *root)
{
    size_t size = strlen(root);

    if (size != 0 && path.size > size + 1 && memcmp(path.data, root, size) == 0 &&
        (root[size - 1] == '/' || path.data[size] == '/')) {
        size += root[size - 1] != '/';
        return (struct bytes){path.data + size, path.size - size};
    }
    return path;
}

void coverage_write_cobertura(const struct coverage *coverage, const char *root, uint64_t timestamp,
                              struct bytes left_out, struct buffer *text)
{
    struct totals all = count_lines(coverage, 0, coverage->line_count);

    coverage_print(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<!DOCTYPE coverage SYSTEM "
                         "\"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">\n");
    if (left_out.size != 0) { /* "--" would end the comment */
        coverage_print(text, "<!--\n");
        for (uint64_t i = 0; i < left_out.size; i++)
            buffer_append(text, left_out.data[i] == '-' ? (const void *)"_" : &left_out.data[i], 1);
        coverage_print(text, "-->\n");
    }
    coverage_print(text, "<coverage");
    append_rates(text, &all);
    coverage_print(text,
                   " lines-covered=\"%" PRIu64 "\" lines-valid=\"%" PRIu64
                   "\" branches-covered=\"%" PRIu64 "\" branches-valid=\"%" PRIu64
                   "\" version=\"covsplit\" timestamp=\"%" PRIu64 "\">\n  <sources>\n    <source>",
                   all.lines_covered, all.lines, all.branches_taken, all.branches, timestamp);
    append_escaped(text, (struct bytes){(const uint8_t *)root, strlen(root)});
    coverage_print(text, "</source>\n  </sources>\n  <packages>\n    <package name=\"\"");
    append_rates(text, &all);
    coverage_print(text, ">\n      <classes>\n");
    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        struct totals totals = count_lines(coverage, file->first_line, file->line_count);
        struct bytes path = path_below(file->path, root);

        coverage_print(text, "        <class name=\"");
        append_escaped(text, path);
        coverage_print(text, "\" filename=\"");
        append_escaped(text, path);
        coverage_print(text, "\"");
        append_rates(text, &totals);
        coverage_print(text, ">\n          <methods/>\n          <lines>\n");
        for (size_t j = 0; j < file->line_count; j++)
            append_line(text, &coverage->lines[file->first_line + j]);
        coverage_print(text, "          </lines>\n        </class>\n");
    }
    coverage_print(text, "      </classes>\n    </package>\n  </packages>\n</coverage>\n");
    command_require(!text->failed, text->size);
}

/* ---- a change ---- */

const struct file_coverage *coverage_find_file(const struct coverage *coverage, struct bytes path,
                                               const char *root)
{
    const struct file_coverage *found = NULL;

    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        struct bytes ending;

        if (bytes_equal(path_below(file->path, root), path))
            return file;
        if (file->path.size <= path.size ||
            !bytes_slice(file->path, file->path.size - path.size - 1, path.size + 1, &ending) ||
            ending.data[0] != '/' || memcmp(ending.data + 1, path.data, (size_t)path.size) != 0)
            continue;
        if (found != NULL)
            return NULL; /* either may be meant */
        found = file;
    }
    return found;
}

/* "@@ -1,2 +3,4 @@": the first numbers, and how many lines. Numbers are those before the first line
 * then; "-0,0" stands for none. */
static bool read_hunk(struct bytes line, struct diff_reader *reader)
{
    reader->old_left = reader->new_left = 1;
    if (!take_prefix(&line, "@@ -") || !take_decimal(&line, &reader->old_number) ||
        (take_prefix(&line, ",") && !take_decimal(&line, &reader->old_left)) ||
        !take_prefix(&line, " +") || !take_decimal(&line, &reader->new_number) ||
        (take_prefix(&line, ",") && !take_decimal(&line, &reader->new_left)) ||
        !take_prefix(&line, " @@"))
        return false;
    reader->old_number -= reader->old_left != 0 && reader->old_number != 0;
    reader->new_number -= reader->new_left != 0 && reader->new_number != 0;
    return true;
}

/* The path after "+++ " or "--- ": without the "b/" or "a/" of git, and what diff(1) adds after a
 * tab. */
static struct bytes read_path(struct bytes line, const char *prefix)
{
    const uint8_t *tab = memchr(line.data, '\t', (size_t)line.size);

    if (tab != NULL)
        line.size = (uint64_t)(tab - line.data);
    if (line.size != 0 && line.data[line.size - 1] == '\r')
        line.size--;
    take_prefix(&line, prefix);
    return line;
}

enum diff_line diff_next(struct diff_reader *reader)
{
    struct bytes line;

    while (take_line(&reader->rest, &line)) {
        uint8_t mark = line.size == 0 ? ' ' : line.data[0];
        bool is_in_hunk = reader->old_left != 0 || reader->new_left != 0;

        if (is_in_hunk && mark == '\\') { /* "No newline at end of file" */
            continue;
        } else if (is_in_hunk) {
            bool is_old = mark != '+', is_new = mark != '-';

            reader->old_left -= is_old && reader->old_left != 0;
            reader->new_left -= is_new && reader->new_left != 0;
            reader->old_number += is_old;
            reader->new_number += is_new;
            return !is_old ? DIFF_ADDED : !is_new ? DIFF_REMOVED : DIFF_SAME;
        } else if (take_prefix(&line, "diff --git ")) {
            reader->is_git = true;
        } else if (take_prefix(&line, "--- ")) {
            reader->old_path = read_path(line, reader->is_git ? "a/" : "");
        } else if (take_prefix(&line, "+++ ")) {
            reader->new_path = read_path(line, reader->is_git ? "b/" : "");
            return DIFF_FILE;
        } else if (mark == '@') {
            if (!read_hunk(line, reader))
                return DIFF_DAMAGED;
            return DIFF_HUNK;
        }
    }
    return DIFF_END;
}

void line_ranges_end(struct line_ranges *ranges)
{
    if (ranges->first == 0)
        return;
    coverage_print(&ranges->text, "%s%" PRIu64, ranges->text.size == 0 ? "" : ", ", ranges->first);
    if (ranges->last != ranges->first)
        coverage_print(&ranges->text, "-%" PRIu64, ranges->last);
    ranges->first = 0;
}

void line_ranges_add(struct line_ranges *ranges, uint64_t number)
{
    if (ranges->first == 0 || number != ranges->last + 1) {
        line_ranges_end(ranges);
        ranges->first = number;
    }
    ranges->last = number;
}

/* The file of the diff that is read. */
struct changed_file {
    struct bytes path;
    const struct file_coverage *file;
    uint64_t with_code, covered;
    struct line_ranges uncovered;
};

static void add_line(const struct coverage *coverage, struct changed_file *changed, uint64_t number)
{
    const struct line_coverage *line =
        changed->file == NULL ? NULL : coverage_find_line(coverage, changed->file, number);

    if (line == NULL)
        return;
    changed->with_code++;
    changed->covered += line->count != 0;
    if (line->count == 0)
        line_ranges_add(&changed->uncovered, number);
}

static void end_file(struct changed_file *changed, struct change_coverage *change)
{
    line_ranges_end(&changed->uncovered);
    if (changed->with_code != 0) {
        coverage_print(&change->table, "%.*s: %" PRIu64 " of %" PRIu64 " new lines covered",
                       (int)changed->path.size, (const char *)changed->path.data, changed->covered,
                       changed->with_code);
        if (changed->uncovered.text.size != 0)
            coverage_print(&change->table, "; not covered: %.*s", (int)changed->uncovered.text.size,
                           (const char *)changed->uncovered.text.data);
        coverage_print(&change->table, "\n");
    }
    change->with_code += changed->with_code;
    change->covered += changed->covered;
    buffer_free(&changed->uncovered.text);
    *changed = (struct changed_file){0};
}

bool coverage_of_change(const struct coverage *coverage, struct bytes diff, const char *name,
                        const char *root, struct change_coverage *change, struct error *error)
{
    struct diff_reader reader = {.rest = diff};
    struct changed_file changed = {0};
    enum diff_line line;
    bool has_files = false;

    while ((line = diff_next(&reader)) != DIFF_END && line != DIFF_DAMAGED) {
        if (line == DIFF_FILE) {
            end_file(&changed, change);
            changed.path = reader.new_path;
            changed.file = coverage_find_file(coverage, changed.path, root);
            has_files = true;
        } else if (line == DIFF_ADDED) {
            change->added++;
            add_line(coverage, &changed, reader.new_number);
        }
    }
    end_file(&changed, change);
    if (line == DIFF_DAMAGED)
        return error_set(error,
                         "%s: a line that begins with '@@' cannot be read; give a unified diff, "
                         "as of 'git diff'",
                         name);
    return has_files || diff.size == 0 ||
           error_set(error, "%s: not a unified diff; give one as of 'git diff'", name);
}
