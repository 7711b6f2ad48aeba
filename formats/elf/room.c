/*
 * Makes room for more program headers.
 *
 * The program header table cannot move (the runtime finds its build ID through __ehdr_start +
 * e_phoff, and old kernels compute AT_PHDR from e_phoff), so it grows over what follows it:
 * .interp, the notes, and the tables of the dynamic linker, to which only program headers and the
 * dynamic section point. These shift towards the end of the file, in order, by as much as is
 * missing, and into one of these places:
 *
 *   1. what is free at the end of the table of relocations, of which those of the records went: it
 *      starts later, and ends where it did;
 *   2. zeros that follow one of them, such as the rest of the page (GNU ld);
 *   3. the place of some of the tables of the dynamic linker, which move behind the names.
 *
 * Before that, some headers can be left out (find_spares). The result is what a linker could have
 * written. Other tools rely on that: kernel cores contain the first page of each file alone, with
 * the build ID in it, and patchelf relies on sections whose offsets ascend. So notes stay in their
 * page, and the section headers of tables that move behind the names move as well.
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

/* The most sections between the program headers and what cannot move. */
#define RUN_MAX 32

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

/* The tables to which only the dynamic section points, with the tag of their size if it has one. */
static const struct dynamic_table {
    Elf64_Word type;
    Elf64_Sxword tag, size_tag;
} dynamic_tables[] = {
    {SHT_DYNSYM, DT_SYMTAB, DT_NULL},     {SHT_STRTAB, DT_STRTAB, DT_STRSZ},
    {SHT_GNU_versym, DT_VERSYM, DT_NULL}, {SHT_GNU_verneed, DT_VERNEED, DT_NULL},
    {SHT_GNU_verdef, DT_VERDEF, DT_NULL}, {SHT_GNU_HASH, DT_GNU_HASH, DT_NULL},
    {SHT_HASH, DT_HASH, DT_NULL},         {SHT_RELA, DT_RELA, DT_RELASZ},
    {SHT_RELA, DT_JMPREL, DT_PLTRELSZ},   {SHT_REL, DT_REL, DT_RELSZ},
    {SHT_REL, DT_JMPREL, DT_PLTRELSZ},    {SHT_RELR, DT_RELR, DT_RELRSZ},
};

#define DYNAMIC_TABLES (sizeof(dynamic_tables) / sizeof(dynamic_tables[0]))

bool elf_is_table_tag(Elf64_Sxword tag)
{
    size_t i = 0;

    while (i < DYNAMIC_TABLES && dynamic_tables[i].tag != tag)
        i++;
    return i < DYNAMIC_TABLES;
}

