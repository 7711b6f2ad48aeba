/*
 * Base relocations, which list every absolute address in the image, and the removal of those that
 * apply to removed bytes.
 *
 * The table is a list of blocks, one for each page. A block has the page's RVA, its own size, and
 * 16 bits for each relocation: a type and an offset in the page.
 */
#include "formats/coff/coff.h"

#define BLOCK_HEADER_SIZE        8
#define BLOCK_ALIGNMENT          4

#define IMAGE_REL_BASED_ABSOLUTE 0 /* padding */
#define IMAGE_REL_BASED_HIGHLOW  3
#define IMAGE_REL_BASED_DIR64    10

static const char unreadable[] = "its base relocations cannot be read";

/* Takes the header of a block off the table; *entries then has what follows it. */
static uint32_t take_block(struct cursor *table, struct cursor *entries)
{
    uint32_t page = cursor_u32(table), size = cursor_u32(table);

    if (size < BLOCK_HEADER_SIZE || size % sizeof(uint16_t) != 0)
        cursor_spoil(table);
    *entries = cursor_open(cursor_bytes(table, size - BLOCK_HEADER_SIZE), false, false);
    return page;
}

static uint64_t entry_address(const struct coff_image *image, uint32_t page, uint16_t entry)
{
    return image->image_base + page + (entry & 0xfff);
}

struct coff_relocations coff_relocations_open(const struct coff_image *image)
{
    struct coff_relocations relocations = {.image = image};

    if ((image->characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        relocations.reason = "the image has no base relocations, which tell where addresses are; "
                             "link it without /fixed (GNU ld: with --dynamicbase)";
    else if (!coff_directory_bytes(image, DIRECTORY_BASE_RELOCATION, &relocations.bytes))
        relocations.reason = unreadable;
    else
        relocations.table = cursor_open(relocations.bytes, false, false);
    return relocations;
}

bool coff_relocations_next(struct coff_relocations *relocations, struct coff_relocation *relocation)
{
    const struct coff_image *image = relocations->image;

    while (relocations->reason == NULL) {
        uint16_t entry;
        size_t size;
        struct bytes word;

        if (cursor_left(&relocations->entries) == 0) {
            if (cursor_left(&relocations->table) == 0)
                return false;
            relocations->page = take_block(&relocations->table, &relocations->entries);
            relocations->reason = relocations->table.bad ? unreadable : NULL;
            continue;
        }
        entry = cursor_u16(&relocations->entries);
        if (entry >> 12 == IMAGE_REL_BASED_ABSOLUTE)
            continue;
        /* In 64-bit images GNU ld writes a few of 32 bits, for addresses of which only one half is
         * stored. */
        size = entry >> 12 == IMAGE_REL_BASED_DIR64 ? 8 : 4;
        relocation->address = entry_address(image, relocations->page, entry);
        if ((size == 4 && entry >> 12 != IMAGE_REL_BASED_HIGHLOW) || size > image->pointer_size ||
            !coff_bytes_at(image, relocation->address, size, &word)) {
            relocations->reason = "its base relocations are of a kind that covsplit does not know";
            return false;
        }
        relocation->target =
            size == 8 ? load_u64(word.data, false)
                      : (image->image_base & ~(uint64_t)UINT32_MAX) | load_u32(word.data, false);
        return true;
    }
    return false;
}

/* ---- removing ---- */

static bool in_ranges(uint64_t address, const struct coff_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (range_within(address, 1, ranges[i].address, ranges[i].size))
            return true;
    }
    return false;
}

/* Appends the block without the entries in the ranges; appends nothing if no entry stays. True if
 * entries were left out. */
static bool append_block(const struct coff_image *image, uint32_t page, struct cursor entries,
                         const struct coff_range *ranges, size_t count, struct buffer *result)
{
    static const uint8_t padding[2];
    size_t start = result->size;
    bool removed = false;

    buffer_append_zeros(result, BLOCK_HEADER_SIZE);
    while (cursor_left(&entries) != 0) {
        const uint8_t *at = entries.at;
        uint16_t entry = cursor_u16(&entries);

        if (entry >> 12 == IMAGE_REL_BASED_ABSOLUTE)
            continue;
        if (in_ranges(entry_address(image, page, entry), ranges, count))
            removed = true;
        else
            buffer_append(result, at, sizeof(entry));
    }
    if (result->size == start + BLOCK_HEADER_SIZE) {
        result->size = start;
        return removed;
    }
    if ((result->size - start) % BLOCK_ALIGNMENT != 0)
        buffer_append(result, padding, sizeof(padding));
    if (!result->failed) {
        store_u32(result->data + start, page, false);
        store_u32(result->data + start + 4, (uint32_t)(result->size - start), false);
    }
    return removed;
}

bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason)
{
    struct coff_relocations all = coff_relocations_open(image);
    struct buffer result = {0};
    bool removed = false;

    *size = image->directories[DIRECTORY_BASE_RELOCATION].size;
    *reason = all.reason;
    while (cursor_left(&all.table) != 0) {
        all.page = take_block(&all.table, &all.entries);
        if (!all.table.bad)
            removed |= append_block(image, all.page, all.entries, ranges, count, &result);
    }
    /* Blocks never grow if the linker padded them correctly. */
    if (removed && !result.failed && (all.table.bad || result.size > all.bytes.size))
        *reason = "its base relocations cannot be rewritten";
    if (removed && !result.failed && *reason == NULL) {
        *size = (uint32_t)result.size;
        buffer_append_zeros(&result, (size_t)all.bytes.size - result.size);
        edit_overwrite_differences(edits, image->file,
                                   (uint64_t)(all.bytes.data - image->file.data),
                                   buffer_view(&result));
    }
    edits->has_no_memory |= removed && result.failed;
    buffer_free(&result);
    return *reason == NULL && !edits->has_no_memory;
}
