/*
 * Writing the headers and tables of a stripped COFF image: see coff/plan.h.
 *
 * Every field that is an offset in the file, or a sum of sizes, is brought up to date; the rest
 * stays as the linker wrote it.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/coff/check_sum.h"
#include "formats/coff/plan.h"

/* Where the byte at `offset` of the original is in the result. Nothing but what was cut itself has
 * offsets inside of a cut. The script is finished only later, so this cannot be asked of it. */
static uint32_t moved(const struct coff_plan_state *state, uint64_t offset)
{
    const struct edit_script *edits = &state->plan->edits;
    uint64_t result = offset;

    for (size_t i = 0; i < edits->count; i++) {
        if (edits->edits[i].offset + edits->edits[i].old_size <= offset)
            result += edits->edits[i].new_size - edits->edits[i].old_size;
    }
    return (uint32_t)result;
}

static enum section_kind removed_kind(const struct coff_plan_state *state, size_t index)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *section = &state->plan->sections[i];

        if (section->fate != SECTION_STAYS && state->section_index[section->kind] == index)
            return section->kind;
    }
    return 0;
}

/* A copy of the headers that is changed, with the file's offsets. */
struct headers {
    uint8_t *bytes;
    uint64_t size;
};

static void set_u32(struct headers *headers, uint64_t offset, uint32_t value)
{
    store_u32(headers->bytes + offset, value, false);
}

static void change_section(struct coff_plan_state *state, struct headers *headers, size_t index,
                           uint64_t *less_data)
{
    const struct coff_section *section = &state->image.sections[index];
    enum section_kind kind = removed_kind(state, index);
    uint32_t size = kind == 0 ? section->SizeOfRawData : state->kept_raw_size[kind];
    uint64_t header = section->header_offset;

    if (index == state->data_host && coff_plan_removes(state, SECTION_DATA))
        size = state->host_raw_size;
    if ((section->Characteristics & IMAGE_SCN_CNT_INITIALIZED_DATA) != 0)
        *less_data += section->SizeOfRawData - size;
    if (index >= state->image.section_count - state->dropped_sections) {
        memset(headers->bytes + header, 0, COFF_SECTION_HEADER_SIZE);
        return;
    }
    set_u32(headers, header + SECTION_SIZE_OF_RAW_DATA, size);
    if (section->PointerToRawData != 0)
        set_u32(headers, header + SECTION_POINTER_TO_RAW_DATA,
                size == 0 && kind != 0 ? 0 : moved(state, section->PointerToRawData));
    if (section->PointerToRelocations != 0)
        set_u32(headers, header + SECTION_POINTER_TO_RELOCATIONS,
                moved(state, section->PointerToRelocations));
    if (section->PointerToLinenumbers != 0)
        set_u32(headers, header + SECTION_POINTER_TO_LINENUMBERS,
                moved(state, section->PointerToLinenumbers));
}

static void change_size_of_image(struct coff_plan_state *state, struct headers *headers)
{
    const struct coff_image *image = &state->image;
    size_t left = image->section_count - state->dropped_sections;
    const struct coff_section *last;

    if (state->dropped_sections == 0 || left == 0)
        return;
    last = &image->sections[left - 1];
    store_u16(headers->bytes + image->coff_header + HEADER_NUMBER_OF_SECTIONS, (uint16_t)left,
              false);
    set_u32(headers, image->optional_header + OPTIONAL_SIZE_OF_IMAGE,
            (uint32_t)align_up(last->VirtualAddress + (uint64_t)(last->VirtualSize != 0
                                                                     ? last->VirtualSize
                                                                     : last->SizeOfRawData),
                               image->section_alignment));
}

