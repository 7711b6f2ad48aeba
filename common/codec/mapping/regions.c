/*
 * Files and regions of mappings: see mapping.h.
 */
#include "common/codec/mapping/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/digest.h"

/* The stored form depends on all these numbers. */
#define FREQUENT_LOWEST     (-8)
#define FREQUENT_CHANGE_MIN 8  /* frequent columns are chosen anew after 8, 16, 32, ... uses */
#define TEMPLATE_LENGTHS    64 /* one list for each length up to 62, and one for all others */
#define LENGTH_OTHER        63
#define LENGTH_LIST_SIZE    32
#define INNER_LISTS         4096
#define INNER_LIST_SIZE     4
/* For files with higher numbers nothing is remembered. */
#define FILE_ORIGINS_MAX 16384

/* The regions of an expanded file. */
struct region_template {
    size_t first; /* in template_regions */
    uint32_t count;
};

/* Facts about a file that are known in advance, from the expansion region that refers to it. */
struct file_origin {
    uint64_t mapping; /* the number of the mapping that this is valid for */
    uint32_t value;   /* of the counter where the file is expanded */
    uint32_t list;    /* the list of templates */
};

void regions_free(struct regions *regions)
{
    patterns_free(&regions->patterns);
    intern_table_free(&regions->template_numbers);
    buffer_free(&regions->key);
    free(regions->templates);
    mapping_free(&regions->template_regions);
    free(regions->lists);
    free(regions->origins);
    *regions = (struct regions){0};
}

enum result regions_start(struct regions *regions, struct mapping_coder *coder)
{
    for (unsigned i = 0; i < RANGE_CLASSES; i++)
        regions->starts[i].frequent[1] = regions->ends[i].frequent[1] = 1;
    regions->lists = calloc(TEMPLATE_LENGTHS * LENGTH_LIST_SIZE + INNER_LISTS * INNER_LIST_SIZE,
                            sizeof(*regions->lists));
    if (regions->lists == NULL)
        return RESULT_NO_MEMORY;
    return coder->is_writing ? RESULT_OK : patterns_start_reading(&regions->patterns, coder);
}

enum result regions_finish_writing(struct regions *regions, struct mapping_coder *coder)
{
    return patterns_write(&regions->patterns, coder) ? RESULT_OK : RESULT_NO_MEMORY;
}

/* ---- active ends ---- */

/* The end with this number, counted from the innermost, which is 1. NULL if there are fewer. */
static inline const struct active_end *active_end(const struct regions *regions, size_t number)
{
    return number != 0 && number <= regions->active_count
               ? &regions->active[regions->active_count - number]
               : NULL;
}

static inline void add_active_end(struct regions *regions, uint64_t place, uint32_t value)
{
    struct active_end *ends = regions->active;
    size_t at = regions->active_count;

    while (at > 0 && ends[at - 1].place < place)
        at--;
    if (at > 0 && ends[at - 1].place == place) {
        ends[at - 1].value = value;
        return;
    }
    /* Usually none or only one has to be moved. */
    for (size_t i = regions->active_count; i > at; i--)
        ends[i] = ends[i - 1];
    ends[at] = (struct active_end){place, value};
    if (++regions->active_count > ACTIVE_ENDS_MAX) {
        regions->active_count = ACTIVE_ENDS_MAX;
        memmove(ends, ends + 1, ACTIVE_ENDS_MAX * sizeof(*ends));
    }
}

/* ---- frequent columns ---- */

/* The index of the highest count, except for the one at `but`. */
static unsigned find_most(const struct frequent_columns *columns, unsigned but)
{
    unsigned most = but == 0 ? 1 : 0;

    for (unsigned i = most + 1; i < FREQUENT_COUNTED; i++) {
        if (i != but && columns->counts[i] > columns->counts[most])
            most = i;
    }
    return most;
}

/* Chooses the most frequent differences, of equally frequent ones the lower. */
static void choose_frequent(struct frequent_columns *columns)
{
    unsigned first = find_most(columns, FREQUENT_COUNTED);

    columns->frequent[0] = (int64_t)first + FREQUENT_LOWEST;
    columns->frequent[1] = (int64_t)find_most(columns, first) + FREQUENT_LOWEST;
}

/* The base column, from which frequent columns are counted: where the innermost active region ends.
 */
static inline uint32_t base_column(const struct regions *regions)
{
    const struct active_end *end = active_end(regions, 1);

    return end != NULL ? (uint32_t)end->place : 0;
}

