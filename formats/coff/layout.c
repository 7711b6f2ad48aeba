/*
 * Taking the bytes of removed sections out of a COFF image: see coff/plan.h.
 *
 * In memory nothing moves: a section keeps its VirtualSize, and the loader fills with zeros what
 * the file does not have. In the file a removed section is cut whole, but for what the stub record
 * and the tripwires need, in units of FileAlignment, so that everything behind stays aligned. So it
 * is where the data is at the end of another section.
 *
 * The mapping's tripwire takes such a unit of its own. It would cost none to leave the header of
 * the section out, or to change its name, but then llvm-cov would take the image for one that never
 * had a mapping, and leave it out of a report of several images without a word. A section without
 * bytes in the file makes all of its versions crash.
 */
#include <stdio.h>

#include "common/llvm/tripwire.h"
#include "formats/coff/plan.h"

/* Puts the head at the start of what goes, in front of zeros up to the offset `zeros_end`, and cuts
 * from there to `end`. */
static bool leave_head(struct coff_plan_state *state, const struct image_section *section,
                       struct bytes head, uint64_t zeros_end, uint64_t end)
{
    struct edit_script *edits = &state->plan->edits;
    uint64_t head_end = section->offset + head.size;

    if (section->kind == SECTION_DATA)
        state->plan->stub_uuid_literal = edits->literals.size;
    else if (section->kind == SECTION_NAMES)
        state->plan->tripwire_literal = edits->literals.size;
    return edit_replace(edits, section->offset, head.size, head) &&
           edit_replace_by_zeros(edits, head_end, zeros_end - head_end, zeros_end - head_end) &&
           edit_cut(edits, zeros_end, end - zeros_end);
}

/* Where what stays of a section ends in the file, when nothing behind the head stays. */
static uint64_t end_behind_head(const struct coff_plan_state *state,
                                const struct image_section *section, struct bytes head,
                                const struct coff_section *header)
{
    uint64_t start = header->PointerToRawData;
    uint64_t kept = align_up(section->offset + head.size - start, state->image.file_alignment);

    return start + (kept < header->SizeOfRawData ? kept : header->SizeOfRawData);
}

/* A marker where the runtime has one, the head, zeros; nothing where the head is empty. */
static bool cut_section(struct coff_plan_state *state, const struct image_section *section,
                        struct bytes head)
{
    const struct coff_section *header = &state->image.sections[state->section_index[section->kind]];
    uint64_t zeros_end;

    if (head.size == 0)
        return edit_cut(&state->plan->edits, header->PointerToRawData, header->SizeOfRawData);
    zeros_end = end_behind_head(state, section, head, header);
    state->kept_raw_size[section->kind] = (uint32_t)(zeros_end - header->PointerToRawData);
    return leave_head(state, section, head, zeros_end,
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
static bool cut_merged_data(struct coff_plan_state *state, struct image_section *section,
                            struct bytes head)
{
    const struct coff_section *host = &state->image.sections[state->data_host];
    uint64_t records_end = section->offset + section->size, zeros_end;

    state->host_raw_size = host->SizeOfRawData;
    if (!nothing_follows(state, section, host)) {
        section->fate = SECTION_ZEROED;
        snprintf(section->reason, sizeof(section->reason),
                 "the linker merged it into %s, where other data follows", host->name);
        return leave_head(state, section, head, records_end, records_end);
    }
    zeros_end = end_behind_head(state, section, head, host);
    state->host_raw_size = (uint32_t)(zeros_end - host->PointerToRawData);
    return leave_head(state, section, head, zeros_end,
                      (uint64_t)host->PointerToRawData + host->SizeOfRawData);
}

/* The tripwire of the names gets its bytes with the UUID. */
static bool take_out(struct coff_plan_state *state, struct image_section *section)
{
    static const uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    uint8_t record[TRIPWIRE_MAPPING_SIZE];
    struct bytes head = {0};

    if (section->kind == SECTION_DATA) {
        head = (struct bytes){state->stub, state->record_layout.record_size};
    } else if (section->kind == SECTION_NAMES) {
        head = (struct bytes){tripwire, state->plan->tripwire_size};
    } else if (section->kind == SECTION_COVMAP && section->size >= sizeof(record)) {
        tripwire_write_mapping(record, false);
        head = (struct bytes){record, sizeof(record)};
    }
    return section->kind == SECTION_DATA && state->data_host != NO_INDEX
               ? cut_merged_data(state, section, head)
               : cut_section(state, section, head);
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

/* Sections at the end of the table of which the file has nothing need not even stay as addresses,
 * unless symbols count on their numbers. One removed section stays in the table: by that the image
 * is known to be split. */
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
                    state->kept_raw_size[section->kind] == 0 &&
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
