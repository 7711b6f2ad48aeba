/*
 * Chained fixups (LC_DYLD_CHAINED_FIXUPS), as <mach-o/fixup-chains.h> has them: reads them, and
 * takes some out.
 *
 * A header points to a table of segments, which points to a list of pages for each of them: the
 * offset of the first fixup in each page. A fixup is 64 bits, some of which say how far away the
 * next one is.
 *
 * If some fixups of a page are removed, the one before them is linked to the one behind, which is
 * never further away than a page, or the page gets another first fixup. The lists of pages are in
 * __LINKEDIT; they are written anew if they change, and may need more room than before, because a
 * segment that was split has two lists.
 */
#include <stdlib.h>

#include "formats/macho/macho.h"

#define FIXUP_SIZE 8

static const char malformed[] = "its chained fixups are malformed";
static const char unknown[] = "its chained fixups are of a format that covsplit does not know";

/* The tables of an image. */
struct chains {
    struct bytes blob; /* the contents of LC_DYLD_CHAINED_FIXUPS; empty: there are none */
    uint64_t starts;   /* offset of dyld_chained_starts_in_image in the blob */
    uint64_t imports;  /* offsets of the imports, and of their names */
    uint64_t symbols;
    uint32_t seg_count;
};

/* The list of pages of a segment, and how to read the 64 bits of a fixup. */
struct chain {
    struct bytes header; /* a dyld_chained_starts_in_segment up to page_start */
    uint32_t page_size;
    uint32_t page_count;
    struct bytes page_starts; /* page_count numbers of 16 bits */
    unsigned stride;          /* bytes for each unit of `next` */
    uint64_t next_mask;
    bool target_is_offset; /* the target is an offset from the image's start, not an address */
    bool has_auth;         /* bit 63 is "authenticated" and bit 62 "bind"; else bit 63 is "bind" */
};

#define NEXT_SHIFT 51 /* the position of `next` in all formats */

/* ---- reading the tables ---- */

/* False if the tables are malformed. */
static bool open_chains(const struct macho_image *image, struct chains *chains)
{
    const struct macho_command *command = macho_find_command(image, LC_DYLD_CHAINED_FIXUPS);
    struct cursor cursor;
    struct bytes starts;

    *chains = (struct chains){.blob = macho_linkedit_bytes(image, command, LINKEDIT_DATAOFF)};
    if (command == NULL)
        return true;
    if (chains->blob.size < CHAINS_HEADER_SIZE)
        return false;
    cursor = cursor_open(chains->blob, false, true);
    cursor_skip(&cursor, CHAINS_STARTS_OFFSET);
    chains->starts = cursor_u32(&cursor);
    chains->imports = cursor_u32(&cursor);
    chains->symbols = cursor_u32(&cursor);
    if (!bytes_slice(chains->blob, chains->starts, STARTS_SEG_INFO_OFFSET, &starts))
        return false;
    chains->seg_count = load_u32(starts.data, false);
    return chains->seg_count <= image->segment_count &&
           range_within(chains->starts, STARTS_SEG_INFO_OFFSET + UINT64_C(4) * chains->seg_count, 0,
                        chains->blob.size);
}

/* The offset of a segment's list from the table of segments; 0: it has no fixups. */
static uint32_t list_offset(const struct chains *chains, size_t segment)
{
    return segment >= chains->seg_count
               ? 0
               : load_u32(chains->blob.data + chains->starts + STARTS_SEG_INFO_OFFSET + 4 * segment,
                          false);
}

/* False if the format is not known. */
static bool find_format(uint16_t pointer_format, struct chain *chain)
{
    bool is_arm64e = pointer_format == DYLD_CHAINED_PTR_ARM64E ||
                     pointer_format == DYLD_CHAINED_PTR_ARM64E_USERLAND ||
                     pointer_format == DYLD_CHAINED_PTR_ARM64E_USERLAND24;

    chain->stride = is_arm64e ? 8 : 4;
    chain->next_mask = is_arm64e ? 0x7ff : 0xfff;
    chain->has_auth = is_arm64e;
    chain->target_is_offset =
        pointer_format != DYLD_CHAINED_PTR_64 && pointer_format != DYLD_CHAINED_PTR_ARM64E;
    return is_arm64e || pointer_format == DYLD_CHAINED_PTR_64 ||
           pointer_format == DYLD_CHAINED_PTR_64_OFFSET;
}