/* The index of a column among the frequent ones; FREQUENT_COLUMNS if it is none of them. */
static unsigned find_frequent(const struct regions *regions, const struct frequent_columns *columns,
                              uint32_t column)
{
    int64_t difference = (int64_t)column - base_column(regions);

    return difference == columns->frequent[0] ? 0 : difference == columns->frequent[1] ? 1 : 2;
}

/* Codes a column on another line: a frequent one, or a number of the stream. */
static inline uint32_t code_column(struct regions *regions, struct frequent_columns *columns,
                                   unsigned stream, unsigned which, uint32_t column)
{
    uint32_t base = base_column(regions);
    uint64_t place;

    column = which == FREQUENT_COLUMNS
                 ? code_32(regions->coder, stream, column)
                 : coder_check_32(regions->coder, base + (uint64_t)columns->frequent[which]);
    place = (uint64_t)column - base - (uint64_t)(int64_t)FREQUENT_LOWEST;
    if (place < FREQUENT_COUNTED)
        columns->counts[place]++;
    columns->uses++;
    if (columns->uses >= FREQUENT_CHANGE_MIN && (columns->uses & (columns->uses - 1)) == 0)
        choose_frequent(columns);
    return column;
}

/* ---- source ranges ---- */

static inline unsigned class_of(const struct region *region)
{
    static const uint8_t classes[2][REGION_KINDS] = {
        {CLASS_CODE, CLASS_EXPANSION, CLASS_SKIPPED, CLASS_ZERO, CLASS_BRANCH, CLASS_BRANCH,
         CLASS_BRANCH},
        {CLASS_GAP, CLASS_EXPANSION, CLASS_SKIPPED, CLASS_GAP, CLASS_BRANCH, CLASS_BRANCH,
         CLASS_BRANCH}};

    return classes[region->is_gap][region->kind];
}

static void code_first_start(struct regions *regions, struct region *region, bool is_main)
{
    struct mapping_coder *coder = regions->coder;

    if (!is_main) {
        region->line = code_32(coder, STREAM_EXPANDED_FIRST_LINES, region->line);
        region->column = code_32(coder, STREAM_EXPANDED_FIRST_COLUMNS, region->column);
        return;
    }
    region->line = code_from(coder, STREAM_FIRST_LINES, regions->first_line, region->line);
    region->column = code_32(coder, STREAM_FIRST_COLUMNS, region->column);
    regions->first_line = region->line;
}

/* Chooses the form of a start that is `lines` lines after the anchor. */
static uint8_t choose_start(const struct regions *regions, const struct region *region,
                            uint64_t anchor, uint32_t lines)
{
    uint64_t columns = (uint64_t)region->column - (uint32_t)anchor;

    if (lines == 0)
        return (uint8_t)(columns < START_ON_LINE ? START_NEAR + columns : START_ON_LINE);
    return (uint8_t)((lines == 1 ? START_LINE : START_LINES) +
                     find_frequent(regions, &regions->starts[class_of(region)], region->column));
}

/* Codes the start, which is counted from the anchor. */
static inline void code_start(struct regions *regions, struct region *region, uint64_t anchor,
                              uint8_t *form)
{
    struct mapping_coder *coder = regions->coder;
    unsigned class = class_of(region);
    uint32_t before = (uint32_t)(regions->line >> 32), column = (uint32_t)anchor;
    uint32_t lines = before + region->line - (uint32_t)(anchor >> 32);

    if (coder->is_writing)
        *form = choose_start(regions, region, anchor, lines);
    if (*form < START_ON_LINE) {
        lines = 0;
        column = coder_check_32(coder, (uint64_t)column + *form);
    } else if (*form == START_ON_LINE) {
        lines = 0;
        column = code_from(coder, STREAM_START_DISTANCES + class, column, region->column);
    } else {
        lines = *form < START_LINES ? 1 : code_32(coder, STREAM_START_LINES + class, lines);
        column = code_column(regions, &regions->starts[class], STREAM_START_COLUMNS + class,
                             (unsigned)(*form - START_LINE) % (START_LINES - START_LINE),
                             region->column);
    }
    region->line = (uint32_t)(anchor >> 32) + lines - before;
    region->column = column;
    regions->line = (uint64_t)(before + region->line) << 32;
}

