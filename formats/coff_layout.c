/*
 * Taking the bytes of removed sections out of a COFF image: see coff_plan.h.
 *
 * In memory nothing moves: a section keeps its VirtualSize, and the loader fills with zeros what
 * the file does not have. In the file a removed section is cut whole; of the data section stays
 * what the marker and the stub record need, in units of FileAlignment, so that everything behind
 * stays aligned. So it is where the data is at the end of another section.
 */
#include <stdio.h>

#include "formats/coff_plan.h"

static bool cut_section(struct coff_plan_state *state, const struct image_section *section)
{
    const struct coff_section *header = &state->image.sections[state->section_index[section->kind]];

    return edit_cut(&state->plan->edits, header->PointerToRawData, header->SizeOfRawData);
}

/* Puts the stub in front of zeros up to the offset `zeros_end`, and cuts from there to `end`. */
static bool leave_stub(struct coff_plan_state *state, const struct image_section *section,
                       uint64_t zeros_end, uint64_t end)
{
    struct edit_script *edits = &state->plan->edits;
    uint64_t record_size = state->record_layout.record_size;
    uint64_t stub_end = section->offset + record_size;

    state->plan->stub_uuid_literal = edits->literals.size;
    return edit_replace(edits, section->offset, record_size,
                        (struct bytes){state->stub, record_size}) &&
           edit_replace_by_zeros(edits, stub_end, zeros_end - stub_end, zeros_end - stub_end) &&
           edit_cut(edits, zeros_end, end - zeros_end);
}

/* Where what stays of a section ends in the file, when nothing behind the stub stays. */
static uint64_t end_behind_stub(const struct coff_plan_state *state,
                                const struct image_section *data, const struct coff_section *header)
{
    uint64_t start = header->PointerToRawData;
    uint64_t kept = align_up(data->offset + state->record_layout.record_size - start,
                             state->image.file_alignment);

    return start + (kept < header->SizeOfRawData ? kept : header->SizeOfRawData);
}

/* Marker, stub, zeros. */
static bool cut_data(struct coff_plan_state *state, const struct image_section *section)
{
    const struct coff_section *header = &state->image.sections[state->section_index[SECTION_DATA]];
    uint64_t zeros_end = end_behind_stub(state, section, header);

    state->kept_raw_size[SECTION_DATA] = (uint32_t)(zeros_end - header->PointerToRawData);
    return leave_stub(state, section, zeros_end,
                      (uint64_t)header->PointerToRawData + header->SizeOfRawData);
}

/* Whether there is nothing behind the records but zeros, which memory has by itself, and which
 * nothing else in the file has a claim to. */
static bool nothing_follows(const struct coff_plan_state *state, const struct image_section *data,
                            const struct coff_section *host)
{
    uint64_t end = data->offset + data->size;
    uint32_t before = (uint32_t)(end - host->PointerToRawData);
    struct coff_section behind = {
        .VirtualAddress = host->VirtualAddress + before,
        .VirtualSize = host->VirtualSize - before,
        .PointerToRawData = (uint32_t)end,
        .SizeOfRawData = host->SizeOfRawData - before,
    };
    struct bytes rest;

    return bytes_slice(state->image.file, end, behind.SizeOfRawData, &rest) &&
           bytes_all_zero(rest) && !coff_is_claimed(&state->image, &behind);
}

/* Where data is a part of another section, that one ends in the file behind the stub, if it can. */
static bool cut_merged_data(struct coff_plan_state *state, struct image_section *section)
{
    const struct coff_section *host = &state->image.sections[state->data_host];
    uint64_t records_end = section->offset + section->size, zeros_end;

    state->host_raw_size = host->SizeOfRawData;
    if (!nothing_follows(state, section, host)) {
        section->fate = SECTION_ZEROED;
        snprintf(section->reason, sizeof(section->reason),
                 "the linker merged it into %s, where other data follows", host->name);
        return leave_stub(state, section, records_end, records_end);
    }
    zeros_end = end_behind_stub(state, section, host);
    state->host_raw_size = (uint32_t)(zeros_end - host->PointerToRawData);
    return leave_stub(state, section, zeros_end,
                      (uint64_t)host->PointerToRawData + host->SizeOfRawData);
}

static bool take_out(struct coff_plan_state *state, struct image_section *section)
{
    if (section->kind != SECTION_DATA)
        return cut_section(state, section);
    return state->data_host == NO_INDEX ? cut_data(state, section)
                                        : cut_merged_data(state, section);
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
        removed += state->plan->sections[i].fate != SECTION_STAYS &&
                   (state->plan->sections[i].kind != SECTION_DATA || state->data_host == NO_INDEX);
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
        const struct coff_section *header;

        if (section->fate == SECTION_STAYS)
            continue;
        header = &state->image.sections[state->section_index[section->kind]];
        ranges[count++] = (struct coff_range){header->address, header->VirtualSize};
    }
    if (coff_relocations_remove(&state->image, ranges, count, &state->plan->edits,
                                &state->base_relocation_size, &reason))
        return true;
    return reason == NULL
               ? error_out_of_memory(error, state->image.path, state->base_relocation_size)
               : error_set(error, "%s: %s; link it again", state->image.path, reason);
}

bool coff_layout_plan(struct coff_plan_state *state, struct error *error)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        struct image_section *section = &state->plan->sections[i];

        if (section->fate != SECTION_STAYS && !take_out(state, section))
            return error_out_of_memory(error, state->image.path, section->size);
    }
    state->dropped_sections = count_dropped(state);
    return cut_certificates(state, error) && remove_relocations(state, error);
}
