/*
 * Makes room for more program headers.
 *
 * The program header table cannot move (the runtime finds its build ID through __ehdr_start +
 * e_phoff, and old kernels compute AT_PHDR from e_phoff), so it grows over what follows it. Room
 * for that is made in two steps:
 *
 *   1. `.interp` and the notes, which come first, move into the names' range. Only program headers
 *      point to them.
 *   2. If that is not enough, the tables that come next (`.dynsym`, `.gnu.version`, ..., to which
 *      only the dynamic section points) shift towards the end of the file by the missing size, into
 *      the place of the smallest of them that is large enough; that one moves into the names'
 *      range. So a large .dynsym never has to be copied.
 *
 * Nothing moves unless it is shown that nothing else refers to it. The headers of firmware are not
 * loaded; there, room is made in the file alone.
 */
#include "formats/elf/elf.h"

#include <string.h>

/* The largest alignment of anything that may move: all of it is tables. */
#define MOVE_ALIGNMENT UINT64_C(16)

/* Defined by the MIPS psABI; elf.h only has the type of its program header. */
#ifndef SHT_MIPS_ABIFLAGS
#define SHT_MIPS_ABIFLAGS 0x7000002a
#endif

const struct elf_move *elf_move_of(const struct elf_state *state, uint64_t address)
{
    for (size_t i = 0; i < state->move_count; i++) {
        if (range_within(address, 1, state->moves[i].address, state->moves[i].size))
            return &state->moves[i];
    }
    return NULL;
}

static uint64_t headers_old_end(const struct elf_state *state)
{
    return state->image.elf.header.e_phoff + state->image.phnum * state->image.sizes.phdr;
}

/* Index of the first section whose bytes start at or behind `offset`; NO_INDEX if there is none. */
static size_t next_section(const struct elf_image *image, uint64_t offset)
{
    size_t next = NO_INDEX;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        if (elf_section_in_file(shdr) && shdr->sh_offset >= offset &&
            (next == NO_INDEX || shdr->sh_offset < image->shdrs[next].sh_offset))
            next = i;
    }
    return next;
}

/* True if the section's header agrees with the segment that contains the ELF header. */
static bool is_beside_header(const struct elf_image *image, size_t index)
{
    const Elf64_Shdr *shdr = &image->shdrs[index];
    const Elf64_Phdr *first = elf_first_load(image);

    return shdr->sh_addr - shdr->sh_offset == elf_header_base(image) &&
           range_within(shdr->sh_addr, shdr->sh_size, first->p_vaddr, first->p_filesz);
}

/* A section to which only a program header refers, unless nobody_refers_to_moves finds out
 * otherwise. */
static bool is_front_section(const struct elf_image *image, size_t index)
{
    const Elf64_Shdr *shdr = &image->shdrs[index];
    /* MIPS linkers put these behind the notes: kernels and loaders find them by their own program
     * headers. */
    bool is_mips_header = image->elf.header.e_machine == EM_MIPS &&
                          (shdr->sh_type == SHT_MIPS_ABIFLAGS || shdr->sh_type == SHT_MIPS_OPTIONS);

    return is_beside_header(image, index) && shdr->sh_addralign <= MOVE_ALIGNMENT &&
           (shdr->sh_flags & (SHF_WRITE | SHF_EXECINSTR | SHF_TLS)) == 0 &&
           (shdr->sh_type == SHT_NOTE || is_mips_header ||
            strcmp(elf_section_name(image, index), ".interp") == 0);
}

/* True for a table to which only the dynamic section points; a table of strings must be whole. */
static bool is_dynamic_table(const struct elf_image *image, size_t index)
{
    static const struct {
        Elf64_Word type;
        Elf64_Sxword tag;
    } tables[] = {
        {SHT_DYNSYM, DT_SYMTAB},       {SHT_STRTAB, DT_STRTAB},     {SHT_GNU_versym, DT_VERSYM},
        {SHT_GNU_verneed, DT_VERNEED}, {SHT_GNU_verdef, DT_VERDEF}, {SHT_GNU_HASH, DT_GNU_HASH},
        {SHT_HASH, DT_HASH},
    };
    const Elf64_Shdr *shdr = &image->shdrs[index];
    const Elf64_Dyn *size = elf_dynamic_find(image, DT_STRSZ);

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const Elf64_Dyn *entry = elf_dynamic_find(image, tables[i].tag);

        if (shdr->sh_type == tables[i].type && entry != NULL &&
            entry->d_un.d_ptr == shdr->sh_addr && is_beside_header(image, index) &&
            (shdr->sh_type != SHT_STRTAB || (size != NULL && size->d_un.d_val == shdr->sh_size)))
            return true;
    }
    return false;
}

