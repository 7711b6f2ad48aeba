/*
 * Lists of likely templates: see template_lists.h.
 */
#include "common/codec/mapping/template_lists.h"

#include <stdlib.h>
#include <string.h>

#define LENGTHS_SIZE ((size_t)TEMPLATE_LENGTHS * TEMPLATES_OF_A_LENGTH)
#define INNER_SIZE   ((size_t)TEMPLATE_INNER_LISTS * TEMPLATES_OF_A_REGION)

void template_lists_free(struct template_lists *lists)
{
    free(lists->templates);
    lists->templates = NULL;
}

bool template_lists_start(struct template_lists *lists)
{
    lists->templates = calloc(LENGTHS_SIZE + INNER_SIZE, sizeof(*lists->templates));
    return lists->templates != NULL;
}

struct template_list template_list_get(const struct template_lists *lists, uint32_t number)
{
    if (number < TEMPLATE_LENGTHS)
        return (struct template_list){lists->templates + (size_t)number * TEMPLATES_OF_A_LENGTH,
                                      TEMPLATES_OF_A_LENGTH};
    return (struct template_list){lists->templates + LENGTHS_SIZE +
                                      (size_t)(number - TEMPLATE_LENGTHS) * TEMPLATES_OF_A_REGION,
                                  TEMPLATES_OF_A_REGION};
}

unsigned template_list_find(struct template_list list, size_t template)
{
    unsigned place = 0;

    while (place < list.size && list.templates[place] != template + 1)
        place++;
    return place;
}

void template_list_touch(struct template_list list, size_t template, unsigned place)
{
    if (place == list.size)
        place--;
    memmove(list.templates + 1, list.templates, place * sizeof(*list.templates));
    list.templates[0] = (uint32_t) template + 1;
}
