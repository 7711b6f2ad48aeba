/*
 * Files and regions, as they are taken: see regions.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/numbers.h"
#include "common/codec/mapping/regions.h"

enum result regions_start_reading(struct regions *regions, struct covfun_columns *columns)
{
    return regions_start(regions) ? pattern_table_take(&regions->patterns, columns)
                                  : RESULT_NO_MEMORY;
}

/* ---- places ---- */

/* A number that must have 32 bits, like covfun_take_32. */
static inline uint32_t check_32(struct covfun_columns *columns, uint64_t number)
{
    if (number > UINT32_MAX)
        columns->broken = true;
    return (uint32_t)number;
}

static void take_first_start(struct regions *regions, struct covfun_columns *columns,
                             struct region *region, bool is_main)
{
    bool is_zero = region->kind == REGION_ZERO;

    if (!is_main) {
        region->line = covfun_take_32(columns, COVFUN_OTHER_FIRST_LINE);
        region->column = covfun_take_32(columns, COVFUN_OTHER_FIRST_COLUMN);
        return;
    }
    region->line = check_32(
        columns, regions->first_line + unzigzag(covfun_take(columns, COVFUN_FIRST_LINE + is_zero)));
    region->column = covfun_take_32(columns, COVFUN_FIRST_COLUMN + is_zero);
    regions->first_line = region->line;
}

/* A column on another line: a usual one, or one that is next in the part. */
static inline uint32_t take_column(const struct region_place *place, struct usual_columns *usual,
                                   struct covfun_columns *columns, unsigned part, unsigned which)
{
    uint32_t base = region_base_column(place), column;

    column = which == USUAL_COLUMNS ? covfun_take_32(columns, part)
                                    : check_32(columns, base + (uint64_t)usual->usual[which]);
    usual_columns_use(usual, (int64_t)column - base);
    return column;
}

/* The start, counted from the anchor. */
static inline void take_start(struct regions *regions, struct covfun_columns *columns,
                              struct region *region, uint64_t anchor, uint8_t form)
{
    struct region_place *place = &regions->place;
    unsigned class = region_class(region);
    uint64_t start = anchor;

    if (form < START_ON_LINE) {
        start = (anchor >> 32 << 32) | check_32(columns, (uint64_t)(uint32_t)anchor + form);
    } else if (form == START_ON_LINE) {
        uint64_t further = unzigzag(covfun_take(columns, COVFUN_COLUMN_ON_LINE + class));

        start = (anchor >> 32 << 32) | check_32(columns, (uint32_t)anchor + further);
    } else {
        uint64_t lines = form < START_LINES ? 1 : covfun_take_32(columns, COVFUN_LINE + class);

        start = ((anchor >> 32) + lines) << 32;
        start |= take_column(place, &regions->starts[class], columns, COVFUN_COLUMN + class,
                             (unsigned)(form - START_LINE) % (START_LINES - START_LINE));
    }
    region->line = (uint32_t)((start >> 32) - (place->line >> 32));
    region->column = (uint32_t)start;
    place->line = start >> 32 << 32;
}

static inline void take_end(struct regions *regions, struct covfun_columns *columns,
                            struct region *region, size_t index, uint8_t form)
{
    const struct region_place *place = &regions->place;
    unsigned class = region_end_class(region, index);

    if (form < END_NEAR) {
        const struct open_end *end = open_ends_get(&place->open, (size_t)form - END_OPEN + 1);

        if (end == NULL) {
            columns->broken = true;
            return;
        }
        region->lines = (uint32_t)((end->place >> 32) - (place->line >> 32));
        region->column_end = (uint32_t)end->place;
    } else if (form < END_LINE) {
        uint64_t length = form < END_LENGTH ? (uint64_t)form - END_NEAR
                                            : unzigzag(covfun_take(columns, COVFUN_LENGTH + class));

        region->lines = 0;
        region->column_end = check_32(columns, region->column + length);
    } else {
        region->lines = form < END_LINES ? 1 : covfun_take_32(columns, COVFUN_LINES + class);
        region->column_end =
            take_column(place, &regions->ends[class], columns, COVFUN_COLUMN_END + class,
                        (unsigned)(form - END_LINE) % (END_LINES - END_LINE));
    }
}

