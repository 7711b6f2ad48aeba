/*
 * Taking the bytes of removed sections out of the file without moving anything in memory.
 *
 * Sections that are not loaded are simply cut. A loaded section leaves whole pages: its segment is
 * split around them, which takes one more program header a hole. The program header table cannot
 * move (the runtime finds its build ID through __ehdr_start + e_phoff, and old kernels compute
 * AT_PHDR from e_phoff), so it grows over what follows it. That is made room for in two steps:
 *
 *   1. `.interp` and the notes, which come first, move into the names' range. Only program headers
 *      point to them.
 *   2. Where that is not enough, what comes next (`.dynsym`, `.gnu.version`, ...: tables that only
 *      the dynamic section points to) shifts up by what is missing, into the place of the smallest
 *      one of them that is large enough, which moves into the names' range instead. So a large
 *      .dynsym never has to be copied.
 *
 * What cannot be cut is filled with zeros, which saves nothing in the file but compresses well.
 */
#include "formats/elf_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PHDR_SIZE sizeof(Elf64_Phdr)

/* Everything that may move is a table of at most this alignment. */
#define MOVE_ALIGNMENT UINT64_C(16)

#ifndef SHT_RELR
#define SHT_RELR 19
#endif

/* ---- sections that are not loaded ---- */

/* What must stay aligned behind `end`: cuts are multiples of this. */
static uint64_t alignment_behind(const struct elf_plan_state *state, uint64_t end)
{
    const struct elf_image *image = &state->image;
    uint64_t alignment = image->ehdr.e_shoff >= end ? 8 : 1;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= end && shdr->sh_addralign > alignment)
            alignment = shdr->sh_addralign;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        uint64_t unit = phdr->p_align > ELF_PAGE_SIZE ? phdr->p_align : ELF_PAGE_SIZE;
        if (phdr->p_type == PT_LOAD && phdr->p_offset >= end && unit > alignment)
            alignment = unit;
    }
    return alignment;
}

/* The end of the zero bytes between `end` and what comes next in the file. */
static uint64_t padding_end(const struct elf_plan_state *state, uint64_t end)
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
    /* More than an alignment's worth is not padding. */
    if (next - end >= ELF_PAGE_SIZE || !bytes_slice(image->file, end, next - end, &gap) ||
        !bytes_all_zero(gap))
        return end;
    return next;
}

static bool cut_unloaded(struct elf_plan_state *state, const struct image_section *section)
{
    uint64_t end = section->offset + section->size;
    uint64_t alignment = alignment_behind(state, end);
    uint64_t cut = align_down(padding_end(state, end) - section->offset, alignment);
    struct edit_script *edits = &state->plan->edits;

    if (cut < section->size && !edit_replace_by_zeros(edits, section->offset + cut,
                                                      section->size - cut, section->size - cut))
        return false;
    return edit_cut(edits, section->offset, cut);
}

/* ---- holes ---- */

/* Cuts shift what is behind them in the file, so they are multiples of every segment's alignment
 * and all segments stay congruent. */
static uint64_t cut_unit(const struct elf_image *image)
{
    uint64_t unit = ELF_PAGE_SIZE;

    for (size_t i = 0; i < image->phnum; i++) {
        if (image->phdrs[i].p_type == PT_LOAD && image->phdrs[i].p_align > unit)
            unit = image->phdrs[i].p_align;
    }
    return unit;
}

/* True where a segment is not aligned to pages (ld -n, ld -N): it cannot be split. */
static bool has_unaligned_segments(const struct elf_image *image)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type == PT_LOAD && phdr->p_align < ELF_PAGE_SIZE)
            return true;
    }
    return false;
}

static bool crosses_other_segment(const struct elf_image *image, const struct elf_hole *hole)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const GElf_Phdr *phdr = &image->phdrs[i];
        if (phdr->p_type != PT_LOAD &&
            ranges_overlap(phdr->p_vaddr, phdr->p_memsz, hole->address, hole->size))
            return true;
    }
    return false;
}

/* The whole units of a loaded section behind its first `reserved` bytes; size 0 where none. */
static struct elf_hole find_hole(const struct elf_plan_state *state,
                                 const struct image_section *section, uint64_t reserved,
                                 uint64_t unit)
{
    uint64_t start = align_up(section->address + reserved, unit);
    uint64_t end = align_down(section->address + section->size, unit);
    struct elf_hole hole = {
        .segment = elf_segment_of(&state->image, section->address, section->size),
        .address = start,
    };

    if (reserved < section->size && end > start)
        hole.size = end - start;
    return hole;
}

/* ---- room for program headers ---- */

