/*
 * The files and regions of mappings, but for the counters.
 *
 * Of a mapping there is told how many files it has, and then file by file: the number of its name;
 * of all but the first file its *shape*, which is the kinds and places of its regions; and where
 * the shape is new, for each region its pattern (region_pattern.h) with what that leaves open, and
 * a pattern that says that there are no more. A region of a shape that has come has only operands.
 *
 * Parts, with numbers as unsigned LEB128:
 *   COVFUN_FILE_COUNTS   0 where there is a file for each region that is an expansion, and one
 *                        more; else 1 plus the number of files
 *   COVFUN_FILES         the number of the first file's name; those of others are in
 *                        COVFUN_OTHER_FILES
 *   COVFUN_SHAPES        for all files but the first: 0 where the shape is new; 1 where it came as
 *                        many shapes ago as the next number in COVFUN_OLDER_SHAPES says; else 2
 *                        plus its place in the list of what is expected (shape_lists.h)
 *   COVFUN_KNOWN_SYMBOLS of regions whose shape is known: the symbols of counters; of expansions 0
 *                        where their file is the next one, else 1
 *   COVFUN_EXPANSIONS    of an expansion whose file is not the next one: the zigzag of how much
 *                        further on it is. The next one is that behind the highest that was
 *                        expanded
 *   COVFUN_OPERANDS      all that is neither a counter nor a file
 * and of places what the pattern says:
 *   COVFUN_FIRST_LINE    the line of a mapping's first region: the zigzag of it less that of the
 *                        one before (of code that is never executed in COVFUN_FIRST_LINE_ZERO); of
 *                        other files' the line, in COVFUN_OTHER_FIRST_LINE
 *   COVFUN_FIRST_COLUMN  and in two streams likewise the columns
 *   COVFUN_LINE, COVFUN_COLUMN
 *                        by class: lines behind the anchor's, and columns that are not usual
 *   COVFUN_COLUMN_ON_LINE
 *                        by class: the zigzag of the column less the anchor's
 *   COVFUN_LINES, COVFUN_COLUMN_END, COVFUN_LENGTH
 *                        by class: lines and columns of ends, and the zigzag of the end's column
 *                        less the start's
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H

#include "common/base/intern_table.h"
#include "common/codec/mapping/counters.h"
#include "common/codec/mapping/open_ends.h"
#include "common/codec/mapping/pattern_table.h"
#include "common/codec/mapping/shape_lists.h"
#include "common/codec/mapping/usual_columns.h"

/* The regions of a file that was expanded: the places of those of a macro are the same wherever it
 * is used. */
struct region_shape {
    size_t first; /* in shape_regions */
    uint32_t count;
};

/* What is known of a file before it comes, from the region that is expanded to it. */
struct file_origin {
    uint64_t mapping; /* for which this holds: its number */
    uint32_t value;   /* of the counter where it is expanded */
    uint32_t list;    /* of shapes */
};

/* Of files with higher numbers nothing is known. Stored in sidecars, in a way. */
#define FILE_ORIGINS_MAX 16384

/* Where a region of a new shape is, and what that says of those that follow. */
struct region_place {
    struct open_ends open;
    uint64_t line; /* of the last region, counted from the file's first, in the high half */
};

/* Goes from one mapping to the next. Starts as {0}; freed with regions_free. */
struct regions {
    struct intern_table shape_numbers; /* writing: from the digest of a shape to its number */
    struct buffer key;
    struct region_shape *shapes; /* reading */
    size_t shape_count, shape_capacity;
    struct mapping shape_regions; /* only its regions */
    struct shape_lists lists;
    struct pattern_table patterns;
    uint32_t first_line; /* of the mapping before */
    /* The mapping at hand. */
    uint64_t mapping; /* its number */
    struct file_origin *origins;
    size_t origin_count;
    uint64_t next_file;
    uint64_t expansions; /* that have come */
    struct region_place place;
    /* Through all mappings: of starts on another line than the anchor, and of ends on another line
     * than the start, by class. */
    struct usual_columns starts[PLACE_CLASSES], ends[PLACE_END_CLASSES];
};

