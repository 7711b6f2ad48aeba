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

/* Takes the next line, without its newline, off the text. */
static bool take_line(struct bytes *text, struct bytes *line)
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

/* The line with this number of the file that is read; NULL if it has no code. */
static struct line_coverage *find_line(const struct coverage *coverage,
                                       const struct file_coverage *file, uint32_t number)
{
    const struct line_coverage key = {.line = number};

    return file->line_count == 0 ? NULL
                                 : bsearch(&key, coverage->lines + file->first_line,
                                           file->line_count, sizeof(key), compare_lines);
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
        struct line_coverage *found;
        uint64_t number, ignored, taken = 0;

        if (!take_prefix(&line, "BRDA:"))
            continue;
        if (!take_decimal(&line, &number) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !take_decimal(&line, &ignored) || !take_prefix(&line, ",") ||
            !(take_prefix(&line, "-") || take_decimal(&line, &taken)) || number > UINT32_MAX)
            return false;
        found = find_line(coverage, file, (uint32_t)number);
        if (found != NULL) {
            found->branches++;
            found->branches_taken += taken != 0;
        }
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
                (struct file_coverage){.path = line, .first_line = coverage->line_count};
            is_open = true;
            part = rest;
        } else if (take_prefix(&line, "DA:")) {
            is_sound = is_open && read_line(coverage, line);
        } else if (take_prefix(&line, "end_of_record")) {
            part.size -= rest.size;
            is_sound = is_open && read_branches(coverage, part);
            is_open = false;
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
    *coverage = (struct coverage){0};
}

/* ---- text ---- */

static void append_format(struct buffer *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append_format(struct buffer *text, const char *format, ...)
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
    append_format(text, " line-rate=\"%.4f\" branch-rate=\"%.4f\" complexity=\"0\"",
                  rate(totals->lines_covered, totals->lines),
                  rate(totals->branches_taken, totals->branches));
}

static void append_line(struct buffer *text, const struct line_coverage *line)
{
    append_format(text, "            <line number=\"%" PRIu32 "\" hits=\"%" PRIu64 "\"", line->line,
                  line->count);
    if (line->branches != 0)
        append_format(
            text,
            " branch=\"true\" condition-coverage=\"%" PRIu32 "%% (%" PRIu32 "/%" PRIu32 ")\"/>\n",
            line->branches_taken * 100 / line->branches, line->branches_taken, line->branches);
    else
        append_format(text, " branch=\"false\"/>\n");
}

/* The path below the root, without a slash in front; other paths as they are. */
static struct bytes below(struct bytes path, const char *root)
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
                              struct buffer *text)
{
    struct totals all = count_lines(coverage, 0, coverage->line_count);

    append_format(text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<!DOCTYPE coverage SYSTEM "
                        "\"http://cobertura.sourceforge.net/xml/coverage-04.dtd\">\n<coverage");
    append_rates(text, &all);
    append_format(text,
                  " lines-covered=\"%" PRIu64 "\" lines-valid=\"%" PRIu64
                  "\" branches-covered=\"%" PRIu64 "\" branches-valid=\"%" PRIu64
                  "\" version=\"covsplit\" timestamp=\"%" PRIu64 "\">\n  <sources>\n    <source>",
                  all.lines_covered, all.lines, all.branches_taken, all.branches, timestamp);
    append_escaped(text, (struct bytes){(const uint8_t *)root, strlen(root)});
    append_format(text, "</source>\n  </sources>\n  <packages>\n    <package name=\"\"");
    append_rates(text, &all);
    append_format(text, ">\n      <classes>\n");
    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        struct totals totals = count_lines(coverage, file->first_line, file->line_count);
        struct bytes path = below(file->path, root);

        append_format(text, "        <class name=\"");
        append_escaped(text, path);
        append_format(text, "\" filename=\"");
        append_escaped(text, path);
        append_format(text, "\"");
        append_rates(text, &totals);
        append_format(text, ">\n          <methods/>\n          <lines>\n");
        for (size_t j = 0; j < file->line_count; j++)
            append_line(text, &coverage->lines[file->first_line + j]);
        append_format(text, "          </lines>\n        </class>\n");
    }
    append_format(text, "      </classes>\n    </package>\n  </packages>\n</coverage>\n");
    command_require(!text->failed, text->size);
}

/* ---- a change ---- */

