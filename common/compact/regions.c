/*
 * Regions of mappings: see regions.h.
 *
 * Of a mapping there are told: in COVFUN_FILE_COUNTS how many files it has, in COVFUN_FILES their
 * names' numbers. Of each file but the first: in COVFUN_SHAPES 0 where its shape is new, or how
 * many shapes ago it was new. Of the first and of new shapes: in COVFUN_REGION_COUNTS the number of
 * regions. Of each region then, unless the shape has come: in COVFUN_KINDS a byte, its kind with 8
 * added for gaps, and its place; and of every region its operands: counters in parts by their role,
 * an expansion's file in COVFUN_EXPANSIONS, other numbers in COVFUN_OTHER_OPERANDS.
 *
 * Places: a branch has that of its condition, which is a region a little before: in
 * COVFUN_SAME_PLACE is a byte, how many regions before, or 0. What follows a gap mostly starts
 * where that ends: then a byte 1 in COVFUN_BEHIND_GAP, else 0. All else is told as numbers, in
 * parts by class: line (of a first region in COVFUN_FIRST_LINE the zigzag of its line less that of
 * the mapping before; of files but the first the line in COVFUN_OTHER_FIRST_LINE); column, on the
 * line of the region before the zigzag of the difference; lines; and the end's column, on the same
 * line the zigzag of the length. Code often ends where other code does that encloses it: then a
 * byte in COVFUN_END (behind a gap in COVFUN_END_BEHIND_GAP) tells which, 1 for the last of those
 * that end behind its start; else 0.
 */
#include "common/compact/regions.h"

#include <stdlib.h>
#include <string.h>

#include "common/compact/numbers.h"
#include "common/digest.h"

/* How far back the place of a branch is looked for. */
#define SAME_PLACE_MAX 16

#define KIND_GAP       8

void regions_free(struct regions *regions)
{
    number_table_free(&regions->shape_numbers);
    buffer_free(&regions->key);
    free(regions->shapes);
    mapping_free(&regions->shape_regions);
    *regions = (struct regions){0};
}

bool regions_start_writing(struct regions *regions)
{
    return number_table_start(&regions->shape_numbers);
}

static unsigned class_of(const struct region *region)
{
    switch (region->kind) {
    case REGION_CODE:
        return region->is_gap ? PLACE_GAP : PLACE_CODE;
    case REGION_EXPANSION:
        return PLACE_EXPANSION;
    case REGION_SKIPPED:
        return PLACE_SKIPPED;
    case REGION_ZERO:
        return PLACE_ZERO;
    default:
        return PLACE_BRANCH;
    }
}

/* The part of a region's counters: the first or the second of the region at `index`. */
static unsigned counter_part(const struct region *region, size_t index, bool is_new, bool is_second)
{
    if (region->kind != REGION_CODE)
        return is_second ? COVFUN_COUNTER_FALSE : COVFUN_COUNTER_TRUE;
    if (region->is_gap)
        return COVFUN_COUNTER_GAP;
    if (!is_new)
        return COVFUN_COUNTER_SHAPE;
    if (index == 0)
        return COVFUN_COUNTER_FIRST;
    if ((region - 1)->is_gap)
        return COVFUN_COUNTER_BEHIND_GAP;
    return region->line == 0 ? COVFUN_COUNTER_CODE : COVFUN_COUNTER_NEXT_LINE;
}

/* ---- ends ---- */

static uint64_t place_of(uint64_t line, uint32_t column)
{
    return line << 32 | column;
}

/* What of the ends is told of a region at `index`; 0: nothing. */
static unsigned end_part(const struct region *region, size_t index)
{
    unsigned class = class_of(region);

    if (index == 0 || (class != PLACE_CODE && class != PLACE_ZERO))
        return 0;
    return (region - 1)->is_gap ? COVFUN_END_BEHIND_GAP : COVFUN_END;
}

/* The region's end moves to the front. */
static void add_end(struct region_ends *ends, const struct region *region)
{
    uint64_t place = place_of(ends->line + region->lines, region->column_end);
    unsigned class = class_of(region);
    size_t at = 0;

    if (class != PLACE_CODE && class != PLACE_ZERO)
        return;
    while (at < ends->count && ends->places[at] != place)
        at++;
    if (at == ends->count) {
        if (ends->count < REGION_ENDS)
            ends->count++;
        at = ends->count - 1;
    }
    memmove(ends->places + 1, ends->places, at * sizeof(ends->places[0]));
    ends->places[0] = place;
}

/* The number of the region's end; 0: it is none of them. */
static unsigned find_end(const struct region_ends *ends, const struct region *region)
{
    uint64_t start = place_of(ends->line, region->column);
    uint64_t end = place_of(ends->line + region->lines, region->column_end);
    unsigned number = 0;

    for (size_t i = 0; i < ends->count; i++) {
        number += ends->places[i] > start;
        if (ends->places[i] == end)
            return end > start ? number : 0;
    }
    return 0;
}