/* False if the segment has no fixups (*reason is then NULL), or they cannot be read. */
static bool open_chain(const struct macho_image *image, const struct chains *chains, size_t segment,
                       struct chain *chain, const char **reason)
{
    uint32_t offset = list_offset(chains, segment);
    struct cursor cursor;
    uint16_t pointer_format;
    uint64_t segment_offset;
    struct bytes list;

    *reason = NULL;
    if (offset == 0)
        return false;
    *reason = malformed;
    if (!bytes_slice(chains->blob, chains->starts + offset, CHAIN_PAGE_START, &chain->header))
        return false;
    list = (struct bytes){chain->header.data,
                          chains->blob.size - (uint64_t)(chain->header.data - chains->blob.data)};
    cursor = cursor_open(list, false, true);
    cursor_skip(&cursor, CHAIN_PAGE_SIZE);
    chain->page_size = cursor_u16(&cursor);
    pointer_format = cursor_u16(&cursor);
    segment_offset = cursor_u64(&cursor);
    cursor_skip(&cursor, 4); /* max_valid_pointer */
    chain->page_count = cursor_u16(&cursor);
    chain->page_starts = cursor_bytes(&cursor, UINT64_C(2) * chain->page_count);
    if (cursor.bad || (chain->page_size != 4096 && chain->page_size != 16384) ||
        segment_offset != image->segments[segment].vmaddr - macho_base(image))
        return false;
    *reason = unknown;
    return find_format(pointer_format, chain);
}

bool macho_chains_may_be_in(const struct macho_image *image, size_t segment)
{
    struct chains chains;

    return !open_chains(image, &chains) || list_offset(&chains, segment) != 0;
}

/* ---- reading fixups ---- */

/* Distance in bytes to the next fixup, 0 for the last one. */
static uint64_t next_of(const struct chain *chain, uint64_t word)
{
    return (word >> NEXT_SHIFT & chain->next_mask) * chain->stride;
}

static struct macho_fixup read_fixup(const struct chain *chain, uint64_t base, uint64_t word)
{
    struct macho_fixup fixup = {.is_rebase = (word >> (chain->has_auth ? 62 : 63) & 1) == 0};
    bool is_auth = chain->has_auth && word >> 63 != 0;
    unsigned bits = is_auth ? 32 : chain->has_auth ? 43 : 36;

    /* The bits above the address (high8) do not matter here. */
    if (fixup.is_rebase)
        fixup.target =
            (word & ((UINT64_C(1) << bits) - 1)) + (is_auth || chain->target_is_offset ? base : 0);
    return fixup;
}

/* Calls the visitor for the fixups of a page, of which the first one is at `offset` in the segment.
 */
static bool visit_page(const struct macho_image *image, size_t index, const struct chain *chain,
                       uint64_t offset, uint64_t page_end, macho_fixup_visitor visit, void *context,
                       const char **reason)
{
    const struct macho_segment *segment = &image->segments[index];
    uint64_t base = macho_base(image), next;

    do {
        struct macho_fixup fixup;
        struct bytes bytes;
        uint64_t word;

        *reason = malformed;
        if (offset >= page_end || !range_within(offset, FIXUP_SIZE, 0, segment->filesize) ||
            !bytes_slice(image->file, segment->fileoff + offset, FIXUP_SIZE, &bytes))
            return false;
        *reason = NULL;
        word = load_u64(bytes.data, false);
        fixup = read_fixup(chain, base, word);
        fixup.segment = index;
        fixup.address = segment->vmaddr + offset;
        if (!visit(context, &fixup))
            return false;
        next = next_of(chain, word);
        offset += next;
    } while (next != 0);
    return true;
}

bool macho_chains_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason)
{
    struct chains chains;
    struct chain chain;

    *reason = malformed;
    if (!open_chains(image, &chains))
        return false;
    *reason = NULL;
    for (size_t i = 0; i < chains.seg_count; i++) {
        if (!open_chain(image, &chains, i, &chain, reason)) {
            if (*reason != NULL)
                return false;
            continue;
        }
        *reason = NULL;
        for (uint32_t j = 0; j < chain.page_count; j++) {
            uint64_t page = (uint64_t)j * chain.page_size;
            uint32_t start = load_u16(chain.page_starts.data + 2 * (size_t)j, false);

            if (start == DYLD_CHAINED_PTR_START_NONE)
                continue;
            if ((start & DYLD_CHAINED_PTR_START_MULTI) != 0) {
                *reason = unknown;
                return false;
            }
            if (!visit_page(image, i, &chain, page + start, page + chain.page_size, visit, context,
                            reason))
                return false;
        }
    }
    return true;
}