/* glibc's start files define a local object for the ABI note, to which nothing refers. */
#define ABI_TAG_SIZE 32

/* A symbol in what moves does no harm by itself, as long as no other image can use it: code and
 * pointers are checked as well. That check is only reliable for code without absolute addresses. */
static bool symbol_may_move(const struct elf_image *image, const struct elf_symbol *symbol,
                            bool is_exported)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return elf_symbol_is_mark(image, symbol) ||
           (!is_exported && type == STT_OBJECT &&
            (image->elf.header.e_type == ET_DYN ||
             (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL && symbol->st_size == ABI_TAG_SIZE)));
}

/* True if a symbol that may not move is in what moves, or the table cannot be read. */
static bool has_symbol_in_moves(const struct elf_state *state, size_t table)
{
    const struct elf_image *image = &state->image;
    struct elf_symbol symbol;
    struct symbol_walk walk;

    elf_symbols_open(image, table, &walk);
    while (elf_symbols_next(image, &walk, &symbol)) {
        if (ELF64_ST_TYPE(symbol.st_info) != STT_SECTION &&
            elf_symbol_has_address(image, &symbol) && elf_move_of(state, symbol.st_value) != NULL &&
            !symbol_may_move(image, &symbol, image->shdrs[table].sh_type == SHT_DYNSYM))
            return true;
    }
    return walk.bad;
}

/* All sections in what moves must be of a kind that may move. If one overlaps it only partly, some
 * section has a wrong size. Every segment except those that are loaded must move as a whole or not
 * at all. */
static bool is_moved_whole(const struct elf_state *state, const struct elf_move *move)
{
    const struct elf_image *image = &state->image;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_ALLOC) != 0 && elf_section_in_file(shdr) &&
            ranges_overlap(shdr->sh_addr, shdr->sh_size, move->address, move->size) &&
            (!range_within(shdr->sh_addr, shdr->sh_size, move->address, move->size) ||
             !(is_front_section(image, i) || is_dynamic_table(image, i))))
            return false;
    }
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        if (phdr->p_type != PT_LOAD && phdr->p_type != PT_GNU_STACK &&
            ranges_overlap(phdr->p_vaddr, phdr->p_memsz, move->address, move->size) &&
            !range_within(phdr->p_vaddr, phdr->p_memsz, move->address, move->size))
            return false;
    }
    return true;
}

/* Addresses inside the moved ranges that code or data could legitimately reference: any address in
 * .interp and the notes, because these may be the program's own. But the tables are made by the
 * linker, which defines no symbols in them (any that exist were checked), so code can only refer to
 * the start of a table. In a large image many numbers seem to lead into a large .dynsym by chance.
 */
static bool counts_in_moves(const void *context, uint64_t address)
{
    const struct elf_image *image = &((const struct elf_state *)context)->image;
    bool is_in_table = false;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_ALLOC) == 0 || !elf_section_in_file(shdr) ||
            !range_within(address, 1, shdr->sh_addr, shdr->sh_size))
            continue;
        if (address == shdr->sh_addr || !is_dynamic_table(image, i))
            return true;
        is_in_table = true;
    }
    return !is_in_table;
}

/* Proves that no symbol, no pointer and no code of the image refers to what would move, and that
 * nothing in it is relocated. */
static bool nobody_refers_to_moves(const struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    struct elf_relocations relocations = elf_relocations_open(image);
    struct elf_relocation relocation;
    struct reference_target target = {
        .first = UINT64_MAX, .counts = counts_in_moves, .context = state};
    const char *reason;
    uint64_t from, end = 0;

    for (size_t i = 1; i < image->shnum; i++) {
        Elf64_Word type = image->shdrs[i].sh_type;

        if ((type == SHT_SYMTAB || type == SHT_DYNSYM) && has_symbol_in_moves(state, i))
            return false;
    }
    while (elf_relocations_next(&relocations, &relocation)) {
        if (elf_move_of(state, relocation.offset) != NULL)
            return false;
    }
    if (relocations.reason != NULL)
        return false;
    /* What moves is contiguous in the file except for padding: a single search of the code is
     * enough. */
    for (size_t i = 0; i < state->move_count; i++) {
        const struct elf_move *move = &state->moves[i];

        if (!is_moved_whole(state, move))
            return false;
        target.first = move->address < target.first ? move->address : target.first;
        end = move->address + move->size > end ? move->address + move->size : end;
    }
    target.size = end - target.first;
    return !elf_find_pointer(&state->base, &target, &from, &reason) &&
           !rules_find_in_code(&state->base.code, &target, false, &from);
}

