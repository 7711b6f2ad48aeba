/*
 * Takes the bytes of removed sections out of a COFF image: see coff/state.h.
 *
 * In memory nothing moves: a section keeps its VirtualSize, and the loader fills with zeros what is
 * not in the file. From the file a removed section is cut in units of FileAlignment, so that
 * everything behind it stays aligned; what the stub record and the tripwires need stays. The same
 * is done with data at the end of another section, and with the zeros at the end of the sections
 * that the program counts in.
 *
 * The mapping's tripwire takes such a unit of its own. Leaving out the section's header, or
 * changing its name, would cost nothing, but then llvm-cov would take the image for one that never
 * had a mapping, and silently leave it out of a report on several images. A section without bytes
 * in the file makes all versions of llvm-cov crash.
 */
#include <stdio.h>

#include "formats/coff/state.h"

/* Where the part of a section that stays ends in the file, if nothing behind `rest` stays. */
static uint64_t end_behind_rest(const struct coff_state *state, const struct section *section,
                                struct bytes rest, const struct coff_section *header)
{
    uint64_t start = header->PointerToRawData;
    uint64_t kept = align_up(section->offset + rest.size - start, state->image.file_alignment);

    return start + (kept < header->SizeOfRawData ? kept : header->SizeOfRawData);
}

/* Leaves a marker if the runtime has one there, `rest`, and zeros; nothing if `rest` is empty. */
static bool cut_section(struct coff_state *state, const struct section *section, struct bytes rest)
{
    struct coff_section *header = &state->image.sections[state->base.section_index[section->kind]];
    uint64_t zeros_end;

    header->kept_size = 0;
    if (rest.size == 0)
        return edit_cut(&state->base.plan->edits, header->PointerToRawData, header->SizeOfRawData);
    zeros_end = end_behind_rest(state, section, rest, header);
    header->kept_size = (uint32_t)(zeros_end - header->PointerToRawData);
    return planning_empty(&state->base, section, rest, zeros_end,
                          header->PointerToRawData + (uint64_t)header->SizeOfRawData);
}

/* Whether the records are followed only by zeros, which the loader supplies anyway, and nothing
 * else in the image uses those bytes. */
static bool nothing_follows(const struct coff_state *state, const struct section *data,
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

/* Whether the bitmap is in the bytes of `host` behind the records. If it were cut, it would still
 * be zeros in memory, but be found no more in the stripped image (add_stub in coff/merged.c). */
static bool bitmap_follows(const struct coff_state *state, const struct section *data,
                           const struct coff_section *host)
{
    const struct section *bitmap = image_plan_section(state->base.plan, SECTION_BITMAP);

    return bitmap != NULL && bitmap->size != 0 && bitmap->offset > data->offset &&
           bitmap->offset - host->PointerToRawData < host->SizeOfRawData;
}

/* If data is a part of another section, cuts that section behind the stub if possible. */
static bool cut_merged_data(struct coff_state *state, struct section *section, struct bytes rest)
{
    struct coff_section *host = &state->image.sections[state->data_host];
    uint64_t records_end = section->offset + section->size, zeros_end;

    if (!nothing_follows(state, section, host) || bitmap_follows(state, section, host)) {
        section->fate = FATE_ZEROED;
        image_plan_explain(state->base.plan, section,
                           "the linker merged it into %s, where other data follows", host->name);
        return planning_empty(&state->base, section, rest, records_end, records_end);
    }
    zeros_end = end_behind_rest(state, section, rest, host);
    host->kept_size = (uint32_t)(zeros_end - host->PointerToRawData);
    return planning_empty(&state->base, section, rest, zeros_end,
                          host->PointerToRawData + (uint64_t)host->SizeOfRawData);
}

/* Counters, bitmap and value nodes lose the zeros at their ends if nothing else uses these bytes.
 */
static bool cut_zeros(struct coff_state *state)
{
    static const char *const names[] = {".lprfc", ".lprfb", ".lprfnd"};
    bool done = true;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && done; i++) {
        size_t index = coff_section_find(&state->image, names[i], NO_INDEX);
        struct coff_section *section = index == NO_INDEX ? NULL : &state->image.sections[index];
        uint64_t used;
        struct bytes bytes;

        if (section == NULL || section->VirtualSize == 0 || section->PointerToRelocations != 0 ||
            section->PointerToLinenumbers != 0 || coff_is_claimed(&state->image, section) ||
            !bytes_slice(state->image.file, section->PointerToRawData, section->SizeOfRawData,
                         &bytes))
            continue;
        for (used = bytes.size; used > 0 && bytes.data[used - 1] == 0; used--)
            continue;
        section->kept_size = (uint32_t)align_up(used, state->image.file_alignment);
        done = edit_cut(&state->base.plan->edits, section->PointerToRawData + section->kept_size,
                        section->SizeOfRawData - section->kept_size);
        state->base.plan->zeros_size += section->SizeOfRawData - section->kept_size;
    }
    return done;
}