static uint8_t choose_end(const struct regions *regions, const struct region *region,
                          const struct frequent_columns *columns, bool is_first)
{
    uint64_t length = (uint64_t)region->column_end - region->column;
    uint64_t place = (regions->line + ((uint64_t)region->num_lines << 32)) | region->column_end;

    for (unsigned i = 0; !is_first && i < END_ACTIVE_MAX && i < regions->active_count; i++) {
        if (active_end(regions, i + 1)->place == place)
            return (uint8_t)(END_ACTIVE + i);
    }
    if (region->num_lines == 0)
        return (uint8_t)(length < 2 ? END_NEAR + length : END_LENGTH);
    return (uint8_t)((region->num_lines == 1 ? END_LINE : END_LINES) +
                     find_frequent(regions, columns, region->column_end));
}

static inline void code_end(struct regions *regions, struct region *region, bool is_first,
                            uint8_t *form)
{
    struct mapping_coder *coder = regions->coder;
    unsigned class = class_of(region);

    if (coder->is_writing)
        *form = choose_end(regions, region, &regions->ends[class], is_first);
    if (*form < END_NEAR) {
        const struct active_end *end = active_end(regions, (size_t)*form - END_ACTIVE + 1);

        if (end == NULL) {
            coder_fail(coder, RESULT_UNFIT);
            return;
        }
        region->num_lines = (uint32_t)((end->place >> 32) - (regions->line >> 32));
        region->column_end = (uint32_t)end->place;
    } else if (*form < END_LINE) {
        region->num_lines = 0;
        region->column_end =
            *form < END_LENGTH
                ? coder_check_32(coder, (uint64_t)region->column + *form - END_NEAR)
                : code_from(coder, STREAM_LENGTHS + class, region->column, region->column_end);
    } else {
        region->num_lines =
            *form < END_LINES ? 1 : code_32(coder, STREAM_NUM_LINES + class, region->num_lines);
        region->column_end =
            code_column(regions, &regions->ends[class], STREAM_END_COLUMNS + class,
                        (unsigned)(*form - END_LINE) % (END_LINES - END_LINE), region->column_end);
    }
}

/* The number of active ends that are at or before the start of a region, at most COMPLETED_MAX. */
static uint8_t count_completed(const struct regions *regions, const struct region *region)
{
    uint64_t start = (regions->line + ((uint64_t)region->line << 32)) | region->column;
    uint8_t completed = 0;

    while (completed < COMPLETED_MAX && completed < regions->active_count &&
           active_end(regions, completed + 1u)->place <= start)
        completed++;
    return completed;
}

/* Codes the source range of a region, which follows its predecessor in the file unless it is the
 * first. Returns the value of the last end that it completes, or VALUE_ZERO. */
static inline uint32_t code_range(struct regions *regions, struct region *region, bool is_first,
                                  bool is_main, struct region_pattern *pattern)
{
    uint32_t completed = VALUE_ZERO;

    if (regions->coder->is_writing)
        pattern->completed = is_first ? COMPLETED_FIRST : count_completed(regions, region);
    if ((pattern->completed == COMPLETED_FIRST) != is_first ||
        (!is_first && pattern->completed > regions->active_count)) {
        coder_fail(regions->coder, RESULT_UNFIT);
        return VALUE_ZERO;
    }
    if (is_first) {
        code_first_start(regions, region, is_main);
    } else {
        uint64_t anchor = regions->line | (region - 1)->column;

        if (pattern->completed != 0) {
            const struct active_end *end = active_end(regions, pattern->completed);

            anchor = end->place;
            completed = end->value;
            regions->active_count -= pattern->completed;
        }
        code_start(regions, region, anchor, &pattern->start);
    }
    code_end(regions, region, is_first, &pattern->end);
    return completed;
}

/* ---- operands ---- */

/* The place of a region: in a template or the first file, and in the mapping. */
struct region_at {
    bool is_main;
    size_t template;
    size_t index; /* in the file */
    size_t in_mapping;
};

/* The number of the list of templates for an expansion: by its length, or by its template and its
 * index in that. */
static uint32_t list_of(const struct region *region, struct region_at at)
{
    uint64_t length = (uint64_t)region->column_end - region->column;

    if (!at.is_main)
        return TEMPLATE_LENGTHS + (uint32_t)((at.template * 31 + at.index) % INNER_LISTS);
    /* A negative one is large. */
    return region->num_lines == 0 && length < LENGTH_OTHER ? (uint32_t)length : LENGTH_OTHER;
}

