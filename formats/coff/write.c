/*
 * Writes the headers and tables of a stripped COFF image.
 *
 * Every field that is an offset in the file, or a sum of sizes, is updated; the rest stays as the
 * linker wrote it.
 */
#include "formats/coff/coff.h"

#include <string.h>

#include "common/edit/edit.h"

/* A modified copy of the headers, or of the debug directory, addressed by offsets in it. */
static void set_u32(struct buffer *copy, uint64_t offset, uint32_t value)
{
    store_u32(copy->data + offset, value, false);
}

/* An offset of the original that is not 0 becomes that in the stripped image. */
static void move_offset(const struct coff_state *state, struct buffer *copy, uint64_t field)
{
    uint32_t offset = load_u32(copy->data + field, false);

    if (offset != 0)
        set_u32(copy, field, (uint32_t)edit_script_map(&state->base.plan->edits, offset));
}

/* Adds the bytes of data that the file loses. */
static void change_section(struct coff_state *state, struct buffer *headers, size_t index,
                           uint64_t *less_data)
{
    const struct coff_section *section = &state->image.sections[index];
    bool removed = coff_is_removed(state, index);
    bool is_emptied = section->kept_size == 0 && (section->SizeOfRawData != 0 || removed);
    uint64_t header = section->header_offset;

    if ((section->Characteristics & IMAGE_SCN_CNT_INITIALIZED_DATA) != 0)
        *less_data += section->SizeOfRawData - section->kept_size;
    if (index >= state->image.section_count - state->dropped_sections) {
        memset(headers->data + header, 0, COFF_SECTION_HEADER_SIZE);
        return;
    }
    set_u32(headers, header + COFF_SECTION_SIZE_OF_RAW_DATA, section->kept_size);
    /* GNU strip leaves out empty sections, but not those of uninitialized data. */
    if (is_emptied && !removed)
        set_u32(headers, header + COFF_SECTION_CHARACTERISTICS,
                (section->Characteristics & ~IMAGE_SCN_CNT_INITIALIZED_DATA) |
                    IMAGE_SCN_CNT_UNINITIALIZED_DATA);
    if (is_emptied)
        set_u32(headers, header + COFF_SECTION_POINTER_TO_RAW_DATA, 0);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_RAW_DATA);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_RELOCATIONS);
    move_offset(state, headers, header + COFF_SECTION_POINTER_TO_LINENUMBERS);
}

static void change_headers(struct coff_state *state, struct buffer *headers)
{
    const struct coff_image *image = &state->image;
    uint64_t data_size = image->optional_header + OPTIONAL_SIZE_OF_INITIALIZED_DATA;
    uint32_t old_size = load_u32(headers->data + data_size, false);
    size_t left = image->section_count - state->dropped_sections;
    const struct coff_section *last = &image->sections[left == 0 ? 0 : left - 1];
    uint64_t less_data = 0;

    move_offset(state, headers, image->coff_header + HEADER_POINTER_TO_SYMBOL_TABLE);
    for (size_t i = 0; i < image->section_count; i++)
        change_section(state, headers, i, &less_data);
    if (less_data <= old_size)
        set_u32(headers, data_size, old_size - (uint32_t)less_data);
    if (state->dropped_sections != 0 && left != 0) {
        uint64_t size = last->VirtualSize != 0 ? last->VirtualSize : last->SizeOfRawData;

        store_u16(headers->data + image->coff_header + HEADER_NUMBER_OF_SECTIONS, (uint16_t)left,
                  false);
        set_u32(headers, image->optional_header + OPTIONAL_SIZE_OF_IMAGE,
                (uint32_t)align_up(last->VirtualAddress + size, image->section_alignment));
    }
    if (image->directories[DIRECTORY_BASE_RELOCATION].size != state->base_relocation_size)
        set_u32(headers, image->directories_offset + DIRECTORY_BASE_RELOCATION * 8 + 4,
                state->base_relocation_size);
    if (state->drops_certificates)
        memset(headers->data + image->directories_offset + DIRECTORY_CERTIFICATE * 8, 0, 8);
}

/* Adds the edits of the headers. The checksum is an edit of its own, which is filled in last. */
static bool add_edits(struct coff_state *state, struct bytes headers, struct bytes debug,
                      uint64_t debug_offset)
{
    struct edit_script *edits = &state->base.plan->edits;
    struct bytes file = state->image.file;
    uint64_t check_sum = state->image.optional_header + OPTIONAL_CHECK_SUM, behind = check_sum + 4;
    static const uint8_t zeros[4];

    state->check_sum_literal = SIZE_MAX;
    if (!edit_overwrite_differences(edits, file, 0, (struct bytes){headers.data, check_sum}) ||
        !edit_overwrite_differences(edits, file, behind,
                                    (struct bytes){headers.data + behind, headers.size - behind}) ||
        !edit_overwrite_differences(edits, file, debug_offset, debug))
        return false;
    if (state->image.check_sum == 0)
        return true;
    state->check_sum_literal = edits->literals.size;
    return edit_replace(edits, check_sum, sizeof(zeros), (struct bytes){zeros, sizeof(zeros)});
}

bool coff_write(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);
    const struct coff_image *image = &state->image;
    const struct coff_section *last = &image->sections[image->section_count - 1];
    uint64_t size = last->header_offset + COFF_SECTION_HEADER_SIZE;
    struct buffer headers = {0}, debug = {0};
    struct bytes entries;
    bool done;

    if (size > image->size_of_headers)
        return error_set(error, "%s: damaged COFF image: SizeOfHeaders is wrong; link it again",
                         image->path);
    coff_directory_bytes(image, DIRECTORY_DEBUG, &entries);
    done = buffer_append(&headers, image->file.data, (size_t)size) &&
           buffer_append(&debug, entries.data, (size_t)entries.size);
    if (done) {
        change_headers(state, &headers);
        for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= debug.size; i += COFF_DEBUG_ENTRY_SIZE)
            move_offset(state, &debug, i + DEBUG_POINTER_TO_RAW_DATA);
        done = add_edits(state, buffer_view(&headers), buffer_view(&debug),
                         (uint64_t)(entries.data - image->file.data));
    }
    buffer_free(&headers);
    buffer_free(&debug);
    return done || error_out_of_memory(error, image->path, size);
}

/* ---- the checksum ---- */

/* The checksum in the optional header: the sum of all 16-bit words, with carries added back, plus
 * the size of the file. Drivers and some system libraries must have a correct one. */
struct summing {
    uint64_t words;
    uint64_t position;
};

static bool add_words(void *context, struct bytes part, struct error *error)
{
    struct summing *sum = context;
    uint64_t i = 0;

    (void)error;
    if (sum->position % 2 != 0 && part.size != 0)
        sum->words += (uint64_t)part.data[i++] << 8;
    for (; i + 2 <= part.size; i += 2)
        sum->words += load_u16(part.data + i, false);
    if (i < part.size)
        sum->words += part.data[i];
    sum->position += part.size;
    return true;
}

bool coff_seal(struct planning *planning, struct error *error)
{
    struct coff_state *state = coff_state_of(planning);
    struct edit_script *edits = &planning->plan->edits;
    struct summing sum = {0};

    if (state->check_sum_literal == SIZE_MAX)
        return true;
    /* The checksum's own bytes are zero meanwhile. */
    if (!edit_script_stream(edits, planning->input, add_words, &sum, error))
        return false;
    while (sum.words >> 16 != 0)
        sum.words = (sum.words & 0xffff) + (sum.words >> 16);
    store_u32(edits->literals.data + state->check_sum_literal, (uint32_t)(sum.words + sum.position),
              false);
    return true;
}
