/*
 * What the holes that the layout has chosen mean for the bytes of the file: see macho/state.h.
 */
#include "formats/macho/state.h"

bool macho_removes_fixup(const struct macho_state *state, uint64_t address)
{
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);

    return data != NULL && data->fate != FATE_STAYS &&
           range_within(address, 1, data->address, data->size);
}

bool macho_cuts(const struct macho_state *state, uint64_t offset)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (ranges_overlap(offset, 8, state->holes[i].offset, state->holes[i].size))
            return true;
    }
    return false;
}

uint64_t macho_filesize(const struct macho_state *state, size_t segment)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    uint64_t filesize = holder->filesize;

    for (size_t i = 0; i < state->hole_count; i++) {
        const struct macho_hole *hole = &state->holes[i];
        if (hole->segment == segment && (hole->is_tail || segment == state->split_segment) &&
            hole->offset - holder->fileoff < filesize)
            filesize = hole->offset - holder->fileoff;
    }
    return filesize;
}