/* ---- taking fixups out ---- */

struct relink {
    struct macho_state *state;
    struct chains chains;
    struct buffer starts; /* the new dyld_chained_starts_in_image, and what it points to */
    bool changed;
    const char *problem;
};

/* Sets the distance from one fixup to the next. */
static void link_fixups(struct relink *relink, const struct chain *chain, uint64_t fileoff,
                        uint64_t distance)
{
    uint64_t word = load_u64(relink->state->image.file.data + fileoff, false);
    uint8_t bytes[FIXUP_SIZE];

    store_u64(bytes,
              (word & ~(chain->next_mask << NEXT_SHIFT)) | distance / chain->stride << NEXT_SHIFT,
              false);
    if (next_of(chain, word) != distance)
        edit_replace(&relink->state->base.plan->edits, fileoff, sizeof(bytes),
                     (struct bytes){bytes, sizeof(bytes)});
}

/* Relinks the chain of a page, of which the first fixup is at `start` in the page. It was walked
 * before, so all of it is inside the file. Returns the new start, or DYLD_CHAINED_PTR_START_NONE.
 */
static uint32_t relink_page(struct relink *relink, size_t index, const struct chain *chain,
                            uint64_t page, uint32_t start)
{
    const struct macho_segment *segment = &relink->state->image.segments[index];
    uint64_t offset = page + start, last_kept = 0, next;

    start = DYLD_CHAINED_PTR_START_NONE;
    do {
        uint64_t fileoff = segment->fileoff + offset;
        enum macho_fixup_fate fate =
            macho_fixup_fate(relink->state, index, segment->vmaddr + offset);

        next = next_of(chain, load_u64(relink->state->image.file.data + fileoff, false));
        if (fate == MACHO_FIXUP_IS_CUT)
            relink->problem = MACHO_FIXUP_IS_CUT_TEXT;
        if (fate != MACHO_FIXUP_GOES) {
            if (start != DYLD_CHAINED_PTR_START_NONE)
                link_fixups(relink, chain, last_kept, fileoff - last_kept);
            else
                start = (uint32_t)(offset - page);
            last_kept = fileoff;
        }
        offset += next;
    } while (next != 0);
    if (start != DYLD_CHAINED_PTR_START_NONE)
        link_fixups(relink, chain, last_kept, 0);
    return start;
}

/* Relinks the pages of a segment from `first` up to but not including `end`. Adds a
 * dyld_chained_starts_in_segment for them, and its offset in the place of segment `owner`; adds
 * nothing if no page has a fixup. */
static void relink_pages(struct relink *relink, size_t index, const struct chain *chain,
                         uint32_t first, uint32_t end, size_t owner)
{
    struct buffer *starts = &relink->starts;
    size_t before = starts->size, list, list_end = 0;
    uint64_t segment_offset = load_u64(chain->header.data + CHAIN_SEGMENT_OFFSET, false);

    buffer_append_zeros(starts, (size_t)(0 - relink->chains.starts - before) % 8);
    list = starts->size;
    buffer_append(starts, chain->header.data, CHAIN_PAGE_START);
    for (uint32_t i = first; i < end; i++) {
        uint32_t old = load_u16(chain->page_starts.data + 2 * (size_t)i, false), start = old;
        uint8_t bytes[2];

        if (old != DYLD_CHAINED_PTR_START_NONE)
            start = relink_page(relink, index, chain, (uint64_t)i * chain->page_size, old);
        store_u16(bytes, (uint16_t)start, false);
        buffer_append(starts, bytes, sizeof(bytes));
        if (start != DYLD_CHAINED_PTR_START_NONE)
            list_end = starts->size;
        relink->changed |= start != old;
    }
    if (starts->failed || list_end == 0) {
        starts->size = before;
        return;
    }
    starts->size = list_end;
    if (!buffer_append_zeros(starts, (list - list_end) % 8))
        return;
    store_u32(starts->data + list + CHAIN_SIZE, (uint32_t)(starts->size - list), false);
    store_u64(starts->data + list + CHAIN_SEGMENT_OFFSET,
              segment_offset + (uint64_t)first * chain->page_size, false);
    store_u16(starts->data + list + CHAIN_PAGE_COUNT,
              (uint16_t)((list_end - list - CHAIN_PAGE_START) / 2), false);
    store_u32(starts->data + STARTS_SEG_INFO_OFFSET + 4 * owner, (uint32_t)list, false);
}

