/*
 * Takes the bytes of removed sections, and zeros beside them, out of the file without moving
 * anything in memory.
 *
 * Sections that are not loaded are simply cut. From a loaded section whole pages are cut: its
 * segment is split around them, which takes one more program header for each hole; room.c makes
 * room for that. What cannot be cut is filled with zeros, which saves nothing in the file but
 * compresses well.
 *
 * No system maps firmware, so pages mean nothing there. What counts is what is written to flash:
 * its segments are split around all that can go, however little of that is cut from the file.
 */
#include <inttypes.h>
#include <string.h>

#include "formats/elf/elf.h"

/* In firmware, cuts of the file are multiples of this at least, which keeps its tables aligned; and
 * segments are split at multiples of the largest unit in which flash memory is written, so that no
 * two of them share one. */
#define FILE_UNIT  UINT64_C(16)
#define FLASH_UNIT UINT64_C(32)
/* The tripwire behind the stub is at a multiple of this. */
#define JOIN_UNIT UINT64_C(8)

static struct section *section_of(const struct elf_state *state, enum section_kind kind)
{
    return image_plan_section(state->base.plan, kind);
}

/* ---- cuts of the file ---- */

/* True if notes follow in the file. The runtime looks for them by their offset, rightly or wrongly
 * (see room.c), and a cut before them would make it look elsewhere. */
static bool notes_follow(const struct elf_state *state, uint64_t offset)
{
    for (size_t i = 0; i < state->image.phnum; i++) {
        const Elf64_Phdr *phdr = &state->image.phdrs[i];

        if (phdr->p_type == PT_NOTE && phdr->p_filesz != 0 && phdr->p_offset >= offset &&
            !state->is_firmware)
            return true;
    }
    return false;
}

/* The size in bytes of what can be cut from `start` to `end`, and to the end of the zero padding
 * behind that (offsets in the file): a multiple of the largest alignment of what follows. */
static uint64_t cut_size(const struct elf_state *state, uint64_t start, uint64_t end)
{
    const struct elf_image *image = &state->image;
    uint64_t alignment = image->elf.header.e_shoff >= end ? image->sizes.word : 1;
    uint64_t next = elf_next_in_file(image, end), cut_end = end;

    if (notes_follow(state, end))
        return 0;
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_addralign > alignment)
            alignment = shdr->sh_addralign;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        uint64_t unit = phdr->p_align > MACHINE_PAGE_SIZE ? phdr->p_align : MACHINE_PAGE_SIZE;

        if (phdr->p_type == PT_LOAD && phdr->p_offset >= end && unit > alignment)
            alignment = unit;
    }
    /* A page or more is not padding. */
    if (next - end < MACHINE_PAGE_SIZE && bytes_zero_at(image->elf.bytes, end, next - end))
        cut_end = next;
    return align_down(cut_end - start, alignment);
}

void elf_cut_unloaded(struct elf_state *state, const struct section *section, struct bytes remnant)
{
    uint64_t start = section->offset + remnant.size;

    planning_empty(&state->base, section, remnant, start,
                   start + cut_size(state, start, section->offset + section->size));
}

/* ---- what stays of names and records ---- */

/* In firmware the tripwire goes behind the stub if the names come behind the records: nothing stays
 * of the names then, and if they are last in flash, all of it is free. */
static bool may_join_remnants(const struct elf_state *state, uint64_t *address)
{
    const struct section *data = section_of(state, SECTION_DATA);
    const struct section *names = section_of(state, SECTION_NAMES);
    uint64_t unit, size = state->base.tripwire_size;

    if (!state->is_firmware || !image_plan_removes(state->base.plan, SECTION_DATA) ||
        names->address < data->address + data->size)
        return false;
    unit = names->alignment > JOIN_UNIT ? names->alignment : JOIN_UNIT;
    *address = align_up(data->address + state->base.record_layout.record_size, unit);
    return range_within(*address, size, data->address, data->size) &&
           rules_can_rewrite(&state->base.code, RUNTIME_BEGIN_NAMES, *address) &&
           rules_can_rewrite(&state->base.code, RUNTIME_END_NAMES, *address + size);
}

