/*
 * Regions, the part that writing and reading share: see regions.h.
 */
#include "common/codec/mapping/regions.h"

#include <stdlib.h>

#include "common/base/array.h"

void regions_free(struct regions *regions)
{
    intern_table_free(&regions->template_numbers);
    buffer_free(&regions->key);
    free(regions->templates);
    mapping_free(&regions->template_regions);
    template_lists_free(&regions->lists);
    pattern_table_free(&regions->patterns);
    free(regions->origins);
    *regions = (struct regions){0};
}

bool regions_start(struct regions *regions)
{
    for (unsigned i = 0; i < START_CLASSES; i++)
        frequent_columns_start(&regions->starts[i]);
    for (unsigned i = 0; i < END_CLASSES; i++)
        frequent_columns_start(&regions->ends[i]);
    return template_lists_start(&regions->lists);
}

void regions_start_mapping(struct regions *regions)
{
    regions->mapping++;
    regions->next_file = 1;
    regions->expansions = 0;
}

void regions_start_file(struct regions *regions)
{
    regions->file.active.count = 0;
    regions->file.line = 0;
}

struct file_origin regions_origin(const struct regions *regions, size_t file)
{
    if (file < regions->origin_count && regions->origins[file].mapping == regions->mapping)
        return regions->origins[file];
    return (struct file_origin){regions->mapping, VALUE_ENTRY,
                                template_list_of_length(TEMPLATE_LENGTH_OTHER)};
}

bool regions_expand(struct regions *regions, uint32_t file, uint32_t value, uint32_t list)
{
    size_t count = regions->origin_count;

    regions->expansions++;
    if (file >= regions->next_file)
        regions->next_file = (uint64_t)file + 1;
    if (file >= FILE_ORIGINS_MAX)
        return true;
    if (file >= count) {
        struct file_origin *moved;

        count = count == 0 ? 64 : count;
        while (count <= file)
            count *= 2;
        moved = realloc(regions->origins, count * sizeof(*moved));
        if (moved == NULL)
            return false;
        for (size_t i = regions->origin_count; i < count; i++)
            moved[i] = (struct file_origin){0};
        regions->origins = moved;
        regions->origin_count = count;
    }
    regions->origins[file] = (struct file_origin){regions->mapping, value, list};
    return true;
}
