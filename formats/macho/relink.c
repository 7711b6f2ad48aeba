/*
 * Removes fixups from chains; macho/chains.h explains how these are linked.
 *
 * The fixups of a page are a linked list in the page's own bytes. If some of them are removed, the
 * one before them is linked to the one behind, which is never further away than a page, or the page
 * gets another first fixup. The lists of pages are in __LINKEDIT; they are written anew if they
 * change, and may need more room than before, because a segment that was split has two lists.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/macho/chains.h"
#include "formats/macho/state.h"

/* Unit in bytes of what is inserted into __LINKEDIT, so that everything behind it stays aligned. */
#define GROWTH_UNIT 16

struct relink {
    struct macho_state *state;
    struct chains_table table;
    struct buffer starts; /* the new dyld_chained_starts_in_image, and what it points to */
    bool changed;
    const char **problem;
};

static bool fail(const struct relink *relink, const char *problem)
{
    *relink->problem = problem;
    return false;
}

/* ---- the chain of a page ---- */

static bool link_fixups(struct relink *relink, const struct macho_segment *segment,
                        const struct chain_format *format, uint64_t offset, uint64_t distance)
{
    struct edit_script *edits = &relink->state->base.plan->edits;
    uint64_t position = segment->fileoff + offset;
    uint64_t word = load_u64(relink->state->image.file.data + position, false);
    uint8_t bytes[8];

    if (chain_next(format, word) == distance)
        return true;
    store_u64(bytes, chain_with_next(format, word, distance), false);
    return edit_replace(edits, position, sizeof(bytes), (struct bytes){bytes, sizeof(bytes)});
}

/* Relinks the chain of a page. It was walked before, so all of it is inside the file. *start is an
 * offset in the page, or DYLD_CHAINED_PTR_START_NONE. */
static bool relink_page(struct relink *relink, size_t index, const struct chain_format *format,
                        uint64_t page, uint32_t *start)
{
    const struct macho_segment *segment = &relink->state->image.segments[index];
    uint64_t offset = page + *start, last_kept = 0, next;
    bool any_kept = false;

    do {
        uint64_t word = load_u64(relink->state->image.file.data + segment->fileoff + offset, false);

        next = chain_next(format, word);
        if (!macho_removes_fixup(relink->state, segment->vmaddr + offset)) {
            if (macho_cuts(relink->state, segment->fileoff + offset))
                return fail(relink, "dyld applies fixups outside all sections");
            if (any_kept && !link_fixups(relink, segment, format, last_kept, offset - last_kept))
                return false;
            if (!any_kept)
                *start = (uint32_t)(offset - page);
            any_kept = true;
            last_kept = offset;
        }
        offset += next;
    } while (next != 0);
    if (any_kept)
        return link_fixups(relink, segment, format, last_kept, 0);
    *start = DYLD_CHAINED_PTR_START_NONE;
    return true;
}

/* ---- the lists of pages ---- */

/* Adds a dyld_chained_starts_in_segment for the pages from `first` up to but not including `end`,
 * and its offset to the table; adds nothing if no page has a fixup. */
static bool append_segment(struct relink *relink, size_t index, const struct chain_segment *chain,
                           const uint8_t *page_starts, uint32_t first, uint32_t end)
{
    struct bytes header;
    uint64_t size;
    size_t at;

    while (end > first &&
           load_u16(page_starts + 2 * (end - 1), false) == DYLD_CHAINED_PTR_START_NONE)
        end--;
    if (end <= first)
        return true;
    bytes_slice(relink->table.blob, chain->offset, CHAIN_PAGE_START, &header);
    size = align_up(CHAIN_PAGE_START + UINT64_C(2) * (end - first), 8);
    if (!buffer_append_zeros(&relink->starts,
                             (size_t)(0 - relink->table.starts - relink->starts.size) % 8))
        return false;
    at = relink->starts.size;
    if (!buffer_append(&relink->starts, header.data, CHAIN_PAGE_START) ||
        !buffer_append(&relink->starts, page_starts + 2 * first, 2 * (size_t)(end - first)) ||
        !buffer_append_zeros(&relink->starts, (size_t)(at + size - relink->starts.size)))
        return false;
    store_u32(relink->starts.data + at + CHAIN_SIZE, (uint32_t)size, false);
    store_u64(relink->starts.data + at + CHAIN_SEGMENT_OFFSET,
              load_u64(header.data + CHAIN_SEGMENT_OFFSET, false) +
                  (uint64_t)first * chain->page_size,
              false);
    store_u16(relink->starts.data + at + CHAIN_PAGE_COUNT, (uint16_t)(end - first), false);
    store_u32(relink->starts.data + STARTS_SEG_INFO_OFFSET + 4 * index, (uint32_t)at, false);
    return true;
}

static uint32_t pages_of(const struct chain_segment *chain, uint64_t size)
{
    uint64_t pages = align_up(size, chain->page_size) / chain->page_size;

    return pages < chain->page_count ? (uint32_t)pages : chain->page_count;
}