static void place_remnants(struct elf_state *state)
{
    const struct planning *planning = &state->base;
    size_t record = planning->record_layout.record_size, padding = planning->tripwire_padding;

    if (!image_plan_removes(planning->plan, SECTION_NAMES))
        return;
    state->remnants_are_joined = may_join_remnants(state, &state->names_address);
    if (state->remnants_are_joined) {
        padding =
            (size_t)(state->names_address - section_of(state, SECTION_DATA)->address) - record;
        buffer_append(&state->moved, planning->stub, record);
    } else {
        state->names_address = section_of(state, SECTION_NAMES)->address + padding;
    }
    buffer_append_zeros(&state->moved, padding);
    buffer_append(&state->moved, planning->tripwire, planning->tripwire_size);
    state->remnant_size = state->moved.size;
}

/* The bytes that are at the start of a removed section that is loaded. */
static struct bytes remnant_of(const struct elf_state *state, const struct section *section)
{
    if (section->kind == (state->remnants_are_joined ? SECTION_DATA : SECTION_NAMES))
        return buffer_view(&state->moved);
    return section->kind == SECTION_NAMES
               ? (struct bytes){0}
               : planning_remnant(&state->base, section->kind, section->size);
}

/* True if only the padding for an alignment is between the records and the names, and nothing stays
 * of that. */
static bool is_one_range(const struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    const struct section *data = section_of(state, SECTION_DATA);
    const struct section *names = section_of(state, SECTION_NAMES);
    uint64_t end;

    if (!state->remnants_are_joined)
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

/* ---- zeros beside the records ---- */

/*
 * The counters, the bitmap, the lists of values and the pool of their nodes are in sections of
 * type SHT_PROGBITS, although they are zeros at the start of the program. Linkers put them around
 * the records, of which a split leaves the stub, or with value profiling all:
 *
 *     .data  bitmap  counters  records  value nodes  (.got.plt)  .bss
 *
 * A loader makes zeros of whatever memory of a segment is not in the file (p_filesz < p_memsz), so
 * the segment is split where the zeros end and bytes follow, which is at a border of pages. Where
 * nothing but zeros follows, it only gets a smaller p_filesz.
 *
 * Sections become SHT_NOBITS, so that tools which write the image again keep the memory. The page
 * with the stub begins with the last counters: their section ends before that page, and the section
 * of the stub starts with it. (Records that stay have no such mark, so the counters before them
 * stay in the file, too.) The last value nodes may share a page with what follows. That page stays
 * mapped, with zeros in it, though no section has these nodes.
 */

/* The neighbours of the records that are zeros. */
struct zero_run {
    size_t sections[ELF_EMPTIED_MAX]; /* those of the runtime, nearest to the records first */
    size_t count;
    uint64_t start, end; /* addresses */
    bool is_last;        /* nothing else of the segment follows in the file */
};

/* The section in memory that is nearest to the address: the last one that starts before it, or the
 * first one that starts there or behind it. */
static size_t find_neighbour(const struct elf_image *image, uint64_t address, bool is_before)
{
    size_t nearest = NO_INDEX;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_ALLOC) == 0 || shdr->sh_size == 0 ||
            (shdr->sh_type == SHT_NOBITS && (shdr->sh_flags & SHF_TLS) != 0) ||
            (shdr->sh_addr < address) != is_before)
            continue;
        if (nearest == NO_INDEX || (shdr->sh_addr < image->shdrs[nearest].sh_addr) != is_before)
            nearest = i;
    }
    return nearest;
}

static bool is_named(const struct elf_image *image, size_t index, const char *name)
{
    return strcmp(elf_section_name(image, index), name) == 0;
}

