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
 * Pages that cannot be cut are filled with zeros, which saves nothing in the file but compresses
 * well.
 */
#include <inttypes.h>
#include <string.h>

#include "formats/macho/macho.h"

/* The alignment of the records in __llvm_covmap. */
#define MAPPING_ALIGNMENT 8

static struct section *planned(const struct macho_state *state, enum section_kind kind)
{
    return image_plan_section(state->base.plan, kind);
}

static bool removes(const struct macho_state *state, enum section_kind kind)
{
    return image_plan_removes(state->base.plan, kind);
}

/* The section of a kind that the image has. */
static const struct macho_section *section_of(const struct macho_state *state,
                                              enum section_kind kind)
{
    return &state->image.sections[state->base.section_index[kind]];
}

/* ---- where stub and tripwires are ---- */

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
static uint64_t size_at_split(const struct macho_state *state)
{
    return moved_stub_size(state) + mapping_behind_names(state) + TRIPWIRE_MAPPING_SIZE;
}

/* True if the names come right behind data that is removed, too. Section headers are in the order
 * of addresses, which must stay so. */
static bool names_follow_data(const struct macho_state *state)
{
    size_t names = state->base.section_index[SECTION_NAMES],
           data = state->base.section_index[SECTION_DATA];

    return removes(state, SECTION_DATA) && names == data + 1 &&
           state->image.sections[names].segment == state->image.sections[data].segment;
}

/* The mapping's first section: what stays must be at the start of its segment, so that everything
 * behind it can go. */
static const struct section *first_of_mapping(const struct macho_state *state)
{
    const struct section *covmap = planned(state, SECTION_COVMAP);
    const struct section *covfun = planned(state, SECTION_COVFUN);

    return removes(state, SECTION_COVFUN) && covfun->offset < covmap->offset &&
                   section_of(state, SECTION_COVFUN)->segment ==
                       section_of(state, SECTION_COVMAP)->segment &&
                   covfun->size >= TRIPWIRE_MAPPING_SIZE
               ? covfun
               : covmap;
}

/* The place of what stays of a section; it is in the section's segment. */
static struct macho_place place_at(const struct section *section, uint64_t offset)
{
    return (struct macho_place){offset, section->address + (offset - section->offset)};
}

/* Sets where stub and tripwires are, now that it is known whether a segment is split. */
static void find_places(struct macho_state *state)
{
    const struct section *data = planned(state, SECTION_DATA);
    const struct section *names = planned(state, SECTION_NAMES);
    uint64_t names_at_split = state->split_fileoff + moved_stub_size(state);

    if (removes(state, SECTION_DATA))
        state->stub =
            place_at(data, state->zeros != NO_INDEX ? state->split_fileoff : data->offset);
    if (removes(state, SECTION_NAMES))
        state->names = place_at(names, state->names_place == MACHO_NAMES_AT_SPLIT ? names_at_split
                                       : state->names_place == MACHO_NAMES_BEHIND_STUB
                                           ? data->offset + state->base.record_layout.record_size
                                           : names->offset);
    if (!removes(state, SECTION_COVMAP))
        return;
    state->mapping = place_at(first_of_mapping(state), first_of_mapping(state)->offset);
    if (state->split_segment != NO_INDEX)
        state->mapping = (struct macho_place){names_at_split + mapping_behind_names(state),
                                              planned(state, SECTION_COVMAP)->address};
}

/* ---- zeros ---- */

/* True for a section of the runtime that is nothing but zeros up to the next one. */
static bool is_zeros(const struct macho_state *state, size_t index)
{
    const struct macho_section *section = &state->image.sections[index], *next = section + 1;

    return strncmp(section->sectname, "__llvm_prf_", strlen("__llvm_prf_")) == 0 &&
           (section->flags & SECTION_64_TYPE_MASK) == S_REGULAR &&
           next->offset >= section->offset &&
           bytes_zero_at(state->image.file, section->offset, next->offset - section->offset);
}

/* The first of the sections of zeros right before the data; NO_INDEX if there is none, dyld makes
 * something else of a zero in or between them, or the stub cannot be elsewhere. */
