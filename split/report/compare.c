/*
 * Summaries of coverage, and what went up and down between two builds: see report.h.
 */
#include "split/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/memory.h"

/* Of nothing, everything is covered. */
static double percent(struct ratio ratio)
{
    return ratio.count == 0 ? 100 : (double)ratio.covered * 100 / (double)ratio.count;
}

static void add_ratio(struct ratio *sum, struct ratio more)
{
    sum->count += more.count;
    sum->covered += more.covered;
}

/* ---- one line a file ---- */

#define BAR_WIDTH 10

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
                       bool for_terminal, struct bytes name)
{
    coverage_print(text, "%6.2f%%", percent(file->all_lines));
    if (for_terminal)
        print_bar(text, percent(file->all_lines));
    coverage_print(text, "  %*" PRIu64 "/%-*" PRIu64 "    %6.2f%%    %6.2f%%  %.*s\n", width,
                   file->all_lines.covered, width, file->all_lines.count, percent(file->functions),
                   percent(file->branches), (int)name.size, (const char *)name.data);
}

void coverage_write_summary(const struct coverage *coverage, const char *root, bool for_terminal,
                            struct buffer *text)
{
    static const char all[] = "total";
    struct file_coverage sum = {.line_count = 0};
    int width = 1;

    for (size_t i = 0; i < coverage->count; i++) {
        add_ratio(&sum.all_lines, coverage->files[i].all_lines);
        add_ratio(&sum.functions, coverage->files[i].functions);
        add_ratio(&sum.branches, coverage->files[i].branches);
    }
    for (uint64_t rest = sum.all_lines.count; rest >= 10; rest /= 10)
        width++;
    coverage_print(text, "%-*s  functions   branches  file\n",
                   2 * width + 10 + (for_terminal ? BAR_WIDTH + 2 : 0), "  lines");
    for (size_t i = 0; i < coverage->count; i++)
        print_line(text, &coverage->files[i], width, for_terminal,
                   path_below(coverage->files[i].path, root));
    print_line(text, &sum, width, for_terminal,
               (struct bytes){(const uint8_t *)all, sizeof(all) - 1});
    command_require(!text->failed, text->size);
}

/* ---- which lines are the same ---- */

/* Lines from new_first to new_last are those from old_first on. */
struct same_lines {
    uint64_t new_first, new_last, old_first;
};

/* A file of the diff. */
struct diff_file {
    struct diff_reader reader; /* as it was when the file began */
    const struct file_coverage *after;
};

struct comparison {
    const struct coverage *before, *after;
    const char *root;
    bool has_diff;
    struct diff_file *files;
    size_t file_count, file_capacity;
    struct same_lines *same; /* of the file that is compared */
    size_t same_count, same_capacity;
};

static void list_diff_files(struct comparison *comparison, struct bytes diff)
{
    struct diff_reader reader = {.rest = diff};
    enum diff_line line;

    while ((line = diff_next(&reader)) != DIFF_END && line != DIFF_DAMAGED) {
        if (line != DIFF_FILE)
            continue;
        COMMAND_ROOM_FOR_ONE(comparison->files, comparison->file_capacity, comparison->file_count);
        comparison->files[comparison->file_count++] = (struct diff_file){
            reader, coverage_find_file(comparison->after, reader.new_path, comparison->root)};
    }
}

static void add_same(struct comparison *comparison, struct same_lines same)
{
    if (same.new_last < same.new_first)
        return;
    COMMAND_ROOM_FOR_ONE(comparison->same, comparison->same_capacity, comparison->same_count);
    comparison->same[comparison->same_count++] = same;
}

/* Lists the lines that are the same, from what the diff says of the file; NULL: all. */
static void find_same(struct comparison *comparison, const struct diff_file *file)
{
    struct same_lines same = {1, UINT64_MAX, 1};
    struct diff_reader reader;
    enum diff_line line = DIFF_END;

    comparison->same_count = 0;
    if (file != NULL)
        reader = file->reader;
    while (file != NULL && (line = diff_next(&reader)) != DIFF_END && line != DIFF_FILE &&
           line != DIFF_DAMAGED) {
        if (line != DIFF_ADDED && line != DIFF_REMOVED)
            continue;
        same.new_last = line == DIFF_ADDED ? reader.new_number - 1 : reader.new_number;
        add_same(comparison, same);
        same = (struct same_lines){reader.new_number + 1, UINT64_MAX, reader.old_number + 1};
    }
    add_same(comparison, same);
}

/* ---- a file ---- */

struct file_changes {
    struct buffer functions_up, functions_down;
    struct line_ranges lines_up, lines_down;
};

static int compare_functions(const void *a, const void *b)
{
    const struct function_coverage *left = a, *right = b;
    uint64_t size = left->name.size < right->name.size ? left->name.size : right->name.size;
    int order = memcmp(left->name.data, right->name.data, (size_t)size);

    return order != 0 ? order
                      : (left->name.size > right->name.size) - (left->name.size < right->name.size);
}

static void find_functions(const struct comparison *comparison, const struct file_coverage *before,
                           const struct file_coverage *after, struct file_changes *changes)
{
    const struct coverage *old = comparison->before;
    struct function_coverage *sorted = command_array(before->function_count, sizeof(*sorted));

    if (before->function_count != 0)
        memcpy(sorted, old->functions + before->first_function,
               before->function_count * sizeof(*sorted));
    qsort(sorted, before->function_count, sizeof(*sorted), compare_functions);
    for (size_t i = 0; i < after->function_count; i++) {
        const struct function_coverage *now =
            &comparison->after->functions[after->first_function + i];
        const struct function_coverage *was =
            bsearch(now, sorted, before->function_count, sizeof(*sorted), compare_functions);
        struct buffer *list = now->count != 0 ? &changes->functions_up : &changes->functions_down;

        if (was != NULL && (was->count != 0) != (now->count != 0))
            coverage_print(list, "%s%.*s", list->size == 0 ? "" : ", ", (int)now->name.size,
                           (const char *)now->name.data);
    }
    free(sorted);
}

