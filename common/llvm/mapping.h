/*
 * Parses the coverage mapping of one function (LLVM's CoverageMappingFormat, "Function Record",
 * versions 4 to 7).
 */
#ifndef COVSPLIT_COMMON_LLVM_MAPPING_H
#define COVSPLIT_COMMON_LLVM_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* A counter as it is stored: the low bits are a tag, the others the number of a counter or of an
 * expression. */
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

/* The kind of a region. Stored in sidecars. */
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

/* The minimum size of an encoded region, in bytes. */
#define REGION_SIZE_MIN 5

struct region {
    uint8_t kind; /* enum region_kind */
    bool is_gap;
    uint32_t line; /* difference to the line of the previous region in the same file */
    uint32_t column;
    uint32_t num_lines; /* how many lines after its start it ends */
    uint32_t column_end;
    /* Code: its counter. Expansion: a file. Branches: the counters of both sides, for MC/DC
     * followed by three numbers. Decision: two numbers. */
    uint32_t operands[REGION_OPERANDS_MAX];
};

/* The number of operands of a region. */
static inline unsigned region_operands(unsigned kind)
{
    static const uint8_t operands[REGION_KINDS] = {[REGION_CODE] = 1,
                                                   [REGION_EXPANSION] = 1,
                                                   [REGION_BRANCH] = 2,
                                                   [REGION_DECISION] = 2,
                                                   [REGION_MCDC_BRANCH] = 5};
    return operands[kind];
}

/* The number of counters among these, which come first. */
static inline unsigned region_counters(unsigned kind)
{
    static const uint8_t counters[REGION_KINDS] = {
        [REGION_CODE] = 1, [REGION_BRANCH] = 2, [REGION_MCDC_BRANCH] = 2};
    return counters[kind];
}

struct expression {
    uint32_t left, right; /* counters */
};

/* The most files, and the most regions, of a mapping that is parsed. A region takes ten times as
 * much memory as it may take in a sidecar, so the memory that few bytes can require must be
 * limited. */
#define MAPPING_COUNT_MAX ((uint32_t)1 << 18)

/* The arrays grow and are reused for the next mapping; free with mapping_free. */
struct mapping {
    uint32_t *files;         /* by virtual file: the number of its name */
    uint32_t *region_counts; /* by virtual file: the number of its regions */
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

/* Makes room for `count` more regions. False if out of memory. */
bool mapping_reserve_regions(struct mapping *mapping, size_t count);

/* Parses a mapping. Unfit unless the functions below would write exactly the same bytes. */
enum result mapping_read(struct mapping *mapping, struct bytes bytes);

/* Append the parts of a mapping before and after its table of expressions. False if out of memory.
 */
bool mapping_write_files(const struct mapping *mapping, struct buffer *bytes);
bool mapping_write_regions(const struct mapping *mapping, struct buffer *bytes);

#endif