static size_t find_zeros(const struct macho_state *state)
{
    size_t data = state->base.section_index[SECTION_DATA], first = data;
    struct macho_section run;
    const char *reason;

    if ((state->base.options->sections & SECTION_ZEROS) == 0 || !names_follow_data(state) ||
        rules_is_shared(&state->base.code, RUNTIME_BEGIN_DATA))
        return NO_INDEX;
    while (first > state->image.segments[state->image.sections[data].segment].first_section &&
           is_zeros(state, first - 1))
        first--;
    run = state->image.sections[first];
    run.size = state->image.sections[data].addr - run.addr;
    return first < data && macho_fixups_each(&state->image, macho_fixup_is_outside, &run, &reason)
               ? first
               : NO_INDEX;
}

/* ---- holes ---- */

/* The file offset behind the bytes at the start of the section that stay. */
static uint64_t end_of_kept(const struct macho_state *state, size_t index)
{
    const struct macho_section *section = &state->image.sections[index];

    if (state->zeros != NO_INDEX && index >= state->zeros &&
        index < state->base.section_index[SECTION_DATA])
        return section->offset;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *removed = &state->base.plan->sections[i];

        if (section_goes(removed) && state->base.section_index[removed->kind] == index)
            return section->offset + state->reserved[removed->kind];
    }
    return section->offset + section->size;
}

static bool are_zeros(const struct macho_state *state, uint64_t start, uint64_t end)
{
    return start <= end && bytes_zero_at(state->image.file, start, end - start);
}

/* Adds the whole pages in [start, end), and up to `next` if what is between is zero: there are the
 * next bytes that stay, or the end of the segment. */
static void add_hole(struct macho_state *state, size_t segment, uint64_t start, uint64_t end,
                     uint64_t next)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    struct macho_hole hole = {.segment = segment,
                              .offset = align_up(start, state->image.page_size)};

    end = end > next || are_zeros(state, end, next) ? next : end;
    hole.is_tail = end == holder->fileoff + holder->filesize;
    end = align_down(end, state->image.page_size);
    if (end <= hole.offset || state->hole_count == MACHO_HOLES_MAX)
        return;
    hole.size = end - hole.offset;
    state->holes[state->hole_count++] = hole;
}

/* Finds the runs of removed bytes, and of zeros between these. */
static void find_holes(struct macho_state *state)
{
    uint64_t start = 0, end = 0; /* of the run; there is none if they are equal */
    size_t segment = 0;          /* of the run */

    state->hole_count = 0;
    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];
        const struct macho_segment *holder = &state->image.segments[segment];
        uint64_t kept = end_of_kept(state, i);
        bool is_next = section->segment == segment;

        if (!macho_section_in_file(section))
            continue;
        if (start != end &&
            (!is_next || kept != section->offset || !are_zeros(state, end, section->offset))) {
            add_hole(state, segment, start, end,
                     is_next ? section->offset : holder->fileoff + holder->filesize);
            start = end;
        }
        if (kept >= section->offset + section->size)
            continue;
        start = start == end ? kept : start;
        end = section->offset + section->size;
        segment = section->segment;
    }
    if (start != end)
        add_hole(state, segment, start, end,
                 state->image.segments[segment].fileoff + state->image.segments[segment].filesize);
}

/* ---- which of them are cut ---- */

/* A segment that does not end at a page boundary keeps its bytes; otherwise what is behind it would
 * not be aligned. */
static bool ends_with_page(const struct macho_state *state, size_t segment)
{
    return state->image.segments[segment].filesize % state->image.page_size == 0;
}

/* True if all sections before the hole are found by their type, if at all, or, as those of the
 * profile runtime, by symbols. */
static bool starts_nameless(const struct macho_state *state, const struct macho_hole *hole)
{
    const struct macho_segment *segment = &state->image.segments[hole->segment];
    uint64_t address = segment->vmaddr + (hole->offset - segment->fileoff);

    for (size_t i = 0; i < segment->section_count; i++) {
        const struct macho_section *section = &state->image.sections[segment->first_section + i];
        uint32_t type = section->flags & SECTION_64_TYPE_MASK;
        bool is_nameless =
            strncmp(section->sectname, "__llvm_prf_", strlen("__llvm_prf_")) == 0 ||
            (type >= S_NON_LAZY_SYMBOL_POINTERS && type <= S_LAZY_SYMBOL_POINTERS) ||
            (type >= S_MOD_INIT_FUNC_POINTERS && type <= S_MOD_TERM_FUNC_POINTERS) ||
            (type >= S_THREAD_LOCAL_REGULAR && type <= S_THREAD_LOCAL_INIT_FUNCTION_POINTERS);

        if (section->addr < address && !is_nameless)
            return false;
    }
    return true;
}

