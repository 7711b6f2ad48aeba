/*
 * Reading files and regions: see regions.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/numbers.h"
#include "common/codec/mapping/regions.h"

enum result regions_start_reading(struct regions *regions, struct stream_cursors *cursors)
{
    return regions_start(regions) ? pattern_table_take(&regions->patterns, cursors)
                                  : RESULT_NO_MEMORY;
}

/* ---- places ---- */

/* Checks that a number fits 32 bits, like stream_take_32. */
static inline uint32_t check_32(struct stream_cursors *cursors, uint64_t number)
{
    if (number > UINT32_MAX)
        stream_fail(cursors, RESULT_UNFIT);
    return (uint32_t)number;
}

static void take_first_start(struct regions *regions, struct stream_cursors *cursors,
                             struct region *region, bool is_main)
{
    bool is_zero = region->kind == REGION_ZERO;

    if (!is_main) {
        region->line = stream_take_32(cursors, STREAM_EXPANDED_FIRST_LINES);
        region->column = stream_take_32(cursors, STREAM_EXPANDED_FIRST_COLUMNS);
        return;
    }
    region->line =
        check_32(cursors, regions->first_line +
                              unzigzag(stream_take(cursors, STREAM_FIRST_LINES + is_zero)));
    region->column = stream_take_32(cursors, STREAM_FIRST_COLUMNS + is_zero);
    regions->first_line = region->line;
}

/* Reads a column on another line: a frequent one, or the next number of the stream. */
static inline uint32_t take_column(const struct file_state *file, struct frequent_columns *frequent,
                                   struct stream_cursors *cursors, unsigned stream, unsigned which)
{
    uint32_t base = region_base_column(file), column;

    column = which == FREQUENT_COLUMNS
                 ? stream_take_32(cursors, stream)
                 : check_32(cursors, base + (uint64_t)frequent->frequent[which]);
    frequent_columns_use(frequent, (int64_t)column - base);
    return column;
}

/* Reads the start, which is counted from the anchor. */
static inline void take_start(struct regions *regions, struct stream_cursors *cursors,
                              struct region *region, uint64_t anchor, uint8_t form)
{
    struct file_state *file = &regions->file;
    unsigned class = region_class(region);
    uint64_t start = anchor;

    if (form < START_ON_LINE) {
        start = (anchor >> 32 << 32) | check_32(cursors, (uint64_t)(uint32_t)anchor + form);
    } else if (form == START_ON_LINE) {
        uint64_t further = unzigzag(stream_take(cursors, STREAM_START_DISTANCES + class));

        start = (anchor >> 32 << 32) | check_32(cursors, (uint32_t)anchor + further);
    } else {
        uint64_t lines =
            form < START_LINES ? 1 : stream_take_32(cursors, STREAM_START_LINES + class);

        start = ((anchor >> 32) + lines) << 32;
        start |= take_column(file, &regions->starts[class], cursors, STREAM_START_COLUMNS + class,
                             (unsigned)(form - START_LINE) % (START_LINES - START_LINE));
    }
    region->line = (uint32_t)((start >> 32) - (file->line >> 32));
    region->column = (uint32_t)start;
    file->line = start >> 32 << 32;
}

static inline void take_end(struct regions *regions, struct stream_cursors *cursors,
                            struct region *region, size_t index, uint8_t form)
{
    const struct file_state *file = &regions->file;
    unsigned class = region_end_class(region, index);

    if (form < END_NEAR) {
        const struct active_end *end =
            active_ends_get(&file->active, (size_t)form - END_ACTIVE + 1);

        if (end == NULL) {
            stream_fail(cursors, RESULT_UNFIT);
            return;
        }
        region->num_lines = (uint32_t)((end->place >> 32) - (file->line >> 32));
        region->column_end = (uint32_t)end->place;
    } else if (form < END_LINE) {
        uint64_t length = form < END_LENGTH
                              ? (uint64_t)form - END_NEAR
                              : unzigzag(stream_take(cursors, STREAM_LENGTHS + class));

        region->num_lines = 0;
        region->column_end = check_32(cursors, region->column + length);
    } else {
        region->num_lines =
            form < END_LINES ? 1 : stream_take_32(cursors, STREAM_NUM_LINES + class);
        region->column_end =
            take_column(file, &regions->ends[class], cursors, STREAM_END_COLUMNS + class,
                        (unsigned)(form - END_LINE) % (END_LINES - END_LINE));
    }
}

/* Reads the source range of a region. *completed is the value of the last end that it completes, or
 * VALUE_ZERO. */