static void change_directories(struct coff_plan_state *state, struct headers *headers)
{
    const struct coff_image *image = &state->image;
    uint64_t relocations = image->directories_offset + DIRECTORY_BASE_RELOCATION * 8;
    uint64_t certificates = image->directories_offset + DIRECTORY_CERTIFICATE * 8;

    if (image->directories[DIRECTORY_BASE_RELOCATION].size != state->base_relocation_size)
        set_u32(headers, relocations + 4, state->base_relocation_size);
    if (state->drops_certificates)
        memset(headers->bytes + certificates, 0, 8);
}

static void change_headers(struct coff_plan_state *state, struct headers *headers)
{
    const struct coff_image *image = &state->image;
    uint64_t data_size = image->optional_header + OPTIONAL_SIZE_OF_INITIALIZED_DATA;
    uint32_t old_size = load_u32(headers->bytes + data_size, false);
    uint64_t less_data = 0;

    if (image->symbols_offset != 0)
        set_u32(headers, image->coff_header + HEADER_POINTER_TO_SYMBOL_TABLE,
                moved(state, image->symbols_offset));
    for (size_t i = 0; i < image->section_count; i++)
        change_section(state, headers, i, &less_data);
    if (less_data <= old_size)
        set_u32(headers, data_size, old_size - (uint32_t)less_data);
    change_size_of_image(state, headers);
    change_directories(state, headers);
}

/* The headers change, but for the checksum, which is an edit of its own. */
static bool plan_headers(struct coff_plan_state *state, uint64_t size)
{
    const struct coff_image *image = &state->image;
    uint64_t check_sum = image->optional_header + OPTIONAL_CHECK_SUM;
    struct headers headers = {malloc((size_t)size), size};
    struct edit_script *edits = &state->plan->edits;
    static const uint8_t zeros[4];
    bool done;

    if (headers.bytes == NULL)
        return false;
    memcpy(headers.bytes, image->file.data, (size_t)size);
    change_headers(state, &headers);
    done = edit_overwrite_differences(edits, image->file, 0,
                                      (struct bytes){headers.bytes, check_sum}) &&
           edit_overwrite_differences(
               edits, image->file, check_sum + 4,
               (struct bytes){headers.bytes + check_sum + 4, size - check_sum - 4});
    if (done && image->check_sum != 0) {
        state->plan->check_sum_literal = edits->literals.size;
        done = edit_replace(edits, check_sum, 4, (struct bytes){zeros, 4});
    }
    free(headers.bytes);
    return done;
}

static bool plan_debug_directory(struct coff_plan_state *state)
{
    const struct coff_image *image = &state->image;
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    struct bytes entries;

    if (directory->size == 0 ||
        !coff_bytes_at(image, image->image_base + directory->rva, directory->size, &entries))
        return true;
    for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= entries.size; i += COFF_DEBUG_ENTRY_SIZE) {
        const uint8_t *field = entries.data + i + DEBUG_POINTER_TO_RAW_DATA;
        uint32_t offset = load_u32(field, false);
        uint8_t changed[4];

        if (offset == 0)
            continue;
        store_u32(changed, moved(state, offset), false);
        if (!edit_overwrite_differences(&state->plan->edits, image->file,
                                        (uint64_t)(field - image->file.data),
                                        (struct bytes){changed, sizeof(changed)}))
            return false;
    }
    return true;
}

bool coff_headers_plan(struct coff_plan_state *state, struct error *error)
{
    const struct coff_image *image = &state->image;
    const struct coff_section *last = &image->sections[image->section_count - 1];
    uint64_t size = last->header_offset + COFF_SECTION_HEADER_SIZE;

    if (size > image->size_of_headers)
        return error_set(error, "%s: damaged COFF image: SizeOfHeaders is wrong; link it again",
                         image->path);
    if (!plan_headers(state, size) || !plan_debug_directory(state))
        return error_out_of_memory(error, image->path, size);
    if (!edit_script_finish(&state->plan->edits, image->path, error))
        return false;
    if (state->plan->check_sum_literal != SIZE_MAX)
        coff_check_sum_plan(state->plan, image->input);
    return true;
}
