/*
 * Tables of coverage, and what went up and down since another report: see report.h.
 */
#include "split/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/memory.h"

/* Only for what is not empty, or where 100% of nothing is meant. */
static double percent(struct ratio ratio)
{
    return ratio.count == 0 ? 100 : (double)ratio.covered * 100 / (double)ratio.count;
}

static void add_ratio(struct ratio *sum, struct ratio more)
{
    sum->count += more.count;
    sum->covered += more.covered;
}

static struct file_coverage sum_up(const struct coverage *coverage)
{
    static const char all[] = "total";
    struct file_coverage sum = {.path = {(const uint8_t *)all, sizeof(all) - 1}};

    for (size_t i = 0; i < coverage->count; i++) {
        add_ratio(&sum.all_lines, coverage->files[i].all_lines);
        add_ratio(&sum.functions, coverage->files[i].functions);
        add_ratio(&sum.branches, coverage->files[i].branches);
    }
    return sum;
}

/* ---- one line a file ---- */

#define BAR_WIDTH 10

/* "-" of nothing. */
static void print_percent(struct buffer *text, const char *before, struct ratio ratio)
{
    if (ratio.count == 0)
        coverage_print(text, "%s%7s", before, "-");
    else
        coverage_print(text, "%s%6.2f%%", before, percent(ratio));
}