/* True for a section of the runtime in the segment that may become SHT_NOBITS. */
static bool may_be_emptied(const struct elf_image *image, size_t segment, size_t index)
{
    static const char *const names[] = {"__llvm_prf_bits", "__llvm_prf_cnts", "__llvm_prf_vals",
                                        "__llvm_prf_vnds"};
    const Elf64_Shdr *shdr = &image->shdrs[index];
    const Elf64_Phdr *phdr = &image->phdrs[segment];
    bool has_name = false;
    struct bytes bytes;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        has_name |= is_named(image, index, names[i]);
    return has_name && shdr->sh_type == SHT_PROGBITS &&
           (shdr->sh_flags & (SHF_WRITE | SHF_TLS | SHF_EXECINSTR | SHF_COMPRESSED)) == SHF_WRITE &&
           range_within(shdr->sh_addr, shdr->sh_size, phdr->p_vaddr, phdr->p_filesz) &&
           shdr->sh_addr - phdr->p_vaddr == shdr->sh_offset - phdr->p_offset &&
           elf_bytes_at(image, shdr->sh_addr, shdr->sh_size, &bytes) && bytes_all_zero(bytes);
}

static bool are_zeros(const struct elf_image *image, uint64_t start, uint64_t end)
{
    struct bytes bytes;

    return start == end || (start < end && elf_bytes_at(image, start, end - start, &bytes) &&
                            bytes_all_zero(bytes));
}

/* Adds the sections of the runtime before or behind [start, end) to the run. The bytes between them
 * must be zeros, too. */
static void extend(const struct elf_image *image, size_t segment, bool is_before,
                   struct zero_run *run)
{
    const Elf64_Phdr *phdr = &image->phdrs[segment];

    while (run->count < ELF_EMPTIED_MAX) {
        size_t index = find_neighbour(image, is_before ? run->start : run->end, is_before);
        const Elf64_Shdr *shdr = index == NO_INDEX ? NULL : &image->shdrs[index];

        run->is_last = !is_before && (shdr == NULL || shdr->sh_type == SHT_NOBITS ||
                                      shdr->sh_addr >= phdr->p_vaddr + phdr->p_filesz);
        if (run->is_last || shdr == NULL || !may_be_emptied(image, segment, index) ||
            !(is_before ? are_zeros(image, shdr->sh_addr + shdr->sh_size, run->start)
                        : are_zeros(image, run->end, shdr->sh_addr)))
            break;
        run->sections[run->count++] = index;
        if (is_before)
            run->start = shdr->sh_addr;
        else
            run->end = shdr->sh_addr + shdr->sh_size;
    }
}

static void empty_section(struct elf_hole *hole, size_t section, uint64_t size)
{
    hole->emptied[hole->emptied_count].section = section;
    hole->emptied[hole->emptied_count++].size = size;
}

/* The whole units from hole->file_end to `end`; false if there are none. */
static bool set_pages(const struct elf_image *image, struct elf_hole *hole, uint64_t end,
                      uint64_t unit)
{
    const Elf64_Phdr *phdr = &image->phdrs[hole->segment];

    hole->address = align_up(hole->file_end, unit);
    end = align_down(end, unit);
    hole->size = end > hole->address ? end - hole->address : 0;
    hole->cut = hole->size;
    hole->cut_offset = phdr->p_offset + (hole->address - phdr->p_vaddr);
    /* Loaders differ in what they do with a segment without bytes in the file. */
    return hole->size != 0 && hole->file_end > phdr->p_vaddr;
}

/* The zeros before the stub; false if nothing of them can go. */
static bool find_zeros_before(const struct elf_state *state, uint64_t unit, struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;
    uint64_t stub = section_of(state, SECTION_DATA)->address, end;
    struct zero_run run = {.start = stub, .end = stub};

    *hole = (struct elf_hole){.segment = elf_segment_of(image, stub, 1)};
    extend(image, hole->segment, true, &run);
    hole->file_end = run.start;
    if (run.count == 0 || !set_pages(image, hole, stub, unit))
        return false;
    end = hole->address + hole->size;
    for (size_t i = 0; i < run.count; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[run.sections[i]];

        if (shdr->sh_addr >= end)
            continue;
        if (shdr->sh_addr + shdr->sh_size <= end) {
            empty_section(hole, run.sections[i], shdr->sh_size);
            continue;
        }
        /* elf_stub_size finds the stub behind these counters again. */
        if (i != 0 || shdr->sh_addr + shdr->sh_size != stub ||
            !is_named(image, run.sections[i], "__llvm_prf_cnts") ||
            profile_counter_size(state->base.plan->facts.raw_version) != sizeof(uint64_t))
            return false;
        empty_section(hole, run.sections[i], end - shdr->sh_addr);
        hole->stub_section = end;
    }
    return hole->emptied_count != 0;
}

