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

static inline unsigned class_of(const struct region *region)
{
    static const uint8_t classes[2][REGION_KINDS] = {
        {PLACE_CODE, PLACE_EXPANSION, PLACE_SKIPPED, PLACE_ZERO, PLACE_BRANCH, PLACE_BRANCH,
         PLACE_BRANCH},
        {PLACE_GAP, PLACE_EXPANSION, PLACE_SKIPPED, PLACE_ZERO, PLACE_BRANCH, PLACE_BRANCH,
         PLACE_BRANCH}};

    return classes[region->is_gap][region->kind];
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

/* Where the end of a region at `index` is told of, which is code; 0: nowhere. */
static unsigned end_part(const struct region *region, size_t index)
{
    if (index == 0)
        return 0;
    return (region - 1)->is_gap ? COVFUN_END_BEHIND_GAP : COVFUN_END;
}

static void start_ends(struct region_ends *ends)
{
    recent_start(&ends->places);
    ends->line = 0;
}

static inline uint64_t start_of(const struct region_ends *ends, const struct region *region)
{
    return ends->line | region->column;
}

static inline uint64_t end_of(const struct region_ends *ends, const struct region *region)
{
    return (ends->line + ((uint64_t)region->lines << 32)) | region->column_end;
}

/* The number that the end at `at` has behind `start`: 1 for the first. */
static unsigned end_number(const struct region_ends *ends, size_t at, uint64_t start)
{
    unsigned number = 0;

    for (size_t i = 0; i <= at; i++)
        number += recent_get(&ends->places, i) > start;
    return number;
}

/* The end behind `start` that has the number; their count where there is none. */
static inline size_t find_end(const struct region_ends *ends, uint64_t start, unsigned number)
{
    size_t at = 0;

    while (at < recent_count(&ends->places, REGION_ENDS) &&
           (number -= recent_get(&ends->places, at) > start) != 0)
        at++;
    return at;
}

/* Brings an end that is in the list at `at`, or not in it, to the front. */
static void move_end(struct region_ends *ends, size_t at, uint64_t end)
{
    if (at == recent_count(&ends->places, REGION_ENDS))
        recent_add(&ends->places, REGION_ENDS, end);
    else
        recent_touch(&ends->places, at);
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

/* Puts the number of the region's end, and moves it to the front. *told: there is nothing more to
 * tell of the end. */
static bool put_end(struct region_ends *ends, struct compact_parts *parts, unsigned part,
                    const struct region *region, bool *told)
{
    uint64_t start = start_of(ends, region), end = end_of(ends, region);
    size_t at = recent_find(&ends->places, REGION_ENDS, end);
    bool known = at != recent_count(&ends->places, REGION_ENDS);
    unsigned number = known && end > start ? end_number(ends, at, start) : 0;

    move_end(ends, at, end);
    *told = number != 0;
    return part == 0 || covfun_put_byte(parts, part, number);
}

static bool put_place(struct regions *regions, struct compact_parts *parts,
                      const struct region *region, size_t index, bool is_main)
{
    unsigned class = class_of(region);
    bool told = false;

    if (class == PLACE_BRANCH) {
        unsigned back = same_place(region, index);

        if (!covfun_put_byte(parts, COVFUN_SAME_PLACE, back))
            return false;
        if (back != 0)
            return true;
    }
    if (!put_start(regions, parts, region, index, is_main))
        return false;
    if ((class == PLACE_CODE || class == PLACE_ZERO) &&
        !put_end(&regions->ends, parts, end_part(region, index), region, &told))
        return false;
    if (told)
        return true;
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
    start_ends(&regions->ends);
    for (uint32_t i = 0; i < count; i++) {
        const struct region *region = &first[i];
        unsigned kind = region->kind | (region->is_gap ? KIND_GAP : 0u);

        /* Lines are counted from the first. */
        regions->ends.line += i == 0 ? 0 : (uint64_t)region->line << 32;
        if (is_new && (!covfun_put_byte(parts, COVFUN_KINDS, kind) ||
                       !put_place(regions, parts, region, i, is_main)))
            return false;
        if (!put_operands(counters, parts, region, i, is_new))
            return false;
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

/* A number that must have 32 bits, like covfun_take_32. */
static inline uint32_t check_32(struct covfun_columns *columns, uint64_t number)
{
    if (number > UINT32_MAX)
        columns->broken = true;
    return (uint32_t)number;
}

/* A number of its own, or a zigzag of what it is more than `base`, by the part that tells it. Which
 * it is cannot be foretold: so there is no branch. */
static inline uint32_t take_either(struct covfun_columns *columns, unsigned part_of_numbers,
                                   unsigned part_of_zigzags, uint32_t base, bool is_zigzag)
{
    uint64_t zigzag = is_zigzag;
    uint64_t code = covfun_take(columns, part_of_numbers + (unsigned)zigzag *
                                                               (part_of_zigzags - part_of_numbers));

    return check_32(columns, (base & (0 - zigzag)) + ((code >> zigzag) ^ (0 - (code & zigzag))));
}

static void take_first_start(struct regions *regions, struct covfun_columns *columns,
                             struct region *region, unsigned class, bool is_main)
{
    if (is_main) {
        region->line = check_32(columns, regions->first_line +
                                             unzigzag(covfun_take(columns, COVFUN_FIRST_LINE)));
        regions->first_line = region->line;
    } else {
        region->line = covfun_take_32(columns, COVFUN_OTHER_FIRST_LINE);
    }
    region->column = covfun_take_32(columns, COVFUN_COLUMN + class);
}

static inline void take_start(struct covfun_columns *columns, struct region *region, unsigned class)
{
    const struct region *before = region - 1;

    if (before->is_gap && class != PLACE_BRANCH &&
        covfun_take_byte(columns, COVFUN_BEHIND_GAP) != 0) {
        region->line = before->lines;
        region->column = before->column_end;
        return;
    }
    region->line = covfun_take_32(columns, COVFUN_LINE + class);
    region->column = take_either(columns, COVFUN_COLUMN + class, COVFUN_COLUMN_ON_LINE + class,
                                 before->column, region->line == 0);
}

static inline void take_end(struct covfun_columns *columns, struct region *region, unsigned class)
{
    region->lines = covfun_take_32(columns, COVFUN_LINES + class);
    region->column_end = take_either(columns, COVFUN_COLUMN_END + class, COVFUN_LENGTH + class,
                                     region->column, region->lines == 0);
}

/* The end of code. */
static inline void take_code_end(struct region_ends *ends, struct covfun_columns *columns,
                                 struct region *region, unsigned class, unsigned part)
{
    uint64_t start = start_of(ends, region), end;
    unsigned number = part == 0 ? 0 : covfun_take_byte(columns, part);
    size_t at;

    if (number != 0) {
        at = find_end(ends, start, number);
        if (at == recent_count(&ends->places, REGION_ENDS)) {
            columns->broken = true;
            return;
        }
        end = recent_touch(&ends->places, at);
        region->lines = (uint32_t)((end - ends->line) >> 32);
        region->column_end = (uint32_t)end;
        return;
    }
    take_end(columns, region, class);
    end = end_of(ends, region);
    /* An end behind the start that is in the list would have been told by its number. */
    if (end > start)
        recent_add(&ends->places, REGION_ENDS, end);
    else
        move_end(ends, recent_find(&ends->places, REGION_ENDS, end), end);
}

/* The place of a region that has not that of one before. */
static inline void take_place(struct regions *regions, struct covfun_columns *columns,
                              struct region *region, size_t index, bool is_main, unsigned class)
{
    if (index == 0) {
        take_first_start(regions, columns, region, class, is_main);
    } else {
        take_start(columns, region, class);
        regions->ends.line += (uint64_t)region->line << 32;
    }
    if (class == PLACE_CODE || class == PLACE_ZERO)
        take_code_end(&regions->ends, columns, region, class, end_part(region, index));
    else
        take_end(columns, region, class);
}

/* Whether a branch has the place of a region before. */
static inline bool take_same_place(struct covfun_columns *columns, struct region *region,
                                   size_t index)
{
    size_t back = covfun_take_byte(columns, COVFUN_SAME_PLACE);

    if (back == 0)
        return false;
    if (back > index) {
        columns->broken = true;
        return true;
    }
    region->line = 0;
    region->column = (region - back)->column;
    region->lines = (region - back)->lines;
    region->column_end = (region - back)->column_end;
    return true;
}

/* ---- operands ---- */

/* Those of all kinds but code. `at`: where the region is in the mapping. */
static inline void take_other_operands(struct counters *counters, struct covfun_columns *columns,
                                       struct region *region, size_t at)
{
    unsigned part = region->kind == REGION_EXPANSION ? COVFUN_EXPANSIONS : COVFUN_OTHER_OPERANDS;
    unsigned counted = region_counters(region->kind);

    if (counted != 0) {
        region->operands[0] = counters_take(counters, columns, COVFUN_COUNTER_TRUE, at, 0);
        region->operands[1] = counters_take(counters, columns, COVFUN_COUNTER_FALSE, at, 1);
    }
    for (unsigned i = counted; i < region_operands(region->kind); i++)
        region->operands[i] = covfun_take_32(columns, part);
}

/* The same for a region of a shape that has come. */
static inline void take_operands(struct counters *counters, struct covfun_columns *columns,
                                 struct region *region, size_t at)
{
    unsigned part = region->is_gap ? COVFUN_COUNTER_GAP : COVFUN_COUNTER_SHAPE;

    if (region->kind == REGION_CODE)
        region->operands[0] = counters_take(counters, columns, part, at, 0);
    else
        take_other_operands(counters, columns, region, at);
}

/* ---- regions ---- */

/* `at`: where the region is in the mapping; `index`: in its file. */
static inline void take_region(struct regions *regions, struct counters *counters,
                               struct covfun_columns *columns, struct region *region, size_t at,
                               size_t index, bool is_main)
{
    uint8_t kind = covfun_take_byte(columns, COVFUN_KINDS);
    unsigned class;

    if (kind >= 2 * KIND_GAP || kind % KIND_GAP >= REGION_KINDS) {
        columns->broken = true;
        return;
    }
    region->kind = kind % KIND_GAP;
    region->is_gap = kind >= KIND_GAP;
    region->operands[0] = 0;
    class = class_of(region);
    if (class != PLACE_BRANCH || !take_same_place(columns, region, index))
        take_place(regions, columns, region, index, is_main, class);
    if (region->kind == REGION_CODE)
        region->operands[0] =
            counters_take(counters, columns, counter_part(region, index, true, false), at, 0);
    else
        take_other_operands(counters, columns, region, at);
}

/* Keeps the last regions of the mapping as a shape. */
static bool add_shape(struct regions *regions, const struct mapping *mapping, uint32_t count)
{
    struct mapping *shapes = &regions->shape_regions;

    if (!array_make_room((void **)&regions->shapes, &regions->shape_capacity, regions->shape_count,
                         1, sizeof(*regions->shapes)) ||
        !mapping_reserve_regions(shapes, count))
        return false;
    regions->shapes[regions->shape_count++] = (struct region_shape){shapes->region_count, count};
    if (count != 0)
        memcpy(shapes->regions + shapes->region_count,
               mapping->regions + mapping->region_count - count, count * sizeof(*shapes->regions));
    shapes->region_count += count;
    return true;
}

/* The shape of a file: NULL where it is new. */
static const struct region_shape *take_shape(const struct regions *regions,
                                             struct covfun_columns *columns)
{
    uint64_t ago = covfun_take(columns, COVFUN_SHAPES);

    columns->broken |= ago > regions->shape_count;
    return ago == 0 || columns->broken ? NULL : &regions->shapes[regions->shape_count - ago];
}

/* How many regions are left to read in COVFUN_KINDS. */
static uint64_t kinds_left(const struct covfun_columns *columns)
{
    const struct covfun_column *column = &columns->parts[COVFUN_KINDS];

    return (uint64_t)(column->end - column->at);
}

/* Regions behind those that the mapping has, where there is room. */
static bool take_new_regions(struct regions *regions, struct counters *counters,
                             struct covfun_columns *columns, struct mapping *mapping,
                             uint32_t count, bool is_main)
{
    size_t at = mapping->region_count;

    start_ends(&regions->ends);
    for (uint32_t i = 0; i < count && !columns->broken; i++, at++)
        take_region(regions, counters, columns, &mapping->regions[at], at, i, is_main);
    return !columns->broken;
}

static bool take_known_regions(const struct regions *regions, const struct region_shape *shape,
                               struct counters *counters, struct covfun_columns *columns,
                               struct mapping *mapping)
{
    size_t at = mapping->region_count;
    uint32_t count = shape->count;

    if (count != 0)
        memcpy(mapping->regions + at, regions->shape_regions.regions + shape->first,
               count * sizeof(*mapping->regions));
    for (uint32_t i = 0; i < count && !columns->broken; i++, at++)
        take_operands(counters, columns, &mapping->regions[at], at);
    return !columns->broken;
}

static enum compact_result take_file(struct regions *regions, struct counters *counters,
                                     struct covfun_columns *columns, uint64_t limit,
                                     struct mapping *mapping, size_t file)
{
    const struct region_shape *shape = file == 0 ? NULL : take_shape(regions, columns);
    uint32_t count = shape != NULL ? shape->count : covfun_take_32(columns, COVFUN_REGION_COUNTS);
    uint64_t most = (uint64_t)mapping->region_count + count;
    bool done;

    if (columns->broken || most * REGION_SIZE_MIN > limit || most > MAPPING_COUNT_MAX ||
        (shape == NULL && count > kinds_left(columns)))
        return COMPACT_UNFIT;
    if (!mapping_reserve_regions(mapping, count) ||
        !counters_reserve(counters, (size_t)count * REGION_COUNTERS_MAX))
        return COMPACT_NO_MEMORY;
    done = shape != NULL ? take_known_regions(regions, shape, counters, columns, mapping)
                         : take_new_regions(regions, counters, columns, mapping, count, file == 0);
    if (!done)
        return columns->no_memory ? COMPACT_NO_MEMORY : COMPACT_UNFIT;
    mapping->region_counts[file] = count;
    mapping->region_count += count;
    return file == 0 || shape != NULL || add_shape(regions, mapping, count) ? COMPACT_DONE
                                                                            : COMPACT_NO_MEMORY;
}

enum compact_result regions_take(struct regions *regions, struct counters *counters,
                                 struct covfun_columns *columns, uint64_t limit,
                                 struct mapping *mapping)
{
    enum compact_result result = COMPACT_DONE;
    uint32_t files = covfun_take_32(columns, COVFUN_FILE_COUNTS);

    if (files > limit || files > MAPPING_COUNT_MAX)
        return COMPACT_UNFIT;
    for (uint32_t i = 0; i < files && !columns->broken; i++) {
        if (!mapping_add_file(mapping, covfun_take_32(columns, COVFUN_FILES)))
            return COMPACT_NO_MEMORY;
    }
    if (columns->broken)
        return COMPACT_UNFIT;
    for (uint32_t i = 0; result == COMPACT_DONE && i < files; i++)
        result = take_file(regions, counters, columns, limit, mapping, i);
    return result;
}
