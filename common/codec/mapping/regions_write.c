/*
 * Writing files and regions: see regions.h.
 */
#include <string.h>

#include "common/base/digest.h"
#include "common/base/numbers.h"
#include "common/codec/mapping/regions.h"

bool regions_start_writing(struct regions *regions)
{
    return regions_start(regions);
}

bool regions_finish_writing(struct regions *regions, struct streams *streams)
{
    return pattern_table_put(&regions->patterns, streams);
}

/* ---- places ---- */

/* Completes the ends at or before `start`, but at most COMPLETED_MAX, and returns how many. Sets
 * *anchor and *value to the place and the value of the last one, if there is one. */
static unsigned complete_ends(struct file_state *file, uint64_t start, uint64_t *anchor,
                              uint32_t *value)
{
    struct active_ends *active = &file->active;
    unsigned completed = 0;

    while (active->count != 0 && active->ends[active->count - 1].place <= start &&
           completed < COMPLETED_MAX) {
        const struct active_end *end = &active->ends[--active->count];

        *anchor = end->place;
        *value = end->value;
        completed++;
    }
    return completed;
}

static bool put_first_start(struct regions *regions, struct streams *streams,
                            const struct region *region, bool is_main)
{
    bool is_zero = region->kind == REGION_ZERO;
    uint64_t difference = (uint64_t)region->line - regions->first_line;

    if (!is_main)
        return stream_put(streams, STREAM_EXPANDED_FIRST_LINES, region->line) &&
               stream_put(streams, STREAM_EXPANDED_FIRST_COLUMNS, region->column);
    regions->first_line = region->line;
    return stream_put(streams, STREAM_FIRST_LINES + is_zero, zigzag(difference)) &&
           stream_put(streams, STREAM_FIRST_COLUMNS + is_zero, region->column);
}

/* The index of a column among the frequent ones. */
static unsigned find_frequent(const struct file_state *file, struct frequent_columns *columns,
                              uint32_t column)
{
    int64_t difference = (int64_t)column - region_base_column(file);
    unsigned frequent = frequent_columns_find(columns, difference);

    frequent_columns_use(columns, difference);
    return frequent;
}

/* Writes the start, counted from the anchor. */
static bool put_start(struct regions *regions, struct streams *streams, const struct region *region,
                      uint64_t anchor, uint8_t *form)
{
    const struct file_state *file = &regions->file;
    unsigned class = region_class(region), frequent;
    uint32_t lines = (uint32_t)((file->line >> 32) - (anchor >> 32));
    uint64_t columns = (uint64_t)region->column - (uint32_t)anchor;

    if (lines == 0) {
        *form = (uint8_t)(columns < START_ON_LINE ? START_NEAR + columns : START_ON_LINE);
        return *form != START_ON_LINE ||
               stream_put(streams, STREAM_START_DISTANCES + class, zigzag(columns));
    }
    frequent = find_frequent(file, &regions->starts[class], region->column);
    *form = (uint8_t)((lines == 1 ? START_LINE : START_LINES) + frequent);
    return (lines == 1 || stream_put(streams, STREAM_START_LINES + class, lines)) &&
           (frequent != FREQUENT_COLUMNS ||
            stream_put(streams, STREAM_START_COLUMNS + class, region->column));
}

static bool put_end(struct regions *regions, struct streams *streams, const struct region *region,
                    size_t index, uint8_t *form)
{
    const struct file_state *file = &regions->file;
    unsigned class = region_end_class(region, index), frequent;
    size_t open =
        index == 0 ? 0 : active_ends_find(&file->active, region_end_position(file, region));
    uint64_t length = (uint64_t)region->column_end - region->column;

    if (open != 0 && open <= END_ACTIVE_MAX) {
        *form = (uint8_t)(END_ACTIVE + open - 1);
        return true;
    }
    if (region->num_lines == 0) {
        *form = (uint8_t)(length < 2 ? END_NEAR + length : END_LENGTH);
        return length < 2 || stream_put(streams, STREAM_LENGTHS + class, zigzag(length));
    }
    frequent = find_frequent(file, &regions->ends[class], region->column_end);
    *form = (uint8_t)((region->num_lines == 1 ? END_LINE : END_LINES) + frequent);
    return (region->num_lines == 1 ||
            stream_put(streams, STREAM_NUM_LINES + class, region->num_lines)) &&
           (frequent != FREQUENT_COLUMNS ||
            stream_put(streams, STREAM_END_COLUMNS + class, region->column_end));
}

