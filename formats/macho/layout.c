/*
 * Takes the bytes of removed sections out of the file without moving anything in memory.
 *
 * A segment may have fewer bytes in the file than in memory: the rest is zero. So if the removed
 * bytes are the last ones of their segment in the file, whole pages of them are simply cut, and the
 * segment's filesize says so. __LLVM_COV, which contains nothing but the coverage mapping, then
 * needs only the bytes of a tripwire, and if the tripwire is elsewhere, no load command either. So
 * if other bytes of __DATA follow the removed ones, and __LLVM_COV comes next, these bytes get its
 * load command and its place in memory. The numbers of segments, sections and load commands stay
 * the same, and so do all their indices, except for the segment that fixups name. The two parts
 * need different names, because tools count segments by the names of sections. Programs look for
 * their sections by name in __DATA, so the second part keeps that name, and the first part, which
 * has the counters, gets another one; the segment is only split if the first part contains nothing
 * else that anything looks for.
 *
 * The tripwire that names leave (llvm/tripwire.h) is put where it costs no page: behind the stub,
 * or before the bytes that were split off, on the page that contains the first of these. There it
 * also serves LLVM's tools, which take the first section of a segment for its start. If it cannot
 * be there, the segment is not split.
 *
 * In that case the mapping's tripwire follows it. The mapping's section stays the last one of the
 * segment, behind those of zeros, and becomes a section of zeros itself, because llvm-strip places
 * the bytes of sections one after the other, and would load them over those zeros. llvm-cov reads
 * what a section's offset points to, whatever its type. If nothing was split, the tripwire is at
 * the start of the mapping, and one page of __LLVM_COV stays for it.
 *
 * The counters and the bitmap, which are zeros at the start of the program, come before the
 * records. A segment has zeros behind its bytes in the file, not between them, so they can leave
 * the file only if the stub is not there, but before the names' tripwire. The runtime's functions
 * then return the stub's new address.
 *
 * What cannot be cut is filled with zeros, which saves nothing in the file but compresses well.
 */
#include "formats/macho/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/macho/fixups.h"
#include "formats/names_and_data.h"

/* The alignment of the records in __llvm_covmap. */
#define MAPPING_ALIGNMENT 8

/* Whether the names come right behind data that is removed, too. Section headers are in the order
 * of addresses, which must stay so. */
static bool follows_stub(struct macho_state *state)
{
    size_t names = state->base.section_index[SECTION_NAMES],
           data = state->base.section_index[SECTION_DATA];

    return image_plan_removes(state->base.plan, SECTION_DATA) && names == data + 1 &&
           state->image.sections[names].segment == state->image.sections[data].segment;
}

/* ---- zeros ---- */

static bool is_zeros_that_go(const struct macho_state *state, size_t index)
{
    return state->zeros != NO_INDEX && index >= state->zeros &&
           index < state->base.section_index[SECTION_DATA];
}

/* True for a section of the runtime that is nothing but zeros up to the next one. */
static bool is_zeros(const struct macho_state *state, size_t index)
{
    const struct macho_section *section = &state->image.sections[index];
    void *context = (void *)(uintptr_t)section;
    const char *reason;
    struct bytes bytes;

    return strncmp(section->sectname, "__llvm_prf_", strlen("__llvm_prf_")) == 0 &&
           (section->flags & SECTION_64_TYPE_MASK) == S_REGULAR && section[1].offset != 0 &&
           section[1].offset >= section->offset &&
           bytes_slice(state->image.file, section->offset, section[1].offset - section->offset,
                       &bytes) &&
           bytes_all_zero(bytes) &&
           macho_fixups_each(&state->image, macho_fixup_is_outside, context, &reason);
}

/* The first of the sections of zeros right before the data; NO_INDEX if there is none, or the stub
 * cannot be elsewhere. */
static size_t find_zeros(struct macho_state *state)
{
    size_t data = state->base.section_index[SECTION_DATA], first = data;

    if ((state->base.options->sections & SECTION_ZEROS) == 0 || !follows_stub(state) ||
        rules_is_shared(&state->base.code, RUNTIME_BEGIN_DATA))
        return NO_INDEX;
    while (first > state->image.segments[state->image.sections[data].segment].first_section &&
           is_zeros(state, first - 1))
        first--;
    return first < data ? first : NO_INDEX;
}

