/*
 * The coverage mapping of one function, taken apart (LLVM's CoverageMappingFormat, "Function
 * Record", versions 4 to 7).
 */
#ifndef COVSPLIT_COMMON_LLVM_MAPPING_H
#define COVSPLIT_COMMON_LLVM_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

/* A counter as it is stored: the tag, and above it the number of a counter or an expression. */
#define COUNTER_TAG_BITS   2
#define COUNTER_TAG(ref)   ((ref)&3)
#define COUNTER_INDEX(ref) ((ref) >> COUNTER_TAG_BITS)

enum counter_tag {
    COUNTER_ZERO = 0,
    COUNTER_REFERENCE = 1,
    COUNTER_SUBTRACT = 2,
    COUNTER_ADD = 3,
};

static inline bool counter_is_expression(uint32_t counter)
{
    return COUNTER_TAG(counter) >= COUNTER_SUBTRACT;
}

/* What a region is. Stored in sidecars. */
enum region_kind {
    REGION_CODE = 0, /* with a counter other than zero */
    REGION_EXPANSION = 1,
    REGION_SKIPPED = 2,
    REGION_ZERO = 3, /* code that is never executed */
    REGION_BRANCH = 4,
    REGION_DECISION = 5,
    REGION_MCDC_BRANCH = 6,
};

#define REGION_KINDS        7
#define REGION_OPERANDS_MAX 5
#define REGION_COUNTERS_MAX 2

/* No region takes fewer bytes. */
#define REGION_SIZE_MIN 5

struct region {
    uint8_t kind; /* enum region_kind */
    bool is_gap;
    uint32_t line; /* more than that of the region before in the same file */
    uint32_t column;
    uint32_t num_lines; /* how many lines further on it ends */
    uint32_t column_end;
    /* Code: its counter. Expansion: a file. Branches: the counters of both sides, and of MC/DC
     * three numbers more. Decision: two numbers. */
    uint32_t operands[REGION_OPERANDS_MAX];
};

/* How many operands a region has. */
static inline unsigned region_operands(unsigned kind)
{
    static const uint8_t operands[REGION_KINDS] = {[REGION_CODE] = 1,
                                                   [REGION_EXPANSION] = 1,
                                                   [REGION_BRANCH] = 2,
                                                   [REGION_DECISION] = 2,
                                                   [REGION_MCDC_BRANCH] = 5};
    return operands[kind];
}

/* How many of them, the first, are counters. */
static inline unsigned region_counters(unsigned kind)
{
    static const uint8_t counters[REGION_KINDS] = {
        [REGION_CODE] = 1, [REGION_BRANCH] = 2, [REGION_MCDC_BRANCH] = 2};
    return counters[kind];
}

struct expression {
    uint32_t left, right; /* counters */
};

/* Files, and regions, that a mapping may have to be taken apart. A region takes ten times as much
 * memory as what can stand for it in a sidecar, so there must be a limit to what a mapping that is
 * read can make of a few bytes. */
#define MAPPING_COUNT_MAX ((uint32_t)1 << 18)

/* The arrays grow and are used again for the next mapping; free with mapping_free. */
struct mapping {
    uint32_t *files;         /* by virtual file: its name's number */
    uint32_t *region_counts; /* likewise */
    size_t file_count, file_capacity;
    struct expression *expressions;
    size_t expression_count, expression_capacity;
    struct region *regions; /* of all files, one after the other */
    size_t region_count, region_capacity;
};

void mapping_clear(struct mapping *mapping);
void mapping_free(struct mapping *mapping);

/* Adds a file without regions. False if out of memory. */
bool mapping_add_file(struct mapping *mapping, uint32_t name);

/* Makes room for so many regions more, behind those that there are. False if out of memory. */
bool mapping_reserve_regions(struct mapping *mapping, size_t count);

/* Unfit if the bytes are not just a mapping that would be written in the same way. */
enum result mapping_read(struct mapping *mapping, struct bytes bytes);

/* Append what a mapping has in front of its table of expressions, and what it has behind it. False:
 * no memory. */
bool mapping_write_files(const struct mapping *mapping, struct buffer *bytes);
bool mapping_write_regions(const struct mapping *mapping, struct buffer *bytes);

#endif
