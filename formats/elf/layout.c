/*
 * Takes the bytes of removed sections out of the file without moving anything in memory.
 *
 * Sections that are not loaded are simply cut. From a loaded section whole pages are cut: its
 * segment is split around them, which takes one more program header for each hole; elf/room.c makes
 * room for that.
 *
 * What cannot be cut is filled with zeros, which saves nothing in the file but compresses well.
 *
 * No system maps firmware, so pages mean nothing there. What counts is what is written to flash:
 * its segments are split around all that can go, however little of that is cut from the file.
 */
#include "formats/elf/elf.h"
#include "formats/names_and_data.h"

#include <inttypes.h>
#include <stdio.h>

/* In firmware, cuts of the file are multiples of this at least, which keeps its tables aligned; and
 * segments are split at multiples of the largest unit in which flash memory is written, so that no
 * two of them share one. */
#define FILE_UNIT  UINT64_C(16)
#define FLASH_UNIT UINT64_C(32)
/* The tripwire behind the stub is at a multiple of this. */
#define JOIN_UNIT UINT64_C(8)

static uint64_t page_size(const struct elf_state *state)
{
    return state->image.machine->page_size;
}

/* ---- sections that are not loaded ---- */

/* The largest alignment of what follows `end`: cuts are multiples of it. */
static uint64_t alignment_behind(const struct elf_state *state, uint64_t end)
{
    const struct elf_image *image = &state->image;
    uint64_t alignment = image->elf.header.e_shoff >= end ? image->sizes.word : 1;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_addralign > alignment)
            alignment = shdr->sh_addralign;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        uint64_t unit = phdr->p_align > page_size(state) ? phdr->p_align : page_size(state);
        if (phdr->p_type == PT_LOAD && phdr->p_offset >= end && unit > alignment)
            alignment = unit;
    }
    return alignment;
}

/* The end of the zero padding between `end` and what comes next in the file. */
static uint64_t padding_end(const struct elf_state *state, uint64_t end)
{
    const struct elf_image *image = &state->image;
    uint64_t next =
        image->elf.header.e_shoff >= end ? image->elf.header.e_shoff : image->elf.bytes.size;
    struct bytes gap;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_offset < next)
            next = shdr->sh_offset;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_filesz != 0 && phdr->p_offset >= end && phdr->p_offset < next)
            next = phdr->p_offset;
    }
    /* A page or more is not padding. */
    if (next - end >= page_size(state) || !bytes_slice(image->elf.bytes, end, next - end, &gap) ||
        !bytes_all_zero(gap))
        return end;
    return next;
}

/* True if notes follow in the file. The runtime looks for them by their offset, rightly or wrongly
 * (see elf/room.c), and a cut before them would make it look elsewhere. */
static bool notes_follow(const struct elf_state *state, uint64_t offset)
{
    const struct elf_image *image = &state->image;

    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_NOTE && phdr->p_filesz != 0 && phdr->p_offset >= offset &&
            !state->is_firmware)
            return true;
    }
    return false;
}

/* The size in bytes of what can be cut from `start` to `end`, and to the end of the padding behind
 * that (offsets in the file): what follows keeps its alignment. */
static uint64_t cut_size(const struct elf_state *state, uint64_t start, uint64_t end)
{
    return notes_follow(state, end)
               ? 0
               : align_down(padding_end(state, end) - start, alignment_behind(state, end));
}

/* Cuts all of the section except `rest`, which stays at its start. */
static bool cut_unloaded(struct elf_state *state, const struct section *section, struct bytes rest)
{
    uint64_t start = section->offset + rest.size;

    return planning_empty(&state->base, section, rest, start,
                          start + cut_size(state, start, section->offset + section->size));
}

/* Coverage mapping leaves a tripwire: a record that no reader accepts. */
static bool empty_unloaded(struct elf_state *state, const struct section *section)
{
    return cut_unloaded(state, section, planning_rest(&state->base, section->kind, section->size));
}

static bool cut_retained_relocations(struct elf_state *state)
{
    for (size_t i = 1; i < state->image.shnum; i++) {
        struct section section = {.offset = state->image.shdrs[i].sh_offset,
                                  .size = state->image.shdrs[i].sh_size};

        if (elf_retained_goes(state, i) && !cut_unloaded(state, &section, (struct bytes){0}))
            return false;
    }
    return true;
}

/* ---- what stays of names and records ---- */