/* The file offset behind the bytes that stay before the data, or before the zeros if these go. */
static uint64_t kept_before_data(const struct macho_state *state)
{
    size_t data = state->base.section_index[SECTION_DATA];
    const struct macho_segment *segment =
        &state->image.segments[state->image.sections[data].segment];
    uint64_t end = segment->fileoff;

    if (state->zeros == NO_INDEX)
        return state->image.sections[data].offset + state->reserved[SECTION_DATA];
    for (size_t i = segment->first_section; i < state->zeros; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if (macho_section_in_file(section))
            end = section->offset + section->size;
    }
    return end;
}

/* ---- holes ---- */

/* The first byte of the segment at or behind `offset` that has to stay; the end of the segment's
 * bytes in the file if none has to. */
static uint64_t next_kept(const struct macho_state *state, size_t segment, uint64_t offset)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    uint64_t next = holder->fileoff + holder->filesize;

    for (size_t i = 0; i < holder->section_count; i++) {
        size_t index = holder->first_section + i;
        const struct macho_section *section = &state->image.sections[index];
        uint64_t start = section->offset, end = start + section->size;

        for (size_t j = 0; j < state->base.plan->section_count; j++) {
            const struct section *planned = &state->base.plan->sections[j];
            if (planned->fate != FATE_STAYS && state->base.section_index[planned->kind] == index)
                end = start + state->reserved[planned->kind];
        }
        if (macho_section_in_file(section) && !is_zeros_that_go(state, index) && end > offset &&
            end > start && start < next)
            next = start > offset ? start : offset;
    }
    return next;
}

/* The end of the run of removable bytes that starts at `offset`. Bytes between sections are
 * removable if they are zero. */
static uint64_t run_end(const struct macho_state *state, size_t segment, uint64_t offset)
{
    uint64_t end = next_kept(state, segment, offset);
    uint64_t behind = offset;

    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *planned = &state->base.plan->sections[i];
        uint64_t section_end = planned->offset + planned->size;
        struct bytes gap;

        /* Offsets rise, so everything before `behind` is known to be free. */
        if (planned->fate == FATE_STAYS || section_end <= behind || planned->offset >= end)
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

static void add_hole(struct macho_state *state, size_t segment, uint64_t start, uint64_t end)
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

/* Finds the runs of whole pages, each once, no matter how many sections it spans. */
static void find_holes(struct macho_state *state)
{
    uint64_t done = 0;

    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        uint64_t start = section->offset + state->reserved[section->kind];
        size_t segment;

        if (section->fate == FATE_STAYS || section->size == 0 || start < done)
            continue;
        if (section->kind == SECTION_DATA)
            start = kept_before_data(state);
        segment = state->image.sections[state->base.section_index[section->kind]].segment;
        done = run_end(state, segment, start);
        add_hole(state, segment, start, done);
    }
}

/* ---- which of them are cut ---- */

/* A segment that does not end at a page boundary keeps its bytes; otherwise what is behind it would
 * not be aligned. */
static bool ends_with_page(const struct macho_state *state, size_t segment)
{
    return state->image.segments[segment].filesize % state->image.page_size == 0;
}

/* How many bytes of a section are in a hole. */
static uint64_t overlap(const struct section *section, const struct macho_hole *hole)
{
    uint64_t start = section->offset > hole->offset ? section->offset : hole->offset;
    uint64_t end = section->offset + section->size;

    if (end > hole->offset + hole->size)
        end = hole->offset + hole->size;
    return end > start ? end - start : 0;
}

/* Gives the sections in a hole that is not cut the reason, with the number of bytes that stay. */
static void explain_hole(struct macho_state *state, const struct macho_hole *hole, const char *why)
{
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        struct section *section = &state->base.plan->sections[i];
        uint64_t size = overlap(section, hole);

        if (section->fate == FATE_STAYS || size == 0)
            continue;
        section->fate = FATE_ZEROED;
        image_plan_explain(state->base.plan, section, "%" PRIu64 " bytes of zeros stay: %s", size,
                           why);
    }
}