/* True if the next segment loses all its bytes, so that its load command can be used for the rest
 * of this one. */
static bool can_split(const struct macho_state *state, size_t segment)
{
    const struct macho_segment *first = &state->image.segments[segment], *next = first + 1;

    return segment + 1 < state->image.segment_count &&
           strcmp(first->segname, MACHO_DATA_SEGMENT) == 0 &&
           strcmp(next->segname, MACHO_COVERAGE_SEGMENT) == 0 && next->filesize != 0 &&
           removes(state, SECTION_COVMAP) &&
           section_of(state, SECTION_COVMAP)->segment == segment + 1 &&
           macho_filesize(state, segment + 1) == 0 && ends_with_page(state, segment) &&
           next->vmaddr == first->vmaddr + first->vmsize &&
           next->fileoff == first->fileoff + first->filesize && next->initprot == first->initprot &&
           next->maxprot == first->maxprot &&
           next->command ==
               first->command + SEGMENT_SIZE + SECTION_64_SIZE * (uint64_t)first->section_count;
}

/* True if stub and tripwires fit where the hole ends: what is there is removed, up to the end of
 * the names. Makes the hole a page or more smaller if they do not fit otherwise. */
static bool make_room_behind(const struct macho_state *state, struct macho_hole *hole)
{
    const struct section *names = planned(state, SECTION_NAMES);
    uint64_t page = state->image.page_size, names_end = names->offset + names->size;
    uint64_t start = names_follow_data(state)
                         ? planned(state, SECTION_DATA)->offset + state->reserved[SECTION_DATA]
                         : names->offset;
    uint64_t end = hole->offset + hole->size, room = end + size_at_split(state);
    uint64_t missing = room > names_end ? align_up(room - names_end, page) : 0;

    if (end > align_up(names_end, page) || missing >= hole->size || end - missing < start)
        return false;
    hole->size -= missing;
    return true;
}

/* The reason why the segment cannot be split behind the hole; NULL if it can. */
static const char *why_not_split(const struct macho_state *state, struct macho_hole *hole)
{
    if (!can_split(state, hole->segment))
        return "other bytes of its segment come behind it, and there is no empty segment "
               "__LLVM_COV next to it that could take them";
    if (!starts_nameless(state, hole))
        return "its segment has sections on both sides that programs may look for by name";
    if (state->names_place != MACHO_NAMES_AT_SPLIT || !make_room_behind(state, hole))
        return "no section would start where a new segment does, as LLVM's tools expect it";
    return NULL;
}

/* Chooses the holes to cut: those at the end of their segments, and the largest one that is
 * followed by bytes of its segment. `problem` says why no segment can be split; NULL if one may be.
 * Returns what prevented a split; NULL if a segment is split, or none needs to be. */
static const char *choose_holes(struct macho_state *state, const char *problem)
{
    struct macho_hole *inner = NULL;

    state->split_segment = NO_INDEX;
    find_holes(state);
    for (size_t i = 0; i < state->hole_count; i++) {
        struct macho_hole *hole = &state->holes[i];

        if (hole->is_tail && ends_with_page(state, hole->segment))
            continue;
        hole->why = "its segment cannot be cut twice";
        if (!hole->is_tail && (inner == NULL || hole->size > inner->size))
            inner = hole;
    }
    if (inner != NULL)
        inner->why = problem != NULL ? problem : why_not_split(state, inner);
    if (inner != NULL && inner->why == NULL) {
        state->split_segment = inner->segment;
        state->split_fileoff = inner->offset + inner->size;
    }
    find_places(state);
    return inner == NULL ? NULL : inner->why;
}

/* ---- the bytes that stay ---- */

static const char *choose_with_names(struct macho_state *state, enum macho_names_place place,
                                     uint64_t in_names, const char *problem)
{
    state->names_place = place;
    state->reserved[SECTION_NAMES] = in_names;
    state->reserved[SECTION_DATA] =
        state->base.record_layout.record_size - moved_stub_size(state) +
        (place == MACHO_NAMES_BEHIND_STUB ? state->base.tripwire_size : 0);
    if (removes(state, SECTION_COVMAP))
        state->reserved[first_of_mapping(state)->kind] =
            place == MACHO_NAMES_AT_SPLIT ? 0 : TRIPWIRE_MAPPING_SIZE;
    return choose_holes(state, problem);
}