static inline void take_range(struct regions *regions, struct stream_cursors *cursors,
                              struct region *region, size_t index, bool is_main,
                              const struct region_pattern *pattern, uint32_t *completed)
{
    struct file_state *file = &regions->file;

    *completed = VALUE_ZERO;
    if ((pattern->completed == COMPLETED_FIRST) != (index == 0)) {
        stream_fail(cursors, RESULT_UNFIT);
        return;
    }
    if (index == 0) {
        take_first_start(regions, cursors, region, is_main);
    } else {
        uint64_t anchor = file->line | (region - 1)->column;

        if (pattern->completed > file->active.count) {
            stream_fail(cursors, RESULT_UNFIT);
            return;
        }
        if (pattern->completed != 0) {
            const struct active_end *end = active_ends_get(&file->active, pattern->completed);

            anchor = end->place;
            *completed = end->value;
            file->active.count -= pattern->completed;
        }
        take_start(regions, cursors, region, anchor, pattern->start);
    }
    take_end(regions, cursors, region, index, pattern->end);
}

/* ---- operands ---- */

/* The place of a region: in the mapping, and in a template or the first file. */
struct region_at {
    bool is_main;
    size_t template;
    size_t index;      /* in the file */
    size_t in_mapping; /* its index in the mapping */
};

static void take_numbers(struct stream_cursors *cursors, struct region *region)
{
    for (unsigned i = region_counters(region->kind); i < region_operands(region->kind); i++)
        region->operands[i] = stream_take_32(cursors, STREAM_REGION_OPERANDS);
}

static void take_expansion(struct regions *regions, struct stream_cursors *cursors,
                           struct region *region, struct region_at at, uint32_t enclosing,
                           uint8_t symbol)
{
    uint64_t further = symbol == 0 ? 0 : unzigzag(stream_take(cursors, STREAM_EXPANSION_DISTANCES));
    uint32_t list =
        at.is_main ? region_template_list(region) : template_list_of_region(at.template, at.index);

    region->operands[0] = check_32(cursors, regions->next_file + further);
    if (cursors->result == RESULT_OK &&
        !regions_expand(regions, region->operands[0], enclosing, list)) {
        stream_fail(cursors, RESULT_NO_MEMORY);
    }
}

/* Reads the operands of a region. Returns the value of its counter for code, otherwise VALUE_ZERO.
 */
static inline uint32_t take_operands(struct regions *regions, struct counters *counters,
                                     struct stream_cursors *cursors, struct region *region,
                                     struct region_at at, unsigned stream,
                                     struct counter_context context, const uint8_t symbols[2])
{
    uint32_t value = VALUE_ZERO;

    region->operands[0] = 0;
    switch (region->kind) {
    case REGION_CODE:
        region->operands[0] = counters_take_code(counters, cursors, stream, context, symbols[0],
                                                 at.in_mapping, &value);
        break;
    case REGION_EXPANSION:
        take_expansion(regions, cursors, region, at, context.enclosing, symbols[0]);
        break;
    case REGION_BRANCH:
    case REGION_MCDC_BRANCH:
        counters_take_branch(counters, cursors, context.enclosing, symbols, at.in_mapping,
                             region->operands);
        take_numbers(cursors, region);
        break;
    default:
        take_numbers(cursors, region);
    }
    return value;
}

/* ---- files ---- */

/* Makes room for `more` regions and their counters. */
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

/* How many regions the mapping may have before reserve must be called again. */
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
                                   struct stream_cursors *cursors, struct region *region,
                                   struct region_at at, uint32_t file_value,
                                   const struct region_pattern *pattern)
{
    struct file_state *file = &regions->file;
    struct counter_context context;
    uint32_t value;

    region->kind = pattern->kind;
    region->is_gap = pattern->is_gap;
    take_range(regions, cursors, region, at.index, at.is_main, pattern, &context.completed);
    if (cursors->result != RESULT_OK)
        return;
    context.enclosing = region_enclosing(file, file_value);
    value = take_operands(regions, counters, cursors, region, at,
                          region->is_gap ? STREAM_GAP_COUNTERS : STREAM_CODE_COUNTERS, context,
                          pattern->symbols);
    regions_pass(regions, region, value, context.enclosing);
}

/* Reads regions up to the end of the file. */
static enum result take_new_regions(struct regions *regions, struct counters *counters,
                                    struct stream_cursors *cursors, uint64_t limit,
                                    struct mapping *mapping, struct region_at at,
                                    uint32_t file_value)
{
    size_t room = reserved(counters, mapping, limit);

    regions_start_file(regions);
    for (at.index = 0;; at.index++) {
        struct region_pattern unlisted;
        const struct region_pattern *pattern = pattern_take(&regions->patterns, cursors, &unlisted);

        if (cursors->result != RESULT_OK)
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
        take_new_region(regions, counters, cursors, &mapping->regions[at.in_mapping], at,
                        file_value, pattern);
        if (cursors->result != RESULT_OK)
            return cursors->result;
    }
}