/* In firmware the tripwire goes behind the stub if the names come behind the records: nothing stays
 * of the names then, and if they are last in flash, all of it is free. */
static bool may_join_rests(const struct elf_state *state, uint64_t *address)
{
    struct image_plan *plan = state->base.plan;
    const struct section *data = image_plan_section(plan, SECTION_DATA);
    const struct section *names = image_plan_section(plan, SECTION_NAMES);
    uint64_t unit, size = state->base.tripwire_size;

    if (!state->is_firmware || !image_plan_removes(plan, SECTION_DATA) ||
        names->address < data->address + data->size)
        return false;
    unit = names->alignment > JOIN_UNIT ? names->alignment : JOIN_UNIT;
    *address = align_up(data->address + state->base.record_layout.record_size, unit);
    return range_within(*address, size, data->address, data->size) &&
           rules_can_rewrite(&state->base.code, RUNTIME_BEGIN_NAMES, *address) &&
           rules_can_rewrite(&state->base.code, RUNTIME_END_NAMES, *address + size);
}

static bool place_rests(struct elf_state *state)
{
    const struct planning *planning = &state->base;
    const struct section *names = image_plan_section(planning->plan, SECTION_NAMES);
    size_t record = planning->record_layout.record_size;
    size_t padding = planning->tripwire_padding;
    bool done = true;

    if (!image_plan_removes(planning->plan, SECTION_NAMES))
        return true;
    state->rests_are_joined = may_join_rests(state, &state->names_address);
    if (state->rests_are_joined) {
        const struct section *data = image_plan_section(planning->plan, SECTION_DATA);

        padding = (size_t)(state->names_address - data->address) - record;
        done = buffer_append(&state->moved, planning->stub, record);
    } else {
        state->names_address = names->address + padding;
    }
    done = done && buffer_append_zeros(&state->moved, padding) &&
           buffer_append(&state->moved, planning->tripwire, planning->tripwire_size);
    state->rest_size = state->moved.size;
    return done;
}

/* What is at the start of a removed section that is loaded. */
static struct bytes rest_of(const struct elf_state *state, const struct section *section)
{
    enum section_kind owner = state->rests_are_joined ? SECTION_DATA : SECTION_NAMES;

    if (section->kind == owner)
        return buffer_view(&state->moved);
    return section->kind == SECTION_NAMES
               ? (struct bytes){0}
               : planning_rest(&state->base, section->kind, section->size);
}

/* Whether only the padding for an alignment is between the records and the names, and nothing stays
 * of that. */
static bool is_one_range(const struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    const struct section *data = image_plan_section(state->base.plan, SECTION_DATA);
    const struct section *names = image_plan_section(state->base.plan, SECTION_NAMES);
    uint64_t end;

    if (!state->rests_are_joined)
        return false;
    end = data->address + data->size;
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        if ((shdr->sh_flags & SHF_ALLOC) != 0 &&
            ranges_overlap(shdr->sh_addr, shdr->sh_size, end, names->address - end))
            return false;
    }
    return elf_segment_of(image, data->address, names->address + names->size - data->address) !=
               NO_INDEX &&
           names->address == align_up(end, names->alignment > 1 ? names->alignment : 1);
}

/* ---- holes ---- */

/* Cuts shift what is behind them in the file; they are multiples of the alignment of every segment,
 * so that all segments stay congruent. */
static uint64_t cut_unit(const struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    uint64_t unit = state->is_firmware ? FILE_UNIT : page_size(state);

    for (size_t i = 0; i < image->phnum; i++) {
        if (image->phdrs[i].p_type == PT_LOAD && image->phdrs[i].p_align > unit)
            unit = image->phdrs[i].p_align;
    }
    return unit;
}

/* True if a segment is not aligned to pages (ld -n, ld -N) and so cannot be split. */
static bool has_unaligned_segments(const struct elf_image *image)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && phdr->p_align < image->machine->page_size)
            return true;
    }
    return false;
}

static bool crosses_other_segment(const struct elf_image *image, const struct elf_hole *hole)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        /* p_memsz of PT_GNU_STACK is the size of a stack. */
        if (phdr->p_type != PT_LOAD && phdr->p_type != PT_GNU_STACK &&
            ranges_overlap(phdr->p_vaddr, phdr->p_memsz, hole->address, hole->size))
            return true;
    }
    return false;
}