/* The hole that is cut and has the byte, or NULL. */
static const struct macho_hole *hole_at(const struct macho_state *state, uint64_t offset,
                                        uint64_t size)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (state->holes[i].why == NULL &&
            ranges_overlap(offset, size, state->holes[i].offset, state->holes[i].size))
            return &state->holes[i];
    }
    return NULL;
}

/* Tries to put the stub before the bytes that are split off. False if no page of zeros would go. */
static bool take_zeros(struct macho_state *state)
{
    uint64_t stub = planned(state, SECTION_DATA)->offset;
    const struct macho_hole *hole;

    choose_with_names(state, MACHO_NAMES_AT_SPLIT, 0, NULL);
    if (state->split_segment == NO_INDEX ||
        !rules_can_rewrite(&state->base.code, RUNTIME_BEGIN_DATA, state->stub.address))
        return false;
    hole = hole_at(state, state->split_fileoff - 1, 1);
    if (hole->offset >=
        align_up(stub + state->base.record_layout.record_size, state->image.page_size))
        return false;
    state->base.plan->zeros_size = stub > hole->offset ? stub - hole->offset : 0;
    return true;
}

/* Tries the possible places, cheapest first. The start of the names costs nothing if nothing is cut
 * there. */
static void place_names(struct macho_state *state, const char *problem)
{
    size_t tripwire = state->base.tripwire_size;

    state->zeros = NO_INDEX;
    state->base.plan->zeros_size = 0;
    if (tripwire != 0 && state->names_may_move) {
        state->zeros = problem == NULL ? find_zeros(state) : NO_INDEX;
        if (state->zeros != NO_INDEX && take_zeros(state))
            return;
        state->zeros = NO_INDEX;
        problem = choose_with_names(state, MACHO_NAMES_AT_SPLIT, 0, problem);
        if (state->split_segment != NO_INDEX)
            return;
    }
    choose_with_names(state, MACHO_NAMES_AT_START, 0, problem);
    if (tripwire == 0 || hole_at(state, state->names.offset, tripwire) == NULL)
        state->reserved[SECTION_NAMES] = tripwire;
    else if (state->names_may_move && names_follow_data(state) &&
             planned(state, SECTION_DATA)->size >= state->base.record_layout.record_size + tripwire)
        choose_with_names(state, MACHO_NAMES_BEHIND_STUB, 0, problem);
    else
        choose_with_names(state, MACHO_NAMES_AT_START, tripwire, problem);
}

uint64_t macho_filesize(const struct macho_state *state, size_t segment)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    uint64_t filesize = holder->filesize;

    for (size_t i = 0; i < state->hole_count; i++) {
        const struct macho_hole *hole = &state->holes[i];

        if (hole->why == NULL && hole->segment == segment &&
            (hole->is_tail || segment == state->split_segment) &&
            hole->offset - holder->fileoff < filesize)
            filesize = hole->offset - holder->fileoff;
    }
    return filesize;
}

enum macho_fixup_fate macho_fixup_fate(const struct macho_state *state, size_t segment,
                                       uint64_t address)
{
    const struct macho_segment *holder = &state->image.segments[segment];
    const struct section *data = planned(state, SECTION_DATA);
    uint64_t offset = holder->fileoff + (address - holder->vmaddr);

    if (data != NULL && section_goes(data) && range_within(address, 1, data->address, data->size))
        return MACHO_FIXUP_GOES;
    if (hole_at(state, offset, sizeof(uint64_t)) != NULL)
        return MACHO_FIXUP_IS_CUT;
    return segment == state->split_segment && offset >= state->split_fileoff ? MACHO_FIXUP_BEHIND
                                                                             : MACHO_FIXUP_STAYS;
}

/* ---- edits ---- */

/* Fills [start, end) with zeros, except for the holes, and stub and tripwires before a split. */
static void fill_with_zeros(struct macho_state *state, uint64_t start, uint64_t end)
{
    while (start < end) {
        uint64_t zeros_end = end, next = end;

        for (size_t i = 0; i <= state->hole_count; i++) {
            bool is_split = i == state->hole_count;
            const struct macho_hole *hole = &state->holes[i];
            uint64_t from = is_split ? state->split_fileoff : hole->offset;
            uint64_t size = is_split ? size_at_split(state) : hole->size;

            if ((is_split ? state->split_segment != NO_INDEX : hole->why == NULL) &&
                ranges_overlap(start, zeros_end - start, from, size)) {
                zeros_end = from > start ? from : start;
                next = from + size;
            }
        }
        edit_replace_by_zeros(&state->base.plan->edits, start, zeros_end - start,
                              zeros_end - start);
        start = next;
    }
}