static uint64_t headers_old_end(const struct elf_plan_state *state)
{
    return state->image.ehdr.e_phoff + state->image.phnum * PHDR_SIZE;
}

static size_t first_load(const struct elf_image *image)
{
    size_t i = 0;

    while (image->phdrs[i].p_type != PT_LOAD)
        i++;
    return i;
}

/* Index of the section whose bytes come first at or behind `offset`; NO_INDEX if none. */
static size_t next_section(const struct elf_image *image, uint64_t offset)
{
    size_t next = NO_INDEX;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= offset &&
            (next == NO_INDEX || shdr->sh_offset < image->shdrs[next].sh_offset))
            next = i;
    }
    return next;
}

/* Notes that nothing but a program header refers to. Others may be read by code of the program. */
static bool is_front_section(const struct elf_image *image, size_t index)
{
    static const char *const names[] = {".interp", ".note.gnu.property", ".note.gnu.build-id",
                                        ".note.ABI-tag", ".note.package"};
    const char *name = elf_section_name(image, index);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* Tables that only the dynamic section (or nothing) points to, with the tag that does. */
static bool dynamic_tag_of(const struct elf_image *image, size_t index, GElf_Sxword *tag)
{
    static const struct {
        GElf_Word type;
        GElf_Sxword tag;
    } tables[] = {
        {SHT_DYNSYM, DT_SYMTAB},       {SHT_STRTAB, DT_STRTAB},     {SHT_GNU_versym, DT_VERSYM},
        {SHT_GNU_verneed, DT_VERNEED}, {SHT_GNU_verdef, DT_VERDEF}, {SHT_GNU_HASH, DT_GNU_HASH},
        {SHT_HASH, DT_HASH},
    };
    const GElf_Shdr *shdr = &image->shdrs[index];

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const GElf_Dyn *entry = elf_dynamic_find(image, tables[i].tag);
        if (shdr->sh_type == tables[i].type && entry != NULL &&
            entry->d_un.d_ptr == shdr->sh_addr) {
            *tag = tables[i].tag;
            return true;
        }
    }
    return false;
}

struct moved_search {
    const struct elf_plan_state *state;
};

/* What moves must not be relocated itself. */
static bool is_relocated_elsewhere(void *context, const struct elf_relocation *relocation)
{
    const struct moved_search *search = context;

    return elf_plan_move_of(search->state, relocation->offset) == NULL;
}

/* glibc's start files have a local object over the ABI note, which nothing refers to. */
#define ABI_TAG_SIZE 32

static bool is_symbol_elsewhere(void *context, const GElf_Sym *symbol, uint64_t offset)
{
    const struct moved_search *search = context;
    unsigned type = GELF_ST_TYPE(symbol->st_info);

    (void)offset;
    if (type == STT_SECTION || !elf_symbol_has_address(&search->state->image, symbol) ||
        elf_plan_move_of(search->state, symbol->st_value) == NULL)
        return true;
    return type == STT_OBJECT && GELF_ST_BIND(symbol->st_info) == STB_LOCAL &&
           symbol->st_size == ABI_TAG_SIZE;
}

/* A segment that is not loaded by itself moves along if all of it moves, and stays if none does. */
static bool segments_move_whole(const struct elf_plan_state *state)
{
    for (size_t i = 0; i < state->image.phnum; i++) {
        const GElf_Phdr *phdr = &state->image.phdrs[i];

        if (phdr->p_type == PT_LOAD)
            continue;
        for (size_t j = 0; j < state->move_count; j++) {
            const struct elf_move *move = &state->moves[j];
            if (ranges_overlap(phdr->p_vaddr, phdr->p_memsz, move->address, move->size) &&
                !range_within(phdr->p_vaddr, phdr->p_memsz, move->address, move->size))
                return false;
        }
    }
    return true;
}

/* Proves that no symbol, no pointer and no code of the image refers to what would move. */
static bool nobody_refers_to_moves(const struct elf_plan_state *state)
{
    struct moved_search search = {state};
    const struct elf_image *image = &state->image;
    uint64_t first = UINT64_MAX, end = 0;
    const char *reason;
    uint64_t from;

    for (size_t i = 1; i < image->shnum; i++) {
        if ((image->shdrs[i].sh_type == SHT_SYMTAB || image->shdrs[i].sh_type == SHT_DYNSYM) &&
            !elf_symbols_each(image, i, is_symbol_elsewhere, &search))
            return false;
    }
    if (!elf_relocations_each(image, is_relocated_elsewhere, &search, &reason))
        return false;
    /* What moves is one stretch of the file but for padding: one look at the code does. */
    for (size_t i = 0; i < state->move_count; i++) {
        const struct elf_move *move = &state->moves[i];
        first = move->address < first ? move->address : first;
        end = move->address + move->size > end ? move->address + move->size : end;
    }
    return segments_move_whole(state) &&
           !elf_find_pointer(state, first, end - first, &from, &reason) &&
           !elf_find_code_reference(state, first, end - first, &from);
}

