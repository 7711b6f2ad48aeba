/*
 * Writes the headers and tables of a stripped COFF image: see coff/state.h.
 *
 * Every field that is an offset in the file, or a sum of sizes, is updated; the rest stays as the
 * linker wrote it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/edit/apply.h"

#include "formats/coff/state.h"

/* Where the byte at `offset` of the original is in the stripped image. */
static uint32_t moved(const struct coff_state *state, uint64_t offset)
{
    return (uint32_t)edit_script_map(&state->base.plan->edits, offset);
}

static enum section_kind removed_kind(const struct coff_state *state, size_t index)
{
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];

        if (section->fate != FATE_STAYS && state->base.section_index[section->kind] == index)
            return section->kind;
    }
    return 0;
}

/* A modified copy of the headers, addressed by offsets in the file. */
struct headers {
    uint8_t *bytes;
    uint64_t size;
};

static void set_u32(struct headers *headers, uint64_t offset, uint32_t value)
{
    store_u32(headers->bytes + offset, value, false);
}

static void change_section(struct coff_state *state, struct headers *headers, size_t index,
                           uint64_t *less_data)
{
    const struct coff_section *section = &state->image.sections[index];
    bool is_emptied =
        section->kept_size == 0 && (section->SizeOfRawData != 0 || removed_kind(state, index) != 0);
    uint32_t size = section->kept_size;
    uint64_t header = section->header_offset;

    if ((section->Characteristics & IMAGE_SCN_CNT_INITIALIZED_DATA) != 0)
        *less_data += section->SizeOfRawData - size;
    if (index >= state->image.section_count - state->dropped_sections) {
        memset(headers->bytes + header, 0, COFF_SECTION_HEADER_SIZE);
        return;
    }
    set_u32(headers, header + COFF_SECTION_SIZE_OF_RAW_DATA, size);
    /* GNU strip leaves out empty sections, but not those of uninitialized data. */
    if (is_emptied && removed_kind(state, index) == 0)
        set_u32(headers, header + COFF_SECTION_CHARACTERISTICS,
                (section->Characteristics & ~IMAGE_SCN_CNT_INITIALIZED_DATA) |
                    IMAGE_SCN_CNT_UNINITIALIZED_DATA);
    if (section->PointerToRawData != 0)
        set_u32(headers, header + COFF_SECTION_POINTER_TO_RAW_DATA,
                is_emptied ? 0 : moved(state, section->PointerToRawData));
    if (section->PointerToRelocations != 0)
        set_u32(headers, header + COFF_SECTION_POINTER_TO_RELOCATIONS,
                moved(state, section->PointerToRelocations));
    if (section->PointerToLinenumbers != 0)
        set_u32(headers, header + COFF_SECTION_POINTER_TO_LINENUMBERS,
                moved(state, section->PointerToLinenumbers));
}

static void change_size_of_image(struct coff_state *state, struct headers *headers)
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

static void change_directories(struct coff_state *state, struct headers *headers)
{
    const struct coff_image *image = &state->image;
    uint64_t relocations = image->directories_offset + DIRECTORY_BASE_RELOCATION * 8;
    uint64_t certificates = image->directories_offset + DIRECTORY_CERTIFICATE * 8;

    if (image->directories[DIRECTORY_BASE_RELOCATION].size != state->base_relocation_size)
        set_u32(headers, relocations + 4, state->base_relocation_size);
    if (state->drops_certificates)
        memset(headers->bytes + certificates, 0, 8);
}

static void change_headers(struct coff_state *state, struct headers *headers)
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

/* Updates where the debug directory says that its data is in the file. */
static void change_debug_directory(struct coff_state *state, struct headers *entries)
{
    for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= entries->size; i += COFF_DEBUG_ENTRY_SIZE) {
        uint64_t field = i + DEBUG_POINTER_TO_RAW_DATA;
        uint32_t offset = load_u32(entries->bytes + field, false);

        if (offset != 0)
            set_u32(entries, field, moved(state, offset));
    }
}

static bool overwrite(struct coff_state *state, uint64_t offset, const uint8_t *bytes,
                      uint64_t size)
{
    return edit_overwrite_differences(&state->base.plan->edits, state->image.file, offset,
                                      (struct bytes){bytes, size});
}

/* Adds the edits of the headers. The checksum is an edit of its own, which is filled in last. */
static bool add_edits(struct coff_state *state, const struct headers *headers,
                      const struct headers *debug, uint64_t debug_offset)
{
    struct edit_script *edits = &state->base.plan->edits;
    uint64_t check_sum = state->image.optional_header + OPTIONAL_CHECK_SUM, behind = check_sum + 4;
    static const uint8_t zeros[4];

    state->check_sum_literal = SIZE_MAX;
    if (!overwrite(state, 0, headers->bytes, check_sum) ||
        !overwrite(state, behind, headers->bytes + behind, headers->size - behind) ||
        !overwrite(state, debug_offset, debug->bytes, debug->size))
        return false;
    if (state->image.check_sum == 0)
        return true;
    state->check_sum_literal = edits->literals.size;
    return edit_replace(edits, check_sum, sizeof(zeros), (struct bytes){zeros, sizeof(zeros)});
}

bool coff_write(struct planning *planning, struct error *error)
{
    struct coff_state *state = (struct coff_state *)planning;
    const struct coff_image *image = &state->image;
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    const struct coff_section *last = &image->sections[image->section_count - 1];
    uint64_t size = last->header_offset + COFF_SECTION_HEADER_SIZE;
    struct bytes entries = {image->file.data, 0};
    struct headers headers = {.size = size}, debug;
    bool done;

    if (size > image->size_of_headers)
        return error_set(error, "%s: damaged COFF image: SizeOfHeaders is wrong; link it again",
                         image->path);
    if (directory->size != 0)
        coff_bytes_at(image, image->image_base + directory->rva, directory->size, &entries);
    headers.bytes = malloc((size_t)size);
    debug = (struct headers){malloc((size_t)entries.size + 1), entries.size};
    done = headers.bytes != NULL && debug.bytes != NULL;
    if (done) {
        memcpy(headers.bytes, image->file.data, (size_t)size);
        memcpy(debug.bytes, entries.data, (size_t)entries.size);
        change_headers(state, &headers);
        change_debug_directory(state, &debug);
        done = add_edits(state, &headers, &debug, (uint64_t)(entries.data - image->file.data));
    }
    free(headers.bytes);
    free(debug.bytes);
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
    struct coff_state *state = (struct coff_state *)planning;
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