/* Writes the source range of a region. *completed is the value of the last end that it completes,
 * or VALUE_ZERO. */
static bool put_range(struct regions *regions, struct streams *streams, const struct region *region,
                      size_t index, bool is_main, struct region_pattern *pattern,
                      uint32_t *completed)
{
    struct file_state *file = &regions->file;

    *completed = VALUE_ZERO;
    if (index == 0) {
        pattern->completed = COMPLETED_FIRST;
        if (!put_first_start(regions, streams, region, is_main))
            return false;
    } else {
        uint64_t anchor = file->line | (region - 1)->column;

        file->line += (uint64_t)region->line << 32;
        pattern->completed =
            (uint8_t)complete_ends(file, region_start(file, region), &anchor, completed);
        if (!put_start(regions, streams, region, anchor, &pattern->start))
            return false;
    }
    return put_end(regions, streams, region, index, &pattern->end);
}

/* ---- operands ---- */

/* The place of a region: in a template or the first file. */
struct region_at {
    bool is_main;
    size_t template;
    size_t index; /* in the file */
};

static bool put_numbers(struct streams *streams, const struct region *region)
{
    for (unsigned i = region_counters(region->kind); i < region_operands(region->kind); i++) {
        if (!stream_put(streams, STREAM_REGION_OPERANDS, region->operands[i]))
            return false;
    }
    return true;
}

static bool put_expansion(struct regions *regions, struct streams *streams,
                          const struct region *region, struct region_at at, uint32_t enclosing,
                          uint8_t *symbol)
{
    uint32_t file = region->operands[0];
    uint64_t further = file - regions->next_file;
    uint32_t list =
        at.is_main ? region_template_list(region) : template_list_of_region(at.template, at.index);

    *symbol = further != 0;
    return (further == 0 || stream_put(streams, STREAM_EXPANSION_DISTANCES, zigzag(further))) &&
           regions_expand(regions, file, enclosing, list);
}

/* Writes the operands of a region. *value is the value of its counter for code. */
static bool put_operands(struct regions *regions, struct counters *counters,
                         struct streams *streams, const struct region *region, struct region_at at,
                         unsigned stream, struct counter_context context, uint8_t symbols[2],
                         uint32_t *value)
{
    *value = VALUE_ZERO;
    switch (region->kind) {
    case REGION_CODE:
        return counters_put_code(counters, streams, stream, context, region->operands[0],
                                 &symbols[0], value);
    case REGION_EXPANSION:
        return put_expansion(regions, streams, region, at, context.enclosing, &symbols[0]);
    case REGION_BRANCH:
    case REGION_MCDC_BRANCH:
        return counters_put_branch(counters, streams, context.enclosing, region->operands,
                                   symbols) &&
               put_numbers(streams, region);
    default:
        return put_numbers(streams, region);
    }
}

/* ---- files ---- */

static bool put_new_region(struct regions *regions, struct counters *counters,
                           struct streams *streams, const struct region *region,
                           struct region_at at, uint32_t file_value)
{
    struct region_pattern pattern = {.kind = region->kind, .is_gap = region->is_gap};
    struct counter_context context;
    uint32_t value;

    if (!put_range(regions, streams, region, at.index, at.is_main, &pattern, &context.completed))
        return false;
    context.enclosing = region_enclosing(&regions->file, file_value);
    if (!put_operands(regions, counters, streams, region, at,
                      region->is_gap ? STREAM_GAP_COUNTERS : STREAM_CODE_COUNTERS, context,
                      pattern.symbols, &value))
        return false;
    regions_pass(regions, region, value, context.enclosing);
    return pattern_table_add(&regions->patterns, pattern_pack(&pattern));
}

static bool put_new_regions(struct regions *regions, struct counters *counters,
                            struct streams *streams, const struct region *first, uint32_t count,
                            struct region_at at, uint32_t file_value)
{
    regions_start_file(regions);
    for (at.index = 0; at.index < count; at.index++) {
        if (!put_new_region(regions, counters, streams, &first[at.index], at, file_value))
            return false;
    }
    return pattern_table_add(&regions->patterns, PATTERN_FILE_ENDS);
}