/* Takes the bytes [offset, offset + size) of the file along into the names' range. They keep their
 * place modulo the alignment that anything in them may have. */
static bool move_to_names(struct elf_plan_state *state, uint64_t names_address, uint64_t address,
                          uint64_t offset, uint64_t size)
{
    struct elf_move *move = &state->moves[state->move_count];
    uint64_t free_address = names_address + state->moved.size;
    uint64_t padding = (address - free_address) % MOVE_ALIGNMENT;
    struct bytes bytes;

    if (state->move_count == MOVES_MAX || !bytes_slice(state->image.file, offset, size, &bytes) ||
        !buffer_append_zeros(&state->moved, (size_t)padding) ||
        !buffer_append(&state->moved, bytes.data, (size_t)size))
        return false;
    *move = (struct elf_move){address, size, free_address + padding - address};
    state->move_count++;
    return true;
}

/* Step 2: the run of tables behind `offset` shifts by `growth`. */
static bool shift_tables(struct elf_plan_state *state, uint64_t names_address, uint64_t offset,
                         uint64_t growth)
{
    const struct elf_image *image = &state->image;
    size_t smallest = NO_INDEX;
    uint64_t end = offset;
    GElf_Sxword tag;

    /* The run is contiguous but for alignment, and stays in the segment of the headers. */
    for (size_t i = next_section(image, offset); i != NO_INDEX; i = next_section(image, end)) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (shdr->sh_offset - end >= MOVE_ALIGNMENT || shdr->sh_addralign > MOVE_ALIGNMENT ||
            !dynamic_tag_of(image, i, &tag))
            break;
        if (shdr->sh_size >= growth &&
            (smallest == NO_INDEX || shdr->sh_size < image->shdrs[smallest].sh_size))
            smallest = i;
        end = shdr->sh_offset + shdr->sh_size;
    }
    if (smallest == NO_INDEX)
        return false;
    for (size_t i = next_section(image, offset); i != smallest;
         i = next_section(image, image->shdrs[i].sh_offset + image->shdrs[i].sh_size)) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        if (state->move_count == MOVES_MAX)
            return false;
        state->moves[state->move_count++] = (struct elf_move){shdr->sh_addr, shdr->sh_size, growth};
    }
    return move_to_names(state, names_address, image->shdrs[smallest].sh_addr,
                         image->shdrs[smallest].sh_offset, image->shdrs[smallest].sh_size) &&
           edit_replace_by_zeros(&state->plan->edits, image->shdrs[smallest].sh_offset,
                                 image->shdrs[smallest].sh_size,
                                 image->shdrs[smallest].sh_size - growth);
}

/* Notes are found through __ehdr_start + p_offset by the runtimes of LLVM 14 to 18, so where they
 * go, file offsets and addresses must differ by as much as they do for the ELF header. The names'
 * range does if it is in a segment where they do and nothing before it in the file is cut. */
static bool names_are_beside_header(const struct elf_plan_state *state,
                                    const struct image_section *names)
{
    const GElf_Phdr *first = &state->image.phdrs[first_load(&state->image)];

    if (first->p_offset != 0 || headers_old_end(state) > first->p_filesz ||
        names->address - names->offset != first->p_vaddr)
        return false;
    for (size_t i = 0; i < state->plan->section_count; i++) {
        const struct image_section *section = &state->plan->sections[i];
        if (section->fate != SECTION_STAYS && section->offset < names->offset)
            return false;
    }
    return true;
}

/* Undoes what a failed attempt has planned. */
static void forget_room(struct elf_plan_state *state, size_t edit_count)
{
    state->plan->edits.count = edit_count;
    state->move_count = 0;
    state->moved.size = 0;
    state->headers_growth = 0;
}

/* The end of the zero bytes behind `offset` that nothing uses, as far as the headers' segment goes.
 */
static uint64_t free_end(const struct elf_plan_state *state, uint64_t offset)
{
    const struct elf_image *image = &state->image;
    const GElf_Phdr *first = &image->phdrs[first_load(image)];
    uint64_t end = first->p_offset + first->p_filesz;
    size_t next = next_section(image, offset);
    struct bytes gap;

    if (next != NO_INDEX && image->shdrs[next].sh_offset < end)
        end = image->shdrs[next].sh_offset;
    if (end < offset || !bytes_slice(image->file, offset, end - offset, &gap) ||
        !bytes_all_zero(gap))
        return offset;
    return end;
}

