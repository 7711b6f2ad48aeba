/*
 * Helpers of the image formats: see format.h.
 */
#include "formats/format.h"

#include <stdarg.h>
#include <stdio.h>

#define OUTLINE_LINE_MAX 256

void planning_add_section(struct planning *planning, enum section_kind kind, size_t index)
{
    const struct format *format = planning->format;
    struct section section = {.kind = kind, .name = format->section_name(kind), .fate = FATE_STAYS};

    format->describe_section(planning, index, &section);
    planning->section_index[kind] = index;
    planning->whole[kind] = (struct bounds){section.address, section.address + section.size};
    image_plan_add(planning->plan, &section);
}

struct bytes planning_remnant(const struct planning *planning, enum section_kind kind,
                              uint64_t size)
{
    switch (kind) {
    case SECTION_DATA:
        return (struct bytes){planning->stub, planning->record_layout.record_size};
    case SECTION_NAMES:
        return (struct bytes){planning->tripwire, planning->tripwire_size};
    case SECTION_COVMAP:
        return (struct bytes){planning->mapping_tripwire,
                              size < TRIPWIRE_MAPPING_SIZE ? 0 : TRIPWIRE_MAPPING_SIZE};
    default:
        return (struct bytes){0};
    }
}

bool planning_empty(struct planning *planning, const struct section *section, struct bytes rest,
                    uint64_t cut, uint64_t cut_end)
{
    struct edit_script *edits = &planning->plan->edits;
    uint64_t behind = section->offset + rest.size, end = section->offset + section->size;

    return edit_replace(edits, section->offset, rest.size, rest) &&
           edit_replace_by_zeros(edits, behind, cut - behind, cut - behind) &&
           edit_cut(edits, cut, cut_end - cut) &&
           (cut_end >= end || edit_replace_by_zeros(edits, cut_end, end - cut_end, end - cut_end));
}

void outline_append(struct buffer *outline, const char *format, ...)
{
    char line[OUTLINE_LINE_MAX];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    buffer_append(outline, line, (size_t)size < sizeof(line) ? (size_t)size : sizeof(line) - 1);
}