/* The file that a path of the diff stands for; NULL if it is not in the coverage. */
static const struct file_coverage *find_file(const struct coverage *coverage, struct bytes path,
                                             const char *root)
{
    const struct file_coverage *found = NULL;

    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        struct bytes ending;

        if (bytes_equal(below(file->path, root), path))
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

/* "@@ -1,2 +3,4 @@" gives 3 and the numbers of lines, 2 and 4. */
static bool read_hunk(struct bytes line, uint64_t *old_count, uint64_t *new_line,
                      uint64_t *new_count)
{
    uint64_t ignored;

    *old_count = *new_count = 1;
    if (!take_prefix(&line, "@@ -") || !take_decimal(&line, &ignored) ||
        (take_prefix(&line, ",") && !take_decimal(&line, old_count)))
        return false;
    return take_prefix(&line, " +") && take_decimal(&line, new_line) &&
           (!take_prefix(&line, ",") || take_decimal(&line, new_count)) &&
           take_prefix(&line, " @@");
}

/* The path after "+++ ": without the "b/" of git, and what diff(1) adds after a tab. */
static struct bytes read_path(struct bytes line, bool has_prefix)
{
    const uint8_t *tab = memchr(line.data, '\t', (size_t)line.size);

    if (tab != NULL)
        line.size = (uint64_t)(tab - line.data);
    if (line.size != 0 && line.data[line.size - 1] == '\r')
        line.size--;
    if (has_prefix)
        take_prefix(&line, "b/");
    return line;
}

/* Numbers and ranges of lines: "3, 7-9". */
struct line_ranges {
    struct buffer text;
    uint64_t first, last; /* of the open range; 0: none */
};

static void close_range(struct line_ranges *ranges)
{
    if (ranges->first == 0)
        return;
    append_format(&ranges->text, "%s%" PRIu64, ranges->text.size == 0 ? "" : ", ", ranges->first);
    if (ranges->last != ranges->first)
        append_format(&ranges->text, "-%" PRIu64, ranges->last);
    ranges->first = 0;
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
    const struct line_coverage *line = changed->file == NULL || number > UINT32_MAX
                                           ? NULL
                                           : find_line(coverage, changed->file, (uint32_t)number);

    if (line == NULL)
        return;
    changed->with_code++;
    changed->covered += line->count != 0;
    if (line->count != 0)
        return;
    if (changed->uncovered.first == 0 || number != changed->uncovered.last + 1) {
        close_range(&changed->uncovered);
        changed->uncovered.first = number;
    }
    changed->uncovered.last = number;
}

static void end_file(struct changed_file *changed, struct change_coverage *change)
{
    close_range(&changed->uncovered);
    if (changed->with_code != 0) {
        append_format(&change->table, "%.*s: %" PRIu64 " of %" PRIu64 " new lines covered",
                      (int)changed->path.size, (const char *)changed->path.data, changed->covered,
                      changed->with_code);
        if (changed->uncovered.text.size != 0)
            append_format(&change->table, "; not covered: %.*s", (int)changed->uncovered.text.size,
                          (const char *)changed->uncovered.text.data);
        append_format(&change->table, "\n");
    }
    change->with_code += changed->with_code;
    change->covered += changed->covered;
    buffer_free(&changed->uncovered.text);
    *changed = (struct changed_file){0};
}

bool coverage_of_change(const struct coverage *coverage, struct bytes diff, const char *name,
                        const char *root, struct change_coverage *change, struct error *error)
{
    struct changed_file changed = {0};
    uint64_t old_left = 0, new_left = 0, number = 0;
    struct bytes rest = diff, line;
    bool is_git = false, has_files = false;

    while (take_line(&rest, &line)) {
        uint8_t mark = line.size == 0 ? ' ' : line.data[0];

        if (old_left != 0 || new_left != 0) {
            if (mark == '+') {
                change->added++;
                add_line(coverage, &changed, number);
            }
            number += mark != '-' && mark != '\\';
            old_left -= old_left != 0 && mark != '+' && mark != '\\';
            new_left -= new_left != 0 && mark != '-' && mark != '\\';
        } else if (take_prefix(&line, "diff --git ")) {
            is_git = true;
        } else if (take_prefix(&line, "+++ ")) {
            end_file(&changed, change);
            changed.path = read_path(line, is_git);
            changed.file = find_file(coverage, changed.path, root);
            has_files = true;
        } else if (mark == '@' && !read_hunk(line, &old_left, &number, &new_left)) {
            end_file(&changed, change);
            return error_set(error,
                             "%s: a line that begins with '@@' cannot be read; give a unified "
                             "diff, as of 'git diff'",
                             name);
        }
    }
    end_file(&changed, change);
    return has_files || diff.size == 0 ||
           error_set(error, "%s: not a unified diff; give one as of 'git diff'", name);
}