static void forget_explanations(struct macho_state *state)
{
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        struct section *section = &state->base.plan->sections[i];

        if (section->fate == FATE_ZEROED) {
            section->fate = FATE_REMOVED;
            section->reason = "";
        }
    }
}

/* Sections that are found by their type, if at all, and those of the profile runtime, which are
 * found by symbols. */
static bool is_nameless(const struct macho_section *section)
{
    uint32_t type = section->flags & SECTION_64_TYPE_MASK;

    return strncmp(section->sectname, "__llvm_prf_", strlen("__llvm_prf_")) == 0 ||
           (type >= S_NON_LAZY_SYMBOL_POINTERS && type <= S_LAZY_SYMBOL_POINTERS) ||
           (type >= S_MOD_INIT_FUNC_POINTERS && type <= S_MOD_TERM_FUNC_POINTERS) ||
           (type >= S_THREAD_LOCAL_REGULAR && type <= S_THREAD_LOCAL_INIT_FUNCTION_POINTERS);
}

static bool starts_nameless(const struct macho_state *state, const struct macho_hole *hole)
{
    const struct macho_segment *segment = &state->image.segments[hole->segment];
    uint64_t address = segment->vmaddr + (hole->offset - segment->fileoff);

    for (size_t i = 0; i < segment->section_count; i++) {
        const struct macho_section *section = &state->image.sections[segment->first_section + i];
        if (section->addr < address && !is_nameless(section))
            return false;
    }
    return true;
}

/* Whether the next segment loses all its bytes, so that its load command can be used for the rest
 * of this one. */
static bool can_split(struct macho_state *state, size_t segment)
{
    const struct macho_segment *first = &state->image.segments[segment], *next = first + 1;

    return segment + 1 < state->image.segment_count &&
           strcmp(first->segname, MACHO_DATA_SEGMENT) == 0 &&
           strcmp(next->segname, MACHO_COVERAGE_SEGMENT) == 0 && next->filesize != 0 &&
           image_plan_removes(state->base.plan, SECTION_COVMAP) &&
           state->image.sections[state->base.section_index[SECTION_COVMAP]].segment ==
               segment + 1 &&
           macho_filesize(state, segment + 1) == 0 && ends_with_page(state, segment) &&
           next->vmaddr == first->vmaddr + first->vmsize &&
           next->fileoff == first->fileoff + first->filesize && next->initprot == first->initprot &&
           next->maxprot == first->maxprot &&
           next->command ==
               first->command + SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)first->section_count;
}

/* Size of the stub if it is before the bytes that are split off. */
static uint64_t moved_stub_size(const struct macho_state *state)
{
    return state->zeros == NO_INDEX ? 0 : state->base.record_layout.record_size;
}

/* Offset of the mapping's tripwire from the start of the names' tripwire, which it follows. */
static uint64_t mapping_behind_names(const struct macho_state *state)
{
    return align_up(state->base.tripwire_size, MAPPING_ALIGNMENT);
}

/* Size of the stub and the tripwires before the bytes that are split off. */
static uint64_t tripwires_size(const struct macho_state *state)
{
    return moved_stub_size(state) + mapping_behind_names(state) + TRIPWIRE_MAPPING_SIZE;
}

/* Whether the tripwires fit where the hole ends: what is there is removed, up to the end of the
 * names. Makes the hole a page or more smaller if they do not fit otherwise. */
static bool make_room_behind(struct macho_state *state, struct macho_hole *hole)
{
    const struct section *names = image_plan_section(state->base.plan, SECTION_NAMES);
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);
    uint64_t page = state->image.page_size, names_end = names->offset + names->size;
    uint64_t start =
        follows_stub(state) ? data->offset + state->reserved[SECTION_DATA] : names->offset;
    uint64_t end = hole->offset + hole->size, room = end + tripwires_size(state);
    uint64_t missing = room > names_end ? align_up(room - names_end, page) : 0;

    if (end > align_up(names_end, page) || missing >= hole->size || end - missing < start)
        return false;
    hole->size -= missing;
    return true;
}