/* All records but the stub, if they go, and if has_zeros the zeros behind them. False if nothing
 * can go. Of a tail the caller decides how much is cut from the file. */
static bool find_zeros_behind(const struct elf_state *state, uint64_t unit, bool has_zeros,
                              struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;
    const struct section *data = section_of(state, SECTION_DATA);
    uint64_t data_end = data->address + data->size, end, limit;
    uint64_t start =
        section_goes(data) ? data->address + state->base.record_layout.record_size : data_end;
    struct zero_run run = {.start = start, .end = data_end};
    const Elf64_Phdr *phdr;

    *hole = (struct elf_hole){.segment = elf_segment_of(image, data->address, data->size),
                              .file_end = start};
    if (hole->segment == NO_INDEX)
        return false;
    phdr = &image->phdrs[hole->segment];
    end = phdr->p_vaddr + phdr->p_filesz;
    if (has_zeros)
        extend(image, hole->segment, false, &run);
    hole->is_tail = run.is_last && are_zeros(image, run.end, end);
    if (hole->is_tail) {
        for (size_t i = 0; i < run.count; i++)
            empty_section(hole, run.sections[i], image->shdrs[run.sections[i]].sh_size);
        hole->address = start;
        hole->size = hole->cut = end - start;
        hole->cut_offset = phdr->p_offset + (start - phdr->p_vaddr);
        return true;
    }
    if (!set_pages(image, hole, run.end, unit))
        return false;
    limit = hole->address + hole->size;
    for (size_t i = 0; i < run.count; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[run.sections[i]];
        uint64_t in_hole = shdr->sh_addr < limit ? limit - shdr->sh_addr : 0;

        if (in_hole >= shdr->sh_size)
            empty_section(hole, run.sections[i], shdr->sh_size);
        else if (in_hole != 0 && is_named(image, run.sections[i], "__llvm_prf_vnds"))
            empty_section(hole, run.sections[i], in_hole);
        else if (in_hole != 0)
            return find_zeros_behind(state, unit, false, hole);
    }
    return true;
}

/* ---- holes ---- */

/* Cuts shift what is behind them in the file; they are multiples of the alignment of every segment,
 * so that all segments stay congruent. */
static uint64_t cut_unit(const struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    uint64_t unit = state->is_firmware ? FILE_UNIT : MACHINE_PAGE_SIZE;

    for (size_t i = 0; i < image->phnum; i++) {
        if (image->phdrs[i].p_type == PT_LOAD && image->phdrs[i].p_align > unit)
            unit = image->phdrs[i].p_align;
    }
    return unit;
}

/* The other program headers must agree with the PT_LOAD that contains them, because they are mapped
 * by both offset and address. Of PT_GNU_RELRO loaders use the address alone (mold gives it the
 * offset 0 if a .tbss comes first). RISC-V's attributes are for tools that read the file; lld gives
 * them the address 0. */
static bool segments_are_consistent(const struct elf_image *image)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        bool is_all_in_file = phdr->p_type == PT_NOTE || phdr->p_type == PT_INTERP ||
                              phdr->p_type == PT_GNU_PROPERTY || phdr->p_type == PT_PHDR;
        bool is_unloaded =
            phdr->p_filesz == 0 || phdr->p_memsz == 0 || phdr->p_type == PT_GNU_RELRO ||
            (image->elf.header.e_machine == EM_RISCV && phdr->p_type == PT_RISCV_ATTRIBUTES);
        size_t load;

        if (phdr->p_type == PT_LOAD || is_unloaded)
            continue;
        load = elf_segment_of(image, phdr->p_vaddr, phdr->p_filesz);
        if (load == NO_INDEX || (is_all_in_file && phdr->p_memsz != phdr->p_filesz) ||
            phdr->p_vaddr - phdr->p_offset !=
                image->phdrs[load].p_vaddr - image->phdrs[load].p_offset)
            return false;
    }
    return true;
}