/* RISC-V's attributes are for tools that read the file; lld gives them the address 0. */
static bool is_unloaded(const struct elf_image *image, const Elf64_Phdr *phdr)
{
    return phdr->p_memsz == 0 ||
           (image->elf.header.e_machine == EM_RISCV && phdr->p_type == PT_RISCV_ATTRIBUTES);
}

/* The other program headers must agree with the PT_LOAD that contains them, because they are mapped
 * by both offset and address. */
static bool segments_are_consistent(const struct elf_image *image)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        bool is_all_in_file = phdr->p_type == PT_NOTE || phdr->p_type == PT_INTERP ||
                              phdr->p_type == PT_GNU_PROPERTY || phdr->p_type == PT_PHDR;
        size_t load;

        if (phdr->p_type == PT_LOAD || phdr->p_filesz == 0 || is_unloaded(image, phdr))
            continue;
        load = elf_segment_of(image, phdr->p_vaddr, phdr->p_filesz);
        if (load == NO_INDEX || (is_all_in_file && phdr->p_memsz != phdr->p_filesz) ||
            phdr->p_vaddr - phdr->p_offset !=
                image->phdrs[load].p_vaddr - image->phdrs[load].p_offset)
            return false;
    }
    return true;
}

/* Why the segment cannot be split around the hole; NULL if it can. */
static const char *why_not_cut(const struct elf_state *state, const struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;

    if ((has_unaligned_segments(image) && !state->is_firmware) ||
        crosses_other_segment(image, hole))
        return "its segment cannot be split there";
    if (!segments_are_consistent(image))
        return "the image's program headers contradict each other";
    if (notes_follow(state, hole->cut_offset))
        return "notes that the profile runtime reads follow it; link so that they precede it";
    return NULL;
}

static bool is_at_end(const Elf64_Phdr *phdr, const struct section *section)
{
    return phdr->p_filesz == phdr->p_memsz &&
           section->address + section->size == phdr->p_vaddr + phdr->p_filesz;
}

/* The whole pages, or larger units, behind the first `reserved` bytes of the section. */
static void find_pages(const struct section *section, uint64_t reserved, uint64_t unit,
                       struct elf_hole *hole)
{
    uint64_t end = align_down(section->address + section->size, unit);

    hole->address = align_up(section->address + reserved, unit);
    if (reserved < section->size && end > hole->address)
        hole->size = end - hole->address;
    hole->cut = hole->size;
}

/* In firmware: all that shares no unit of flash with the bytes before or behind it, also where less
 * goes from the file. Records and names that touch go as one, which is the hole of the records. */
static void find_flash(const struct elf_state *state, const struct section *section,
                       uint64_t reserved, uint64_t unit, struct elf_hole *hole)
{
    bool is_joined = is_one_range(state), has_names = is_joined && section->kind == SECTION_DATA;
    uint64_t end = section->address + section->size;

    hole->address = align_up(section->address + reserved, FLASH_UNIT);
    if (reserved == 0 && hole->segment != NO_INDEX &&
        (section->address == state->image.phdrs[hole->segment].p_vaddr || is_joined))
        hole->address = section->address;
    if (!hole->is_at_end && !has_names)
        end = align_down(end, FLASH_UNIT);
    if (reserved < section->size && end > hole->address)
        hole->size = end - hole->address;
    hole->cut = align_down(hole->size, unit);
    if (hole->size != 0 && has_names)
        hole->size += image_plan_section(state->base.plan, SECTION_NAMES)->address - end;
}

/* What can go of a removed section that is loaded, with the zeros behind it; size 0 if there is
 * nothing. What goes from the middle of a segment is a multiple of the unit in the file. */
static struct elf_hole find_hole(const struct elf_state *state, const struct section *section,
                                 uint64_t unit)
{
    uint64_t reserved = rest_of(state, section).size, end = section->offset + section->size;
    struct elf_hole hole = {
        .segment = elf_segment_of(&state->image, section->address, section->size),
    };

    if (section->kind == SECTION_DATA && !state->is_firmware) {
        bool has_zeros = (state->base.options->sections & SECTION_ZEROS) != 0;

        if (!elf_zeros_behind(state, unit, has_zeros, &hole))
            return (struct elf_hole){0};
        if (hole.is_tail)
            hole.cut = cut_size(state, hole.cut_offset, hole.cut_offset + hole.cut);
        return hole.cut != 0 ? hole : (struct elf_hole){0};
    }
    hole.is_at_end =
        hole.segment != NO_INDEX && is_at_end(&state->image.phdrs[hole.segment], section);
    if (state->is_firmware)
        find_flash(state, section, reserved, unit, &hole);
    else
        find_pages(section, reserved, unit, &hole);
    hole.file_end = hole.address;
    hole.cut_offset = section->offset + (hole.address - section->address) + hole.size;
    /* A hole may go on in the padding behind the section. */
    hole.cut_offset = (hole.cut_offset < end ? hole.cut_offset : end) - hole.cut;
    return hole;
}