/* Step 1 with what it takes of step 2: everything from `start` to `end` moves. */
static bool move_front(struct elf_plan_state *state, const struct image_section *names,
                       uint64_t start, uint64_t end)
{
    state->headers_end = free_end(state, end);
    return start == end ||
           move_to_names(state, names->address, names->address - names->offset + start, start,
                         end - start);
}

/* Step 2 by shifting. */
static bool move_front_and_shift(struct elf_plan_state *state, const struct image_section *names,
                                 uint64_t start, uint64_t end, uint64_t new_end)
{
    if (!move_front(state, names, start, end))
        return false;
    state->headers_growth = align_up(new_end - state->headers_end, MOVE_ALIGNMENT);
    return shift_tables(state, names->address, state->headers_end, state->headers_growth);
}

/* Where all tables are small (static-pie), none may be large enough to shift the others into: then
 * as many as it takes move. */
static bool move_front_and_tables(struct elf_plan_state *state, const struct image_section *names,
                                  uint64_t start, uint64_t end, uint64_t new_end)
{
    const struct elf_image *image = &state->image;
    GElf_Sxword tag;

    while (free_end(state, end) < new_end) {
        size_t index = next_section(image, end);
        if (index == NO_INDEX || image->shdrs[index].sh_offset - end >= MOVE_ALIGNMENT ||
            image->shdrs[index].sh_addralign > MOVE_ALIGNMENT ||
            !dynamic_tag_of(image, index, &tag))
            return false;
        end = image->shdrs[index].sh_offset + image->shdrs[index].sh_size;
    }
    return move_front(state, names, start, end);
}

/* Makes room for `extra` more program headers. On success headers_end, headers_growth, moves and
 * moved are set. */
static bool make_room(struct elf_plan_state *state, size_t extra)
{
    const struct elf_image *image = &state->image;
    const struct image_section *names = elf_plan_section(state, SECTION_NAMES);
    uint64_t old_end = headers_old_end(state), new_end = old_end + extra * PHDR_SIZE;
    uint64_t start = free_end(state, old_end), end;
    size_t index = next_section(image, start);
    size_t edit_count = state->plan->edits.count;

    state->headers_end = start;
    if (start >= new_end)
        return true;
    if (index == NO_INDEX || image->shdrs[index].sh_offset != start || names == NULL ||
        names->fate == SECTION_STAYS || !names_are_beside_header(state, names))
        return false;
    for (end = start; index != NO_INDEX && is_front_section(image, index) &&
                      image->shdrs[index].sh_offset - end < MOVE_ALIGNMENT;
         index = next_section(image, end))
        end = image->shdrs[index].sh_offset + image->shdrs[index].sh_size;
    if (free_end(state, end) < new_end) {
        if (move_front_and_shift(state, names, start, end, new_end))
            return state->moved.size <= names->size && nobody_refers_to_moves(state);
        forget_room(state, edit_count);
    }
    return move_front_and_tables(state, names, start, end, new_end) &&
           state->moved.size <= names->size && nobody_refers_to_moves(state);
}

/* ---- choosing ---- */

struct candidate {
    struct image_section *section;
    struct elf_hole hole;
};

static uint64_t reserved_bytes(const struct elf_plan_state *state,
                               const struct image_section *section)
{
    return section->kind == SECTION_NAMES ? state->moved.size : state->record_layout.record_size;
}

/* Large alignments (-z max-page-size) leave more in the file than the user expects. */
static void explain_alignment(const struct elf_plan_state *state, struct image_section *section,
                              const struct elf_hole *hole)
{
    uint64_t reserved = reserved_bytes(state, section);
    struct elf_hole pages = find_hole(state, section, reserved, ELF_PAGE_SIZE);

    if (pages.size == hole->size)
        return;
    if (hole->size == 0)
        section->fate = SECTION_ZEROED;
    snprintf(section->reason, sizeof(section->reason),
             "%" PRIu64 " bytes of zeros stay: the image's segments are aligned to %" PRIu64
             " bytes; link with -z max-page-size=4096",
             pages.size - hole->size, cut_unit(&state->image));
}

/* The loaded sections that go, with the pages that each could give; those without any are left
 * out. The larger comes first. */