static bool put_known_regions(struct regions *regions, struct counters *counters,
                              struct streams *streams, const struct region *first, uint32_t count,
                              struct region_at at, uint32_t file_value)
{
    struct counter_context context = {file_value, VALUE_ZERO};

    for (at.index = 0; at.index < count; at.index++) {
        const struct region *region = &first[at.index];
        unsigned counter_count =
            region->kind == REGION_EXPANSION ? 1 : region_counters(region->kind);
        uint8_t symbols[REGION_COUNTERS_MAX];
        uint32_t value;

        if (!put_operands(regions, counters, streams, region, at, STREAM_TEMPLATE_COUNTERS, context,
                          symbols, &value))
            return false;
        for (unsigned i = 0; i < counter_count; i++) {
            if (!stream_put_byte(streams, STREAM_TEMPLATE_SYMBOLS, symbols[i]))
                return false;
        }
        if (at.index == 0)
            context.enclosing = value;
    }
    return true;
}

/* Writes the template of a file, and determines its number. */
static bool put_template(struct regions *regions, struct streams *streams,
                         const struct region *first, uint32_t count, uint32_t list_number,
                         size_t *template, bool *is_new)
{
    struct template_list list = template_list_get(&regions->lists, list_number);
    uint64_t before = regions->template_numbers.count, number;
    struct digest digest;
    unsigned place;

    regions->key.size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct region *region = &first[i];
        uint32_t fields[5] = {region->kind | (uint32_t)region->is_gap << 3, region->line,
                              region->column, region->num_lines, region->column_end};

        if (!buffer_append(&regions->key, fields, sizeof(fields)))
            return false;
    }
    digest = digest_of(buffer_view(&regions->key));
    if (!intern_table_add(&regions->template_numbers, load_u64(digest.bytes, false), &number))
        return false;
    *template = (size_t)number;
    *is_new = number == before;
    place = *is_new ? list.size : template_list_find(list, *template);
    template_list_touch(list, *template, place);
    if (*is_new)
        return stream_put(streams, STREAM_TEMPLATE_CODES, 0);
    if (place != list.size)
        return stream_put(streams, STREAM_TEMPLATE_CODES, 2 + place);
    return stream_put(streams, STREAM_TEMPLATE_CODES, 1) &&
           stream_put(streams, STREAM_TEMPLATE_DISTANCES, before - number);
}

static bool put_file(struct regions *regions, struct counters *counters, struct streams *streams,
                     const struct mapping *mapping, const struct region *first, size_t file)
{
    struct file_origin origin = regions_origin(regions, file);
    struct region_at at = {.is_main = file == 0};
    uint32_t count = mapping->region_counts[file];
    bool is_new = true;

    if (!stream_put(streams, at.is_main ? STREAM_MAIN_FILES : STREAM_EXPANDED_FILES,
                    mapping->files[file]))
        return false;
    if (!at.is_main &&
        !put_template(regions, streams, first, count, origin.list, &at.template, &is_new))
        return false;
    return is_new ? put_new_regions(regions, counters, streams, first, count, at, origin.value)
                  : put_known_regions(regions, counters, streams, first, count, at, origin.value);
}

/* Whether the expansions tell a reader how many files there are: after each file, there is another
 * one exactly if more files were expanded than there have been. */
static bool is_expanded(const struct mapping *mapping)
{
    const struct region *region = mapping->regions;
    uint64_t known = 1;

    for (size_t file = 0; file < mapping->file_count; file++) {
        if (file >= known)
            return false;
        for (uint32_t i = 0; i < mapping->region_counts[file]; i++, region++)
            known += region->kind == REGION_EXPANSION;
    }
    return known == mapping->file_count;
}

bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct streams *streams)
{
    const struct region *first = mapping->regions;
    bool done;

    regions_start_mapping(regions);
    done = stream_put(streams, STREAM_FILE_COUNTS,
                      is_expanded(mapping) ? 0 : (uint64_t)mapping->file_count + 1);
    for (size_t i = 0; done && i < mapping->file_count; i++) {
        done = put_file(regions, counters, streams, mapping, first, i);
        if (mapping->region_counts[i] != 0)
            first += mapping->region_counts[i];
    }
    return done;
}
