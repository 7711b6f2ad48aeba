/*
 * The coverage mapping of one function: see mapping.h.
 */
#include "common/compact/mapping.h"

#include <stdlib.h>

#include "common/compact/numbers.h"

/* The header of a region without a counter: the tag is zero, and then comes a bit that says
 * whether an expanded file or a kind follows. */
#define EXPANSION_BIT   4
#define KIND_SHIFT      3
#define SKIPPED_HEADER  2
#define BRANCH_HEADER   4
#define DECISION_HEADER 5
#define MCDC_HEADER     6

#define GAP_BIT         UINT32_C(0x80000000)

/* ---- arrays ---- */

/* Room for one element more. */
static bool make_room(void **array, size_t *capacity, size_t count, size_t size)
{
    size_t larger = *capacity == 0 ? 64 : *capacity * 2;
    void *moved;

    if (count < *capacity)
        return true;
    moved = realloc(*array, larger * size);
    if (moved == NULL)
        return false;
    *array = moved;
    *capacity = larger;
    return true;
}

void mapping_clear(struct mapping *mapping)
{
    mapping->file_count = mapping->expression_count = mapping->region_count = 0;
}

void mapping_free(struct mapping *mapping)
{
    free(mapping->files);
    free(mapping->region_counts);
    free(mapping->expressions);
    free(mapping->regions);
    *mapping = (struct mapping){0};
}

bool mapping_add_file(struct mapping *mapping, uint32_t name)
{
    size_t capacity = mapping->file_capacity;

    if (!make_room((void **)&mapping->region_counts, &capacity, mapping->file_count,
                   sizeof(*mapping->region_counts)) ||
        !make_room((void **)&mapping->files, &mapping->file_capacity, mapping->file_count,
                   sizeof(*mapping->files)))
        return false;
    mapping->region_counts[mapping->file_count] = 0;
    mapping->files[mapping->file_count++] = name;
    return true;
}

bool mapping_add_expression(struct mapping *mapping, struct expression expression)
{
    if (!make_room((void **)&mapping->expressions, &mapping->expression_capacity,
                   mapping->expression_count, sizeof(expression)))
        return false;
    mapping->expressions[mapping->expression_count++] = expression;
    return true;
}

bool mapping_add_region(struct mapping *mapping, const struct region *region)
{
    if (!make_room((void **)&mapping->regions, &mapping->region_capacity, mapping->region_count,
                   sizeof(*region)))
        return false;
    mapping->regions[mapping->region_count++] = *region;
    return true;
}

/* ---- reading ---- */

/* A number that has no shorter form, and that 32 bits hold. */
static bool take(struct bytes *bytes, uint32_t *number)
{
    uint64_t before = bytes->size, value;

    if (bytes->size != 0 && bytes->data[0] < 0x80) {
        *number = bytes->data[0];
        bytes->data++;
        bytes->size--;
        return true;
    }
    if (!bytes_take_uleb128(bytes, &value) || value > UINT32_MAX ||
        before - bytes->size != uleb128_size(value))
        return false;
    *number = (uint32_t)value;
    return true;
}

static bool take_kind(uint32_t header, struct region *region)
{
    if (COUNTER_TAG(header) != COUNTER_ZERO) {
        region->kind = REGION_CODE;
        region->operands[0] = header;
        return true;
    }
    if ((header & EXPANSION_BIT) != 0) {
        region->kind = REGION_EXPANSION;
        region->operands[0] = header >> KIND_SHIFT;
        return true;
    }
    switch (header >> KIND_SHIFT) {
    case 0:
        region->kind = REGION_ZERO;
        return true;
    case SKIPPED_HEADER:
        region->kind = REGION_SKIPPED;
        return true;
    case BRANCH_HEADER:
        region->kind = REGION_BRANCH;
        return true;
    case DECISION_HEADER:
        region->kind = REGION_DECISION;
        return true;
    case MCDC_HEADER:
        region->kind = REGION_MCDC_BRANCH;
        return true;
    default:
        return false;
    }
}

static bool take_region(struct bytes *bytes, struct region *region)
{
    uint32_t header;

    *region = (struct region){0};
    if (!take(bytes, &header) || !take_kind(header, region))
        return false;
    if (region->kind >= REGION_BRANCH) {
        for (unsigned i = 0; i < region_operands(region->kind); i++) {
            if (!take(bytes, &region->operands[i]))
                return false;
        }
    }
    if (!take(bytes, &region->line) || !take(bytes, &region->column) ||
        !take(bytes, &region->lines) || !take(bytes, &region->column_end))
        return false;
    region->is_gap = (region->column_end & GAP_BIT) != 0;
    region->column_end &= ~GAP_BIT;
    return true;
}

