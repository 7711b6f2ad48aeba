/*
 * Lists of the templates that are likely for an expansion.
 *
 * An expansion region is as long as the name of the macro, and an expansion within a macro is
 * always the same. So for each length, and for each expansion in a template, the templates that
 * occurred there are remembered, the most recent one first.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_TEMPLATE_LISTS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_TEMPLATE_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The stored form depends on these numbers. */
#define TEMPLATE_LENGTHS      64 /* one list for each length up to 62, and one for all others */
#define TEMPLATE_LENGTH_OTHER 63
#define TEMPLATES_OF_A_LENGTH 32 /* in a list */
#define TEMPLATE_INNER_LISTS  4096
#define TEMPLATES_OF_A_REGION 4

/* Initialize to {0}; free with template_lists_free. */
struct template_lists {
    uint32_t *templates; /* of all lists: 1 + a template's number; 0: none */
};

struct template_list {
    uint32_t *templates;
    unsigned size;
};

void template_lists_free(struct template_lists *lists);

/* False if out of memory. */
bool template_lists_start(struct template_lists *lists);

/* The number of the list for an expansion: by its length, or by its template and its index in that.
 */
static inline uint32_t template_list_of_length(uint64_t length)
{
    return length < TEMPLATE_LENGTH_OTHER ? (uint32_t)length : TEMPLATE_LENGTH_OTHER;
}

static inline uint32_t template_list_of_region(size_t template, size_t index)
{
    return TEMPLATE_LENGTHS + (uint32_t)((template * 31 + index) % TEMPLATE_INNER_LISTS);
}

struct template_list template_list_get(const struct template_lists *lists, uint32_t number);

/* The place of a template in the list; the list's size if it is not there. */
unsigned template_list_find(struct template_list list, size_t template);

/* Moves a template to the front; `place` is what template_list_find returned. */
void template_list_touch(struct template_list list, size_t template, unsigned place);

#endif