static bool append_lists(struct relink *relink, size_t index, const struct chain_segment *chain,
                         const uint8_t *page_starts)
{
    const struct macho_state *state = relink->state;
    uint32_t kept = pages_of(chain, macho_filesize(state, index));
    uint64_t split;

    relink->changed |= kept != chain->page_count;
    if (!append_segment(relink, index, chain, page_starts, 0, kept))
        return fail(relink, NULL);
    if (index != state->split_segment)
        return true;
    relink->changed = true;
    split = state->split_fileoff - state->image.segments[index].fileoff;
    if (split % chain->page_size != 0)
        return fail(relink, "its fixups are chained over larger pages");
    return append_segment(relink, index + 1, chain, page_starts, pages_of(chain, split),
                          chain->page_count) ||
           fail(relink, NULL);
}

static bool relink_segment(struct relink *relink, size_t index, const struct chain_segment *chain)
{
    uint8_t *page_starts = malloc(chain->page_starts.size + 1);
    struct chain_format format;
    bool done;

    *relink->problem = NULL;
    done = page_starts != NULL && chain_format_find(chain->pointer_format, &format);

    if (done)
        memcpy(page_starts, chain->page_starts.data, (size_t)chain->page_starts.size);
    for (uint32_t i = 0; done && i < chain->page_count; i++) {
        uint32_t old = load_u16(page_starts + 2 * i, false), start = old;

        if (old == DYLD_CHAINED_PTR_START_NONE)
            continue;
        done = relink_page(relink, index, &format, (uint64_t)i * chain->page_size, &start);
        store_u16(page_starts + 2 * i, (uint16_t)start, false);
        relink->changed |= start != old;
    }
    done = done && append_lists(relink, index, chain, page_starts);
    free(page_starts);
    return done;
}

/* ---- the tables ---- */

static bool relink_segments(struct relink *relink)
{
    const struct macho_state *state = relink->state;

    if (!buffer_append_zeros(&relink->starts,
                             STARTS_SEG_INFO_OFFSET + (size_t)4 * relink->table.seg_count))
        return fail(relink, NULL);
    store_u32(relink->starts.data + STARTS_SEG_COUNT, relink->table.seg_count, false);
    if (state->split_segment != NO_INDEX && state->split_segment + 1 >= relink->table.seg_count)
        return fail(relink, "its chained fixups have fewer segments than the image");
    for (size_t i = 0; i < relink->table.seg_count; i++) {
        struct chain_segment chain;
        const char *reason;

        if (chains_segment_open(&state->image, &relink->table, i, &chain, &reason)) {
            if (!relink_segment(relink, i, &chain))
                return false;
        } else if (reason != NULL) {
            return fail(relink, reason);
        }
    }
    return true;
}

/* Replaces the old tables, which are before the imports, by the new ones. */
static bool replace_starts(struct relink *relink)
{
    struct macho_state *state = relink->state;
    const struct macho_command *command = macho_find_command(&state->image, LC_DYLD_CHAINED_FIXUPS);
    uint64_t file_offset = macho_field(&state->image, command, LINKEDIT_DATAOFF);
    uint64_t old_size = relink->table.imports - relink->table.starts, growth = 0;
    uint32_t symbols = load_u32(relink->table.blob.data + CHAINS_SYMBOLS_OFFSET, false);
    uint8_t offsets[8];

    if (relink->starts.size > old_size)
        growth = align_up(relink->starts.size - old_size, GROWTH_UNIT);
    if (!buffer_append_zeros(&relink->starts, (size_t)(old_size + growth - relink->starts.size)) ||
        !edit_replace(&state->base.plan->edits, file_offset + relink->table.starts, old_size,
                      buffer_view(&relink->starts)))
        return fail(relink, NULL);
    state->chains_growth = growth;
    if (growth == 0)
        return true;
    store_u32(offsets, (uint32_t)(relink->table.imports + growth), false);
    store_u32(offsets + 4, (uint32_t)(symbols + growth), false);
    return edit_replace(&state->base.plan->edits, file_offset + CHAINS_IMPORTS_OFFSET,
                        sizeof(offsets), (struct bytes){offsets, sizeof(offsets)}) ||
           fail(relink, NULL);
}

/* Whether the parts are in the order that linkers write: header, starts, imports, symbols. */
static bool has_known_order(const struct chains_table *table)
{
    return table->starts >= CHAINS_HEADER_SIZE && table->imports >= table->starts &&
           load_u32(table->blob.data + CHAINS_SYMBOLS_OFFSET, false) >= table->imports &&
           table->imports <= table->blob.size;
}

bool macho_relink_plan(struct macho_state *state, const char **problem)
{
    struct relink relink = {.state = state, .problem = problem};
    bool done;

    *problem = NULL;
    if (macho_find_command(&state->image, LC_DYLD_CHAINED_FIXUPS) == NULL)
        return true;
    if (!chains_table_open(&state->image, &relink.table) || !has_known_order(&relink.table))
        return fail(&relink, "its chained fixups have a layout that covsplit does not know");
    done = relink_segments(&relink) && (!relink.changed || replace_starts(&relink));
    buffer_free(&relink.starts);
    return done;
}
