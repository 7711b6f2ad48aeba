/*
 * Taking the bytes of removed sections out of a COFF image: see coff_plan.h.
 *
 * In memory nothing moves: a section keeps its VirtualSize, and the loader fills with zeros what
 * the file does not have. In the file a removed section is cut whole; of the data section stays
 * what the marker and the stub record need, in units of FileAlignment, so that everything behind
 * stays aligned.
 */
#include "formats/coff_plan.h"

static bool cut_section(struct coff_plan_state *state, const struct image_section *section)
{
    const struct coff_section *header = &state->image.sections[state->section_index[section->kind]];

    return edit_cut(&state->plan->edits, header->PointerToRawData, header->SizeOfRawData);
}

/* Marker, stub, zeros. */
static bool cut_data(struct coff_plan_state *state, const struct image_section *section)
{
    const struct coff_section *header = &state->image.sections[state->section_index[SECTION_DATA]];
    struct edit_script *edits = &state->plan->edits;
    uint64_t record_size = state->record_layout.record_size;
    uint64_t stub_end = section->offset + record_size;
    uint64_t kept = align_up(stub_end - header->PointerToRawData, state->image.file_alignment);
    uint64_t zeros_end, end = header->PointerToRawData + header->SizeOfRawData;

    if (kept > header->SizeOfRawData)
        kept = header->SizeOfRawData;
    zeros_end = header->PointerToRawData + kept;
    state->kept_raw_size[SECTION_DATA] = (uint32_t)kept;
    state->plan->stub_uuid_literal = edits->literals.size;
    return edit_replace(edits, section->offset, record_size,
                        (struct bytes){state->stub, record_size}) &&
           edit_replace_by_zeros(edits, stub_end, zeros_end - stub_end, zeros_end - stub_end) &&
           edit_cut(edits, zeros_end, end - zeros_end);
}

static bool cut_certificates(struct coff_plan_state *state, struct error *error)
{
    const struct coff_directory *directory = &state->image.directories[DIRECTORY_CERTIFICATE];

    if (!state->drops_certificates)
        return true;
    if (!range_within(directory->rva, directory->size, state->image.size_of_headers,
                      state->image.file.size - state->image.size_of_headers))
        return error_set(error,
                         "%s: damaged COFF image: its signature is not inside the file; link it "
                         "again",
                         state->image.path);
    return edit_cut(&state->plan->edits, directory->rva, directory->size) ||
           error_out_of_memory(error, state->image.path, directory->size);
}

/* Sections at the end of the table need not even stay as addresses, unless symbols count on their
 * numbers. One removed section stays in the table: by that the image is known to be split. */
static size_t count_dropped(struct coff_plan_state *state)
{
    size_t dropped = 0, removed = 0;

    for (size_t i = 0; i < state->plan->section_count; i++)
        removed += state->plan->sections[i].fate != SECTION_STAYS;
    if (state->image.symbols_offset != 0)
        return 0;
    while (dropped + 1 < removed) {
        size_t last = state->image.section_count - 1 - dropped;
        bool goes = false;

        for (size_t i = 0; i < state->plan->section_count; i++) {
            const struct image_section *section = &state->plan->sections[i];

            goes |= section->fate != SECTION_STAYS && section->kind != SECTION_DATA &&
                    state->section_index[section->kind] == last;
        }
        if (!goes)
            break;
        dropped++;
    }
    return dropped;
}

static bool remove_relocations(struct coff_plan_state *state, struct error *error)
{
    struct coff_range ranges[SECTION_KIND_MAX];
    size_t count = 0;
    const char *reason = NULL;

    state->base_relocation_size = state->image.directories[DIRECTORY_BASE_RELOCATION].size;
    if ((state->image.characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        return true;
    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *section = &state->plan->sections[i];
        const struct coff_section *header =
            &state->image.sections[state->section_index[section->kind]];

        if (section->fate != SECTION_STAYS)
            ranges[count++] = (struct coff_range){header->address, header->VirtualSize};
    }
    return coff_relocations_remove(&state->image, ranges, count, &state->plan->edits,
                                   &state->base_relocation_size, &reason) ||
           error_set(error, "%s: %s; link it again", state->image.path, reason);
}

bool coff_layout_plan(struct coff_plan_state *state, struct error *error)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *section = &state->plan->sections[i];

        if (section->fate == SECTION_STAYS)
            continue;
        if (!(section->kind == SECTION_DATA ? cut_data : cut_section)(state, section))
            return error_out_of_memory(error, state->image.path, section->size);
    }
    state->dropped_sections = count_dropped(state);
    return cut_certificates(state, error) && remove_relocations(state, error);
}