/* Gives the region the end of that number. */
static bool set_end(const struct region_ends *ends, unsigned number, struct region *region)
{
    uint64_t start = place_of(ends->line, region->column);

    for (size_t i = 0; i < ends->count; i++) {
        if (ends->places[i] <= start || --number != 0)
            continue;
        region->lines = (uint32_t)((ends->places[i] >> 32) - ends->line);
        region->column_end = (uint32_t)ends->places[i];
        return true;
    }
    return false;
}

/* ---- writing ---- */

/* How many regions before there is one at the same place; 0: none. */
static unsigned same_place(const struct region *region, size_t index)
{
    uint64_t lines = 0;

    for (unsigned back = 1; back <= SAME_PLACE_MAX && back <= index; back++) {
        const struct region *other = region - back;

        lines += region[1 - (int)back].line;
        if (lines != 0)
            return 0;
        if (other->column == region->column && other->lines == region->lines &&
            other->column_end == region->column_end)
            return back;
    }
    return 0;
}

static bool put_start(struct regions *regions, struct compact_parts *parts,
                      const struct region *region, size_t index, bool is_main)
{
    unsigned class = class_of(region);
    const struct region *before = region - 1;

    if (index == 0) {
        uint64_t difference = (uint64_t)region->line - regions->first_line;

        if (is_main)
            regions->first_line = region->line;
        return (is_main ? covfun_put(parts, COVFUN_FIRST_LINE, zigzag(difference))
                        : covfun_put(parts, COVFUN_OTHER_FIRST_LINE, region->line)) &&
               covfun_put(parts, COVFUN_COLUMN + class, region->column);
    }
    if (before->is_gap && class != PLACE_BRANCH) {
        bool follows = region->line == before->lines && region->column == before->column_end;

        if (!covfun_put_byte(parts, COVFUN_BEHIND_GAP, follows))
            return false;
        if (follows)
            return true;
    }
    return covfun_put(parts, COVFUN_LINE + class, region->line) &&
           (region->line == 0 ? covfun_put(parts, COVFUN_COLUMN_ON_LINE + class,
                                           zigzag((uint64_t)region->column - before->column))
                              : covfun_put(parts, COVFUN_COLUMN + class, region->column));
}

static bool put_place(struct regions *regions, struct compact_parts *parts,
                      const struct region *region, size_t index, bool is_main)
{
    unsigned class = class_of(region);

    if (class == PLACE_BRANCH) {
        unsigned back = same_place(region, index);

        if (!covfun_put_byte(parts, COVFUN_SAME_PLACE, back))
            return false;
        if (back != 0)
            return true;
    }
    if (!put_start(regions, parts, region, index, is_main))
        return false;
    if (end_part(region, index) != 0) {
        unsigned number = find_end(&regions->ends, region);

        if (!covfun_put_byte(parts, end_part(region, index), number))
            return false;
        if (number != 0)
            return true;
    }
    return covfun_put(parts, COVFUN_LINES + class, region->lines) &&
           (region->lines == 0 ? covfun_put(parts, COVFUN_LENGTH + class,
                                            zigzag((uint64_t)region->column_end - region->column))
                               : covfun_put(parts, COVFUN_COLUMN_END + class, region->column_end));
}

static bool put_operands(struct counters *counters, struct compact_parts *parts,
                         const struct region *region, size_t index, bool is_new)
{
    unsigned counted = region_counters(region->kind);

    for (unsigned i = 0; i < region_operands(region->kind); i++) {
        uint32_t operand = region->operands[i];
        bool done = i < counted
                        ? counters_put(counters, parts, counter_part(region, index, is_new, i != 0),
                                       operand)
                        : covfun_put(parts,
                                     region->kind == REGION_EXPANSION ? COVFUN_EXPANSIONS
                                                                      : COVFUN_OTHER_OPERANDS,
                                     operand);
        if (!done)
            return false;
    }
    return true;
}

/* Puts how long ago the shape was new. */
static bool put_shape(struct regions *regions, struct compact_parts *parts,
                      const struct region *first, uint32_t count, bool *is_new)
{
    uint64_t before = regions->shape_numbers.count, number;
    struct digest digest;

    regions->key.size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct region *region = &first[i];
        uint32_t fields[5] = {region->kind | (region->is_gap ? KIND_GAP : 0u), region->line,
                              region->column, region->lines, region->column_end};

        if (!buffer_append(&regions->key, fields, sizeof(fields)))
            return false;
    }
    digest = digest_of(buffer_view(&regions->key));
    if (!number_table_get(&regions->shape_numbers, load_u64(digest.bytes, false), &number))
        return false;
    *is_new = number == before;
    return covfun_put(parts, COVFUN_SHAPES, *is_new ? 0 : before - number);
}