/* The largest hole that is followed by bytes of its segment. */
static struct macho_hole *largest_inner_hole(struct macho_hole *holes, size_t count)
{
    struct macho_hole *largest = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!holes[i].is_tail && (largest == NULL || holes[i].size > largest->size))
            largest = &holes[i];
    }
    return largest;
}

/* Chooses the holes to cut. `problem` says why no segment can be split; NULL if one may be. Returns
 * what prevented a split; NULL if a segment is split, or none needs to be. */
static const char *choose_holes(struct macho_state *state, const char *problem)
{
    struct macho_hole found[MACHO_HOLES_MAX];
    struct macho_hole *inner;
    size_t count;

    state->hole_count = 0;
    state->split_segment = NO_INDEX;
    forget_explanations(state);
    find_holes(state);
    count = state->hole_count;
    memcpy(found, state->holes, sizeof(found));
    inner = largest_inner_hole(found, count);
    state->hole_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (found[i].is_tail && ends_with_page(state, found[i].segment))
            state->holes[state->hole_count++] = found[i];
        else if (&found[i] != inner)
            explain_hole(state, &found[i], "its segment cannot be cut twice");
    }
    if (inner == NULL)
        return NULL;
    if (problem == NULL && !can_split(state, inner->segment))
        problem = "other bytes of its segment come behind it, and there is no empty segment "
                  "__LLVM_COV next to it that could take them";
    if (problem == NULL && !starts_nameless(state, inner))
        problem = "its segment has sections on both sides that programs may look for by name";
    if (problem == NULL &&
        (state->names_place != MACHO_NAMES_AT_SPLIT || !make_room_behind(state, inner)))
        problem = "no section would start where a new segment does, as LLVM's tools expect it";
    if (problem == NULL) {
        state->split_segment = inner->segment;
        state->split_fileoff = inner->offset + inner->size;
        state->holes[state->hole_count++] = *inner;
    } else {
        explain_hole(state, inner, problem);
    }
    return problem;
}

/* ---- the places of the tripwires ---- */

/* The mapping's first section: what stays must be at the start of its segment, so that everything
 * behind it can go. */
static const struct section *first_of_mapping(struct macho_state *state)
{
    const struct section *covmap = image_plan_section(state->base.plan, SECTION_COVMAP);
    const struct section *covfun = image_plan_section(state->base.plan, SECTION_COVFUN);
    const struct macho_section *sections = state->image.sections;

    return image_plan_removes(state->base.plan, SECTION_COVFUN) &&
                   covfun->offset < covmap->offset &&
                   sections[state->base.section_index[SECTION_COVFUN]].segment ==
                       sections[state->base.section_index[SECTION_COVMAP]].segment &&
                   covfun->size >= TRIPWIRE_MAPPING_SIZE
               ? covfun
               : covmap;
}

uint64_t macho_stub_offset(struct macho_state *state)
{
    return state->zeros != NO_INDEX ? state->split_fileoff
                                    : image_plan_section(state->base.plan, SECTION_DATA)->offset;
}

uint64_t macho_stub_address(struct macho_state *state)
{
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);

    return data->address + (macho_stub_offset(state) - data->offset);
}

uint64_t macho_mapping_offset(struct macho_state *state)
{
    return state->split_segment != NO_INDEX
               ? macho_names_offset(state) + mapping_behind_names(state)
               : first_of_mapping(state)->offset;
}

uint64_t macho_mapping_address(struct macho_state *state)
{
    return state->split_segment != NO_INDEX
               ? image_plan_section(state->base.plan, SECTION_COVMAP)->address
               : first_of_mapping(state)->address;
}

uint64_t macho_names_offset(struct macho_state *state)
{
    switch (state->names_place) {
    case MACHO_NAMES_BEHIND_STUB:
        return image_plan_section(state->base.plan, SECTION_DATA)->offset +
               state->base.record_layout.record_size;
    case MACHO_NAMES_AT_SPLIT:
        return state->split_fileoff + moved_stub_size(state);
    default:
        return image_plan_section(state->base.plan, SECTION_NAMES)->offset;
    }
}

