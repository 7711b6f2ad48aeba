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
#include "formats/elf/state.h"
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
    uint64_t alignment = image->ehdr.e_shoff >= end ? image->sizes.word : 1;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_addralign > alignment)
            alignment = shdr->sh_addralign;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
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
    uint64_t next = image->ehdr.e_shoff >= end ? image->ehdr.e_shoff : image->file.size;
    struct bytes gap;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_offset < next)
            next = shdr->sh_offset;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_filesz != 0 && phdr->p_offset >= end && phdr->p_offset < next)
            next = phdr->p_offset;
    }
    /* A page or more is not padding. */
    if (next - end >= page_size(state) || !bytes_slice(image->file, end, next - end, &gap) ||
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
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_NOTE && phdr->p_filesz != 0 && phdr->p_offset >= offset &&
            !state->is_firmware)
            return true;
    }
    return false;
}

/* Cuts all of the section except `rest`, which stays at its start. */
static bool cut_unloaded(struct elf_state *state, const struct image_section *section,
                         struct bytes rest)
{
    uint64_t start = section->offset + rest.size, end = section->offset + section->size;
    uint64_t alignment = alignment_behind(state, end);
    uint64_t cut = align_down(padding_end(state, end) - start, alignment);

    if (notes_follow(state, end))
        cut = 0;
    return planning_empty(&state->base, section, rest, start, start + cut);
}

/* Coverage mapping leaves a tripwire: a record that no reader accepts. */
static bool empty_unloaded(struct elf_state *state, const struct image_section *section)
{
    return cut_unloaded(state, section, planning_rest(&state->base, section->kind, section->size));
}

static bool cut_retained_relocations(struct elf_state *state)
{
    for (size_t i = 1; i < state->image.shnum; i++) {
        struct image_section section = {.offset = state->image.shdrs[i].sh_offset,
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
    const struct image_section *data = image_plan_section(plan, SECTION_DATA);
    const struct image_section *names = image_plan_section(plan, SECTION_NAMES);
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
    const struct image_section *names = image_plan_section(planning->plan, SECTION_NAMES);
    size_t record = planning->record_layout.record_size;
    size_t padding = planning->tripwire_padding;
    bool done = true;

    if (!image_plan_removes(planning->plan, SECTION_NAMES))
        return true;
    state->rests_are_joined = may_join_rests(state, &state->names_address);
    if (state->rests_are_joined) {
        const struct image_section *data = image_plan_section(planning->plan, SECTION_DATA);

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
static struct bytes rest_of(const struct elf_state *state, const struct image_section *section)
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
    const struct image_section *data = image_plan_section(state->base.plan, SECTION_DATA);
    const struct image_section *names = image_plan_section(state->base.plan, SECTION_NAMES);
    uint64_t end;

    if (!state->rests_are_joined)
        return false;
    end = data->address + data->size;
    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
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
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && phdr->p_align < image->machine->page_size)
            return true;
    }
    return false;
}

static bool crosses_other_segment(const struct elf_image *image, const struct elf_hole *hole)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        /* p_memsz of PT_GNU_STACK is the size of a stack. */
        if (phdr->p_type != PT_LOAD && phdr->p_type != PT_GNU_STACK &&
            ranges_overlap(phdr->p_vaddr, phdr->p_memsz, hole->address, hole->size))
            return true;
    }
    return false;
}

/* RISC-V's attributes are for tools that read the file; lld gives them the address 0. */
static bool is_unloaded(const struct elf_image *image, const GElf_Phdr *phdr)
{
    return phdr->p_memsz == 0 ||
           (image->ehdr.e_machine == EM_RISCV && phdr->p_type == PT_RISCV_ATTRIBUTES);
}

/* The other program headers must agree with the PT_LOAD that contains them, because they are mapped
 * by both offset and address. */
static bool segments_are_consistent(const struct elf_image *image)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
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
static const char *why_not_cut(const struct elf_state *state, const struct image_section *section,
                               const struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;

    if ((has_unaligned_segments(image) && !state->is_firmware) ||
        crosses_other_segment(image, hole))
        return "its segment cannot be split there";
    if (!segments_are_consistent(image))
        return "the image's program headers contradict each other";
    if (notes_follow(state, section->offset))
        return "notes that the profile runtime reads follow it; link so that they precede it";
    return NULL;
}

static bool is_at_end(const GElf_Phdr *phdr, const struct image_section *section)
{
    return phdr->p_filesz == phdr->p_memsz &&
           section->address + section->size == phdr->p_vaddr + phdr->p_filesz;
}

/* What can go of a loaded section behind its first `reserved` bytes; size 0 if there is nothing:
 * the whole units. From firmware, which is not mapped, goes all that shares no unit of flash with
 * the bytes before or behind it, also where less goes from the file. */
static struct elf_hole find_hole(const struct elf_state *state, const struct image_section *section,
                                 uint64_t reserved, uint64_t unit)
{
    uint64_t step = state->is_firmware ? FLASH_UNIT : unit;
    uint64_t start = align_up(section->address + reserved, step);
    uint64_t end = section->address + section->size;
    struct elf_hole hole = {
        .segment = elf_segment_of(&state->image, section->address, section->size),
        .address = start,
    };

    hole.is_at_end =
        hole.segment != NO_INDEX && is_at_end(&state->image.phdrs[hole.segment], section);
    if (reserved == 0 && hole.segment != NO_INDEX &&
        (section->address == state->image.phdrs[hole.segment].p_vaddr || is_one_range(state)))
        hole.address = start = section->address;
    if (!state->is_firmware || !hole.is_at_end)
        end = section->kind == SECTION_DATA && is_one_range(state) ? end : align_down(end, step);
    if (reserved < section->size && end > start)
        hole.size = end - start;
    hole.cut = align_down(hole.size, unit);
    if (hole.size != 0 && section->kind == SECTION_DATA && is_one_range(state))
        hole.size += image_plan_section(state->base.plan, SECTION_NAMES)->address - end;
    return hole;
}