void regions_free(struct regions *regions);

/* ---- both ---- */

static inline unsigned region_class(const struct region *region)
{
    static const uint8_t classes[2][REGION_KINDS] = {
        {PLACE_CODE, PLACE_EXPANSION, PLACE_SKIPPED, PLACE_ZERO, PLACE_BRANCH, PLACE_BRANCH,
         PLACE_BRANCH},
        {PLACE_GAP, PLACE_EXPANSION, PLACE_SKIPPED, PLACE_GAP, PLACE_BRANCH, PLACE_BRANCH,
         PLACE_BRANCH}};

    return classes[region->is_gap][region->kind];
}

static inline unsigned region_end_class(const struct region *region, size_t index)
{
    unsigned class = region_class(region);

    return index == 0 && class != PLACE_ZERO ? PLACE_FIRST : class;
}

static inline uint64_t region_start_place(const struct region_place *place,
                                          const struct region *region)
{
    return place->line | region->column;
}

static inline uint64_t region_end_place(const struct region_place *place,
                                        const struct region *region)
{
    return (place->line + ((uint64_t)region->lines << 32)) | region->column_end;
}

/* The column that usual columns are counted from: that in which the innermost open region ends. */
static inline uint32_t region_base_column(const struct region_place *place)
{
    const struct open_end *end = open_ends_get(&place->open, 1);

    return end != NULL ? (uint32_t)end->place : 0;
}

/* Code that starts here has mostly this counter; `file_value` is that of the whole file. */
static inline uint32_t region_enclosing(const struct region_place *place, uint32_t file_value)
{
    return place->open.count != 0 ? place->open.ends[place->open.count - 1].value : file_value;
}

/* Starts. False: no memory. */
bool regions_start(struct regions *regions);

/* Starts a mapping. */
void regions_start_mapping(struct regions *regions);

/* Starts a file. */
void regions_start_file(struct regions *regions);

/* A region, whose value is known, has been told: what that says of others. */
static inline void regions_pass(struct regions *regions, const struct region *region,
                                uint32_t value, uint32_t enclosing)
{
    struct region_place *place = &regions->place;

    if (region->kind != REGION_CODE)
        value = region->kind == REGION_ZERO ? VALUE_ZERO : enclosing;
    open_ends_add(&place->open, region_end_place(place, region), value);
}

/* What is known of a file; of the first one, and of those that were not expanded, the function's
 * own counter. */
struct file_origin regions_origin(const struct regions *regions, size_t file);

/* A file is expanded. False: no memory. */
bool regions_expand(struct regions *regions, uint32_t file, uint32_t value, uint32_t list);

/* The list of shapes for what is expanded by a region outside of macros. */
static inline uint32_t region_shape_list(const struct region *region)
{
    return shape_list_of_length(region->lines != 0 || region->column_end < region->column
                                    ? SHAPE_LENGTH_OTHER
                                    : region->column_end - region->column);
}

/* ---- writing ---- */

/* False: no memory. */
bool regions_start_writing(struct regions *regions);

/* Puts a mapping for which counters_start_writing was called. False: no memory. */
bool regions_put(struct regions *regions, struct counters *counters, const struct mapping *mapping,
                 struct streams *streams);

/* Puts the patterns of all mappings. False: no memory. */
bool regions_finish_writing(struct regions *regions, struct streams *streams);

/* ---- reading ---- */

/* Takes what comes before all mappings. */
enum result regions_start_reading(struct regions *regions, struct covfun_columns *columns);

/* Takes a mapping of `limit` bytes at most, all but its expressions. */
enum result regions_take(struct regions *regions, struct counters *counters,
                         struct covfun_columns *columns, uint64_t limit, struct mapping *mapping);

#endif