/* Remembers that a file is expanded. False if out of memory. */
static bool expand(struct regions *regions, uint32_t file, uint32_t value, uint32_t list)
{
    size_t known = regions->origin_count;

    regions->expansions++;
    if (file >= regions->next_file)
        regions->next_file = (uint64_t)file + 1;
    if (file >= FILE_ORIGINS_MAX)
        return true;
    if (file >= known) {
        if (!array_make_room(&regions->origins, &regions->origin_count, 0, (size_t)file + 1,
                             sizeof(*regions->origins)))
            return false;
        memset(regions->origins + known, 0,
               (regions->origin_count - known) * sizeof(*regions->origins));
    }
    regions->origins[file] = (struct file_origin){regions->number, value, list};
    return true;
}

/* Codes the operands of a region. Returns the value of its counter for code, otherwise VALUE_ZERO.
 */
static inline uint32_t code_operands(struct regions *regions, struct region *region,
                                     struct region_at at, struct counter_context context,
                                     uint8_t symbols[2])
{
    struct mapping_coder *coder = regions->coder;
    uint32_t *operands = region->operands;

    switch (region->kind) {
    case REGION_CODE:
        return counters_code_region(regions->counters, coder, context, &symbols[0], at.in_mapping,
                                    &operands[0]);
    case REGION_EXPANSION:
        if (coder->is_writing)
            symbols[0] = operands[0] != regions->next_file;
        operands[0] = symbols[0] == 0 ? coder_check_32(coder, regions->next_file)
                                      : code_from(coder, STREAM_EXPANSION_DISTANCES,
                                                  regions->next_file, operands[0]);
        if (!expand(regions, operands[0], context.enclosing, list_of(region, at)))
            coder_fail(coder, RESULT_NO_MEMORY);
        return VALUE_ZERO;
    case REGION_BRANCH:
    case REGION_MCDC_BRANCH:
        counters_code_branch(regions->counters, coder, context.enclosing, symbols, at.in_mapping,
                             operands);
        break;
    default:
        break;
    }
    for (unsigned i = region_counters(region->kind); i < region_operands(region->kind); i++)
        operands[i] = code_32(coder, STREAM_REGION_OPERANDS, operands[i]);
    return VALUE_ZERO;
}

/* ---- files ---- */

/* Reading: makes room for `more` regions and their counters. False if they are too many, or out of
 * memory. */
static bool reserve(struct regions *regions, size_t more)
{
    struct mapping *mapping = regions->mapping;
    uint64_t most = (uint64_t)mapping->region_count + more;

    if (most * REGION_SIZE_MIN > regions->limit || most > MAPPING_COUNT_MAX)
        coder_fail(regions->coder, RESULT_UNFIT);
    else if (!mapping_reserve_regions(mapping, more) || !counters_reserve(regions->counters, more))
        coder_fail(regions->coder, RESULT_NO_MEMORY);
    return regions->coder->result == RESULT_OK;
}

/* Reading: how many regions the mapping may have before reserve must be called again. */
static size_t reserved(const struct regions *regions)
{
    const struct mapping *mapping = regions->mapping;
    size_t room = mapping->region_count + counters_room(regions->counters);
    uint64_t most = regions->limit / REGION_SIZE_MIN;

    if (most > MAPPING_COUNT_MAX)
        most = MAPPING_COUNT_MAX;
    if (room > mapping->region_capacity)
        room = mapping->region_capacity;
    return room < most ? room : (size_t)most;
}

/* Codes a region by its pattern. */
static inline void code_new_region(struct regions *regions, struct region *region,
                                   struct region_at at, uint32_t file_value,
                                   struct region_pattern *pattern)
{
    struct counter_context context;
    uint64_t end;
    uint32_t value;

    context.completed = code_range(regions, region, at.index == 0, at.is_main, pattern);
    if (regions->coder->result != RESULT_OK)
        return;
    /* The value that code starting here usually has. */
    context.enclosing =
        regions->active_count != 0 ? regions->active[regions->active_count - 1].value : file_value;
    value = code_operands(regions, region, at, context, pattern->symbols);
    if (region->kind != REGION_CODE)
        value = region->kind == REGION_ZERO ? VALUE_ZERO : context.enclosing;
    end = (regions->line + ((uint64_t)region->num_lines << 32)) | region->column_end;
    add_active_end(regions, end, value);
}

/* Writes the `count` regions of a file whose template is new, or reads regions up to the end of the
 * file. */