/* Moves the bytes [offset, offset + size) of the file into the names' range. They keep their
 * address modulo the largest alignment that anything in them may have. */
static bool move_to_names(struct elf_state *state, uint64_t names_address, uint64_t address,
                          uint64_t offset, uint64_t size)
{
    struct elf_move *move = &state->moves[state->move_count];
    uint64_t free_address = names_address + state->moved.size;
    uint64_t padding = (address - free_address) % MOVE_ALIGNMENT;
    struct bytes bytes;

    if (state->move_count == MOVES_MAX ||
        !bytes_slice(state->image.elf.bytes, offset, size, &bytes))
        return false;
    if (!buffer_append_zeros(&state->moved, (size_t)padding) ||
        !buffer_append(&state->moved, bytes.data, (size_t)size))
        return false;
    *move = (struct elf_move){address, size, free_address + padding - address};
    state->move_count++;
    return true;
}

/* The end of the unused zero bytes behind `offset`, within the segment of the headers. */
static uint64_t free_end(const struct elf_state *state, uint64_t offset)
{
    const struct elf_image *image = &state->image;
    const Elf64_Phdr *first = elf_first_load(image);
    uint64_t end = first->p_offset + first->p_filesz;
    size_t next = next_section(image, offset);
    struct bytes gap;

    if (next != NO_INDEX && image->shdrs[next].sh_offset < end)
        end = image->shdrs[next].sh_offset;
    if (end < offset || !bytes_slice(image->elf.bytes, offset, end - offset, &gap) ||
        !bytes_all_zero(gap))
        return offset;
    return end;
}

/* Step 2: shifts the run of tables behind `offset` by `growth`. */
static bool shift_tables(struct elf_state *state, uint64_t names_address, uint64_t offset,
                         uint64_t growth)
{
    const struct elf_image *image = &state->image;
    size_t smallest = NO_INDEX, first, next;
    uint64_t end = offset, smallest_end;

    /* The run is contiguous except for alignment, and stays in the segment of the headers. */
    for (size_t i = next_section(image, offset); i != NO_INDEX; i = next_section(image, end)) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        bool is_table = is_dynamic_table(image, i);

        if (shdr->sh_offset - end >= MOVE_ALIGNMENT || shdr->sh_addralign > MOVE_ALIGNMENT ||
            !(is_table || is_front_section(image, i)))
            break;
        if (is_table && shdr->sh_size >= growth &&
            (smallest == NO_INDEX || shdr->sh_size < image->shdrs[smallest].sh_size))
            smallest = i;
        end = shdr->sh_offset + shdr->sh_size;
    }
    if (smallest == NO_INDEX)
        return false;
    /* No bytes that no header describes may follow it, so that its size is right. */
    smallest_end = image->shdrs[smallest].sh_offset + image->shdrs[smallest].sh_size;
    next = next_section(image, smallest_end);
    if (next != NO_INDEX && free_end(state, smallest_end) != image->shdrs[next].sh_offset)
        return false;
    /* What precedes it moves as one piece, with its padding: a segment may hold several of its
     * sections. */
    first = next_section(image, offset);
    if (first != smallest)
        state->moves[state->move_count++] =
            (struct elf_move){image->shdrs[first].sh_addr,
                              image->shdrs[smallest].sh_addr - image->shdrs[first].sh_addr, growth};
    return move_to_names(state, names_address, image->shdrs[smallest].sh_addr,
                         image->shdrs[smallest].sh_offset, image->shdrs[smallest].sh_size) &&
           edit_replace_by_zeros(&state->base.plan->edits, image->shdrs[smallest].sh_offset,
                                 image->shdrs[smallest].sh_size,
                                 image->shdrs[smallest].sh_size - growth);
}

/* The runtimes of LLVM 14 to 19 find notes through __ehdr_start + p_offset, so where these move,
 * address minus file offset must be the same as for the ELF header. It is the same in the names'
 * range if it was before, and if nothing before that in the file is cut. */
