/*
 * Base relocations, which list every absolute address in the image, and the removal of those that
 * apply to removed bytes.
 *
 * The table is a list of blocks, one for each page. A block has the page's RVA, its own size, and
 * 16 bits for each relocation: a type and an offset in the page.
 */
#include "formats/coff/coff.h"

#include "common/base/cursor.h"

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

/* The table; empty if the image has none because it contains no absolute addresses. */
static bool find_table(const struct coff_image *image, struct bytes *table, const char **reason)
{
    *reason = NULL;
    if ((image->characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        *reason = "the image has no base relocations, which tell where addresses are; link it "
                  "without /fixed (GNU ld: with --dynamicbase)";
    else if (!coff_directory_bytes(image, DIRECTORY_BASE_RELOCATION, table))
        *reason = unreadable;
    return *reason == NULL;
}

bool coff_relocations_each(const struct coff_image *image, coff_relocation_visitor visit,
                           void *context, const char **reason)
{
    struct bytes bytes;
    struct cursor table, entries;

    if (!find_table(image, &bytes, reason))
        return false;
    table = cursor_open(bytes, false, false);
    while (cursor_left(&table) != 0) {
        uint32_t page = take_block(&table, &entries);

        while (cursor_left(&entries) != 0) {
            uint16_t entry = cursor_u16(&entries);
            unsigned type = entry >> 12;
            /* In 64-bit images GNU ld writes a few of 32 bits, for addresses of which only one half
             * is stored. */
            size_t size = type == IMAGE_REL_BASED_DIR64 ? 8 : 4;
            struct coff_relocation relocation = {.address = entry_address(image, page, entry)};
            struct bytes word;

            if (type == IMAGE_REL_BASED_ABSOLUTE)
                continue;
            if ((type != IMAGE_REL_BASED_HIGHLOW && type != IMAGE_REL_BASED_DIR64) ||
                size > image->pointer_size ||
                !coff_bytes_at(image, relocation.address, size, &word)) {
                *reason = "its base relocations are of a kind that covsplit does not know";
                return false;
            }
            relocation.target = size == 8 ? load_u64(word.data, false)
                                          : (image->image_base & ~(uint64_t)UINT32_MAX) |
                                                load_u32(word.data, false);
            if (!visit(context, &relocation))
                return false;
        }
    }
    *reason = table.bad ? unreadable : NULL;
    return !table.bad;
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
    struct buffer result = {0};
    struct cursor table, entries;
    struct bytes bytes;
    bool removed = false, done;

    *size = image->directories[DIRECTORY_BASE_RELOCATION].size;
    if (!find_table(image, &bytes, reason))
        return false;
    table = cursor_open(bytes, false, false);
    while (cursor_left(&table) != 0) {
        uint32_t page = take_block(&table, &entries);

        if (!table.bad)
            removed |= append_block(image, page, entries, ranges, count, &result);
    }
    /* Blocks never grow if the linker padded them correctly. */
    if (removed && !result.failed && (table.bad || result.size > bytes.size))
        *reason = "its base relocations cannot be rewritten";
    done = !removed || (*reason == NULL && !result.failed);
    if (removed && done) {
        *size = (uint32_t)result.size;
        done = buffer_append_zeros(&result, (size_t)bytes.size - result.size) &&
               edit_overwrite_differences(edits, image->file,
                                          (uint64_t)(bytes.data - image->file.data),
                                          buffer_view(&result));
    }
    buffer_free(&result);
    return done;
}