uint64_t macho_names_address(struct macho_state *state)
{
    const struct section *names = image_plan_section(state->base.plan, SECTION_NAMES);

    /* The tripwire stays in its segment. */
    return names->address + (macho_names_offset(state) - names->offset);
}

static bool can_follow_stub(struct macho_state *state)
{
    return state->names_may_move && follows_stub(state) &&
           image_plan_section(state->base.plan, SECTION_DATA)->size >=
               state->base.record_layout.record_size + state->base.tripwire_size;
}

static bool is_in_hole(const struct macho_state *state, uint64_t offset, uint64_t size)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (ranges_overlap(offset, size, state->holes[i].offset, state->holes[i].size))
            return true;
    }
    return false;
}

static const char *choose_with_names(struct macho_state *state, enum macho_names_place place,
                                     uint64_t in_names, const char *problem)
{
    size_t tripwire = state->base.tripwire_size;

    state->names_place = place;
    state->reserved[SECTION_NAMES] = in_names;
    state->reserved[SECTION_DATA] = state->base.record_layout.record_size - moved_stub_size(state) +
                                    (place == MACHO_NAMES_BEHIND_STUB ? tripwire : 0);
    if (image_plan_removes(state->base.plan, SECTION_COVMAP))
        state->reserved[first_of_mapping(state)->kind] =
            place == MACHO_NAMES_AT_SPLIT ? 0 : TRIPWIRE_MAPPING_SIZE;
    return choose_holes(state, problem);
}

/* True if the stub may be where it was put, and whole pages of zeros go. */
static bool saves_zeros(struct macho_state *state)
{
    const struct macho_hole *hole = &state->holes[state->hole_count - 1];
    uint64_t end = image_plan_section(state->base.plan, SECTION_DATA)->offset;

    return state->split_segment != NO_INDEX &&
           hole->offset <
               align_up(end + state->base.record_layout.record_size, state->image.page_size) &&
           rules_can_rewrite(&state->base.code, RUNTIME_BEGIN_DATA, macho_stub_address(state));
}

/* Tries the possible places, cheapest first. The start of the names costs nothing if nothing is cut
 * there. */
static void place_names(struct macho_state *state, const char *problem)
{
    size_t tripwire = state->base.tripwire_size;

    if (tripwire != 0 && state->names_may_move) {
        state->zeros = problem == NULL ? find_zeros(state) : NO_INDEX;
        if (state->zeros != NO_INDEX) {
            choose_with_names(state, MACHO_NAMES_AT_SPLIT, 0, NULL);
            if (saves_zeros(state))
                return;
            state->zeros = NO_INDEX;
        }
        problem = choose_with_names(state, MACHO_NAMES_AT_SPLIT, 0, problem);
        if (state->split_segment != NO_INDEX)
            return;
    }
    choose_with_names(state, MACHO_NAMES_AT_START, 0, problem);
    if (tripwire == 0 || !is_in_hole(state, macho_names_offset(state), tripwire)) {
        state->reserved[SECTION_NAMES] = tripwire;
        return;
    }
    if (can_follow_stub(state))
        choose_with_names(state, MACHO_NAMES_BEHIND_STUB, 0, problem);
    else
        choose_with_names(state, MACHO_NAMES_AT_START, tripwire, problem);
}

/* ---- edits ---- */

