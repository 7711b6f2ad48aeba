/*
 * Conflicts among the rows of a function: see conflicts.h.
 *
 * A conflict is a set of rows that agree in one respect (the key) and disagree in another (the
 * value): rows with one file and different hashes, for example.
 */
#include "split/profiles/conflicts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

/* ---- sets of rows in conflict ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* In what the rows of a conflict agree. Where files are not known, any may be the same. */
static int compare_keys(enum conflict_kind kind, bool any_file, const struct conflict_row *a,
                        const struct conflict_row *b)
{
    int order = 0;

    if ((kind == CONFLICT_HASH || kind == CONFLICT_REGIONS) && !any_file)
        order = compare_numbers(a->file, b->file);
    if (order == 0 && kind != CONFLICT_HASH)
        order = compare_numbers(a->hash, b->hash);
    if (order == 0 && kind == CONFLICT_REGIONS)
        order = compare_numbers(a->counters, b->counters);
    return order;
}

/* In what they disagree. */
static uint64_t value_of(enum conflict_kind kind, const struct conflict_row *row)
{
    return kind == CONFLICT_COUNTERS  ? row->counters
           : kind == CONFLICT_HASH    ? row->hash
           : kind == CONFLICT_REGIONS ? row->regions
                                      : row->file;
}

/* Whether enough is known of the row for conflicts of this kind. */
static bool is_known(enum conflict_kind kind, bool any_file, const struct conflict_row *row)
{
    return kind == CONFLICT_COUNTERS || (kind == CONFLICT_HASH && any_file) ||
           (row->file != CONFLICT_NO_FILE && (kind != CONFLICT_REGIONS || row->regions != 0));
}

/* An order of rows, for qsort_r. */
struct row_order {
    enum conflict_kind kind;
    bool any_file;
};

/* By key and image, the images' values in ascending order. */
static int compare_by_image(const void *a, const void *b, void *context)
{
    const struct conflict_row *left = a, *right = b;
    const struct row_order *by = context;
    int order = compare_keys(by->kind, by->any_file, left, right);

    if (order == 0)
        order = compare_numbers(left->image, right->image);
    return order != 0 ? order
                      : compare_numbers(value_of(by->kind, left), value_of(by->kind, right));
}

/* By leader, then image: what the first image has is what LLVM's tools keep. */
static int compare_by_leader(const void *a, const void *b, void *context)
{
    const struct conflict_row *left = a, *right = b;
    const struct row_order *by = context;
    int order = compare_numbers(left->leader, right->leader);

    if (order == 0)
        order = compare_numbers(value_of(by->kind, left), value_of(by->kind, right));
    return order != 0 ? order : compare_numbers(left->image, right->image);
}

/* Sets the leaders of rows that are sorted by image. */
static void find_leaders(enum conflict_kind kind, struct conflict_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;

        while (value_of(kind, &rows[first]) != value_of(kind, &rows[i]))
            first++;
        rows[i].leader = rows[first].image;
    }
}

/* Drops rows that repeat the one before: static functions of one name may be equal too. */
static size_t drop_repeated(const struct row_order *by, struct conflict_row *rows, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare_by_image(&rows[i], &rows[kept - 1], (void *)(uintptr_t)by) != 0)
            rows[kept++] = rows[i];
    }
    return kept;
}

/* Whether the values of all images are the same ones. An image may have several functions of one
 * name, if these are static, and so may the others. The rows have one key and are sorted by image.
 */
static bool images_agree(enum conflict_kind kind, const struct conflict_row *rows, size_t count)
{
    size_t first_count = 1;

    while (first_count < count && rows[first_count].image == rows[0].image)
        first_count++;
    if (count % first_count != 0)
        return false;
    for (size_t i = first_count; i < count; i++) {
        bool starts_image = rows[i].image != rows[i - 1].image;

        if (starts_image != (i % first_count == 0) ||
            value_of(kind, &rows[i]) != value_of(kind, &rows[i % first_count]))
            return false;
    }
    return true;
}

/* ---- conflicts ---- */

static bool add_conflict(struct conflicts *conflicts, const struct row_order *by, const char *name,
                         struct conflict_row *rows, size_t count)
{
    struct conflict conflict = {.kind = by->kind,
                                .is_possible = by->any_file,
                                .first_row = conflicts->row_count,
                                .row_count = count};