static bool take_out(struct coff_state *state, struct section *section)
{
    struct bytes rest = planning_rest(&state->base, section->kind, section->size);

    return section->kind == SECTION_DATA && state->data_host != NO_INDEX
               ? cut_merged_data(state, section, rest)
               : cut_section(state, section, rest);
}

static bool check_signature(struct coff_state *state, struct error *error)
{
    if (state->image.directories[DIRECTORY_CERTIFICATE].size == 0)
        return true;
    if (!state->base.options->drop_signature)
        return error_set(error,
                         "%s: the image is signed, and a split makes the signature invalid; split "
                         "it before it is signed, or give --drop-signature and sign the stripped "
                         "image",
                         state->image.path);
    state->drops_certificates = true;
    return true;
}

static bool cut_certificates(struct coff_state *state, struct error *error)
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
    return edit_cut(&state->base.plan->edits, directory->rva, directory->size) ||
           error_out_of_memory(error, state->image.path, directory->size);
}

/* Sections at the end of the table that have no bytes in the file need not even keep their
 * addresses, unless symbols refer to their numbers. One removed section stays in the table, so that
 * the image is recognized as split. */
static size_t count_dropped(struct coff_state *state)
{
    size_t dropped = 0, removed = 0;

    for (size_t i = 0; i < state->base.plan->section_count; i++)
        removed +=
            state->base.plan->sections[i].fate != FATE_STAYS &&
            (state->base.plan->sections[i].kind != SECTION_DATA || state->data_host == NO_INDEX);
    if (state->image.symbols_offset != 0)
        return 0;
    while (dropped + 1 < removed) {
        size_t last = state->image.section_count - 1 - dropped;
        bool goes = false;

        for (size_t i = 0; i < state->base.plan->section_count; i++) {
            const struct section *section = &state->base.plan->sections[i];

            goes |= section->fate != FATE_STAYS && section->kind != SECTION_DATA &&
                    state->image.sections[last].kept_size == 0 &&
                    state->base.section_index[section->kind] == last;
        }
        if (!goes)
            break;
        dropped++;
    }
    return dropped;
}

static bool remove_relocations(struct coff_state *state, struct error *error)
{
    struct coff_range ranges[SECTION_KIND_MAX];
    size_t count = 0;
    const char *reason = NULL;

    state->base_relocation_size = state->image.directories[DIRECTORY_BASE_RELOCATION].size;
    if ((state->image.characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        return true;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        const struct coff_section *header;

        if (section->fate == FATE_STAYS)
            continue;
        header = &state->image.sections[state->base.section_index[section->kind]];
        ranges[count++] = (struct coff_range){header->address, header->VirtualSize};
    }
    if (coff_relocations_remove(&state->image, ranges, count, &state->base.plan->edits,
                                &state->base_relocation_size, &reason))
        return true;
    return reason == NULL
               ? error_out_of_memory(error, state->image.path, state->base_relocation_size)
               : error_set(error, "%s: %s; link it again", state->image.path, reason);
}

bool coff_layout(struct planning *planning, struct error *error)
{
    struct coff_state *state = (struct coff_state *)planning;
    struct image_plan *plan = planning->plan;
    bool removes = false;

    if (!check_signature(state, error))
        return false;
    for (size_t i = 0; i < plan->section_count; i++) {
        struct section *section = &plan->sections[i];

        if (section->fate != FATE_STAYS && !take_out(state, section))
            return error_out_of_memory(error, planning->input->path, section->size);
        removes |= section->fate != FATE_STAYS;
    }
    if (removes && (planning->options->sections & SECTION_ZEROS) != 0 && !cut_zeros(state))
        return error_out_of_memory(error, planning->input->path, plan->zeros_size);
    state->dropped_sections = count_dropped(state);
    return cut_certificates(state, error) && remove_relocations(state, error);
}