static bool put_file(struct regions *regions, struct counters *counters,
                     struct compact_parts *parts, const struct region *first, uint32_t count,
                     bool is_main)
{
    bool is_new = true;

    if (!is_main && !put_shape(regions, parts, first, count, &is_new))
        return false;
    if (is_new && !covfun_put(parts, COVFUN_REGION_COUNTS, count))
        return false;
    regions->ends = (struct region_ends){0};
    for (uint32_t i = 0; i < count; i++) {
        const struct region *region = &first[i];
        unsigned kind = region->kind | (region->is_gap ? KIND_GAP : 0u);

        /* Lines are counted from the first. */
        regions->ends.line += i == 0 ? 0 : region->line;
        if (is_new && (!covfun_put_byte(parts, COVFUN_KINDS, kind) ||
                       !put_place(regions, parts, region, i, is_main)))
            return false;
        if (!put_operands(counters, parts, region, i, is_new))
            return false;
        add_end(&regions->ends, region);
    }
    return true;
}

bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct compact_parts *parts)
{
    const struct region *first = mapping->regions;
    bool done = covfun_put(parts, COVFUN_FILE_COUNTS, mapping->file_count);

    for (size_t i = 0; done && i < mapping->file_count; i++)
        done = covfun_put(parts, COVFUN_FILES, mapping->files[i]);
    for (size_t i = 0; done && i < mapping->file_count; i++) {
        done = put_file(regions, counters, parts, first, mapping->region_counts[i], i == 0);
        if (mapping->region_counts[i] != 0)
            first += mapping->region_counts[i];
    }
    return done;
}

/* ---- reading ---- */

/* Unsigned differences of either sign, back to 32 bits. */
static bool add_32(uint32_t base, uint64_t code, uint32_t *number)
{
    uint64_t sum = base + unzigzag(code);

    *number = (uint32_t)sum;
    return sum <= UINT32_MAX;
}

static bool take_start(struct regions *regions, struct covfun_columns *columns,
                       struct region *region, size_t index, bool is_main)
{
    unsigned class = class_of(region);
    const struct region *before = region - 1;
    uint64_t code;
    uint8_t follows = 0;

    if (index == 0 && !is_main)
        return covfun_take_32(columns, COVFUN_OTHER_FIRST_LINE, &region->line) &&
               covfun_take_32(columns, COVFUN_COLUMN + class, &region->column);
    if (index == 0) {
        if (!covfun_take(columns, COVFUN_FIRST_LINE, &code) ||
            !add_32(regions->first_line, code, &region->line))
            return false;
        regions->first_line = region->line;
        return covfun_take_32(columns, COVFUN_COLUMN + class, &region->column);
    }
    if (before->is_gap && class != PLACE_BRANCH &&
        !covfun_take_byte(columns, COVFUN_BEHIND_GAP, &follows))
        return false;
    if (follows != 0) {
        region->line = before->lines;
        region->column = before->column_end;
        return true;
    }
    if (!covfun_take_32(columns, COVFUN_LINE + class, &region->line))
        return false;
    if (region->line != 0)
        return covfun_take_32(columns, COVFUN_COLUMN + class, &region->column);
    return covfun_take(columns, COVFUN_COLUMN_ON_LINE + class, &code) &&
           add_32(before->column, code, &region->column);
}

static bool take_place(struct regions *regions, struct covfun_columns *columns,
                       struct region *region, size_t index, bool is_main)
{
    unsigned class = class_of(region);
    uint64_t code;
    uint8_t back;

    if (class == PLACE_BRANCH) {
        if (!covfun_take_byte(columns, COVFUN_SAME_PLACE, &back) || back > index)
            return false;
        if (back != 0) {
            region->line = 0;
            region->column = (region - back)->column;
            region->lines = (region - back)->lines;
            region->column_end = (region - back)->column_end;
            return true;
        }
    }
    if (!take_start(regions, columns, region, index, is_main))
        return false;
    regions->ends.line += index == 0 ? 0 : region->line;
    if (end_part(region, index) != 0) {
        if (!covfun_take_byte(columns, end_part(region, index), &back))
            return false;
        if (back != 0)
            return set_end(&regions->ends, back, region);
    }
    if (!covfun_take_32(columns, COVFUN_LINES + class, &region->lines))
        return false;
    if (region->lines != 0)
        return covfun_take_32(columns, COVFUN_COLUMN_END + class, &region->column_end);
    return covfun_take(columns, COVFUN_LENGTH + class, &code) &&
           add_32(region->column, code, &region->column_end);
}