    if (!ARRAY_ROOM_FOR_ONE(conflicts->items, conflicts->capacity, conflicts->count) ||
        !array_make_room(&conflicts->rows, &conflicts->row_capacity, conflicts->row_count, count,
                         sizeof(*conflicts->rows)))
        return false;
    conflict.function = strdup(name);
    if (conflict.function == NULL)
        return false;
    find_leaders(by->kind, rows, count);
    qsort_r(rows, count, sizeof(*rows), compare_by_leader, (void *)(uintptr_t)by);
    memcpy(&conflicts->rows[conflicts->row_count], rows, count * sizeof(*rows));
    conflicts->row_count += count;
    conflicts->items[conflicts->count++] = conflict;
    return true;
}

/* Adds the conflicts of one kind among the rows of a function. */
static bool add_kind(struct conflicts *conflicts, const struct row_order *by,
                     const struct function_rows *all, struct conflict_row *rows)
{
    size_t known = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (is_known(by->kind, by->any_file, &all->rows[i]))
            rows[known++] = all->rows[i];
    }
    qsort_r(rows, known, sizeof(*rows), compare_by_image, (void *)(uintptr_t)by);
    known = drop_repeated(by, rows, known);
    for (size_t start = 0, end; start < known; start = end) {
        for (end = start + 1;
             end < known && compare_keys(by->kind, by->any_file, &rows[start], &rows[end]) == 0;)
            end++;
        if (!images_agree(by->kind, &rows[start], end - start) &&
            !add_conflict(conflicts, by, all->name, &rows[start], end - start))
            return false;
    }
    return true;
}

static bool has_unknown_file(const struct function_rows *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->rows[i].file == CONFLICT_NO_FILE)
            return true;
    }
    return false;
}

static bool add_kinds(struct conflicts *conflicts, bool thorough, const struct function_rows *all,
                      struct conflict_row *rows)
{
    unsigned kinds = thorough ? CONFLICT_KINDS : CONFLICT_REGIONS;
    size_t hash_conflicts = 0;

    for (unsigned kind = 0; kind < kinds; kind++) {
        struct row_order by = {.kind = (enum conflict_kind)kind};
        size_t before = conflicts->count;

        if (!add_kind(conflicts, &by, all, rows))
            return false;
        if (kind == CONFLICT_HASH)
            hash_conflicts = conflicts->count - before;
    }
    if (hash_conflicts == 0 && has_unknown_file(all)) {
        struct row_order by = {.kind = CONFLICT_HASH, .any_file = true};

        return add_kind(conflicts, &by, all, rows);
    }
    return true;
}

bool conflicts_add(struct conflicts *conflicts, bool thorough, const struct function_rows *all)
{
    struct conflict_row *rows = malloc(all->count * sizeof(*rows));
    bool done = rows != NULL && add_kinds(conflicts, thorough, all, rows);

    free(rows);
    return done;
}

/* Of the same kind and name, the one that was added first comes first. */
static int compare_conflicts(const void *a, const void *b)
{
    const struct conflict *left = a, *right = b;
    int order = (int)left->is_possible - (int)right->is_possible;

    if (order == 0)
        order = (int)left->kind - (int)right->kind;
    if (order == 0)
        order = strcmp(left->function, right->function);
    return order != 0 ? order : compare_numbers(left->first_row, right->first_row);
}

void conflicts_sort(struct conflicts *conflicts)
{
    if (conflicts->count > 1)
        qsort(conflicts->items, conflicts->count, sizeof(*conflicts->items), compare_conflicts);
}

bool conflicts_file(const struct conflicts *conflicts, uint32_t file, struct bytes *name)
{
    if (file == CONFLICT_NO_FILE)
        return false;
    *name = names_get(&conflicts->files, file);
    return true;
}

void conflicts_free(struct conflicts *conflicts)
{
    for (size_t i = 0; i < conflicts->count; i++)
        free(conflicts->items[i].function);
    free(conflicts->items);
    free(conflicts->rows);
    names_free(&conflicts->files);
    *conflicts = (struct conflicts){0};
}
