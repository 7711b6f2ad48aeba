/*
 * Reading chained fixups: see macho/chains.h.
 */
#include "formats/macho/chains.h"

#include <stddef.h>

#define FIXUP_SIZE 8

/* The values of dyld_chained_starts_in_segment.pointer_format in images for x86-64 and arm64 that
 * are not part of a kernel. */
enum {
    DYLD_CHAINED_PTR_ARM64E = 1,
    DYLD_CHAINED_PTR_64 = 2,
    DYLD_CHAINED_PTR_64_OFFSET = 6,
    DYLD_CHAINED_PTR_ARM64E_USERLAND = 9,
    DYLD_CHAINED_PTR_ARM64E_USERLAND24 = 12,
};

static const char malformed[] = "its chained fixups are malformed";

bool chain_format_find(uint16_t pointer_format, struct chain_format *format)
{
    switch (pointer_format) {
    case DYLD_CHAINED_PTR_64:
    case DYLD_CHAINED_PTR_64_OFFSET:
        *format = (struct chain_format){
            .stride = 4,
            .next_shift = 51,
            .next_bits = 12,
            .target_is_offset = pointer_format == DYLD_CHAINED_PTR_64_OFFSET,
        };
        return true;
    case DYLD_CHAINED_PTR_ARM64E:
    case DYLD_CHAINED_PTR_ARM64E_USERLAND:
    case DYLD_CHAINED_PTR_ARM64E_USERLAND24:
        *format = (struct chain_format){
            .stride = 8,
            .next_shift = 51,
            .next_bits = 11,
            .target_is_offset = pointer_format != DYLD_CHAINED_PTR_ARM64E,
            .has_auth = true,
        };
        return true;
    default:
        return false;
    }
}

uint64_t chain_next(const struct chain_format *format, uint64_t word)
{
    uint64_t mask = (UINT64_C(1) << format->next_bits) - 1;

    return (word >> format->next_shift & mask) * format->stride;
}

uint64_t chain_with_next(const struct chain_format *format, uint64_t word, uint64_t distance)
{
    uint64_t mask = ((UINT64_C(1) << format->next_bits) - 1) << format->next_shift;

    return (word & ~mask) | (distance / format->stride << format->next_shift & mask);
}

static bool is_rebase(const struct chain_format *format, uint64_t word)
{
    return (word >> (format->has_auth ? 62 : 63) & 1) == 0;
}

/* Where a rebase points. The bits above the address (high8) do not matter here. */
static uint64_t rebase_target(const struct chain_format *format, uint64_t word, uint64_t base)
{
    bool is_auth = format->has_auth && word >> 63 != 0;
    unsigned bits = is_auth ? 32 : format->has_auth ? 43 : 36;
    uint64_t target = word & ((UINT64_C(1) << bits) - 1);

    return is_auth || format->target_is_offset ? base + target : target;
}

/* ---- tables ---- */

bool chains_table_open(const struct macho_image *image, struct chains_table *table)
{
    const struct macho_command *command = macho_find_command(image, LC_DYLD_CHAINED_FIXUPS);
    struct bytes part;

    *table = (struct chains_table){.blob = macho_linkedit_bytes(image, command, LINKEDIT_DATAOFF)};
    if (command == NULL)
        return true;
    if (!bytes_slice(table->blob, 0, CHAINS_HEADER_SIZE, &part))
        return false;
    table->starts = load_u32(part.data + CHAINS_STARTS_OFFSET, false);
    table->imports = load_u32(part.data + CHAINS_IMPORTS_OFFSET, false);
    if (!bytes_slice(table->blob, table->starts, STARTS_SEG_INFO_OFFSET, &part))
        return false;
    table->seg_count = load_u32(part.data + STARTS_SEG_COUNT, false);
    return table->seg_count <= image->segment_count &&
           range_within(table->starts, STARTS_SEG_INFO_OFFSET + UINT64_C(4) * table->seg_count, 0,
                        table->blob.size);
}