/* The place of a region; *closed is the value of what it closed last, or VALUE_ZERO. */
static inline void take_place(struct regions *regions, struct covfun_columns *columns,
                              struct region *region, size_t index, bool is_main,
                              const struct region_pattern *pattern, uint32_t *closed)
{
    struct region_place *place = &regions->place;

    *closed = VALUE_ZERO;
    if ((pattern->closed == CLOSED_FIRST) != (index == 0)) {
        columns->broken = true;
        return;
    }
    if (index == 0) {
        take_first_start(regions, columns, region, is_main);
    } else {
        uint64_t anchor = place->line | (region - 1)->column;

        if (pattern->closed > place->open.count) {
            columns->broken = true;
            return;
        }
        if (pattern->closed != 0) {
            const struct open_end *end = open_ends_get(&place->open, pattern->closed);

            anchor = end->place;
            *closed = end->value;
            place->open.count -= pattern->closed;
        }
        take_start(regions, columns, region, anchor, pattern->start);
    }
    take_end(regions, columns, region, index, pattern->end);
}

/* ---- operands ---- */

/* Where a region is: in the mapping, and in which shape, or in the first file. */
struct region_at {
    bool is_main;
    size_t shape;
    size_t index;      /* in the file */
    size_t in_mapping; /* likewise */
};

static void take_numbers(struct covfun_columns *columns, struct region *region)
{
    for (unsigned i = region_counters(region->kind); i < region_operands(region->kind); i++)
        region->operands[i] = covfun_take_32(columns, COVFUN_OPERANDS);
}

static void take_expansion(struct regions *regions, struct covfun_columns *columns,
                           struct region *region, struct region_at at, uint32_t enclosing,
                           uint8_t symbol)
{
    uint64_t further = symbol == 0 ? 0 : unzigzag(covfun_take(columns, COVFUN_EXPANSIONS));
    uint32_t list =
        at.is_main ? region_shape_list(region) : shape_list_of_place(at.shape, at.index);

    region->operands[0] = check_32(columns, regions->next_file + further);
    if (!columns->broken && !regions_expand(regions, region->operands[0], enclosing, list)) {
        columns->no_memory = true;
        columns->broken = true;
    }
}

/* Takes what the region has. Returns the value of code, and VALUE_ZERO else. */
static inline uint32_t take_operands(struct regions *regions, struct counters *counters,
                                     struct covfun_columns *columns, struct region *region,
                                     struct region_at at, unsigned part,
                                     struct counter_context context, const uint8_t symbols[2])
{
    uint32_t value = VALUE_ZERO;

    region->operands[0] = 0;
    switch (region->kind) {
    case REGION_CODE:
        region->operands[0] =
            counters_take_code(counters, columns, part, context, symbols[0], at.in_mapping, &value);
        break;
    case REGION_EXPANSION:
        take_expansion(regions, columns, region, at, context.enclosing, symbols[0]);
        break;
    case REGION_BRANCH:
    case REGION_MCDC_BRANCH:
        counters_take_branch(counters, columns, context.enclosing, symbols, at.in_mapping,
                             region->operands);
        take_numbers(columns, region);
        break;
    default:
        take_numbers(columns, region);
    }
    return value;
}

/* ---- files ---- */

/* Room for so many regions more, and for their counters. */
static enum result reserve(struct counters *counters, struct mapping *mapping, uint64_t limit,
                           size_t more)
{
    uint64_t most = (uint64_t)mapping->region_count + more;

    if (most * REGION_SIZE_MIN > limit || most > MAPPING_COUNT_MAX)
        return RESULT_UNFIT;
    return mapping_reserve_regions(mapping, more) && counters_reserve(counters, more)
               ? RESULT_OK
               : RESULT_NO_MEMORY;
}