/* The reason why the segment cannot be split around the hole; NULL if it can. */
static const char *why_not_cut(const struct elf_state *state, const struct elf_hole *hole)
{
    const struct elf_image *image = &state->image;

    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];
        /* Segments that are not aligned to pages (ld -n, ld -N) cannot be split. */
        bool is_unaligned = phdr->p_type == PT_LOAD && phdr->p_align < MACHINE_PAGE_SIZE;

        /* p_memsz of PT_GNU_STACK is the size of a stack. */
        if ((is_unaligned && !state->is_firmware) ||
            (phdr->p_type != PT_LOAD && phdr->p_type != PT_GNU_STACK &&
             ranges_overlap(phdr->p_vaddr, phdr->p_memsz, hole->address, hole->size)))
            return "its segment cannot be split there";
    }
    if (!segments_are_consistent(image))
        return "the image's program headers contradict each other";
    if (notes_follow(state, hole->cut_offset))
        return "notes that the profile runtime reads follow it; link so that they precede it";
    return NULL;
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
        hole->size += section_of(state, SECTION_NAMES)->address - end;
}

static bool takes_zeros(const struct elf_state *state)
{
    return (state->base.options->sections & SECTION_ZEROS) != 0 && !state->is_firmware;
}

/* The hole behind the stub, or behind all records if they stay; size 0 if none is worth it. */
static struct elf_hole find_hole_of_data(const struct elf_state *state, uint64_t unit)
{
    struct elf_hole hole;

    if (!find_zeros_behind(state, unit, takes_zeros(state), &hole))
        return (struct elf_hole){0};
    if (hole.is_tail)
        hole.cut = cut_size(state, hole.cut_offset, hole.cut_offset + hole.cut);
    return hole.cut != 0 ? hole : (struct elf_hole){0};
}

/* What can go of a removed section that is loaded, with the zeros behind it; size 0 if there is
 * nothing. What goes from the middle of a segment is a multiple of the unit in the file. */
static struct elf_hole find_hole(const struct elf_state *state, const struct section *section,
                                 uint64_t unit)
{
    uint64_t reserved = remnant_of(state, section).size, end = section->address + section->size;
    uint64_t offset_end = section->offset + section->size;
    struct elf_hole hole = {
        .segment = elf_segment_of(&state->image, section->address, section->size),
    };

    if (section->kind == SECTION_DATA && !state->is_firmware)
        return find_hole_of_data(state, unit);
    if (hole.segment != NO_INDEX) {
        const Elf64_Phdr *phdr = &state->image.phdrs[hole.segment];

        hole.is_at_end = phdr->p_filesz == phdr->p_memsz && end == phdr->p_vaddr + phdr->p_filesz;
    }
    if (state->is_firmware) {
        find_flash(state, section, reserved, unit, &hole);
    } else {
        /* The whole pages, or larger units, behind the remnant. */
        hole.address = align_up(section->address + reserved, unit);
        end = align_down(end, unit);
        if (reserved < section->size && end > hole.address)
            hole.size = end - hole.address;
        hole.cut = hole.size;
    }
    hole.file_end = hole.address;
    hole.cut_offset = section->offset + (hole.address - section->address) + hole.size;
    /* A hole may go on in the padding behind the section. */
    hole.cut_offset = (hole.cut_offset < offset_end ? hole.cut_offset : offset_end) - hole.cut;
    return hole;
}

/* ---- choosing ---- */

struct candidate {
    struct section *section; /* NULL: only zeros of sections that stay */
    struct elf_hole hole;
};

/* With a large alignment (-z max-page-size), more stays in the file than the user expects: says
 * so. */