/* True for one of these tables, with the size that is told. */
static bool is_dynamic_table(const struct elf_image *image, size_t index)
{
    const Elf64_Shdr *shdr = &image->shdrs[index];

    for (size_t i = 0; i < DYNAMIC_TABLES; i++) {
        const struct dynamic_table *table = &dynamic_tables[i];
        const Elf64_Dyn *entry = elf_dynamic_find(image, table->tag);
        const Elf64_Dyn *size = elf_dynamic_find(image, table->size_tag);

        if (shdr->sh_type == table->type && entry != NULL && entry->d_un.d_ptr == shdr->sh_addr &&
            is_beside_header(image, index) &&
            (table->size_tag == DT_NULL || (size != NULL && size->d_un.d_val == shdr->sh_size)))
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

/* The sections that may shift, in the order of their offsets. There is less than MOVE_ALIGNMENT
 * between one and the next. */
struct run {
    size_t sections[RUN_MAX];
    size_t count;
    uint64_t alignment; /* the largest of them */
};

static uint64_t section_end(const struct elf_image *image, size_t index)
{
    return image->shdrs[index].sh_offset + image->shdrs[index].sh_size;
}

static void find_run(const struct elf_image *image, uint64_t start, struct run *run)
{
    uint64_t end = start;

    for (size_t i = next_section(image, start); i != NO_INDEX && run->count < RUN_MAX;
         i = next_section(image, end)) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (shdr->sh_offset - end >= MOVE_ALIGNMENT || shdr->sh_addralign > MOVE_ALIGNMENT ||
            !(is_front_section(image, i) || is_dynamic_table(image, i)))
            break;
        run->sections[run->count++] = i;
        run->alignment = shdr->sh_addralign > run->alignment ? shdr->sh_addralign : run->alignment;
        end = section_end(image, i);
    }
}

/* The end of the unused zero bytes behind `offset` that are mapped with the headers: those in their
 * segment, and if nothing else of it follows, the rest of its last page. */
static uint64_t free_end(const struct elf_state *state, uint64_t offset)
{
    const struct elf_image *image = &state->image;
    const Elf64_Phdr *first = elf_first_load(image);
    uint64_t segment_end = first->p_offset + first->p_filesz;
    uint64_t end = elf_next_in_file(image, offset);

    if (end > segment_end && first->p_filesz == first->p_memsz) {
        uint64_t page_end = align_up(segment_end, MACHINE_PAGE_SIZE);

        end = end < page_end ? end : page_end;
    } else if (end > segment_end) {
        end = segment_end;
    }
    return end >= offset && bytes_zero_at(image->elf.bytes, offset, end - offset) ? end : offset;
}

static void forget_shift(struct elf_state *state, size_t edit_count)
{
    state->base.plan->edits.count = edit_count;
    state->move_count = 0;
    state->moved.size = state->remnant_size;
    state->headers_growth = 0;
    state->table_shift = 0;
    state->segment_growth = 0;
    state->renumbered = (struct elf_renumbered){0};
}

void elf_room_forget(struct elf_state *state, size_t edit_count)
{
    forget_shift(state, edit_count);
    state->spare_count = 0;
}

/* True if the notes stay in the page that they are in. */
static bool notes_keep_page(const struct elf_state *state, const struct run *run, uint64_t growth)
{
    const struct elf_image *image = &state->image;

    for (size_t i = 0; i < run->count; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[run->sections[i]];
        uint64_t last = section_end(image, run->sections[i]) - 1;

        if (shdr->sh_type == SHT_NOTE && elf_move_of(state, shdr->sh_addr) != NULL &&
            last / MACHINE_PAGE_SIZE != (last + growth) / MACHINE_PAGE_SIZE)
            return false;
    }
    return true;
}

/* Plans the shift of the first `count` sections of the run. */
static void plan_shift(struct elf_state *state, const struct run *run, size_t count)
{
    const struct elf_image *image = &state->image;
    uint64_t start = image->shdrs[run->sections[0]].sh_offset;

    if (count != 0)
        state->moves[state->move_count++] = (struct elf_move){
            .address = image->shdrs[run->sections[0]].sh_addr,
            .size = section_end(image, run->sections[count - 1]) - start,
            .distance = state->headers_growth,
        };
}

/* Shifts the run up to section `last`, if there is room in it or behind it. */
static bool shift_up_to(struct elf_state *state, const struct run *run, size_t last,
                        uint64_t growth)
{
    const struct elf_image *image = &state->image;
    const struct elf_relocation_changes *changes = &state->relocation_changes;
    const Elf64_Phdr *first = elf_first_load(image);
    uint64_t end = section_end(image, run->sections[last]);
    uint64_t segment_end = first->p_offset + first->p_filesz;

    state->headers_growth = growth;
    if (changes->table_removed != 0 && end == changes->table_end) {
        if (changes->table_removed < growth)
            return false;
        state->table_shift = growth;
    } else {
        if (free_end(state, end) < end + growth)
            return false;
        edit_cut(&state->base.plan->edits, end, growth);
        if (end + growth > segment_end)
            state->segment_growth = end + growth - segment_end;
    }
    plan_shift(state, run, last + 1);
    return notes_keep_page(state, run, growth) && nobody_refers_to_moves(state);
}

/* A part of the run that may move behind the names. */
struct block {
    size_t first, last; /* indices in the run */
    uint64_t size;
};

/* True for a table whose bytes nothing else changes. Symbols may get other section numbers. */
static bool may_leave(const struct elf_state *state, size_t index)
{
    const struct edit_script *edits = &state->base.plan->edits;
    const Elf64_Shdr *shdr = &state->image.shdrs[index];

    if (!is_dynamic_table(&state->image, index) || shdr->sh_type == SHT_DYNSYM)
        return false;
    for (size_t i = 0; i < edits->count; i++) {
        if (ranges_overlap(edits->edits[i].offset, edits->edits[i].old_size, shdr->sh_offset,
                           shdr->sh_size))
            return false;
    }
    return true;
}

/* The smallest block of `size` bytes at least; its size is 0 if there is none. */
static struct block find_block(const struct elf_state *state, const struct run *run, uint64_t size)
{
    const struct elf_image *image = &state->image;
    struct block smallest = {.size = 0};

    for (size_t first = 0; first < run->count; first++) {
        uint64_t start = image->shdrs[run->sections[first]].sh_offset;

        for (size_t last = first; last < run->count; last++) {
            uint64_t end = section_end(image, run->sections[last]);

            if (!may_leave(state, run->sections[last]) ||
                run->sections[last] != run->sections[first] + (last - first))
                break;
            if (end - start < size || free_end(state, end) != elf_next_in_file(image, end))
                continue;
            if (smallest.size == 0 || end - start < smallest.size)
                smallest = (struct block){first, last, end - start};
        }
    }
    return smallest;
}

/* Moves the block behind the tripwire. It keeps its address modulo the largest alignment that
 * anything in it may have. */
static bool move_behind_names(struct elf_state *state, const struct section *names,
                              const Elf64_Shdr *first, uint64_t size)
{
    uint64_t free_address = names->address + state->moved.size;
    uint64_t padding = (first->sh_addr - free_address) % MOVE_ALIGNMENT;
    struct bytes bytes;

    if (!bytes_slice(state->image.elf.bytes, first->sh_offset, size, &bytes) ||
        !buffer_append_zeros(&state->moved, (size_t)padding) ||
        !buffer_append(&state->moved, bytes.data, (size_t)size))
        return false;
    state->moves[state->move_count++] = (struct elf_move){
        .address = first->sh_addr,
        .size = size,
        .distance = free_address + padding - first->sh_addr,
        .is_behind_names = true,
    };
    return state->moved.size <= names->size;
}

/* Shifts the run into the place of a block, which moves behind the names. */
static bool swap_with_names(struct elf_state *state, const struct run *run, uint64_t growth)
{
    const struct elf_image *image = &state->image;
    const struct section *names = image_plan_section(state->base.plan, SECTION_NAMES);
    struct block block = find_block(state, run, growth);
    size_t names_index = state->base.section_index[SECTION_NAMES];
    const Elf64_Shdr *first;

    if (block.size == 0 || names == NULL || names->fate == FATE_STAYS ||
        !elf_may_renumber(image, run->sections[block.last], names_index))
        return false;
    first = &image->shdrs[run->sections[block.first]];
    state->headers_growth = growth;
    state->renumbered = (struct elf_renumbered){run->sections[block.first],
                                                block.last - block.first + 1, names_index};
    plan_shift(state, run, block.first);
    edit_replace_by_zeros(&state->base.plan->edits, first->sh_offset, block.size,
                          block.size - growth);
    return move_behind_names(state, names, first, block.size) &&
           notes_keep_page(state, run, growth) && nobody_refers_to_moves(state);
}

/* The table of firmware is not loaded, so it may grow into whatever gap is behind it, and if that
 * is too small, all that follows it in the file moves on. */
static bool make_room_in_file(struct elf_state *state, uint64_t new_end, uint64_t unit)
{
    uint64_t old_end = headers_old_end(state), end = elf_next_in_file(&state->image, old_end);

    if (!bytes_zero_at(state->image.elf.bytes, old_end, end - old_end))
        end = old_end;
    state->headers_end = end;
    state->headers_growth = new_end <= end ? 0 : align_up(new_end - end, unit);
    return true;
}

/* ---- headers that are not needed ---- */

/* True if the notes of two segments are the same to all readers when one segment has both: LLVM's
 * runtime takes notes to be aligned to 4 bytes, others look at p_align, and to the end of the last
 * one. */
static bool may_join_notes(const struct elf_image *image, const Elf64_Phdr *first,
                           const Elf64_Phdr *second)
{
    struct elf_note_list by_words = {.big_endian = image->elf.big_endian, .alignment = 4}, by_8;
    struct elf_note note, same;
    size_t at_words = 0, at_8 = 0;

    if (first->p_filesz == 0 || first->p_offset + first->p_filesz != second->p_offset ||
        first->p_vaddr + first->p_filesz != second->p_vaddr || first->p_flags != second->p_flags ||
        !bytes_slice(image->elf.bytes, first->p_offset, first->p_filesz + second->p_filesz,
                     &by_words.bytes))
        return false;
    by_8 = by_words;
    by_8.alignment = 8;
    while (elf_note_next(&by_words, &at_words, &note)) {
        if (!elf_note_next(&by_8, &at_8, &same) ||
            note.description_offset != same.description_offset)
            return false;
    }
    return at_words == by_words.bytes.size && at_8 == at_words && at_words % 8 == 0;
}

/* True if the property note has a header of its own, which is the one that loaders look for. */
static bool is_repeated(const struct elf_image *image, const Elf64_Phdr *notes)
{
    for (size_t i = 0; i < image->phnum; i++) {
        const Elf64_Phdr *phdr = &image->phdrs[i];

        if (phdr->p_type == PT_GNU_PROPERTY && phdr->p_offset == notes->p_offset &&
            phdr->p_filesz == notes->p_filesz && phdr->p_vaddr == notes->p_vaddr)
            return true;
    }
    return false;
}

/* Finds program headers that other linkers leave out: that of the table itself where no interpreter
 * looks for it (GNU ld), and those of notes that another one covers or can cover (mold). */
static size_t find_spares(const struct elf_image *image, struct elf_spare spares[SPARE_MAX])
{
    size_t count = 0, table = NO_INDEX;
    bool has_interpreter = false;

    for (size_t i = 0; i < image->phnum; i++) {
        has_interpreter |= image->phdrs[i].p_type == PT_INTERP;
        if (image->phdrs[i].p_type == PT_PHDR)
            table = i;
    }
    if (table != NO_INDEX && !has_interpreter)
        spares[count++] = (struct elf_spare){table, NO_INDEX};
    for (size_t i = 0; i < image->phnum && count < SPARE_MAX; i++) {
        bool follows = i != 0 && image->phdrs[i - 1].p_type == PT_NOTE;

        if (image->phdrs[i].p_type != PT_NOTE)
            continue;
        if (is_repeated(image, &image->phdrs[i]))
            spares[count++] = (struct elf_spare){i, NO_INDEX};
        else if (follows && may_join_notes(image, &image->phdrs[i - 1], &image->phdrs[i]))
            spares[count++] = (struct elf_spare){i, i - 1};
        else
            continue;
        break;
    }
    return count;
}

/* ---- all ways ---- */

/* Makes room up to new_end. */
static bool make_room_up_to(struct elf_state *state, uint64_t new_end)
{
    const struct elf_image *image = &state->image;
    uint64_t start = free_end(state, headers_old_end(state)), growth;
    size_t edit_count = state->base.plan->edits.count;
    struct run run = {.alignment = image->sizes.word};

    state->headers_end = start;
    if (start >= new_end)
        return true;
    find_run(image, start, &run);
    /* No more than that: objcopy --only-keep-debug wants notes right behind the headers. */
    growth = align_up(new_end - start, run.alignment);
    if (run.count == 0 || image->shdrs[run.sections[0]].sh_offset != start)
        return false;
    for (size_t i = 0; i < run.count; i++) {
        if (shift_up_to(state, &run, i, growth))
            return true;
        forget_shift(state, edit_count);
    }
    return swap_with_names(state, &run, growth);
}

bool elf_room_make(struct elf_state *state, size_t extra, uint64_t unit)
{
    uint64_t old_end = headers_old_end(state), header = state->image.sizes.phdr;
    size_t edit_count = state->base.plan->edits.count, spare_count;
    struct elf_spare spares[SPARE_MAX];

    if (state->is_firmware)
        return make_room_in_file(state, old_end + extra * header, unit);
    spare_count = find_spares(&state->image, spares);
    for (size_t i = 0; i <= spare_count && i <= extra; i++) {
        elf_room_forget(state, edit_count);
        memcpy(state->spares, spares, i * sizeof(*spares));
        state->spare_count = i;
        if (make_room_up_to(state, old_end + (extra - i) * header))
            return true;
    }
    return false;
}