static void code_new_regions(struct regions *regions, uint32_t count, struct region_at at,
                             uint32_t file_value)
{
    struct mapping_coder *coder = regions->coder;
    struct mapping *mapping = regions->mapping;
    size_t room = coder->is_writing ? SIZE_MAX : reserved(regions);

    regions->active_count = 0;
    regions->line = 0;
    for (at.index = 0; coder->result == RESULT_OK; at.index++) {
        struct region_pattern pattern = {.kind = REGION_KINDS};
        struct region *region;

        if (!coder->is_writing)
            patterns_take(&regions->patterns, coder, &pattern);
        at.in_mapping = regions->region_count;
        if (coder->is_writing ? at.index == count : pattern.kind == REGION_KINDS)
            break;
        if (!coder->is_writing) {
            if (mapping->region_count >= room) {
                if (!reserve(regions, 1))
                    return;
                room = reserved(regions);
            }
            mapping->regions[mapping->region_count++] =
                (struct region){.kind = pattern.kind, .is_gap = pattern.is_gap};
        }
        region = &mapping->regions[regions->region_count++];
        pattern.kind = region->kind;
        pattern.is_gap = region->is_gap;
        code_new_region(regions, region, at, file_value, &pattern);
        if (coder->is_writing && !patterns_add(&regions->patterns, &pattern))
            coder_fail(coder, RESULT_NO_MEMORY);
    }
    if (coder->is_writing && coder->result == RESULT_OK &&
        !patterns_add(&regions->patterns, &(struct region_pattern){.kind = REGION_KINDS}))
        coder_fail(coder, RESULT_NO_MEMORY);
}

/* Codes the operands of regions whose template is known. */
static void code_known_regions(struct regions *regions, uint32_t count, struct region_at at,
                               uint32_t file_value)
{
    struct mapping_coder *coder = regions->coder;
    struct mapping *mapping = regions->mapping;
    struct counter_context context = {file_value, VALUE_ZERO};

    if (!coder->is_writing) {
        const struct region_template *template = &regions->templates[at.template];

        count = template->count;
        if (!reserve(regions, count))
            return;
        if (count != 0)
            memcpy(mapping->regions + mapping->region_count,
                   regions->template_regions.regions + template->first,
                   count * sizeof(*mapping->regions));
        mapping->region_count += count;
    }
    for (at.index = 0; at.index < count && coder->result == RESULT_OK; at.index++) {
        struct region *region = &mapping->regions[regions->region_count];
        unsigned symbol_count =
            region->kind == REGION_EXPANSION ? 1 : region_counters(region->kind);
        uint8_t symbols[REGION_COUNTERS_MAX] = {0};
        uint32_t value;

        at.in_mapping = regions->region_count++;
        for (unsigned i = 0; !coder->is_writing && i < symbol_count; i++)
            symbols[i] = code_byte(coder, STREAM_TEMPLATE_SYMBOLS, 0);
        value = code_operands(regions, region, at, context, symbols);
        for (unsigned i = 0; coder->is_writing && i < symbol_count; i++)
            code_byte(coder, STREAM_TEMPLATE_SYMBOLS, symbols[i]);
        if (at.index == 0)
            context.enclosing = value;
    }
}

/* Writing: sets *number to that of the template of these regions, which is template_count if it is
 * new. False if out of memory. */
static bool find_template(struct regions *regions, const struct region *first, uint32_t count,
                          uint64_t *number)
{
    struct digest digest;

    regions->key.size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct region *region = &first[i];
        uint32_t fields[5] = {region->kind | (uint32_t)region->is_gap << 3, region->line,
                              region->column, region->num_lines, region->column_end};

        buffer_append_few(&regions->key, fields, sizeof(fields));
    }
    digest = digest_of(buffer_view(&regions->key));
    return !regions->key.failed &&
           intern_table_add(&regions->template_numbers, load_u64(digest.bytes, false), number);
}