static void explain_alignment(const struct elf_state *state, struct section *section,
                              const struct elf_hole *hole)
{
    struct elf_hole pages = find_hole(state, section, MACHINE_PAGE_SIZE);

    if (state->is_firmware) {
        if (hole->size - hole->cut >= MACHINE_PAGE_SIZE)
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
                       pages.cut - hole->cut, cut_unit(state), MACHINE_PAGE_SIZE);
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
    const struct section *data = section_of(state, SECTION_DATA);
    uint64_t unit = cut_unit(state);
    struct elf_hole hole;
    size_t count = 0;

    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        struct section *section = &state->base.plan->sections[i];
        const char *problem;

        if (!section_goes(section) || !section->loaded)
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
        if (section == data && takes_zeros(state) && find_zeros_before(state, unit, &hole) &&
            why_not_cut(state, &hole) == NULL)
            add_candidate(candidates, &count, NULL, &hole);
    }
    if (data != NULL && data->loaded && data->size != 0 && !section_goes(data) &&
        takes_zeros(state)) {
        hole = find_hole_of_data(state, unit);
        if (hole.emptied_count != 0 && why_not_cut(state, &hole) == NULL)
            add_candidate(candidates, &count, NULL, &hole);
    }
    return count;
}

/* Says why the hole of a section is not cut. Nobody misses what only zeros would have saved. */
static void explain_no_room(struct elf_state *state, struct section *section, struct elf_hole *hole)
{
    if (section == NULL || (section->kind == SECTION_DATA && !state->is_firmware &&
                            !find_zeros_behind(state, cut_unit(state), false, hole)))
        return;
    section->fate = FATE_ZEROED;
    image_plan_explain(state->base.plan, section,
                       "%" PRIu64 " bytes of zeros stay: no room for another program header "
                       "behind the others",
                       hole->size);
}

static bool needs_header(const struct elf_hole *hole)
{
    return !hole->is_at_end && !hole->is_tail;
}

/* Makes room for the program headers that the candidates need, or as many as possible. Returns how
 * many. */
static size_t make_room(struct elf_state *state, const struct candidate *candidates, size_t count)
{
    size_t edit_count = state->base.plan->edits.count, extra = 0;

    for (size_t i = 0; i < count; i++)
        extra += needs_header(&candidates[i].hole) ? 1 : 0;
    for (; count != 0 && !elf_room_make(state, extra, cut_unit(state)) && extra > 0; extra--)
        elf_room_forget(state, edit_count);
    return extra;
}