static bool take_kind(struct covfun_columns *columns, struct region *region)
{
    uint8_t kind;

    if (!covfun_take_byte(columns, COVFUN_KINDS, &kind) || kind >= 2 * KIND_GAP ||
        kind % KIND_GAP >= REGION_KINDS)
        return false;
    region->kind = kind % KIND_GAP;
    region->is_gap = kind >= KIND_GAP;
    return true;
}

static enum compact_result take_operands(struct counters *counters, struct covfun_columns *columns,
                                         struct region *region, size_t index, bool is_new)
{
    unsigned counted = region_counters(region->kind);
    enum compact_result result = COMPACT_DONE;

    for (unsigned i = 0; result == COMPACT_DONE && i < region_operands(region->kind); i++) {
        uint32_t *operand = &region->operands[i];

        if (i < counted)
            result = counters_take(counters, columns, counter_part(region, index, is_new, i != 0),
                                   operand);
        else if (!covfun_take_32(columns,
                                 region->kind == REGION_EXPANSION ? COVFUN_EXPANSIONS
                                                                  : COVFUN_OTHER_OPERANDS,
                                 operand))
            result = COMPACT_UNFIT;
    }
    return result;
}

/* Keeps the regions of a file as a shape. */
static bool add_shape(struct regions *regions, const struct region *first, uint32_t count)
{
    if (regions->shape_count == regions->shape_capacity) {
        size_t capacity = regions->shape_capacity == 0 ? 64 : regions->shape_capacity * 2;
        struct region_shape *shapes = realloc(regions->shapes, capacity * sizeof(*shapes));

        if (shapes == NULL)
            return false;
        regions->shapes = shapes;
        regions->shape_capacity = capacity;
    }
    regions->shapes[regions->shape_count++] =
        (struct region_shape){regions->shape_regions.region_count, count};
    for (uint32_t i = 0; i < count; i++) {
        if (!mapping_add_region(&regions->shape_regions, &first[i]))
            return false;
    }
    return true;
}

/* The shape of a file: NULL where it is new. */
static bool take_shape(const struct regions *regions, struct covfun_columns *columns,
                       const struct region_shape **shape)
{
    uint64_t ago;

    *shape = NULL;
    if (!covfun_take(columns, COVFUN_SHAPES, &ago) || ago > regions->shape_count)
        return false;
    if (ago != 0)
        *shape = &regions->shapes[regions->shape_count - ago];
    return true;
}

/* No region takes less of the section than this. */
#define REGION_SIZE_MIN 5

static enum compact_result take_file(struct regions *regions, struct counters *counters,
                                     struct covfun_columns *columns, uint64_t limit,
                                     struct mapping *mapping, size_t file)
{
    const struct region_shape *shape = NULL;
    size_t first = mapping->region_count;
    uint32_t count;

    if (file != 0 && !take_shape(regions, columns, &shape))
        return COMPACT_UNFIT;
    if (shape != NULL)
        count = shape->count;
    else if (!covfun_take_32(columns, COVFUN_REGION_COUNTS, &count))
        return COMPACT_UNFIT;
    if ((first + (uint64_t)count) * REGION_SIZE_MIN > limit)
        return COMPACT_UNFIT;
    mapping->region_counts[file] = count;
    regions->ends = (struct region_ends){0};
    for (uint32_t i = 0; i < count; i++) {
        struct region blank = {0}, *region;
        enum compact_result result;

        if (shape != NULL)
            blank = regions->shape_regions.regions[shape->first + i];
        if (!mapping_add_region(mapping, &blank))
            return COMPACT_NO_MEMORY;
        region = &mapping->regions[mapping->region_count - 1];
        if (shape == NULL &&
            (!take_kind(columns, region) || !take_place(regions, columns, region, i, file == 0)))
            return COMPACT_UNFIT;
        result = take_operands(counters, columns, region, i, shape == NULL);
        if (result != COMPACT_DONE)
            return result;
        add_end(&regions->ends, region);
    }
    return file == 0 || shape != NULL || add_shape(regions, mapping->regions + first, count)
               ? COMPACT_DONE
               : COMPACT_NO_MEMORY;
}

enum compact_result regions_take(struct regions *regions, struct counters *counters,
                                 struct covfun_columns *columns, uint64_t limit,
                                 struct mapping *mapping)
{
    enum compact_result result = COMPACT_DONE;
    uint32_t files, name;

    if (!covfun_take_32(columns, COVFUN_FILE_COUNTS, &files) || files > limit)
        return COMPACT_UNFIT;
    for (uint32_t i = 0; i < files; i++) {
        if (!covfun_take_32(columns, COVFUN_FILES, &name))
            return COMPACT_UNFIT;
        if (!mapping_add_file(mapping, name))
            return COMPACT_NO_MEMORY;
    }
    for (uint32_t i = 0; result == COMPACT_DONE && i < files; i++)
        result = take_file(regions, counters, columns, limit, mapping, i);
    return result;
}