static size_t find_candidates(struct elf_plan_state *state, struct candidate candidates[HOLES_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < state->plan->section_count; i++) {
        struct image_section *section = &state->plan->sections[i];
        struct elf_hole hole;

        if (section->fate == SECTION_STAYS || !section->loaded)
            continue;
        hole = find_hole(state, section, reserved_bytes(state, section), cut_unit(&state->image));
        explain_alignment(state, section, &hole);
        if (hole.size == 0)
            continue;
        if (has_unaligned_segments(&state->image) || crosses_other_segment(&state->image, &hole)) {
            section->fate = SECTION_ZEROED;
            snprintf(section->reason, sizeof(section->reason),
                     "its pages cannot be cut: its segment cannot be split there");
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

static void choose_holes(struct elf_plan_state *state)
{
    struct candidate candidates[HOLES_MAX];
    size_t count = find_candidates(state, candidates);
    size_t edit_count = state->plan->edits.count;
    size_t cut;

    for (cut = count; cut > 0 && !make_room(state, cut); cut--)
        forget_room(state, edit_count);
    for (size_t i = 0; i < count; i++) {
        struct image_section *section = candidates[i].section;
        /* What moved into the names' range makes its hole smaller. */
        struct elf_hole hole =
            find_hole(state, section, reserved_bytes(state, section), cut_unit(&state->image));

        if (i >= cut) {
            section->fate = SECTION_ZEROED;
            snprintf(section->reason, sizeof(section->reason),
                     "%" PRIu64 " bytes of zeros stay: no room for another program header "
                     "behind the others",
                     candidates[i].hole.size);
        } else if (hole.size != 0) {
            state->holes[state->hole_count++] = hole;
        }
    }
    /* In the order of addresses, as the segments are. */
    if (state->hole_count == 2 && state->holes[0].address > state->holes[1].address) {
        struct elf_hole first = state->holes[0];
        state->holes[0] = state->holes[1];
        state->holes[1] = first;
    }
}

/* ---- edits ---- */

static const struct elf_hole *hole_in(const struct elf_plan_state *state,
                                      const struct image_section *section)
{
    for (size_t i = 0; i < state->hole_count; i++) {
        if (range_within(state->holes[i].address, 1, section->address, section->size))
            return &state->holes[i];
    }
    return NULL;
}

/* A loaded section becomes: what lives there now, zeros, the cut, zeros. */
static bool empty_loaded(struct elf_plan_state *state, const struct image_section *section)
{
    struct edit_script *edits = &state->plan->edits;
    const struct elf_hole *hole = hole_in(state, section);
    uint64_t end = section->offset + section->size;
    struct bytes head = section->kind == SECTION_NAMES
                            ? buffer_view(&state->moved)
                            : (struct bytes){state->stub, state->record_layout.record_size};
    uint64_t zeros = section->offset + head.size;
    uint64_t cut = hole == NULL ? end : section->offset + (hole->address - section->address);
    uint64_t cut_end = hole == NULL ? end : cut + hole->size;

    if (section->kind == SECTION_DATA)
        state->plan->stub_uuid_literal = edits->literals.size;
    return edit_replace(edits, section->offset, head.size, head) &&
           edit_replace_by_zeros(edits, zeros, cut - zeros, cut - zeros) &&
           edit_cut(edits, cut, cut_end - cut) &&
           edit_replace_by_zeros(edits, cut_end, end - cut_end, end - cut_end);
}

/* A place for the new headers; elf_tables.c fills it in once all offsets are known. */
static bool reserve_headers(struct elf_plan_state *state)
{
    struct buffer zeros = {0};
    uint64_t start = state->image.ehdr.e_phoff;
    uint64_t old_size = state->headers_end - start;
    bool done;

    state->new_phnum = state->image.phnum + state->hole_count;
    if (state->hole_count == 0 && state->move_count == 0)
        return true;
    state->headers_literal = state->plan->edits.literals.size;
    done = buffer_append_zeros(&zeros, (size_t)(old_size + state->headers_growth)) &&
           edit_replace(&state->plan->edits, start, old_size, buffer_view(&zeros));
    buffer_free(&zeros);
    return done;
}

bool elf_layout_plan(struct elf_plan_state *state, struct error *error)
{
    bool done = true;

    choose_holes(state);
    for (size_t i = 0; i < state->plan->section_count && done; i++) {
        const struct image_section *section = &state->plan->sections[i];

        if (section->fate == SECTION_STAYS)
            continue;
        done = section->loaded ? empty_loaded(state, section) : cut_unloaded(state, section);
    }
    if (!done || !reserve_headers(state))
        return error_out_of_memory(error, state->image.path, state->plan->edits.literals.size);
    return edit_script_finish(&state->plan->edits, state->image.path, error);
}
