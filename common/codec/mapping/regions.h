/*
 * The files and regions of mappings: "The mapping of functions" in docs/format.md.
 *
 * Regions are sorted by their starts and are nested, as statements are. So the ends of the regions
 * that are open, the *active ends*, tell much about the next one: its start tells which of them are
 * completed, it usually ends where one of them is, and its counter is usually that of the innermost
 * one.
 *
 * Code is indented, so regions that start or end on a new line do so in few different columns,
 * relative to the column where the enclosing block ends: the *frequent columns*. Which ones are
 * frequent depends on the project, so they are counted.
 *
 * For each file but the first, a *template* is stored: the kinds and source ranges of its regions.
 * It is reused, because a macro expands to the same regions wherever it is used. An expansion
 * region is as long as the name of the macro, and an expansion within a macro is always the same.
 * So for each length, and for each expansion in a template, a list has the templates that occurred
 * there, the most recent one first. The regions of a new template are stored as patterns
 * (patterns.h) and the numbers that these require.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_REGIONS_H

#include "common/codec/mapping/counters.h"
#include "common/codec/mapping/patterns.h"

/* The stored form depends on all these numbers. */
#define ACTIVE_ENDS_MAX  32 /* if there are more, the outermost one is forgotten */
#define FREQUENT_COLUMNS 2
#define FREQUENT_COUNTED 32 /* how many differences are counted, from the lowest on */

struct active_end {
    uint64_t place; /* high half: line, counted from the file's first region; low half: column */
    uint32_t value; /* of the last region that ends there: see counters.h */
};

struct frequent_columns {
    int64_t frequent[FREQUENT_COLUMNS]; /* as differences from the base column */
    uint32_t counts[FREQUENT_COUNTED];
    uint32_t uses;
};

/* Kept from one mapping to the next. Initialize to {0}; free with regions_free. */
struct regions {
    struct patterns patterns;
    struct intern_table template_numbers; /* writing: the number of a template by its digest */
    struct buffer key;
    struct region_template *templates; /* reading */
    size_t template_count, template_capacity;
    struct mapping template_regions; /* reading; only the member `regions` is used */
    uint32_t *lists;                 /* of templates: 1 + a template's number; 0: none */
    uint32_t first_line;             /* of the previous mapping */
    /* For all mappings, by class: columns of starts on another line than the anchor, and of ends on
     * another line than the start. */
    struct frequent_columns starts[START_CLASSES], ends[END_CLASSES];
    /* The current mapping. */
    uint64_t number;
    struct coder *coder;
    struct counters *counters;
    struct mapping *mapping;
    uint64_t limit;      /* reading: the most bytes that it may have */
    size_t region_count; /* how many regions have been coded */
    uint64_t expansions; /* how many of them are expansions */
    uint64_t next_file;  /* 1 more than the highest file of an expansion */
    struct file_origin *origins;
    size_t origin_count;
    /* The current file, if its template is new. */
    struct active_end active[ACTIVE_ENDS_MAX + 1]; /* in descending order, without duplicates */
    size_t active_count;
    uint64_t line; /* of the last region, counted from the file's first; in the high half */
};

void regions_free(struct regions *regions);

/* Called before the first mapping; reads what precedes all mappings. */
enum result regions_start(struct regions *regions, struct coder *coder);

/* Codes a mapping, for which counters_start or counters_start_writing was called; while reading, of
 * at most `limit` bytes, and except for its expressions. Its result is the coder's. */
enum result regions_code(struct regions *regions, struct counters *counters, struct coder *coder,
                         uint64_t limit, struct mapping *mapping);

/* Writes the patterns of all mappings. */
enum result regions_finish_writing(struct regions *regions, struct coder *coder);

#endif