static bool names_are_beside_header(const struct elf_state *state, const struct section *names)
{
    const Elf64_Phdr *first = elf_first_load(&state->image);

    if (first->p_offset != 0 || headers_old_end(state) > first->p_filesz ||
        names->address - names->offset != first->p_vaddr)
        return false;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        if (section->fate != FATE_STAYS && section->offset < names->offset)
            return false;
    }
    return true;
}

void elf_room_forget(struct elf_state *state, size_t edit_count)
{
    state->base.plan->edits.count = edit_count;
    state->move_count = 0;
    state->moved.size = state->remnant_size;
    state->headers_growth = 0;
}

/* Shifts what is at `start`, until the headers have room up to new_end. */
static bool shift(struct elf_state *state, const struct section *names, uint64_t start,
                  uint64_t new_end)
{
    state->headers_end = start;
    state->headers_growth = align_up(new_end - start, MOVE_ALIGNMENT);
    return shift_tables(state, names->address, start, state->headers_growth);
}

/* Step 1, with as much of step 2 as needed: moves everything from `start` to `end`. */
static bool move_front(struct elf_state *state, const struct section *names, uint64_t start,
                       uint64_t end)
{
    state->headers_end = free_end(state, end);
    return start == end ||
           move_to_names(state, names->address, names->address - names->offset + start, start,
                         end - start);
}

/* If all tables are small (static-pie), there may be none that is large enough to shift the others
 * into its place: then as many tables as needed move. */
static bool move_front_and_tables(struct elf_state *state, const struct section *names,
                                  uint64_t start, uint64_t end, uint64_t new_end)
{
    const struct elf_image *image = &state->image;

    while (free_end(state, end) < new_end) {
        size_t index = next_section(image, end);
        if (index == NO_INDEX || image->shdrs[index].sh_offset - end >= MOVE_ALIGNMENT ||
            image->shdrs[index].sh_addralign > MOVE_ALIGNMENT || !is_dynamic_table(image, index))
            return false;
        end = image->shdrs[index].sh_offset + image->shdrs[index].sh_size;
    }
    return move_front(state, names, start, end);
}

/* True if the planned moves are possible and safe. */
static bool is_sound(const struct elf_state *state, const struct section *names)
{
    return state->moved.size <= names->size && nobody_refers_to_moves(state);
}

/* The table of firmware is not loaded, so it may grow into whatever gap is behind it, and if that
 * is too small, all that follows it in the file moves on. */
static bool make_room_in_file(struct elf_state *state, uint64_t new_end, uint64_t unit)
{
    uint64_t old_end = headers_old_end(state), end = elf_next_in_file(&state->image, old_end);
    struct bytes gap;

    if (!bytes_slice(state->image.elf.bytes, old_end, end - old_end, &gap) || !bytes_all_zero(gap))
        end = old_end;
    state->headers_end = end;
    state->headers_growth = new_end <= end ? 0 : align_up(new_end - end, unit);
    return true;
}

bool elf_room_make(struct elf_state *state, size_t extra, uint64_t unit)
{
    const struct elf_image *image = &state->image;
    const struct section *names = image_plan_section(state->base.plan, SECTION_NAMES);
    uint64_t old_end = headers_old_end(state), new_end = old_end + extra * image->sizes.phdr;
    uint64_t start = free_end(state, old_end), end;
    size_t index = next_section(image, start);
    size_t edit_count = state->base.plan->edits.count;

    if (state->is_firmware)
        return make_room_in_file(state, new_end, unit);
    state->headers_end = start;
    if (start >= new_end)
        return true;
    if (index == NO_INDEX || image->shdrs[index].sh_offset != start || names == NULL ||
        names->fate == FATE_STAYS || !names_are_beside_header(state, names))
        return false;
    if (shift(state, names, start, new_end) && is_sound(state, names))
        return true;
    elf_room_forget(state, edit_count);
    for (end = start; index != NO_INDEX && is_front_section(image, index) &&
                      image->shdrs[index].sh_offset - end < MOVE_ALIGNMENT;
         index = next_section(image, end))
        end = image->shdrs[index].sh_offset + image->shdrs[index].sh_size;
    if (free_end(state, end) < new_end) {
        if (move_front(state, names, start, end) &&
            shift(state, names, state->headers_end, new_end))
            return is_sound(state, names);
        elf_room_forget(state, edit_count);
    }
    return move_front_and_tables(state, names, start, end, new_end) && is_sound(state, names);
}
