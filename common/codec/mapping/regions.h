/*
 * The files and regions of mappings, but for the counters: "The mapping of functions" in
 * docs/format.md.
 *
 * Of each file but the first, the *template* is stored, which is the kinds and source ranges of its
 * regions: what a macro expands to is the same wherever it is used. Where the template is new, each
 * region has its pattern (region_pattern.h), with what that leaves open.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/active_ends.h"
#include "common/codec/mapping/counters.h"
#include "common/codec/mapping/frequent_columns.h"
#include "common/codec/mapping/pattern_table.h"
#include "common/codec/mapping/template_lists.h"

/* The regions of a file that was expanded: the places of those of a macro are the same wherever it
 * is used. */
struct region_template {
    size_t first; /* in template_regions */
    uint32_t count;
};

/* What is known of a file before it comes, from the region that is expanded to it. */
struct file_origin {
    uint64_t mapping; /* for which this holds: its number */
    uint32_t value;   /* of the counter where it is expanded */
    uint32_t list;    /* of templates */
};

/* Of files with higher numbers nothing is known. The form depends on it. */
#define FILE_ORIGINS_MAX 16384

/* Where a region of a new template is, and what that says of those that follow. */
struct file_state {
    struct active_ends active;
    uint64_t line; /* of the last region, counted from the file's first, in the high half */
};

/* Goes from one mapping to the next. Initialize to {0}; free with regions_free. */
struct regions {
    struct intern_table template_numbers; /* writing: from the digest of a template to its number */
    struct buffer key;
    struct region_template *templates; /* reading */
    size_t template_count, template_capacity;
    struct mapping template_regions; /* only its regions */
    struct template_lists lists;
    struct pattern_table patterns;
    uint32_t first_line; /* of the mapping before */
    /* The mapping at hand. */
    uint64_t mapping; /* its number */
    struct file_origin *origins;
    size_t origin_count;
    uint64_t next_file;
    uint64_t expansions; /* that have come */
    struct file_state file;
    /* Through all mappings: of starts on another line than the anchor, and of ends on another line
     * than the start, by class. */
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

/* The column that frequent columns are counted from: that in which the innermost active region
 * ends.
 */
static inline uint32_t region_base_column(const struct file_state *file)
{
    const struct active_end *end = active_ends_get(&file->active, 1);

    return end != NULL ? (uint32_t)end->place : 0;
}

/* Code that starts here has mostly this counter; `file_value` is that of the whole file. */
static inline uint32_t region_enclosing(const struct file_state *file, uint32_t file_value)
{
    return file->active.count != 0 ? file->active.ends[file->active.count - 1].value : file_value;
}

/* Starts. False if out of memory. */
bool regions_start(struct regions *regions);

/* Starts a mapping. */
void regions_start_mapping(struct regions *regions);

/* Starts a file. */
void regions_start_file(struct regions *regions);

/* A region, whose value is known, has been coded: what that says of others. */
static inline void regions_pass(struct regions *regions, const struct region *region,
                                uint32_t value, uint32_t enclosing)
{
    struct file_state *file = &regions->file;

    if (region->kind != REGION_CODE)
        value = region->kind == REGION_ZERO ? VALUE_ZERO : enclosing;
    active_ends_add(&file->active, region_end_position(file, region), value);
}

/* What is known of a file; of the first one, and of those that were not expanded, the function's
 * own counter. */
struct file_origin regions_origin(const struct regions *regions, size_t file);

/* A file is expanded. False if out of memory. */
bool regions_expand(struct regions *regions, uint32_t file, uint32_t value, uint32_t list);

/* The list of templates for what is expanded by a region outside of macros. */
static inline uint32_t region_template_list(const struct region *region)
{
    return template_list_of_length(region->num_lines != 0 || region->column_end < region->column
                                       ? TEMPLATE_LENGTH_OTHER
                                       : region->column_end - region->column);
}

/* ---- writing ---- */

/* False if out of memory. */
bool regions_start_writing(struct regions *regions);

/* Puts a mapping for which counters_start_writing was called. False if out of memory. */
bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct streams *streams);

/* Puts the patterns of all mappings. False if out of memory. */
bool regions_finish_writing(struct regions *regions, struct streams *streams);

/* ---- reading ---- */

/* Takes what comes before all mappings. */
enum result regions_start_reading(struct regions *regions, struct stream_cursors *cursors);

/* Takes a mapping of `limit` bytes at most, all but its expressions. */
enum result regions_take(struct regions *regions, struct counters *counters,
                         struct stream_cursors *cursors, uint64_t limit, struct mapping *mapping);

#endif
