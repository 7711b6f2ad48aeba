/*
 * Reading and rewriting the base relocation table: see coff/relocations.h.
 */
#include "formats/coff/relocations.h"

#define BLOCK_HEADER_SIZE        8
#define ENTRY_SIZE               2
#define BLOCK_ALIGNMENT          4

#define IMAGE_REL_BASED_ABSOLUTE 0 /* padding */
#define IMAGE_REL_BASED_HIGHLOW  3
#define IMAGE_REL_BASED_DIR64    10

struct block {
    uint32_t page;
    struct bytes entries;
};

/* Takes a block off the start of the table. */
static bool take_block(struct bytes *table, struct block *block)
{
    struct bytes header, rest;
    uint32_t size;

    if (!bytes_slice(*table, 0, BLOCK_HEADER_SIZE, &header))
        return false;
    size = load_u32(header.data + 4, false);
    if (size < BLOCK_HEADER_SIZE || size % ENTRY_SIZE != 0 ||
        !bytes_slice(*table, BLOCK_HEADER_SIZE, size - BLOCK_HEADER_SIZE, &block->entries) ||
        !bytes_slice(*table, size, table->size - size, &rest))
        return false;
    block->page = load_u32(header.data, false);
    *table = rest;
    return true;
}

static uint16_t entry_at(const struct block *block, uint64_t index)
{
    return load_u16(block->entries.data + index * ENTRY_SIZE, false);
}

static uint64_t entry_address(const struct coff_image *image, const struct block *block,
                              uint16_t entry)
{
    return image->image_base + block->page + (entry & 0xfff);
}

/* The table; empty if the image has none because it contains no absolute addresses. */
static bool find_table(const struct coff_image *image, struct bytes *table, const char **reason)
{
    const struct coff_directory *directory = &image->directories[DIRECTORY_BASE_RELOCATION];

    *table = (struct bytes){0};
    *reason = NULL;
    if ((image->characteristics & IMAGE_FILE_RELOCS_STRIPPED) != 0)
        *reason = "the image has no base relocations, which tell where addresses are; link it "
                  "without /fixed (GNU ld: with --dynamicbase)";
    else if (directory->size != 0 &&
             !coff_bytes_at(image, image->image_base + directory->rva, directory->size, table))
        *reason = "its base relocations cannot be read";
    return *reason == NULL;
}

static bool visit_entry(const struct coff_image *image, const struct block *block, uint16_t entry,
                        coff_relocation_visitor visit, void *context, const char **reason)
{
    unsigned type = entry >> 12;
    /* In 64-bit images GNU ld writes a few of 32 bits, for addresses of which only one half is
     * stored. */
    size_t size = type == IMAGE_REL_BASED_DIR64 ? 8 : 4;
    struct coff_relocation relocation = {.address = entry_address(image, block, entry)};
    struct bytes word;

    if (type == IMAGE_REL_BASED_ABSOLUTE)
        return true;
    if ((type != IMAGE_REL_BASED_HIGHLOW && type != IMAGE_REL_BASED_DIR64) ||
        size > image->pointer_size || !coff_bytes_at(image, relocation.address, size, &word)) {
        *reason = "its base relocations are of a kind that covsplit does not know";
        return false;
    }
    relocation.target =
        size == 8 ? load_u64(word.data, false)
                  : (image->image_base & ~(uint64_t)UINT32_MAX) | load_u32(word.data, false);
    return visit(context, &relocation);
}

bool coff_relocations_each(const struct coff_image *image, coff_relocation_visitor visit,
                           void *context, const char **reason)
{
    struct bytes table;
    struct block block;

    if (!find_table(image, &table, reason))
        return false;
    while (table.size != 0) {
        if (!take_block(&table, &block)) {
            *reason = "its base relocations cannot be read";
            return false;
        }
        for (uint64_t i = 0; i < block.entries.size / ENTRY_SIZE; i++) {
            if (!visit_entry(image, &block, entry_at(&block, i), visit, context, reason))
                return false;
        }
    }
    return true;
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

static bool append_u16(struct buffer *buffer, uint16_t value)
{
    uint8_t bytes[2];

    store_u16(bytes, value, false);
    return buffer_append(buffer, bytes, sizeof(bytes));
}

/* Appends the block without the entries in the ranges; appends nothing if no entry stays. */
static bool append_block(const struct coff_image *image, const struct block *block,
                         const struct coff_range *ranges, size_t count, struct buffer *result)
{
    size_t start = result->size;
    uint64_t kept = 0;

    if (!buffer_append_zeros(result, BLOCK_HEADER_SIZE))
        return false;
    for (uint64_t i = 0; i < block->entries.size / ENTRY_SIZE; i++) {
        uint16_t entry = entry_at(block, i);

        if (entry >> 12 == IMAGE_REL_BASED_ABSOLUTE ||
            in_ranges(entry_address(image, block, entry), ranges, count))
            continue;
        if (!append_u16(result, entry))
            return false;
        kept++;
    }
    if (kept == 0) {
        result->size = start;
        return true;
    }
    if ((result->size - start) % BLOCK_ALIGNMENT != 0 && !append_u16(result, 0))
        return false;
    store_u32(result->data + start, block->page, false);
    store_u32(result->data + start + 4, (uint32_t)(result->size - start), false);
    return true;
}

static bool any_inside(const struct coff_image *image, struct bytes table,
                       const struct coff_range *ranges, size_t count)
{
    struct block block;

    while (table.size != 0 && take_block(&table, &block)) {
        for (uint64_t i = 0; i < block.entries.size / ENTRY_SIZE; i++) {
            uint16_t entry = entry_at(&block, i);

            if (entry >> 12 != IMAGE_REL_BASED_ABSOLUTE &&
                in_ranges(entry_address(image, &block, entry), ranges, count))
                return true;
        }
    }
    return false;
}

bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason)
{
    struct bytes table, left;
    struct buffer result = {0};
    struct block block;
    bool done = true;

    *size = image->directories[DIRECTORY_BASE_RELOCATION].size;
    if (!find_table(image, &table, reason))
        return false;
    if (!any_inside(image, table, ranges, count))
        return true;
    for (left = table; done && take_block(&left, &block);)
        done = append_block(image, &block, ranges, count, &result);
    *size = (uint32_t)result.size;
    /* Blocks never grow if the linker padded them correctly. */
    if (done && (left.size != 0 || result.size > table.size))
        *reason = "its base relocations cannot be rewritten";
    done = done && *reason == NULL &&
           buffer_append_zeros(&result, (size_t)table.size - result.size) &&
           edit_overwrite_differences(edits, image->file, (uint64_t)(table.data - image->file.data),
                                      buffer_view(&result));
    buffer_free(&result);
    return done;
}