static enum result take_known_regions(struct regions *regions, struct counters *counters,
                                      struct stream_cursors *cursors, uint64_t limit,
                                      struct mapping *mapping, struct region_at at,
                                      uint32_t file_value)
{
    const struct region_template *template = &regions->templates[at.template];
    struct counter_context context = {file_value, VALUE_ZERO};
    size_t first = mapping->region_count;
    enum result result = reserve(counters, mapping, limit, template->count);

    if (result != RESULT_OK)
        return result;
    if (template->count != 0)
        memcpy(mapping->regions + first, regions->template_regions.regions + template->first,
               template->count * sizeof(*mapping->regions));
    mapping->region_count += template->count;
    for (at.index = 0; at.index < template->count && cursors->result == RESULT_OK; at.index++) {
        struct region *region = &mapping->regions[first + at.index];
        unsigned counter_count =
            region->kind == REGION_EXPANSION ? 1 : region_counters(region->kind);
        uint8_t symbols[REGION_COUNTERS_MAX] = {0};
        uint32_t value;

        at.in_mapping = first + at.index;
        for (unsigned i = 0; i < counter_count && i < REGION_COUNTERS_MAX; i++)
            symbols[i] = stream_take_byte(cursors, STREAM_TEMPLATE_SYMBOLS);
        value = take_operands(regions, counters, cursors, region, at, STREAM_TEMPLATE_COUNTERS,
                              context, symbols);
        if (at.index == 0)
            context.enclosing = value;
    }
    return cursors->result == RESULT_OK ? RESULT_OK : cursors->result;
}

/* Keeps the regions of the mapping from `first` on as a template. */
static bool add_template(struct regions *regions, const struct mapping *mapping, size_t first)
{
    struct mapping *templates = &regions->template_regions;
    size_t count = mapping->region_count - first;

    if (!mapping_reserve_regions(templates, count))
        return false;
    regions->templates[regions->template_count - 1] =
        (struct region_template){templates->region_count, (uint32_t)count};
    if (count != 0)
        memcpy(templates->regions + templates->region_count, mapping->regions + first,
               count * sizeof(*templates->regions));
    templates->region_count += count;
    return true;
}

/* Reads the template of a file. A new one has no regions yet. */
static enum result take_template(struct regions *regions, struct stream_cursors *cursors,
                                 uint32_t list_number, size_t *template, bool *is_new)
{
    struct template_list list = template_list_get(&regions->lists, list_number);
    uint64_t code = stream_take(cursors, STREAM_TEMPLATE_CODES), ago;
    unsigned place = list.size;

    *is_new = code == 0;
    if (code == 0) {
        if (!array_make_room((void **)&regions->templates, &regions->template_capacity,
                             regions->template_count, 1, sizeof(*regions->templates)))
            return RESULT_NO_MEMORY;
        *template = regions->template_count++;
        regions->templates[*template] = (struct region_template){0, 0};
    } else if (code == 1) {
        ago = stream_take(cursors, STREAM_TEMPLATE_DISTANCES);
        if (ago == 0 || ago > regions->template_count)
            return RESULT_UNFIT;
        *template = regions->template_count - (size_t)ago;
    } else {
        if (code - 2 >= list.size || list.templates[code - 2] == 0)
            return RESULT_UNFIT;
        place = (unsigned)(code - 2);
        *template = list.templates[place] - 1;
    }
    template_list_touch(list, *template, place);
    return cursors->result != RESULT_OK ? RESULT_UNFIT : RESULT_OK;
}

static enum result take_file(struct regions *regions, struct counters *counters,
                             struct stream_cursors *cursors, uint64_t limit,
                             struct mapping *mapping, size_t file)
{
    struct file_origin origin = regions_origin(regions, file);
    struct region_at at = {.is_main = file == 0};
    size_t first = mapping->region_count;
    enum result result = RESULT_OK;
    bool is_new = true;

    if (!mapping_add_file(mapping, stream_take_32(cursors, at.is_main ? STREAM_MAIN_FILES
                                                                      : STREAM_EXPANDED_FILES)))
        return RESULT_NO_MEMORY;
    if (!at.is_main)
        result = take_template(regions, cursors, origin.list, &at.template, &is_new);
    if (result == RESULT_OK)
        result =
            is_new
                ? take_new_regions(regions, counters, cursors, limit, mapping, at, origin.value)
                : take_known_regions(regions, counters, cursors, limit, mapping, at, origin.value);
    if (result != RESULT_OK)
        return result;
    mapping->region_counts[file] = (uint32_t)(mapping->region_count - first);
    return at.is_main || !is_new || add_template(regions, mapping, first) ? RESULT_OK
                                                                          : RESULT_NO_MEMORY;
}

enum result regions_take(struct regions *regions, struct counters *counters,
                         struct stream_cursors *cursors, uint64_t limit, struct mapping *mapping)
{
    uint32_t count = stream_take_32(cursors, STREAM_FILE_COUNTS);
    enum result result = RESULT_OK;

    regions_start_mapping(regions);
    for (uint64_t i = 0; result == RESULT_OK; i++) {
        if (i == (count == 0 ? 1 + regions->expansions : (uint64_t)count - 1))
            break;
        if (cursors->result != RESULT_OK || i == limit || i == MAPPING_COUNT_MAX)
            return RESULT_UNFIT;
        result = take_file(regions, counters, cursors, limit, mapping, (size_t)i);
    }
    return result == RESULT_OK && cursors->result != RESULT_OK ? RESULT_UNFIT : result;
}