static void choose_holes(struct elf_state *state)
{
    struct candidate candidates[HOLES_MAX];
    size_t count = find_candidates(state, candidates);
    size_t headers = make_room(state, candidates, count);

    for (size_t i = 0; i < count; i++) {
        struct section *section = candidates[i].section;
        struct elf_hole hole = candidates[i].hole;
        size_t place = state->hole_count;

        if (needs_header(&hole) && headers == 0) {
            explain_no_room(state, section, &hole);
            continue;
        }
        headers -= needs_header(&hole) ? 1 : 0;
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

/* Puts the remnant at the start of the section, and zeros behind it, except where holes are. */
static void empty_loaded(struct elf_state *state, const struct section *section)
{
    struct edit_script *edits = &state->base.plan->edits;
    struct bytes remnant = remnant_of(state, section);
    uint64_t offset = section->offset + remnant.size, end = section->offset + section->size;

    edit_replace(edits, section->offset, remnant.size, remnant);
    while (offset < end) {
        uint64_t next = end, behind = end;

        for (size_t i = 0; i < state->hole_count; i++) {
            const struct elf_hole *hole = &state->holes[i];
            uint64_t cut_end = hole->cut_offset + hole->cut;

            if (cut_end > offset && hole->cut_offset < next) {
                next = hole->cut_offset > offset ? hole->cut_offset : offset;
                behind = cut_end;
            }
        }
        edit_replace_by_zeros(edits, offset, next - offset, next - offset);
        offset = behind;
    }
}

static void cut_holes(struct elf_state *state)
{
    struct image_plan *plan = state->base.plan;

    for (size_t i = 0; i < state->hole_count; i++) {
        uint64_t start = state->holes[i].cut_offset, end = start + state->holes[i].cut;

        edit_cut(&plan->edits, start, end - start);
        plan->zeros_size += end - start;
        for (size_t j = 0; j < plan->section_count; j++) {
            const struct section *section = &plan->sections[j];
            uint64_t from = section->offset > start ? section->offset : start;
            uint64_t to =
                section->offset + section->size < end ? section->offset + section->size : end;

            if (section_goes(section) && section->loaded && from < to)
                plan->zeros_size -= to - from;
        }
    }
}

/* Of a table that gets shorter, the size of what can be cut at the end of its section. */
static uint64_t cut_of_table(const struct elf_state *state, size_t section, uint64_t new_size)
{
    const Elf64_Shdr *shdr = &state->image.shdrs[section];

    return cut_size(state, shdr->sh_offset + new_size, shdr->sh_offset + shdr->sh_size);
}

static void shorten(struct elf_state *state, size_t section, struct bytes table)
{
    struct edit_script *edits = &state->base.plan->edits;
    const Elf64_Shdr *shdr = &state->image.shdrs[section];
    uint64_t gone = shdr->sh_size - table.size, cut = cut_of_table(state, section, table.size);

    edit_replace(edits, shdr->sh_offset, table.size, table);
    edit_replace_by_zeros(edits, shdr->sh_offset + table.size, cut > gone ? cut : gone,
                          cut > gone ? 0 : gone - cut);
}

/* Takes out the symbols of coverage records, unless that makes no table shorter. The new symbols
 * may still change (write.c). */
static bool shorten_symbols(struct elf_state *state)
{
    struct symbol_cut *cut = &state->symbol_cut;

    if (!elf_symbols_cut(state))
        return false;
    if (cut->count == 0 || (cut_of_table(state, state->symbols, cut->symbols.size) == 0 &&
                            cut_of_table(state, state->names, cut->names.size) == 0)) {
        symbol_cut_free(cut);
        return true;
    }
    state->symbols_literal = state->base.plan->edits.literals.size;
    shorten(state, state->symbols, buffer_view(&cut->symbols));
    shorten(state, state->names, buffer_view(&cut->names));
    return true;
}

/* Reserves room for the new headers; write.c fills it in once all offsets are known. */
static void reserve_headers(struct elf_state *state)
{
    struct edit_script *edits = &state->base.plan->edits;
    uint64_t start = state->image.elf.header.e_phoff, old_size = state->headers_end - start;
    struct buffer zeros = {0};

    if (state->hole_count == 0 && state->move_count == 0)
        return;
    state->headers_literal = edits->literals.size;
    if (buffer_append_zeros(&zeros, (size_t)(old_size + state->headers_growth)))
        edit_replace(edits, start, old_size, buffer_view(&zeros));
    else
        edits->has_no_memory = true;
    buffer_free(&zeros);
}

bool elf_layout(struct planning *planning, struct error *error)
{
    struct elf_state *state = (struct elf_state *)planning;
    struct image_plan *plan = planning->plan;

    if (!elf_check_tail(&state->image, error))
        return false;
    place_remnants(state);
    if (image_plan_removes(plan, SECTION_NAMES) &&
        !names_move(planning, state->names_address, error))
        return false;
    choose_holes(state);
    for (size_t i = 0; i < plan->section_count; i++) {
        const struct section *section = &plan->sections[i];

        if (section_goes(section) && section->loaded)
            empty_loaded(state, section);
        else if (section_goes(section))
            elf_cut_unloaded(state, section,
                             planning_remnant(planning, section->kind, section->size));
    }
    cut_holes(state);
    edit_replace_by_zeros(&plan->edits, state->relocation_changes.table_end, 0,
                          state->relocation_changes.table_removed - state->table_shift);
    elf_retained_empty(state);
    reserve_headers(state);
    return (shorten_symbols(state) && !state->moved.failed && !plan->edits.has_no_memory) ||
           error_out_of_memory(error, planning->input->path, plan->edits.literals.size);
}