/* How many regions the mapping may have before room for more must be asked for. */
static inline size_t reserved(const struct counters *counters, const struct mapping *mapping,
                              uint64_t limit)
{
    size_t room = mapping->region_count + counters_room(counters);

    if (room > mapping->region_capacity)
        room = mapping->region_capacity;
    if (room > MAPPING_COUNT_MAX)
        room = MAPPING_COUNT_MAX;
    return room < limit / REGION_SIZE_MIN ? room : (size_t)(limit / REGION_SIZE_MIN);
}

static inline void take_new_region(struct regions *regions, struct counters *counters,
                                   struct covfun_columns *columns, struct region *region,
                                   struct region_at at, uint32_t file_value,
                                   const struct region_pattern *pattern)
{
    struct region_place *place = &regions->place;
    struct counter_context context;
    uint32_t value;

    region->kind = pattern->kind;
    region->is_gap = pattern->is_gap;
    take_place(regions, columns, region, at.index, at.is_main, pattern, &context.closed);
    if (columns->broken)
        return;
    context.enclosing = region_enclosing(place, file_value);
    value = take_operands(regions, counters, columns, region, at,
                          region->is_gap ? COVFUN_COUNTER_GAP : COVFUN_COUNTER_CODE, context,
                          pattern->symbols);
    regions_pass(regions, region, value, context.enclosing);
}

/* Takes regions until the file has no more. */
static enum result take_new_regions(struct regions *regions, struct counters *counters,
                                    struct covfun_columns *columns, uint64_t limit,
                                    struct mapping *mapping, struct region_at at,
                                    uint32_t file_value)
{
    size_t room = reserved(counters, mapping, limit);

    regions_start_file(regions);
    for (at.index = 0;; at.index++) {
        struct region_pattern unlisted;
        const struct region_pattern *pattern = pattern_take(&regions->patterns, columns, &unlisted);

        if (columns->broken)
            return RESULT_UNFIT;
        if (pattern->kind == REGION_KINDS)
            return RESULT_OK;
        if (mapping->region_count >= room) {
            enum result result = reserve(counters, mapping, limit, 1);

            if (result != RESULT_OK)
                return result;
            room = reserved(counters, mapping, limit);
        }
        at.in_mapping = mapping->region_count++;
        take_new_region(regions, counters, columns, &mapping->regions[at.in_mapping], at,
                        file_value, pattern);
        if (columns->broken)
            return columns->no_memory ? RESULT_NO_MEMORY : RESULT_UNFIT;
    }
}

static enum result take_known_regions(struct regions *regions, struct counters *counters,
                                      struct covfun_columns *columns, uint64_t limit,
                                      struct mapping *mapping, struct region_at at,
                                      uint32_t file_value)
{
    const struct region_shape *shape = &regions->shapes[at.shape];
    struct counter_context context = {file_value, VALUE_ZERO};
    size_t first = mapping->region_count;
    enum result result = reserve(counters, mapping, limit, shape->count);

    if (result != RESULT_OK)
        return result;
    if (shape->count != 0)
        memcpy(mapping->regions + first, regions->shape_regions.regions + shape->first,
               shape->count * sizeof(*mapping->regions));
    mapping->region_count += shape->count;
    for (at.index = 0; at.index < shape->count && !columns->broken; at.index++) {
        struct region *region = &mapping->regions[first + at.index];
        unsigned told = region->kind == REGION_EXPANSION ? 1 : region_counters(region->kind);
        uint8_t symbols[REGION_COUNTERS_MAX] = {0};
        uint32_t value;

        at.in_mapping = first + at.index;
        for (unsigned i = 0; i < told; i++)
            symbols[i] = covfun_take_byte(columns, COVFUN_KNOWN_SYMBOLS);
        value = take_operands(regions, counters, columns, region, at, COVFUN_COUNTER_KNOWN, context,
                              symbols);
        if (at.index == 0)
            context.enclosing = value;
    }
    return !columns->broken ? RESULT_OK : columns->no_memory ? RESULT_NO_MEMORY : RESULT_UNFIT;
}