static void find_lines(const struct comparison *comparison, const struct file_coverage *before,
                       const struct file_coverage *after, struct file_changes *changes)
{
    size_t next = 0;

    for (size_t i = 0; i < after->line_count; i++) {
        const struct line_coverage *now = &comparison->after->lines[after->first_line + i], *was;
        const struct same_lines *same;

        while (next < comparison->same_count && comparison->same[next].new_last < now->line)
            next++;
        same = &comparison->same[next];
        if (next == comparison->same_count || now->line < same->new_first)
            continue;
        was = coverage_find_line(comparison->before, before,
                                 same->old_first + (now->line - same->new_first));
        if (was != NULL && (was->count != 0) != (now->count != 0))
            line_ranges_add(now->count != 0 ? &changes->lines_up : &changes->lines_down, now->line);
    }
    line_ranges_end(&changes->lines_up);
    line_ranges_end(&changes->lines_down);
}

static void print_ratio(struct buffer *text, struct ratio ratio)
{
    coverage_print(text, "%.2f%% (%" PRIu64 " of %" PRIu64 ")", percent(ratio), ratio.covered,
                   ratio.count);
}

static void print_list(struct buffer *text, const char *what, const struct buffer *list)
{
    if (list->size != 0)
        coverage_print(text, "; %s: %.*s", what, (int)list->size, (const char *)list->data);
}

static void print_change(struct buffer *text, struct bytes name, const struct file_coverage *before,
                         const struct file_coverage *after, const struct file_changes *changes)
{
    coverage_print(text, "%.*s: ", (int)name.size, (const char *)name.data);
    if (before == NULL || after == NULL) {
        coverage_print(text, "%s, lines ", before == NULL ? "new" : "gone");
        print_ratio(text, (before == NULL ? after : before)->all_lines);
    } else {
        coverage_print(text, "lines ");
        print_ratio(text, before->all_lines);
        coverage_print(text, " -> ");
        print_ratio(text, after->all_lines);
        print_list(text, "functions now covered", &changes->functions_up);
        print_list(text, "functions not covered any more", &changes->functions_down);
        print_list(text, "lines now covered", &changes->lines_up.text);
        print_list(text, "lines not covered any more", &changes->lines_down.text);
    }
    coverage_print(text, "\n");
}

/* Compares a file that both have. */
static void compare_file(struct comparison *comparison, const struct file_coverage *before,
                         const struct file_coverage *after, const struct diff_file *in_diff,
                         struct buffer *text)
{
    struct file_changes changes = {.lines_up = {.first = 0}};

    find_functions(comparison, before, after, &changes);
    if (comparison->has_diff) {
        find_same(comparison, in_diff);
        find_lines(comparison, before, after, &changes);
    }
    if (before->all_lines.count != after->all_lines.count ||
        before->all_lines.covered != after->all_lines.covered || changes.functions_up.size != 0 ||
        changes.functions_down.size != 0 || changes.lines_up.text.size != 0 ||
        changes.lines_down.text.size != 0)
        print_change(text, path_below(after->path, comparison->root), before, after, &changes);
    buffer_free(&changes.functions_up);
    buffer_free(&changes.functions_down);
    buffer_free(&changes.lines_up.text);
    buffer_free(&changes.lines_down.text);
}

void coverage_compare(const struct coverage *before, const struct coverage *after,
                      const struct bytes *diff, const char *root, struct buffer *text)
{
    static const char all[] = "all";
    const struct file_changes none = {.lines_up = {.first = 0}};
    struct comparison comparison = {
        .before = before, .after = after, .root = root, .has_diff = diff != NULL};
    struct file_coverage old = {.line_count = 0}, new = {.line_count = 0};
    bool *is_met = command_array(before->count, sizeof(*is_met));

    if (diff != NULL)
        list_diff_files(&comparison, *diff);
    for (size_t i = 0; i < after->count; i++) {
        const struct file_coverage *file = &after->files[i], *was = NULL;
        struct bytes path = path_below(file->path, root);
        const struct diff_file *in_diff = NULL;

        for (size_t k = 0; k < comparison.file_count; k++) {
            if (comparison.files[k].after == file)
                in_diff = &comparison.files[k];
        }
        was = coverage_find_file(before, path, root);
        if (was == NULL && in_diff != NULL) /* renamed */
            was = coverage_find_file(before, in_diff->reader.old_path, root);
        if (was == NULL) {
            print_change(text, path, NULL, file, &none);
        } else {
            is_met[was - before->files] = true;
            compare_file(&comparison, was, file, in_diff, text);
        }
        add_ratio(&new.all_lines, file->all_lines);
    }
    for (size_t i = 0; i < before->count; i++) {
        const struct file_coverage *file = &before->files[i];

        if (!is_met[i])
            print_change(text, path_below(file->path, root), file, NULL, &none);
        add_ratio(&old.all_lines, file->all_lines);
    }
    print_change(text, (struct bytes){(const uint8_t *)all, sizeof(all) - 1}, &old, &new, &none);
    free(is_met);
    free(comparison.files);
    free(comparison.same);
    command_require(!text->failed, text->size);
}