static uint32_t pages_of(const struct chain *chain, uint64_t size)
{
    uint64_t pages = align_up(size, chain->page_size) / chain->page_size;

    return pages < chain->page_count ? (uint32_t)pages : chain->page_count;
}

static void relink_segments(struct relink *relink)
{
    const struct macho_state *state = relink->state;
    const struct chains *chains = &relink->chains;

    if (!buffer_append_zeros(&relink->starts,
                             STARTS_SEG_INFO_OFFSET + (size_t)4 * chains->seg_count))
        return;
    store_u32(relink->starts.data, chains->seg_count, false);
    if (state->split_segment != NO_INDEX && state->split_segment + 1 >= chains->seg_count)
        relink->problem = "its chained fixups have fewer segments than the image";
    for (size_t i = 0; i < chains->seg_count && relink->problem == NULL; i++) {
        uint64_t split = state->split_fileoff - state->image.segments[i].fileoff;
        uint32_t kept, second;
        struct chain chain;

        if (!open_chain(&state->image, chains, i, &chain, &relink->problem))
            continue;
        relink->problem = NULL;
        kept = pages_of(&chain, macho_filesize(state, i));
        second = i == state->split_segment ? pages_of(&chain, split) : chain.page_count;
        relink->changed |= kept != chain.page_count || i == state->split_segment;
        relink_pages(relink, i, &chain, 0, kept, i);
        relink_pages(relink, i, &chain, kept, second, i); /* they have none that stays */
        relink_pages(relink, i, &chain, second, chain.page_count, i + 1);
        if (i == state->split_segment && split % chain.page_size != 0)
            relink->problem = "its fixups are chained over larger pages";
    }
}

/* Replaces the old tables, which are before the imports, by the new ones. */
static void replace_starts(struct relink *relink)
{
    struct macho_state *state = relink->state;
    struct edit_script *edits = &state->base.plan->edits;
    const struct chains *chains = &relink->chains;
    uint64_t blob = (uint64_t)(chains->blob.data - state->image.file.data);
    uint64_t old_size = chains->imports - chains->starts, growth = 0;
    uint8_t offsets[8];

    if (relink->starts.size > old_size)
        growth = align_up(relink->starts.size - old_size, MACHO_GROWTH_UNIT);
    state->chains_growth = growth;
    store_u32(offsets, (uint32_t)(chains->imports + growth), false);
    store_u32(offsets + 4, (uint32_t)(chains->symbols + growth), false);
    buffer_append_zeros(&relink->starts, (size_t)(old_size + growth - relink->starts.size));
    edit_replace(edits, blob + chains->starts, old_size, buffer_view(&relink->starts));
    if (growth != 0)
        edit_replace(edits, blob + CHAINS_IMPORTS_OFFSET, sizeof(offsets),
                     (struct bytes){offsets, sizeof(offsets)});
}

bool macho_relink_plan(struct macho_state *state, const char **problem)
{
    struct relink relink = {.state = state};

    *problem = NULL;
    if (macho_find_command(&state->image, LC_DYLD_CHAINED_FIXUPS) == NULL)
        return true;
    /* The parts must be in the order that linkers write: header, starts, imports, symbols. */
    if (!open_chains(&state->image, &relink.chains) || relink.chains.starts < CHAINS_HEADER_SIZE ||
        relink.chains.imports < relink.chains.starts ||
        relink.chains.symbols < relink.chains.imports ||
        relink.chains.imports > relink.chains.blob.size)
        relink.problem = "its chained fixups have a layout that covsplit does not know";
    else
        relink_segments(&relink);
    if (relink.problem == NULL && relink.changed && !relink.starts.failed)
        replace_starts(&relink);
    state->base.plan->edits.has_no_memory |= relink.starts.failed;
    buffer_free(&relink.starts);
    *problem = relink.problem;
    return relink.problem == NULL && !state->base.plan->edits.has_no_memory;
}