/* ---- choosing ---- */

struct candidate {
    struct image_section *section;
    struct elf_hole hole;
};

/* With a large alignment (-z max-page-size), more stays in the file than the user expects: says
 * so. */
static void explain_alignment(const struct elf_state *state, struct image_section *section,
                              const struct elf_hole *hole)
{
    struct elf_hole pages =
        find_hole(state, section, rest_of(state, section).size, page_size(state));

    if (state->is_firmware) {
        if (hole->size - hole->cut >= page_size(state))
            snprintf(section->reason, sizeof(section->reason),
                     "%" PRIu64 " bytes of zeros stay in the file, but are not in flash: the "
                     "image's segments are aligned to %" PRIu64 " bytes; link with -n",
                     hole->size - hole->cut, cut_unit(state));
        return;
    }
    if (pages.size == hole->size)
        return;
    if (hole->size == 0)
        section->fate = FATE_ZEROED;
    snprintf(section->reason, sizeof(section->reason),
             "%" PRIu64 " bytes of zeros stay: the image's segments are aligned to %" PRIu64
             " bytes; link with -z max-page-size=%" PRIu64,
             pages.size - hole->size, cut_unit(state), page_size(state));
}

/* The removed sections that are loaded, with the pages that can be cut from each, largest first;
 * those without such pages are left out. */
static size_t find_candidates(struct elf_state *state, struct candidate candidates[HOLES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        struct image_section *section = &state->base.plan->sections[i];
        struct elf_hole hole;
        const char *problem;

        if (section->fate == FATE_STAYS || !section->loaded)
            continue;
        hole = find_hole(state, section, rest_of(state, section).size, cut_unit(state));
        explain_alignment(state, section, &hole);
        if (hole.size == 0)
            continue;
        problem = why_not_cut(state, section, &hole);
        if (problem != NULL) {
            section->fate = FATE_ZEROED;
            snprintf(section->reason, sizeof(section->reason), "its pages cannot be cut: %s",
                     problem);
            continue;
        }
        candidates[count++] = (struct candidate){section, hole};
    }
    if (count == 2 && candidates[0].hole.size < candidates[1].hole.size) {
        struct candidate first = candidates[0];
        candidates[0] = candidates[1];
        candidates[1] = first;
    }
    return count;
}

/* Makes room for the program headers that the first `count` candidates need. */
static bool make_room(struct elf_state *state, const struct candidate *candidates, size_t count)
{
    size_t extra = 0;

    for (size_t i = 0; i < count; i++)
        extra += candidates[i].hole.is_at_end ? 0 : 1;
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
        struct image_section *section = candidates[i].section;
        /* What was moved into the names' range makes the hole there smaller. */
        struct elf_hole hole =
            find_hole(state, section, rest_of(state, section).size, cut_unit(state));

        if (i >= cut) {
            section->fate = FATE_ZEROED;
            snprintf(section->reason, sizeof(section->reason),
                     "%" PRIu64 " bytes of zeros stay: no room for another program header "
                     "behind the others",
                     candidates[i].hole.size);
        } else if (hole.size != 0) {
            state->holes[state->hole_count++] = hole;
        }
    }
    /* In the order of addresses, like the segments. */
    if (state->hole_count == 2 && state->holes[0].address > state->holes[1].address) {
        struct elf_hole first = state->holes[0];
        state->holes[0] = state->holes[1];
        state->holes[1] = first;
    }
}

/* ---- edits ---- */

static const struct elf_hole *hole_in(const struct elf_state *state,
                                      const struct image_section *section)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (range_within(state->holes[i].address, 1, section->address, section->size))
            return &state->holes[i];
    }
    return NULL;
}

static bool empty_loaded(struct elf_state *state, const struct image_section *section)
{
    const struct elf_hole *hole = hole_in(state, section);
    uint64_t end = section->offset + section->size;
    uint64_t cut_end = end, cut = end;

    if (hole != NULL) {
        cut_end = section->offset + (hole->address - section->address) + hole->size;
        /* A hole may go on in the padding behind the section. */
        cut_end = cut_end < end ? cut_end : end;
        cut = cut_end - hole->cut;
    }
    return planning_empty(&state->base, section, rest_of(state, section), cut, cut_end);
}

/* Reserves room for the new headers; elf/write.c fills it in once all offsets are known. */
static bool reserve_headers(struct elf_state *state)
{
    struct buffer zeros = {0};
    uint64_t start = state->image.ehdr.e_phoff;
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
        const struct image_section *section = &plan->sections[i];

        if (section->fate == FATE_STAYS)
            continue;
        done = section->loaded ? empty_loaded(state, section) : empty_unloaded(state, section);
    }
    return (done && cut_retained_relocations(state) && reserve_headers(state)) ||
           error_out_of_memory(error, planning->input->path, plan->edits.literals.size);
}