/* Keeps the regions of the mapping from `first` on as a shape. */
static bool add_shape(struct regions *regions, const struct mapping *mapping, size_t first)
{
    struct mapping *shapes = &regions->shape_regions;
    size_t count = mapping->region_count - first;

    if (!mapping_reserve_regions(shapes, count))
        return false;
    regions->shapes[regions->shape_count - 1] =
        (struct region_shape){shapes->region_count, (uint32_t)count};
    if (count != 0)
        memcpy(shapes->regions + shapes->region_count, mapping->regions + first,
               count * sizeof(*shapes->regions));
    shapes->region_count += count;
    return true;
}

/* Takes which shape a file has. A new one has no regions yet. */
static enum result take_shape(struct regions *regions, struct covfun_columns *columns,
                              uint32_t list_number, size_t *shape, bool *is_new)
{
    struct shape_list list = shape_list_get(&regions->lists, list_number);
    uint64_t code = covfun_take(columns, COVFUN_SHAPES), ago;
    unsigned place = list.size;

    *is_new = code == 0;
    if (code == 0) {
        if (!array_make_room((void **)&regions->shapes, &regions->shape_capacity,
                             regions->shape_count, 1, sizeof(*regions->shapes)))
            return RESULT_NO_MEMORY;
        *shape = regions->shape_count++;
        regions->shapes[*shape] = (struct region_shape){0, 0};
    } else if (code == 1) {
        ago = covfun_take(columns, COVFUN_OLDER_SHAPES);
        if (ago == 0 || ago > regions->shape_count)
            return RESULT_UNFIT;
        *shape = regions->shape_count - (size_t)ago;
    } else {
        if (code - 2 >= list.size || list.shapes[code - 2] == 0)
            return RESULT_UNFIT;
        place = (unsigned)(code - 2);
        *shape = list.shapes[place] - 1;
    }
    shape_list_touch(list, *shape, place);
    return columns->broken ? RESULT_UNFIT : RESULT_OK;
}

static enum result take_file(struct regions *regions, struct counters *counters,
                             struct covfun_columns *columns, uint64_t limit,
                             struct mapping *mapping, size_t file)
{
    struct file_origin origin = regions_origin(regions, file);
    struct region_at at = {.is_main = file == 0};
    size_t first = mapping->region_count;
    enum result result = RESULT_OK;
    bool is_new = true;

    if (!mapping_add_file(mapping,
                          covfun_take_32(columns, at.is_main ? COVFUN_FILES : COVFUN_OTHER_FILES)))
        return RESULT_NO_MEMORY;
    if (!at.is_main)
        result = take_shape(regions, columns, origin.list, &at.shape, &is_new);
    if (result == RESULT_OK)
        result =
            is_new
                ? take_new_regions(regions, counters, columns, limit, mapping, at, origin.value)
                : take_known_regions(regions, counters, columns, limit, mapping, at, origin.value);
    if (result != RESULT_OK)
        return result;
    mapping->region_counts[file] = (uint32_t)(mapping->region_count - first);
    return at.is_main || !is_new || add_shape(regions, mapping, first) ? RESULT_OK
                                                                       : RESULT_NO_MEMORY;
}

enum result regions_take(struct regions *regions, struct counters *counters,
                         struct covfun_columns *columns, uint64_t limit, struct mapping *mapping)
{
    uint32_t count = covfun_take_32(columns, COVFUN_FILE_COUNTS);
    enum result result = RESULT_OK;

    regions_start_mapping(regions);
    for (uint64_t i = 0; result == RESULT_OK; i++) {
        if (i == (count == 0 ? 1 + regions->expansions : (uint64_t)count - 1))
            break;
        if (columns->broken || i == limit || i == MAPPING_COUNT_MAX)
            return RESULT_UNFIT;
        result = take_file(regions, counters, columns, limit, mapping, (size_t)i);
    }
    return result == RESULT_OK && columns->broken ? RESULT_UNFIT : result;
}