/* ---- choosing ---- */

struct candidate {
    struct section *section; /* NULL: the zeros before the stub */
    struct elf_hole hole;
};

/* With a large alignment (-z max-page-size), more stays in the file than the user expects: says
 * so. */
static void explain_alignment(const struct elf_state *state, struct section *section,
                              const struct elf_hole *hole)
{
    struct elf_hole pages = find_hole(state, section, page_size(state));

    if (state->is_firmware) {
        if (hole->size - hole->cut >= page_size(state))
            image_plan_explain(state->base.plan, section,
                               "%" PRIu64
                               " bytes of zeros stay in the file, but are not in flash: the "
                               "image's segments are aligned to %" PRIu64 " bytes; link with -n",
                               hole->size - hole->cut, cut_unit(state));
        return;
    }
    if (pages.cut <= hole->cut)
        return;
    if (hole->size == 0)
        section->fate = FATE_ZEROED;
    image_plan_explain(state->base.plan, section,
                       "%" PRIu64
                       " bytes of zeros stay: the image's segments are aligned to %" PRIu64
                       " bytes; link with -z max-page-size=%" PRIu64,
                       pages.cut - hole->cut, cut_unit(state), page_size(state));
}

/* Puts the candidate in its place among the others, of which the largest is first. */
static void add_candidate(struct candidate candidates[HOLES_MAX], size_t *count,
                          struct section *section, const struct elf_hole *hole)
{
    size_t place = (*count)++;

    for (; place > 0 && candidates[place - 1].hole.size < hole->size; place--)
        candidates[place] = candidates[place - 1];
    candidates[place] = (struct candidate){section, *hole};
}

/* The holes that can be cut, largest first. */
static size_t find_candidates(struct elf_state *state, struct candidate candidates[HOLES_MAX])
{
    uint64_t unit = cut_unit(state);
    size_t count = 0;

    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        struct section *section = &state->base.plan->sections[i];
        struct elf_hole hole;
        const char *problem;

        if (section->fate == FATE_STAYS || !section->loaded)
            continue;
        hole = find_hole(state, section, unit);
        explain_alignment(state, section, &hole);
        if (hole.size == 0)
            continue;
        problem = why_not_cut(state, &hole);
        if (problem != NULL) {
            section->fate = FATE_ZEROED;
            image_plan_explain(state->base.plan, section, "its pages cannot be cut: %s", problem);
            continue;
        }
        add_candidate(candidates, &count, section, &hole);
        if (section->kind == SECTION_DATA && !state->is_firmware &&
            (state->base.options->sections & SECTION_ZEROS) != 0 &&
            elf_zeros_before(state, unit, &hole) && why_not_cut(state, &hole) == NULL)
            add_candidate(candidates, &count, NULL, &hole);
    }
    return count;
}

/* Makes room for the program headers that the first `count` candidates need. */
static bool make_room(struct elf_state *state, const struct candidate *candidates, size_t count)
{
    size_t extra = 0;

    for (size_t i = 0; i < count; i++)
        extra += candidates[i].hole.is_at_end || candidates[i].hole.is_tail ? 0 : 1;
    return elf_room_make(state, extra, cut_unit(state));
}