/* Adds what stays of removed sections, zeros, and cuts. Between the tripwires of names and mapping
 * there may be padding. */
static void add_edits(struct macho_state *state)
{
    struct image_plan *plan = state->base.plan;
    struct bytes stub = planning_remnant(&state->base, SECTION_DATA, 0);
    struct bytes tripwire = planning_remnant(&state->base, SECTION_NAMES, 0);
    uint8_t mapping[MAPPING_ALIGNMENT + TRIPWIRE_MAPPING_SIZE] = {0};
    size_t padding = state->split_segment == NO_INDEX
                         ? 0
                         : (size_t)(mapping_behind_names(state) - tripwire.size);

    memcpy(mapping + padding, state->base.mapping_tripwire, TRIPWIRE_MAPPING_SIZE);
    if (removes(state, SECTION_DATA))
        edit_replace(&plan->edits, state->stub.offset, stub.size, stub);
    if (removes(state, SECTION_NAMES))
        edit_replace(&plan->edits, state->names.offset, tripwire.size, tripwire);
    if (removes(state, SECTION_COVMAP))
        edit_replace(&plan->edits, state->mapping.offset - padding, padding + TRIPWIRE_MAPPING_SIZE,
                     (struct bytes){mapping, padding + TRIPWIRE_MAPPING_SIZE});
    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        if (section_goes(section))
            fill_with_zeros(state, section->offset + state->reserved[section->kind],
                            section->offset + section->size);
    }
    for (size_t i = 0; i < state->hole_count; i++) {
        if (state->holes[i].why == NULL)
            edit_cut(&plan->edits, state->holes[i].offset, state->holes[i].size);
    }
}

/* Says of sections in holes that are not cut how many bytes stay, and why. */
static void explain_holes(struct macho_state *state)
{
    struct image_plan *plan = state->base.plan;

    for (size_t i = 0; i < state->hole_count; i++) {
        const struct macho_hole *hole = &state->holes[i];

        for (size_t j = 0; j < plan->section_count && hole->why != NULL; j++) {
            struct section *section = &plan->sections[j];
            uint64_t start = section->offset > hole->offset ? section->offset : hole->offset;
            uint64_t end = section->offset + section->size;

            end = end < hole->offset + hole->size ? end : hole->offset + hole->size;
            if (!section_goes(section) || end <= start)
                continue;
            section->fate = FATE_ZEROED;
            image_plan_explain(plan, section, "%" PRIu64 " bytes of zeros stay: %s", end - start,
                               hole->why);
        }
    }
}

/* If only the mapping is removed, no fixup changes, so none needs to be understood. */
static void plan_fixups(struct macho_state *state, const char **problem)
{
    *problem = NULL;
    if (removes(state, SECTION_NAMES) || removes(state, SECTION_DATA))
        (void)(macho_relink_plan(state, problem) && macho_recode_plan(state, problem));
}

bool macho_layout(struct macho_state *state, struct error *error)
{
    struct edit_script *edits = &state->base.plan->edits;
    size_t edits_before = edits->count, literals_before = edits->literals.size;
    const char *problem;

    state->names_may_move = !rules_is_shared(&state->base.code, RUNTIME_BEGIN_NAMES);
    place_names(state, NULL);
    plan_fixups(state, &problem);
    if (problem != NULL && state->split_segment != NO_INDEX) {
        edits->count = edits_before;
        edits->literals.size = literals_before;
        state->chains_growth = 0;
        state->rebase_growth = 0;
        place_names(state, problem);
        plan_fixups(state, &problem);
    }
    explain_holes(state);
    if (problem != NULL)
        return error_set(error, "%s: %s; use --sections without names and data", state->image.path,
                         problem);
    if ((removes(state, SECTION_DATA) && !data_move(&state->base, state->stub.address, error)) ||
        (removes(state, SECTION_NAMES) && !names_move(&state->base, state->names.address, error)))
        return false;
    add_edits(state);
    return !edits->has_no_memory ||
           error_out_of_memory(error, state->image.path, edits->literals.size);
}
