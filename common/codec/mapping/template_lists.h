/*
 * Which templates to expect of what is expanded.
 *
 * A region that is expanded is as long as the name of the macro, and what is expanded within a
 * macro is always the same. So of both it is kept which templates came there, the last one first.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_TEMPLATE_LISTS_H
#define COVSPLIT_COMMON_CODEC_MAPPING_TEMPLATE_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The form depends on it. */
#define TEMPLATE_LENGTHS      64 /* lists for regions of a length of up to 62, and for all others */
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

/* The number of the list for an expansion: by its length, or by the template that it is in and its
 * index in it. */
static inline uint32_t template_list_of_length(uint64_t length)
{
    return length < TEMPLATE_LENGTH_OTHER ? (uint32_t)length : TEMPLATE_LENGTH_OTHER;
}

static inline uint32_t template_list_of_region(size_t template, size_t index)
{
    return TEMPLATE_LENGTHS + (uint32_t)((template * 31 + index) % TEMPLATE_INNER_LISTS);
}

struct template_list template_list_get(const struct template_lists *lists, uint32_t number);

/* Where a template is in the list; its size: nowhere. */
unsigned template_list_find(struct template_list list, size_t template);

/* Brings a template, which is in the list at `place` or is not in it, to the front. */
void template_list_touch(struct template_list list, size_t template, unsigned place);

#endif