static void choose_holes(struct elf_state *state)
{
    struct candidate candidates[HOLES_MAX];
    size_t count = find_candidates(state, candidates);
    size_t edit_count = state->base.plan->edits.count;
    size_t cut;

    for (cut = count; cut > 0 && !make_room(state, candidates, cut); cut--)
        elf_room_forget(state, edit_count);
    for (size_t i = 0; i < count; i++) {
        struct section *section = candidates[i].section;
        struct elf_hole hole = candidates[i].hole;
        size_t place = state->hole_count;

        if (i >= cut) {
            /* Nobody misses what only the zeros would have saved. */
            if (section != NULL && section->kind == SECTION_DATA && !state->is_firmware &&
                !elf_zeros_behind(state, cut_unit(state), false, &hole))
                section = NULL;
            if (section == NULL)
                continue;
            section->fate = FATE_ZEROED;
            image_plan_explain(state->base.plan, section,
                               "%" PRIu64
                               " bytes of zeros stay: no room for another program header "
                               "behind the others",
                               hole.size);
            continue;
        }
        /* What was moved into the names' range makes the hole there smaller. */
        if (section != NULL && section->kind == SECTION_NAMES)
            hole = find_hole(state, section, cut_unit(state));
        if (hole.size == 0)
            continue;
        /* In the order of addresses, like the segments. */
        for (; place > 0 && state->holes[place - 1].address > hole.address; place--)
            state->holes[place] = state->holes[place - 1];
        state->holes[place] = hole;
        state->hole_count++;
    }
}

/* ---- edits ---- */

/* Fills the section with zeros, from `offset` on, except for what is cut. */
static bool fill_with_zeros(struct elf_state *state, uint64_t offset, uint64_t end)
{
    bool done = true;

    while (offset < end && done) {
        uint64_t next = end, behind = end;

        for (size_t i = 0; i < state->hole_count; i++) {
            const struct elf_hole *hole = &state->holes[i];
            uint64_t cut_end = hole->cut_offset + hole->cut;

            if (cut_end > offset && hole->cut_offset < next) {
                next = hole->cut_offset > offset ? hole->cut_offset : offset;
                behind = cut_end;
            }
        }
        done =
            edit_replace_by_zeros(&state->base.plan->edits, offset, next - offset, next - offset);
        offset = behind;
    }
    return done;
}

static bool empty_loaded(struct elf_state *state, const struct section *section)
{
    struct bytes rest = rest_of(state, section);

    return edit_replace(&state->base.plan->edits, section->offset, rest.size, rest) &&
           fill_with_zeros(state, section->offset + rest.size, section->offset + section->size);
}

static bool cut_holes(struct elf_state *state)
{
    struct image_plan *plan = state->base.plan;
    bool done = true;

    for (size_t i = 0; i < state->hole_count && done; i++) {
        uint64_t start = state->holes[i].cut_offset, end = start + state->holes[i].cut;

        done = edit_cut(&plan->edits, start, end - start);
        plan->zeros_size += end - start;
        for (size_t j = 0; j < plan->section_count; j++) {
            const struct section *section = &plan->sections[j];
            uint64_t from = section->offset > start ? section->offset : start;
            uint64_t to =
                section->offset + section->size < end ? section->offset + section->size : end;

            if (section->fate != FATE_STAYS && section->loaded && from < to)
                plan->zeros_size -= to - from;
        }
    }
    return done;
}

/* Reserves room for the new headers; elf/write.c fills it in once all offsets are known. */
static bool reserve_headers(struct elf_state *state)
{
    struct buffer zeros = {0};
    uint64_t start = state->image.elf.header.e_phoff;
    uint64_t old_size = state->headers_end - start;
    bool done;

    state->new_phnum = state->image.phnum + state->hole_count;
    if (state->hole_count == 0 && state->move_count == 0)
        return true;
    state->headers_literal = state->base.plan->edits.literals.size;
    done = buffer_append_zeros(&zeros, (size_t)(old_size + state->headers_growth)) &&
           edit_replace(&state->base.plan->edits, start, old_size, buffer_view(&zeros));
    buffer_free(&zeros);
    return done;
}

bool elf_layout(struct planning *planning, struct error *error)
{
    struct elf_state *state = (struct elf_state *)planning;
    struct image_plan *plan = planning->plan;
    bool done = place_rests(state);

    if (done && image_plan_removes(plan, SECTION_NAMES) &&
        !names_move(planning, state->names_address, error))
        return false;
    if (done)
        choose_holes(state);
    for (size_t i = 0; i < plan->section_count && done; i++) {
        const struct section *section = &plan->sections[i];

        if (section->fate == FATE_STAYS)
            continue;
        done = section->loaded ? empty_loaded(state, section) : empty_unloaded(state, section);
    }
    return (done && cut_holes(state) && cut_retained_relocations(state) &&
            reserve_headers(state)) ||
           error_out_of_memory(error, planning->input->path, plan->edits.literals.size);
}