bool chains_segment_open(const struct macho_image *image, const struct chains_table *table,
                         size_t segment, struct chain_segment *chain, const char **reason)
{
    const struct macho_segment *in_memory = &image->segments[segment];
    const uint8_t *offsets = table->blob.data + table->starts + STARTS_SEG_INFO_OFFSET;
    uint64_t base = image->segments[macho_find_segment(image, "__TEXT")].vmaddr;
    struct bytes part;
    uint32_t offset;

    *reason = NULL;
    if (segment >= table->seg_count)
        return false;
    offset = load_u32(offsets + 4 * segment, false);
    if (offset == 0)
        return false;
    *reason = malformed;
    chain->offset = table->starts + offset;
    if (!bytes_slice(table->blob, chain->offset, CHAIN_PAGE_START, &part))
        return false;
    chain->size = load_u32(part.data + CHAIN_SIZE, false);
    chain->page_size = load_u16(part.data + CHAIN_PAGE_SIZE, false);
    chain->pointer_format = load_u16(part.data + CHAIN_POINTER_FORMAT, false);
    chain->page_count = load_u16(part.data + CHAIN_PAGE_COUNT, false);
    return bytes_slice(table->blob, chain->offset + CHAIN_PAGE_START,
                       UINT64_C(2) * chain->page_count, &chain->page_starts) &&
           (chain->page_size == 4096 || chain->page_size == 16384) &&
           load_u64(part.data + CHAIN_SEGMENT_OFFSET, false) == in_memory->vmaddr - base;
}

/* ---- walking ---- */

struct walk {
    const struct macho_image *image;
    macho_fixup_visitor visit;
    void *context;
    const char **reason;
    uint64_t base;
};

static bool fail(const struct walk *walk, const char *reason)
{
    *walk->reason = reason;
    return false;
}

static bool walk_page(const struct walk *walk, size_t index, const struct chain_format *format,
                      uint64_t start, uint64_t page_end)
{
    const struct macho_segment *segment = &walk->image->segments[index];
    uint64_t next;

    for (uint64_t offset = start;; offset += next) {
        struct macho_fixup fixup = {.segment = index, .address = segment->vmaddr + offset};
        struct bytes bytes;
        uint64_t word;

        if (offset >= page_end || !range_within(offset, FIXUP_SIZE, 0, segment->filesize) ||
            !bytes_slice(walk->image->file, segment->fileoff + offset, FIXUP_SIZE, &bytes))
            return fail(walk, malformed);
        word = load_u64(bytes.data, false);
        fixup.is_rebase = is_rebase(format, word);
        if (fixup.is_rebase)
            fixup.target = rebase_target(format, word, walk->base);
        if (!walk->visit(walk->context, &fixup))
            return fail(walk, NULL);
        next = chain_next(format, word);
        if (next == 0)
            return true;
    }
}

static bool walk_segment(const struct walk *walk, size_t index, const struct chain_segment *chain)
{
    struct chain_format format;

    if (!chain_format_find(chain->pointer_format, &format))
        return fail(walk, "its chained fixups are of a format that covsplit does not know");
    for (uint32_t i = 0; i < chain->page_count; i++) {
        uint64_t page = (uint64_t)i * chain->page_size;
        uint32_t start = load_u16(chain->page_starts.data + 2 * i, false);

        if (start == DYLD_CHAINED_PTR_START_NONE)
            continue;
        if ((start & DYLD_CHAINED_PTR_START_MULTI) != 0)
            return fail(walk, "its chained fixups are of a format that covsplit does not know");
        if (!walk_page(walk, index, &format, page + start, page + chain->page_size))
            return false;
    }
    return true;
}

bool macho_chains_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason)
{
    struct walk walk = {image, visit, context, reason,
                        image->segments[macho_find_segment(image, "__TEXT")].vmaddr};
    struct chains_table table;

    *reason = NULL;
    if (!chains_table_open(image, &table))
        return fail(&walk, malformed);
    for (size_t i = 0; i < table.seg_count; i++) {
        struct chain_segment chain;

        if (chains_segment_open(image, &table, i, &chain, reason)) {
            *reason = NULL;
            if (!walk_segment(&walk, i, &chain))
                return false;
        } else if (*reason != NULL) {
            return false;
        }
    }
    return true;
}