/* Codes the template of a file. Sets *template to its number, which is the highest if it is new. */
static void code_template(struct regions *regions, uint32_t count, uint32_t list_number,
                          size_t *template, bool *is_new)
{
    struct mapping_coder *coder = regions->coder;
    bool is_inner = list_number >= TEMPLATE_LENGTHS;
    uint32_t *list = regions->lists + (size_t)list_number * LENGTH_LIST_SIZE;
    unsigned size = is_inner ? INNER_LIST_SIZE : LENGTH_LIST_SIZE, place = size;
    uint64_t code = 0, number = 0, known = regions->template_count;

    if (is_inner)
        list = regions->lists + (size_t)TEMPLATE_LENGTHS * LENGTH_LIST_SIZE +
               (size_t)(list_number - TEMPLATE_LENGTHS) * INNER_LIST_SIZE;
    if (coder->is_writing) {
        const struct region *first =
            count == 0 ? NULL : &regions->mapping->regions[regions->region_count];

        if (!find_template(regions, first, count, &number))
            coder_fail(coder, RESULT_NO_MEMORY);
        for (place = 0; place < size && list[place] != number + 1;)
            place++;
        code = number == known ? 0 : place == size ? 1 : 2 + (uint64_t)place;
    }
    code = code_number(coder, STREAM_TEMPLATE_CODES, code);
    if (code == 0) {
        number = known;
        if (!ARRAY_ROOM_FOR_ONE(regions->templates, regions->template_capacity, (size_t)known)) {
            coder_fail(coder, RESULT_NO_MEMORY);
            return;
        }
        regions->templates[regions->template_count++] = (struct region_template){0, 0};
    } else if (code == 1) {
        number = known - code_number(coder, STREAM_TEMPLATE_DISTANCES, known - number);
    } else {
        place = code - 2 < size ? (unsigned)(code - 2) : size;
        number = place == size ? known : (uint64_t)list[place] - 1;
    }
    *is_new = code == 0;
    *template = (size_t)number;
    if (code != 0 && number >= known) {
        coder_fail(coder, RESULT_UNFIT);
        return;
    }
    /* Moves it to the front of the list. */
    if (place == size)
        place--;
    memmove(list + 1, list, place * sizeof(*list));
    list[0] = (uint32_t)number + 1;
}

/* Reading: keeps the regions of the mapping from `first` on as the newest template. */
static bool keep_template(struct regions *regions, size_t first)
{
    struct mapping *templates = &regions->template_regions;
    const struct mapping *mapping = regions->mapping;
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

static void code_file(struct regions *regions, size_t file)
{
    struct mapping_coder *coder = regions->coder;
    struct mapping *mapping = regions->mapping;
    /* For the first file, and for files that are not expanded. */
    struct file_origin origin = {.value = VALUE_ENTRY, .list = LENGTH_OTHER};
    struct region_at at = {.is_main = file == 0};
    size_t first = regions->region_count;
    uint32_t count = coder->is_writing ? mapping->region_counts[file] : 0, name;
    bool is_new = true;

    name = code_32(coder, STREAM_FILES, coder->is_writing ? mapping->files[file] : 0);
    if (!coder->is_writing && !mapping_add_file(mapping, name))
        coder_fail(coder, RESULT_NO_MEMORY);
    if (file < regions->origin_count && regions->origins[file].mapping == regions->number)
        origin = regions->origins[file];
    if (!at.is_main)
        code_template(regions, count, origin.list, &at.template, &is_new);
    if (coder->result != RESULT_OK)
        return;
    (is_new ? code_new_regions : code_known_regions)(regions, count, at, origin.value);
    if (coder->is_writing || coder->result != RESULT_OK)
        return;
    mapping->region_counts[file] = (uint32_t)(mapping->region_count - first);
    if (!at.is_main && is_new && !keep_template(regions, first))
        coder_fail(coder, RESULT_NO_MEMORY);
}

/* True if the expansions tell a reader how many files there are: after each file, there is another
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

enum result regions_code(struct regions *regions, struct counters *counters,
                         struct mapping_coder *coder, uint64_t limit, struct mapping *mapping)
{
    uint64_t count = 0;

    regions->number++;
    regions->coder = coder;
    regions->counters = counters;
    regions->mapping = mapping;
    regions->limit = limit;
    regions->region_count = 0;
    regions->expansions = 0;
    regions->next_file = 1;
    if (coder->is_writing && !is_expanded(mapping))
        count = (uint64_t)mapping->file_count + 1;
    count = code_number(coder, STREAM_FILE_COUNTS, count);
    for (uint64_t i = 0; i != (count == 0 ? 1 + regions->expansions : count - 1); i++) {
        if (!coder->is_writing && (i == limit || i == MAPPING_COUNT_MAX))
            coder_fail(coder, RESULT_UNFIT);
        if (coder->result != RESULT_OK)
            break;
        code_file(regions, (size_t)i);
    }
    return coder->result;
}
