/*
 * Taking the bytes of removed sections out of the file without moving anything in memory.
 *
 * A segment may have fewer bytes in the file than in memory: the rest is zero. So where the removed
 * bytes are the last ones of their segment in the file, whole pages of them just go, and the
 * segment's filesize says so. __LLVM_COV, which has nothing but the coverage mapping, then has no
 * bytes at all.
 *
 * What cannot be cut is filled with zeros, which saves nothing in the file but compresses well.
 */
#include "formats/macho_plan.h"

#include <inttypes.h>
#include <stdio.h>

/* The first byte of the segment at or behind `offset` that has to stay; the end of the segment's
 * bytes where none has. */
static uint64_t next_kept(const struct macho_plan_state *state, size_t segment, uint64_t offset)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    uint64_t next = holder->fileoff + holder->filesize;

    for (size_t i = 0; i < holder->section_count; i++) {
        size_t index = holder->first_section + i;
        const struct macho_section *section = &state->image.sections[index];
        uint64_t start = section->offset, end = start + section->size;

        for (size_t j = 0; j < state->plan->section_count; j++) {
            const struct image_section *planned = &state->plan->sections[j];
            if (planned->fate != SECTION_STAYS && state->section_index[planned->kind] == index)
                end = start + state->reserved[planned->kind];
        }
        if (macho_section_in_file(section) && end > offset && end > start && start < next)
            next = start > offset ? start : offset;
    }
    return next;
}

/* Where a run of bytes that need not stay ends, if it starts at `offset`: what is between sections
 * must be zero to count. */
static uint64_t run_end(const struct macho_plan_state *state, size_t segment, uint64_t offset)
{
    uint64_t end = next_kept(state, segment, offset);
    uint64_t behind = offset;

    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *planned = &state->plan->sections[i];
        uint64_t section_end = planned->offset + planned->size;
        struct bytes gap;

        /* By rising offset, so that `behind` is the end of what is known to be free. */
        if (planned->fate == SECTION_STAYS || section_end <= behind || planned->offset >= end)
            continue;
        if (planned->offset > behind &&
            (!bytes_slice(state->image.file, behind, planned->offset - behind, &gap) ||
             !bytes_all_zero(gap)))
            return behind;
        behind = section_end;
    }
    if (behind < end) {
        struct bytes gap;
        if (!bytes_slice(state->image.file, behind, end - behind, &gap) || !bytes_all_zero(gap))
            return behind;
    }
    return end;
}

static void add_hole(struct macho_plan_state *state, size_t segment, uint64_t start, uint64_t end)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    struct macho_hole hole = {
        .segment = segment,
        .offset = align_up(start, state->image.page_size),
        .is_tail = end == holder->fileoff + holder->filesize,
    };

    end = align_down(end, state->image.page_size);
    if (end <= hole.offset || state->hole_count == MACHO_HOLES_MAX)
        return;
    hole.size = end - hole.offset;
    state->holes[state->hole_count++] = hole;
}

/* The runs of whole pages, each once, whatever the number of sections in it. */
static void find_holes(struct macho_plan_state *state)
{
    uint64_t done = 0;

    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *section = &state->plan->sections[i];
        uint64_t start = section->offset + state->reserved[section->kind];
        size_t segment;

        if (section->fate == SECTION_STAYS || section->size == 0 || start < done)
            continue;
        segment = state->image.sections[state->section_index[section->kind]].segment;
        done = run_end(state, segment, start);
        add_hole(state, segment, start, done);
    }
}

/* A segment that does not end with a page keeps its bytes: what is behind it would not be aligned.
 */
static bool can_cut(const struct macho_plan_state *state, const struct macho_hole *hole)
{
    return hole->is_tail &&
           state->image.segments[hole->segment].filesize % state->image.page_size == 0;
}

/* Says how much stays of sections in a hole that is not cut. */
static void explain_hole(struct macho_plan_state *state, const struct macho_hole *hole)
{
    for (size_t i = 0; i < state->plan->section_count; i++) {
        struct image_section *section = &state->plan->sections[i];

        if (section->fate == SECTION_STAYS ||
            !ranges_overlap(section->offset, section->size, hole->offset, hole->size))
            continue;
        section->fate = SECTION_ZEROED;
        snprintf(section->reason, sizeof(section->reason),
                 "%" PRIu64 " bytes of zeros stay: other bytes of its segment come behind it",
                 hole->size);
    }
}

static void choose_holes(struct macho_plan_state *state)
{
    size_t kept = 0;

    find_holes(state);
    for (size_t i = 0; i < state->hole_count; i++) {
        if (can_cut(state, &state->holes[i]))
            state->holes[kept++] = state->holes[i];
        else
            explain_hole(state, &state->holes[i]);
    }
    state->hole_count = kept;
}

/* ---- edits ---- */

/* Zeros for [start, end) but for the holes. */
static bool fill_with_zeros(struct macho_plan_state *state, uint64_t start, uint64_t end)
{
    struct edit_script *edits = &state->plan->edits;

    for (size_t i = 0; i < state->hole_count && start < end; i++) {
        const struct macho_hole *hole = &state->holes[i];
        uint64_t hole_end = hole->offset + hole->size;

        if (!ranges_overlap(start, end - start, hole->offset, hole->size))
            continue;
        if (start < hole->offset &&
            !edit_replace_by_zeros(edits, start, hole->offset - start, hole->offset - start))
            return false;
        start = hole_end;
    }
    return start >= end || edit_replace_by_zeros(edits, start, end - start, end - start);
}

bool macho_layout_plan(struct macho_plan_state *state, struct error *error)
{
    bool done = true;

    choose_holes(state);
    for (size_t i = 0; i < state->plan->section_count && done; i++) {
        const struct image_section *section = &state->plan->sections[i];
        uint64_t end = section->offset + section->size;

        if (section->fate != SECTION_STAYS)
            done = fill_with_zeros(state, section->offset + state->reserved[section->kind], end);
    }
    for (size_t i = 0; i < state->hole_count && done; i++)
        done = edit_cut(&state->plan->edits, state->holes[i].offset, state->holes[i].size);
    return done ? true
                : error_out_of_memory(error, state->image.path, state->plan->edits.literals.size);
}
