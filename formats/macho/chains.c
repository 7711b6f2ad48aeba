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
static bool link_fixups(struct relink *relink, const struct chain *chain, uint64_t fileoff,
                        uint64_t distance)
{
    uint64_t word = load_u64(relink->state->image.file.data + fileoff, false);
    uint8_t bytes[FIXUP_SIZE];

    if (next_of(chain, word) == distance)
        return true;
    store_u64(bytes,
              (word & ~(chain->next_mask << NEXT_SHIFT)) | distance / chain->stride << NEXT_SHIFT,
              false);
    return edit_replace(&relink->state->base.plan->edits, fileoff, sizeof(bytes),
                        (struct bytes){bytes, sizeof(bytes)});
}

/* Relinks the chain of a page. It was walked before, so all of it is inside the file. *start is an
 * offset in the page, or DYLD_CHAINED_PTR_START_NONE. */
static bool relink_page(struct relink *relink, size_t index, const struct chain *chain,
                        uint64_t page, uint32_t *start)
{
    const struct macho_segment *segment = &relink->state->image.segments[index];
    uint64_t offset = page + *start, last_kept = 0, next;
    bool any_kept = false;

    do {
        next = next_of(chain,
                       load_u64(relink->state->image.file.data + segment->fileoff + offset, false));
        switch (macho_fixup_fate(relink->state, index, segment->vmaddr + offset)) {
        case MACHO_FIXUP_GOES:
            break;
        case MACHO_FIXUP_IS_CUT:
            relink->problem = MACHO_FIXUP_IS_CUT_TEXT;
            return false;
        default:
            if (any_kept &&
                !link_fixups(relink, chain, segment->fileoff + last_kept, offset - last_kept))
                return false;
            if (!any_kept)
                *start = (uint32_t)(offset - page);
            any_kept = true;
            last_kept = offset;
        }
        offset += next;
    } while (next != 0);
    if (any_kept)
        return link_fixups(relink, chain, segment->fileoff + last_kept, 0);
    *start = DYLD_CHAINED_PTR_START_NONE;
    return true;
}

/* Adds a dyld_chained_starts_in_segment for the pages from `first` up to but not including `end`,
 * and its offset to the table; adds nothing if no page has a fixup. */
static void append_list(struct relink *relink, size_t index, const struct chain *chain,
                        const uint8_t *page_starts, uint32_t first, uint32_t end)
{
    struct buffer *starts = &relink->starts;
    uint64_t size, segment_offset;
    uint8_t *list;

    while (end > first &&
           load_u16(page_starts + 2 * (size_t)(end - 1), false) == DYLD_CHAINED_PTR_START_NONE)
        end--;
    if (end <= first)
        return;
    size = align_up(CHAIN_PAGE_START + UINT64_C(2) * (end - first), 8);
    buffer_append_zeros(starts, (size_t)(0 - relink->chains.starts - starts->size) % 8);
    buffer_append(starts, chain->header.data, CHAIN_PAGE_START);
    buffer_append(starts, page_starts + 2 * (size_t)first, 2 * (size_t)(end - first));
    buffer_append_zeros(starts, (size_t)(size - CHAIN_PAGE_START - 2 * (uint64_t)(end - first)));
    if (starts->failed)
        return;
    list = starts->data + starts->size - size;
    segment_offset = load_u64(list + CHAIN_SEGMENT_OFFSET, false);
    store_u32(list + CHAIN_SIZE, (uint32_t)size, false);
    store_u64(list + CHAIN_SEGMENT_OFFSET, segment_offset + (uint64_t)first * chain->page_size,
              false);
    store_u16(list + CHAIN_PAGE_COUNT, (uint16_t)(end - first), false);
    store_u32(starts->data + STARTS_SEG_INFO_OFFSET + 4 * index, (uint32_t)(list - starts->data),
              false);
}