/* Green from 80% on, yellow from 50%, else red (ECMA-48, SGR). */
static void print_bar(struct buffer *text, double percentage)
{
    char bar[BAR_WIDTH + 1];

    for (unsigned i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (unsigned)(percentage * BAR_WIDTH / 100) ? '#' : '-';
    bar[BAR_WIDTH] = '\0';
    coverage_print(text, "  \033[3%cm%s\033[0m",
                   percentage >= 80   ? '2'
                   : percentage >= 50 ? '3'
                                      : '1',
                   bar);
}

static void print_line(struct buffer *text, const struct file_coverage *file, int width,
                       bool for_terminal)
{
    print_percent(text, "", file->all_lines);
    if (for_terminal)
        print_bar(text, file->all_lines.count == 0 ? 0 : percent(file->all_lines));
    coverage_print(text, "  %*" PRIu64 "/%-*" PRIu64, width, file->all_lines.covered, width,
                   file->all_lines.count);
    print_percent(text, "    ", file->functions);
    print_percent(text, "    ", file->branches);
    coverage_print(text, "  %.*s\n", (int)file->path.size, (const char *)file->path.data);
}

void coverage_write_summary(const struct coverage *coverage, bool for_terminal, struct buffer *text)
{
    struct file_coverage sum = sum_up(coverage);
    int width = 1;

    for (uint64_t rest = sum.all_lines.count; rest >= 10; rest /= 10)
        width++;
    coverage_print(text, "%-*s  functions   branches  file\n",
                   2 * width + 10 + (for_terminal ? BAR_WIDTH + 2 : 0), "  lines");
    for (size_t i = 0; i < coverage->count; i++)
        print_line(text, &coverage->files[i], width, for_terminal);
    print_line(text, &sum, width, for_terminal);
}

/* ---- Markdown (the tables of GitHub Flavored Markdown, 4.10) ---- */

/* A name as it is: what may be markup is escaped. */
static void append_markdown(struct buffer *text, struct bytes name)
{
    for (uint64_t i = 0; i < name.size; i++) {
        if (strchr("\\`*_{}[]<>()#+!|~&$", name.data[i]) != NULL && name.data[i] != '\0')
            buffer_append(text, "\\", 1);
        buffer_append(text, name.data + i, 1);
    }
}

static void print_cell(struct buffer *text, struct ratio ratio)
{
    if (ratio.count == 0)
        coverage_print(text, " - |");
    else
        coverage_print(text, " %.2f%% (%" PRIu64 "/%" PRIu64 ") |", percent(ratio), ratio.covered,
                       ratio.count);
}

void coverage_write_markdown(const struct coverage *coverage, struct buffer *text)
{
    struct file_coverage sum = sum_up(coverage);

    coverage_print(text, "| file | lines | functions | branches |\n"
                         "| :--- | ---: | ---: | ---: |\n");
    for (size_t i = 0; i <= coverage->count; i++) {
        const struct file_coverage *file = i == coverage->count ? &sum : &coverage->files[i];
        const char *bold = i == coverage->count ? "**" : "";

        coverage_print(text, "| %s", bold);
        append_markdown(text, file->path);
        coverage_print(text, "%s |", bold);
        print_cell(text, file->all_lines);
        print_cell(text, file->functions);
        print_cell(text, file->branches);
        coverage_print(text, "\n");
    }
}

/* ---- missing lines ---- */

void coverage_write_missing(const struct coverage *coverage, struct buffer *text)
{
    for (size_t i = 0; i < coverage->count; i++) {
        const struct file_coverage *file = &coverage->files[i];
        const struct line_coverage *lines = coverage->lines + file->first_line;
        bool is_any = false;

        for (size_t k = 0, end; k < file->line_count; k = end) {
            end = k + 1;
            if (lines[k].count != 0)
                continue;
            while (end < file->line_count && lines[end].count == 0 &&
                   lines[end].line == lines[end - 1].line + 1)
                end++;
            if (!is_any)
                coverage_print(text, "%.*s:", (int)file->path.size, (const char *)file->path.data);
            coverage_print(text, "%s%" PRIu32, is_any ? "," : "", lines[k].line);
            if (end - k > 1)
                coverage_print(text, "-%" PRIu32, lines[end - 1].line);
            is_any = true;
        }
        if (is_any)
            coverage_print(text, "\n");
    }
}

/* ---- what went up and down ---- */

static int compare_names(struct bytes left, struct bytes right)
{
    uint64_t size = left.size < right.size ? left.size : right.size;
    int order = size == 0 ? 0 : memcmp(left.data, right.data, (size_t)size);

    return order != 0 ? order : (left.size > right.size) - (left.size < right.size);
}

static int compare_functions(const void *a, const void *b)
{
    const struct function_coverage *left = a, *right = b;

    return compare_names(left->name, right->name);
}

static int compare_files(const void *a, const void *b)
{
    const struct file_coverage *left = *(const struct file_coverage *const *)a;
    const struct file_coverage *right = *(const struct file_coverage *const *)b;

    return compare_names(left->path, right->path);
}

/* The files in the order of their paths. */
static const struct file_coverage **sort_files(const struct coverage *coverage)
{
    const struct file_coverage **files = command_array(coverage->count, sizeof(*files));

    for (size_t i = 0; i < coverage->count; i++)
        files[i] = &coverage->files[i];
    if (coverage->count > 1)
        qsort(files, coverage->count, sizeof(*files), compare_files);
    return files;
}

struct function_changes {
    struct buffer up, down;         /* of functions that were there before */
    struct buffer covered, missing; /* of those that are new */
};

static void find_functions(const struct coverage *old, const struct file_coverage *before,
                           const struct coverage *new, const struct file_coverage *after,
                           struct function_changes *changes)
{
    struct function_coverage *sorted = command_array(before->function_count, sizeof(*sorted));

    if (before->function_count != 0)
        memcpy(sorted, old->functions + before->first_function,
               before->function_count * sizeof(*sorted));
    qsort(sorted, before->function_count, sizeof(*sorted), compare_functions);
    for (size_t i = 0; i < after->function_count; i++) {
        const struct function_coverage *now = &new->functions[after->first_function + i];
        const struct function_coverage *was =
            bsearch(now, sorted, before->function_count, sizeof(*sorted), compare_functions);
        struct buffer *list = was == NULL ? now->count != 0 ? &changes->covered : &changes->missing
                              : now->count != 0 ? &changes->up
                                                : &changes->down;

        if (was == NULL || (was->count != 0) != (now->count != 0))
            coverage_print(list, "%s%.*s", list->size == 0 ? "" : ", ", (int)now->name.size,
                           (const char *)now->name.data);
    }
    free(sorted);
}

static void print_ratio(struct buffer *text, struct ratio ratio)
{
    if (ratio.count == 0)
        coverage_print(text, "- (0 of 0)");
    else
        coverage_print(text, "%.2f%% (%" PRIu64 " of %" PRIu64 ")", percent(ratio), ratio.covered,
                       ratio.count);
}

static void print_list(struct buffer *text, const char *what, const struct buffer *list)
{
    if (list->size != 0)
        coverage_print(text, "; %s: %.*s", what, (int)list->size, (const char *)list->data);
}

/* One of the two may be NULL: the file came or went. */
static void print_change(struct buffer *text, const struct file_coverage *before,
                         const struct file_coverage *after, const struct function_changes *changes)
{
    struct bytes path = (after != NULL ? after : before)->path;

    coverage_print(text, "%.*s: ", (int)path.size, (const char *)path.data);
    if (before == NULL || after == NULL) {
        coverage_print(text, "%s, lines ", before == NULL ? "new" : "gone");
        print_ratio(text, (before == NULL ? after : before)->all_lines);
    } else {
        coverage_print(text, "lines ");
        print_ratio(text, before->all_lines);
        coverage_print(text, " -> ");
        print_ratio(text, after->all_lines);
        print_list(text, "functions now covered", &changes->up);
        print_list(text, "functions not covered any more", &changes->down);
        print_list(text, "new functions, covered", &changes->covered);
        print_list(text, "new functions, not covered", &changes->missing);
    }
    coverage_print(text, "\n");
}

/* Both lists are gone through once, in the order of paths. */
void coverage_compare(const struct coverage *before, const struct coverage *after,
                      struct buffer *text)
{
    const struct file_coverage **old = sort_files(before), **new = sort_files(after);
    struct file_coverage old_sum = sum_up(before), new_sum = sum_up(after);

    for (size_t i = 0, k = 0; i < before->count || k < after->count;) {
        int order = i == before->count  ? 1
                    : k == after->count ? -1
                                        : compare_names(old[i]->path, new[k]->path);
        const struct file_coverage *was = order <= 0 ? old[i++] : NULL;
        const struct file_coverage *now = order >= 0 ? new[k++] : NULL;
        struct function_changes changes = {.up = {0}};

        if (was != NULL && now != NULL)
            find_functions(before, was, after, now, &changes);
        if (was == NULL || now == NULL || was->all_lines.count != now->all_lines.count ||
            was->all_lines.covered != now->all_lines.covered || changes.up.size != 0 ||
            changes.down.size != 0 || changes.covered.size != 0 || changes.missing.size != 0)
            print_change(text, was, now, &changes);
        buffer_free(&changes.up);
        buffer_free(&changes.down);
        buffer_free(&changes.covered);
        buffer_free(&changes.missing);
    }
    print_change(text, &old_sum, &new_sum, &(struct function_changes){.up = {0}});
    free(old);
    free(new);
}
