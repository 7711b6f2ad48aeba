/*
 * The files and regions of mappings, except for their counters: "The mapping of functions" in
 * docs/format.md.
 *
 * For each file but the first, a *template* is stored: the kinds and source ranges of its regions.
 * It is reused, because a macro expands to the same regions wherever it is used. The regions of a
 * new template are stored as patterns (region_pattern.h) and the numbers that these require.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/active_ends.h"
#include "common/codec/mapping/counters.h"
#include "common/codec/mapping/frequent_columns.h"
#include "common/codec/mapping/pattern_table.h"
#include "common/codec/mapping/template_lists.h"

/* The regions of an expanded file. */
struct region_template {
    size_t first; /* in template_regions */
    uint32_t count;
};

/* What is known of a file in advance, from the expansion region that refers to it. */
struct file_origin {
    uint64_t mapping; /* the number of the mapping that this is valid for */
    uint32_t value;   /* of the counter where the file is expanded */
    uint32_t list;    /* the list of templates */
};

/* For files with higher numbers nothing is remembered. The stored form depends on it. */
#define FILE_ORIGINS_MAX 16384

/* The state within a file whose template is new. */
struct file_state {
    struct active_ends active;
    uint64_t line; /* of the last region, counted from the file's first; in the high half */
};

/* Kept from one mapping to the next. Initialize to {0}; free with regions_free. */
struct regions {
    struct intern_table template_numbers; /* writing: the number of a template by its digest */
    struct buffer key;
    struct region_template *templates; /* reading */
    size_t template_count, template_capacity;
    struct mapping template_regions; /* only the member `regions` is used */
    struct template_lists lists;
    struct pattern_table patterns;
    uint32_t first_line; /* of the previous mapping */
    /* The current mapping. */
    uint64_t mapping; /* its number */
    struct file_origin *origins;
    size_t origin_count;
    uint64_t next_file;
    uint64_t expansions; /* how many there have been */
    struct file_state file;
    /* For all mappings, by class: columns of starts on another line than the anchor, and of ends on
     * another line than the start. */
    struct frequent_columns starts[START_CLASSES], ends[END_CLASSES];
};

void regions_free(struct regions *regions);

/* ---- both ---- */

static inline unsigned region_class(const struct region *region)
{
    static const uint8_t classes[2][REGION_KINDS] = {
        {CLASS_CODE, CLASS_EXPANSION, CLASS_SKIPPED, CLASS_ZERO, CLASS_BRANCH, CLASS_BRANCH,
         CLASS_BRANCH},
        {CLASS_GAP, CLASS_EXPANSION, CLASS_SKIPPED, CLASS_GAP, CLASS_BRANCH, CLASS_BRANCH,
         CLASS_BRANCH}};

    return classes[region->is_gap][region->kind];
}

static inline unsigned region_end_class(const struct region *region, size_t index)
{
    unsigned class = region_class(region);

    return index == 0 && class != CLASS_ZERO ? CLASS_FIRST : class;
}

static inline uint64_t region_start(const struct file_state *file, const struct region *region)
{
    return file->line | region->column;
}

static inline uint64_t region_end_position(const struct file_state *file,
                                           const struct region *region)
{
    return (file->line + ((uint64_t)region->num_lines << 32)) | region->column_end;
}

/* The base column, from which frequent columns are counted: where the innermost active region ends.
 */
static inline uint32_t region_base_column(const struct file_state *file)
{
    const struct active_end *end = active_ends_get(&file->active, 1);

    return end != NULL ? (uint32_t)end->place : 0;
}

/* The value that code starting here usually has; `file_value` is that of the whole file. */
static inline uint32_t region_enclosing(const struct file_state *file, uint32_t file_value)
{
    return file->active.count != 0 ? file->active.ends[file->active.count - 1].value : file_value;
}

/* Called before the first mapping. False if out of memory. */
bool regions_start(struct regions *regions);

/* Starts a mapping. */
void regions_start_mapping(struct regions *regions);

/* Starts a file. */
void regions_start_file(struct regions *regions);

/* Updates the state after a region with this value. */
static inline void regions_pass(struct regions *regions, const struct region *region,
                                uint32_t value, uint32_t enclosing)
{
    struct file_state *file = &regions->file;

    if (region->kind != REGION_CODE)
        value = region->kind == REGION_ZERO ? VALUE_ZERO : enclosing;
    active_ends_add(&file->active, region_end_position(file, region), value);
}

/* What is known of a file in advance. For the first file, and for files that are not expanded, the
 * value is the function's own counter. */
struct file_origin regions_origin(const struct regions *regions, size_t file);

/* Remembers that a file is expanded. False if out of memory. */
bool regions_expand(struct regions *regions, uint32_t file, uint32_t value, uint32_t list);

/* The list of templates for an expansion region outside macros. */
static inline uint32_t region_template_list(const struct region *region)
{
    return template_list_of_length(region->num_lines != 0 || region->column_end < region->column
                                       ? TEMPLATE_LENGTH_OTHER
                                       : region->column_end - region->column);
}

/* ---- writing ---- */

/* Called before the first mapping. False if out of memory. */
bool regions_start_writing(struct regions *regions);

/* Writes a mapping for which counters_start_writing was called. False if out of memory. */
bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct streams *streams);

/* Writes the patterns of all mappings. False if out of memory. */
bool regions_finish_writing(struct regions *regions, struct streams *streams);

/* ---- reading ---- */

/* Reads what precedes all mappings. */
enum result regions_start_reading(struct regions *regions, struct stream_cursors *cursors);

/* Reads a mapping of at most `limit` bytes, except for its expressions. */
enum result regions_take(struct regions *regions, struct counters *counters,
                         struct stream_cursors *cursors, uint64_t limit, struct mapping *mapping);

#endif
