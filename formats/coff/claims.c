/*
 * Finds out whether other parts of a COFF image use a section's bytes: see coff/state.h.
 */
#include "formats/coff/state.h"

bool coff_covers_all(const struct coff_section *counters, uint64_t first, uint64_t count)
{
    uint64_t begin = counters->address + 1, end = counters->address + counters->VirtualSize - 1;

    return (first == begin && count == end - begin) ||
           (first == align_up(begin, 8) && count * 8 == end - first);
}

/* Whether a part of the file overlaps the symbols or their names. */
static bool overlaps_symbols(const struct coff_image *image, uint64_t offset, uint64_t size)
{
    uint64_t table = image->symbols_offset;
    uint64_t table_size = (uint64_t)image->symbol_count * COFF_SYMBOL_SIZE + image->strings.size;

    return table != 0 && ranges_overlap(offset, size, table, table_size);
}

static bool holds_directory(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *certificates = &image->directories[DIRECTORY_CERTIFICATE];

    for (size_t i = 0; i < DIRECTORY_COUNT; i++) {
        if (i != DIRECTORY_CERTIFICATE &&
            ranges_overlap(image->directories[i].rva, image->directories[i].size,
                           section->VirtualAddress, section->VirtualSize))
            return true;
    }
    return ranges_overlap(certificates->rva, certificates->size, section->PointerToRawData,
                          section->SizeOfRawData);
}

/* Whether the image exports something in the section. Also true if the exports cannot be read. */
static bool is_exported(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_EXPORT];
    struct bytes header, addresses;
    uint32_t count;

    if (directory->size == 0)
        return false;
    if (!coff_bytes_at(image, image->image_base + directory->rva, 40, &header))
        return true;
    count = load_u32(header.data + 20, false);
    if (count != 0 && !coff_bytes_at(image, image->image_base + load_u32(header.data + 28, false),
                                     (uint64_t)count * 4, &addresses))
        return true;
    for (uint32_t i = 0; i < count; i++) {
        if (load_u32(addresses.data + i * (size_t)4, false) - section->VirtualAddress <
            section->VirtualSize)
            return true;
    }
    return false;
}

/* What the debug directory describes may be in any section, or outside all of them. */
static bool holds_debug_data(const struct coff_image *image, const struct coff_section *section)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_DEBUG];
    struct bytes entries;

    if (directory->size == 0)
        return false;
    if (!coff_bytes_at(image, image->image_base + directory->rva, directory->size, &entries))
        return true;
    for (uint64_t i = 0; i + COFF_DEBUG_ENTRY_SIZE <= entries.size; i += COFF_DEBUG_ENTRY_SIZE) {
        const uint8_t *entry = entries.data + i;

        if (ranges_overlap(load_u32(entry + DEBUG_POINTER_TO_RAW_DATA, false),
                           load_u32(entry + DEBUG_SIZE_OF_DATA, false), section->PointerToRawData,
                           section->SizeOfRawData))
            return true;
    }
    return false;
}

bool coff_is_claimed(const struct coff_image *image, const struct coff_section *section)
{
    return overlaps_symbols(image, section->PointerToRawData, section->SizeOfRawData) ||
           holds_directory(image, section) || holds_debug_data(image, section);
}

bool coff_check_claims(struct coff_state *state, enum section_kind kind)
{
    const struct coff_image *image = &state->image;
    const struct coff_section *section = &image->sections[state->base.section_index[kind]];

    if (section->VirtualSize == 0)
        return image_plan_keep(state->base.plan, kind,
                               "its size in memory is given only by its size in the file");
    if (coff_is_claimed(image, section))
        return image_plan_keep(state->base.plan, kind, "it overlaps another part of the image");
    if (is_exported(image, section))
        return image_plan_keep(state->base.plan, kind, "the image exports something in it");
    if (section->PointerToRelocations != 0 || section->PointerToLinenumbers != 0)
        return image_plan_keep(state->base.plan, kind,
                               "it has relocations or line numbers of its own");
    return true;
}