static uint32_t pages_of(const struct chain *chain, uint64_t size)
{
    uint64_t pages = align_up(size, chain->page_size) / chain->page_size;

    return pages < chain->page_count ? (uint32_t)pages : chain->page_count;
}

/* Relinks the pages of a segment, and adds its list, or those of both parts. */
static bool relink_segment(struct relink *relink, size_t index, const struct chain *chain)
{
    const struct macho_state *state = relink->state;
    uint32_t kept = pages_of(chain, macho_filesize(state, index));
    uint64_t split = state->split_fileoff - state->image.segments[index].fileoff;
    struct buffer copy = {0};
    bool done = buffer_append(&copy, chain->page_starts.data, (size_t)chain->page_starts.size);

    for (uint32_t i = 0; done && i < chain->page_count; i++) {
        uint32_t old = load_u16(copy.data + 2 * (size_t)i, false), start = old;

        if (old == DYLD_CHAINED_PTR_START_NONE)
            continue;
        done = relink_page(relink, index, chain, (uint64_t)i * chain->page_size, &start);
        store_u16(copy.data + 2 * (size_t)i, (uint16_t)start, false);
        relink->changed |= start != old;
    }
    relink->changed |= kept != chain->page_count || index == state->split_segment;
    if (done)
        append_list(relink, index, chain, copy.data, 0, kept);
    if (done && index == state->split_segment) {
        done = split % chain->page_size == 0;
        if (done)
            append_list(relink, index + 1, chain, copy.data, pages_of(chain, split),
                        chain->page_count);
        else
            relink->problem = "its fixups are chained over larger pages";
    }
    buffer_free(&copy);
    return done;
}

static bool relink_segments(struct relink *relink)
{
    const struct macho_state *state = relink->state;
    const struct chains *chains = &relink->chains;

    if (!buffer_append_zeros(&relink->starts,
                             STARTS_SEG_INFO_OFFSET + (size_t)4 * chains->seg_count))
        return false;
    store_u32(relink->starts.data, chains->seg_count, false);
    if (state->split_segment != NO_INDEX && state->split_segment + 1 >= chains->seg_count) {
        relink->problem = "its chained fixups have fewer segments than the image";
        return false;
    }
    for (size_t i = 0; i < chains->seg_count; i++) {
        struct chain chain;

        if (open_chain(&state->image, chains, i, &chain, &relink->problem)) {
            relink->problem = NULL;
            if (!relink_segment(relink, i, &chain))
                return false;
        } else if (relink->problem != NULL) {
            return false;
        }
    }
    return !relink->starts.failed;
}

/* Replaces the old tables, which are before the imports, by the new ones. */
static bool replace_starts(struct relink *relink)
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
    return buffer_append_zeros(&relink->starts,
                               (size_t)(old_size + growth - relink->starts.size)) &&
           edit_replace(edits, blob + chains->starts, old_size, buffer_view(&relink->starts)) &&
           (growth == 0 || edit_replace(edits, blob + CHAINS_IMPORTS_OFFSET, sizeof(offsets),
                                        (struct bytes){offsets, sizeof(offsets)}));
}

bool macho_relink_plan(struct macho_state *state, const char **problem)
{
    struct relink relink = {.state = state};
    bool done;

    *problem = NULL;
    if (macho_find_command(&state->image, LC_DYLD_CHAINED_FIXUPS) == NULL)
        return true;
    /* The parts must be in the order that linkers write: header, starts, imports, symbols. */
    if (!open_chains(&state->image, &relink.chains) || relink.chains.starts < CHAINS_HEADER_SIZE ||
        relink.chains.imports < relink.chains.starts ||
        relink.chains.symbols < relink.chains.imports ||
        relink.chains.imports > relink.chains.blob.size) {
        *problem = "its chained fixups have a layout that covsplit does not know";
        return false;
    }
    done = relink_segments(&relink) && (!relink.changed || replace_starts(&relink));
    *problem = relink.problem;
    buffer_free(&relink.starts);
    return done;
}