/* Fills [start, end) with zeros, except for the holes and the tripwires before a split. */
static bool fill_with_zeros(struct macho_state *state, uint64_t start, uint64_t end)
{
    struct edit_script *edits = &state->base.plan->edits;
    uint64_t tripwires = state->split_fileoff, behind = tripwires + tripwires_size(state);

    if (state->split_segment != NO_INDEX && start < behind && end > tripwires)
        return (start >= tripwires || fill_with_zeros(state, start, tripwires)) &&
               (end <= behind || fill_with_zeros(state, behind, end));
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

static bool add_tripwire(struct macho_state *state)
{
    return edit_replace(&state->base.plan->edits, macho_names_offset(state),
                        state->base.tripwire_size,
                        planning_rest(&state->base, SECTION_NAMES, state->base.tripwire_size));
}

/* Adds the mapping's tripwire, with the padding between it and that of the names, if that is
 * there. */
static bool add_mapping_tripwire(struct macho_state *state)
{
    uint8_t bytes[MAPPING_ALIGNMENT + TRIPWIRE_MAPPING_SIZE] = {0};
    size_t padding = state->split_segment == NO_INDEX
                         ? 0
                         : mapping_behind_names(state) - state->base.tripwire_size;
    size_t size = padding + TRIPWIRE_MAPPING_SIZE;

    memcpy(bytes + padding, state->base.mapping_tripwire, TRIPWIRE_MAPPING_SIZE);
    return edit_replace(&state->base.plan->edits, macho_mapping_offset(state) - padding, size,
                        (struct bytes){bytes, size});
}

static bool add_stub(struct macho_state *state)
{
    struct bytes stub = planning_rest(&state->base, SECTION_DATA, 0);

    return edit_replace(&state->base.plan->edits, macho_stub_offset(state), stub.size, stub);
}

static bool add_edits(struct macho_state *state)
{
    if (image_plan_removes(state->base.plan, SECTION_DATA) && !add_stub(state))
        return false;
    if (image_plan_removes(state->base.plan, SECTION_NAMES) && !add_tripwire(state))
        return false;
    if (image_plan_removes(state->base.plan, SECTION_COVMAP) && !add_mapping_tripwire(state))
        return false;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        uint64_t end = section->offset + section->size;

        if (section->fate != FATE_STAYS &&
            !fill_with_zeros(state, section->offset + state->reserved[section->kind], end))
            return false;
    }
    for (size_t i = 0; i < state->hole_count; i++) {
        if (!edit_cut(&state->base.plan->edits, state->holes[i].offset, state->holes[i].size))
            return false;
    }
    return true;
}

/* If only the mapping is removed, no fixup changes, so none needs to be understood. */
static bool plan_fixups(struct macho_state *state, const char **problem)
{
    *problem = NULL;
    if (!image_plan_removes(state->base.plan, SECTION_NAMES) &&
        !image_plan_removes(state->base.plan, SECTION_DATA))
        return true;
    return macho_relink_plan(state, problem) && macho_recode_plan(state, problem);
}

static void count_zeros(struct macho_state *state)
{
    uint64_t data = image_plan_section(state->base.plan, SECTION_DATA)->offset;

    for (size_t i = 0; i < state->hole_count && state->zeros != NO_INDEX; i++) {
        const struct macho_hole *hole = &state->holes[i];

        if (!hole->is_tail && hole->offset < data)
            state->base.plan->zeros_size += data - hole->offset;
    }
}

bool macho_layout(struct macho_state *state, struct error *error)
{
    struct edit_script *edits = &state->base.plan->edits;
    size_t edits_before = edits->count, literals_before = edits->literals.size;
    const char *problem;
    bool done;

    state->split_segment = NO_INDEX;
    state->zeros = NO_INDEX;
    state->names_may_move = !rules_is_shared(&state->base.code, RUNTIME_BEGIN_NAMES);
    place_names(state, NULL);
    done = plan_fixups(state, &problem);
    if (!done && problem != NULL && state->split_segment != NO_INDEX) {
        edits->count = edits_before;
        edits->literals.size = literals_before;
        state->chains_growth = 0;
        state->rebase_growth = 0;
        place_names(state, problem);
        done = plan_fixups(state, &problem);
    }
    if (!done && problem != NULL)
        return error_set(error, "%s: %s; use --sections without names and data", state->image.path,
                         problem);
    if (done && image_plan_removes(state->base.plan, SECTION_DATA) &&
        !data_move(&state->base, macho_stub_address(state), error))
        return false;
    if (!done || !add_edits(state))
        return error_out_of_memory(error, state->image.path, edits->literals.size);
    count_zeros(state);
    return !image_plan_removes(state->base.plan, SECTION_NAMES) ||
           names_move(&state->base, macho_names_address(state), error);
}