static enum compact_result take_files(struct mapping *mapping, struct bytes *bytes)
{
    uint32_t count, name;

    if (!take(bytes, &count))
        return COMPACT_UNFIT;
    for (uint32_t i = 0; i < count; i++) {
        if (!take(bytes, &name))
            return COMPACT_UNFIT;
        if (!mapping_add_file(mapping, name))
            return COMPACT_NO_MEMORY;
    }
    return COMPACT_DONE;
}

static enum compact_result take_expressions(struct mapping *mapping, struct bytes *bytes)
{
    uint32_t count;

    if (!take(bytes, &count))
        return COMPACT_UNFIT;
    for (uint32_t i = 0; i < count; i++) {
        struct expression expression;

        if (!take(bytes, &expression.left) || !take(bytes, &expression.right))
            return COMPACT_UNFIT;
        if (!mapping_add_expression(mapping, expression))
            return COMPACT_NO_MEMORY;
    }
    return COMPACT_DONE;
}

static enum compact_result take_regions(struct mapping *mapping, struct bytes *bytes)
{
    for (size_t file = 0; file < mapping->file_count; file++) {
        if (!take(bytes, &mapping->region_counts[file]))
            return COMPACT_UNFIT;
        for (uint32_t i = 0; i < mapping->region_counts[file]; i++) {
            struct region region;

            if (!take_region(bytes, &region))
                return COMPACT_UNFIT;
            if (!mapping_add_region(mapping, &region))
                return COMPACT_NO_MEMORY;
        }
    }
    return COMPACT_DONE;
}

enum compact_result mapping_read(struct mapping *mapping, struct bytes bytes)
{
    enum compact_result result;

    mapping_clear(mapping);
    result = take_files(mapping, &bytes);
    if (result == COMPACT_DONE)
        result = take_expressions(mapping, &bytes);
    if (result == COMPACT_DONE)
        result = take_regions(mapping, &bytes);
    if (result == COMPACT_DONE && bytes.size != 0)
        result = COMPACT_UNFIT;
    return result;
}

/* ---- writing ---- */

/* The caller has made room. */
static void put(struct buffer *bytes, uint32_t number)
{
    while (number >= 0x80) {
        bytes->data[bytes->size++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    bytes->data[bytes->size++] = (uint8_t)number;
}

#define NUMBER_SIZE_MAX 5

static uint32_t header_of(const struct region *region)
{
    switch (region->kind) {
    case REGION_CODE:
        return region->operands[0];
    case REGION_EXPANSION:
        return region->operands[0] << KIND_SHIFT | EXPANSION_BIT;
    case REGION_SKIPPED:
        return SKIPPED_HEADER << KIND_SHIFT;
    case REGION_BRANCH:
        return BRANCH_HEADER << KIND_SHIFT;
    case REGION_DECISION:
        return DECISION_HEADER << KIND_SHIFT;
    case REGION_MCDC_BRANCH:
        return MCDC_HEADER << KIND_SHIFT;
    default:
        return 0;
    }
}

static bool put_region(struct buffer *bytes, const struct region *region)
{
    if (!buffer_reserve(bytes, (1 + REGION_OPERANDS_MAX + 4) * NUMBER_SIZE_MAX))
        return false;
    put(bytes, header_of(region));
    if (region->kind >= REGION_BRANCH) {
        for (unsigned i = 0; i < region_operands(region->kind); i++)
            put(bytes, region->operands[i]);
    }
    put(bytes, region->line);
    put(bytes, region->column);
    put(bytes, region->lines);
    put(bytes, region->column_end | (region->is_gap ? GAP_BIT : 0));
    return true;
}

bool mapping_write(const struct mapping *mapping, struct buffer *bytes)
{
    const struct region *region = mapping->regions;
    bool done = buffer_reserve(bytes, (2 + mapping->file_count + 2 * mapping->expression_count) *
                                          NUMBER_SIZE_MAX);

    if (!done)
        return false;
    put(bytes, (uint32_t)mapping->file_count);
    for (size_t i = 0; i < mapping->file_count; i++)
        put(bytes, mapping->files[i]);
    put(bytes, (uint32_t)mapping->expression_count);
    for (size_t i = 0; i < mapping->expression_count; i++) {
        put(bytes, mapping->expressions[i].left);
        put(bytes, mapping->expressions[i].right);
    }
    for (size_t file = 0; done && file < mapping->file_count; file++) {
        done = buffer_reserve(bytes, NUMBER_SIZE_MAX);
        if (done)
            put(bytes, mapping->region_counts[file]);
        for (uint32_t i = 0; done && i < mapping->region_counts[file]; i++)
            done = put_region(bytes, region++);
    }
    return done;
}
