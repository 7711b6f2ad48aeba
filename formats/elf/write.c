/*
 * Writes the tables of the stripped image: ELF header, program headers, section headers, dynamic
 * section and symbols. Also puts other coverage mapping into an image.
 *
 * By now all edits that change sizes are known, so every new file offset can be computed from the
 * old one. A removed section keeps its header, but empty. Section numbers stay as they are, unless
 * tables move behind the names (room.c).
 */
#include <string.h>

#include "common/llvm/coverage.h"
#include "formats/elf/elf.h"

struct tables {
    struct elf_state *state;
    Elf64_Phdr *phdrs;
    size_t phnum;
    Elf64_Shdr *shdrs;  /* as many as the image has, by old number */
    Elf64_Shdr *sorted; /* by new number */
    Elf64_Dyn *dynamic; /* as many as the image has */
};

static uint64_t map_offset(const struct elf_state *state, uint64_t offset)
{
    return edit_script_map(&state->base.plan->edits, offset);
}

/* The new offset in the file of what has this new address in the remnant of the names. */
static uint64_t offset_in_names(const struct elf_state *state, uint64_t address)
{
    const struct section *place = image_plan_section(
        state->base.plan, state->remnants_are_joined ? SECTION_DATA : SECTION_NAMES);

    return map_offset(state, place->offset) + (address - place->address);
}

/* ---- program headers ---- */

/* Appends the parts of a PT_LOAD between the holes in it. */
static size_t split_segment(const struct elf_state *state, size_t index, Elf64_Phdr *parts)
{
    Elf64_Phdr whole = state->image.phdrs[index];
    const Elf64_Phdr *old = &whole;
    uint64_t delta = old->p_offset - old->p_vaddr;
    uint64_t start = old->p_vaddr, end;
    bool stays_mapped = (old->p_flags & PF_W) != 0 && !state->is_firmware;
    bool is_cut_short = false;
    size_t count = 0;

    if (&state->image.phdrs[index] == elf_first_load(&state->image)) {
        whole.p_filesz += state->segment_growth;
        whole.p_memsz += state->segment_growth;
    }
    end = old->p_vaddr + old->p_filesz;
    for (size_t i = 0; i <= state->hole_count; i++) {
        const struct elf_hole *hole = i < state->hole_count ? &state->holes[i] : NULL;
        bool is_last = hole == NULL;
        Elf64_Phdr *part = &parts[count];

        if (hole != NULL && hole->segment != index)
            continue;
        if (!is_last && hole->address == start) {
            /* Nothing precedes the hole: the segment simply starts behind it. */
            start = hole->address + hole->size;
            continue;
        }
        if (is_last && is_cut_short) {
            if (stays_mapped)
                parts[count - 1].p_memsz += end - start;
            break;
        }
        /* Nothing follows a hole at the end, either. */
        if (start != old->p_vaddr && start == old->p_vaddr + old->p_memsz)
            break;
        *part = *old;
        part->p_vaddr = start;
        part->p_paddr = old->p_paddr + (start - old->p_vaddr);
        part->p_offset = map_offset(state, start + delta);
        part->p_filesz = (is_last ? end : hole->file_end) - start;
        part->p_memsz = part->p_filesz;
        /* What is cut from a writable segment stays mapped, as zeros: counters, and memory for code
         * that reads a record behind the stub. */
        if (is_last || hole->is_tail)
            part->p_memsz = old->p_vaddr + old->p_memsz - start;
        else if (stays_mapped)
            part->p_memsz = hole->address + hole->size - start;
        count++;
        if (!is_last && hole->is_tail)
            break;
        if (!is_last) {
            start = hole->address + hole->size;
            is_cut_short = hole->is_at_end;
        }
    }
    return count;
}

static uint64_t load_end(const Elf64_Phdr *phdrs, size_t count)
{
    uint64_t end = 0;

    for (size_t i = 0; i < count; i++) {
        const Elf64_Phdr *phdr = &phdrs[i];

        if (phdr->p_type == PT_LOAD && phdr->p_filesz != 0 && phdr->p_paddr + phdr->p_filesz > end)
            end = phdr->p_paddr + phdr->p_filesz;
    }
    return end;
}

/* True if the header is left out. Otherwise *phdr gets what another one had. */
static bool is_spare(const struct elf_state *state, size_t index, Elf64_Phdr *phdr)
{
    for (size_t i = 0; i < state->spare_count; i++) {
        const struct elf_spare *spare = &state->spares[i];
        const Elf64_Phdr *other = &state->image.phdrs[spare->omitted];

        if (spare->omitted == index)
            return true;
        if (spare->extended != index)
            continue;
        phdr->p_filesz += other->p_filesz;
        phdr->p_memsz += other->p_memsz;
        if (other->p_align > phdr->p_align)
            phdr->p_align = other->p_align;
    }
    return false;
}

static void make_program_headers(struct tables *tables)
{
    const struct elf_state *state = tables->state;
    Elf64_Phdr *table_header = NULL;
    size_t count = 0;

    for (size_t i = 0; i < state->image.phnum; i++) {
        const Elf64_Phdr *old = &state->image.phdrs[i];
        const struct elf_move *move = elf_move_of(state, old->p_vaddr);
        Elf64_Phdr *phdr = &tables->phdrs[count];

        if (old->p_type == PT_LOAD) {
            count += split_segment(state, i, phdr);
            continue;
        }
        *phdr = *old;
        if (is_spare(state, i, phdr))
            continue;
        count++;
        if (old->p_type == PT_PHDR) {
            table_header = phdr;
            continue;
        }
        if (old->p_memsz != 0 && move != NULL) {
            phdr->p_vaddr += move->distance;
            phdr->p_paddr += move->distance;
        }
        if (old->p_offset != 0)
            phdr->p_offset = map_offset(state, old->p_offset);
    }
    tables->phnum = count;
    if (state->is_firmware) {
        state->base.plan->load_end = load_end(state->image.phdrs, state->image.phnum);
        state->base.plan->load_end_after = load_end(tables->phdrs, count);
    }
    if (table_header != NULL)
        table_header->p_filesz = table_header->p_memsz = count * state->image.sizes.phdr;
}

/* ---- section headers ---- */

/* The entry of the dynamic section for DT_RELA or DT_REL; NULL if there is neither. */
static const Elf64_Dyn *relocation_table(const struct elf_image *image)
{
    const Elf64_Dyn *rela = elf_dynamic_find(image, DT_RELA);

    return rela != NULL ? rela : elf_dynamic_find(image, DT_REL);
}

static void empty_section(const struct elf_state *state, const struct section *section,
                          Elf64_Shdr *shdr)
{
    /* What is left must be in a section, or tools that rewrite images would lose it. The entry
     * size, which linkers leave 0, marks the section as ours (see is_remnant in elf.c).
     *
     * An empty section does not become SHT_NOBITS: GNU strip and readelf treat a section of that
     * type, if it is not loaded, as part of every segment, and strip then writes an image that does
     * not start. */
    if (section->kind == SECTION_NAMES) {
        shdr->sh_addr = state->names_address;
        shdr->sh_offset = offset_in_names(state, state->names_address);
    }
    shdr->sh_size = planning_remnant(&state->base, section->kind, section->size).size;
    shdr->sh_entsize = section->kind == SECTION_DATA ? shdr->sh_size : EMPTIED_SECTION_MARK;
}

/* Sections of which nothing is in the file any more, and that of the stub, which has the end of the
 * counters before it (elf/layout.c). */
static void empty_zeros(const struct elf_state *state, const struct elf_hole *hole,
                        Elf64_Shdr *shdrs)
{
    for (size_t i = 0; i < hole->emptied_count; i++) {
        Elf64_Shdr *shdr = &shdrs[hole->emptied[i].section];

        shdr->sh_type = SHT_NOBITS;
        shdr->sh_size = hole->emptied[i].size;
    }
    if (hole->stub_section != 0) {
        Elf64_Shdr *shdr = &shdrs[state->base.section_index[SECTION_DATA]];
        uint64_t before = shdr->sh_addr - hole->stub_section;

        shdr->sh_addr -= before;
        shdr->sh_offset -= before;
        shdr->sh_size += before;
        shdr->sh_entsize = ELF_STUB_UNIT;
    }
}

static void make_section_headers(struct tables *tables)
{
    const struct elf_state *state = tables->state;
    const struct elf_relocation_changes *changes = &state->relocation_changes;
    const Elf64_Dyn *table = relocation_table(&state->image);
    const Elf64_Dyn *relr = elf_dynamic_find(&state->image, DT_RELR);

    for (size_t i = 1; i < state->image.shnum; i++) {
        const Elf64_Shdr *old = &state->image.shdrs[i];
        Elf64_Shdr *shdr = &tables->shdrs[i];
        const struct elf_move *move = NULL;

        if ((old->sh_flags & SHF_ALLOC) != 0 && elf_section_in_file(old))
            move = elf_move_of(state, old->sh_addr);
        if (old->sh_offset != 0)
            shdr->sh_offset = map_offset(state, old->sh_offset);
        if (move != NULL)
            shdr->sh_addr += move->distance;
        if (move != NULL && move->is_behind_names)
            shdr->sh_offset = offset_in_names(state, shdr->sh_addr);
        if (elf_retained_goes(state, i))
            shdr->sh_size = elf_retained_rest(&state->image, old);
        if ((old->sh_type == SHT_RELA || old->sh_type == SHT_REL) && table != NULL &&
            old->sh_addr == table->d_un.d_ptr && (old->sh_flags & SHF_ALLOC) != 0 &&
            old->sh_size >= changes->table_removed)
            shdr->sh_size -= changes->table_removed;
        if (old->sh_type == SHT_RELR && relr != NULL && old->sh_addr == relr->d_un.d_ptr &&
            changes->relr_changed)
            shdr->sh_size = changes->relr_size;
    }
    if (state->symbol_cut.count != 0) {
        Elf64_Shdr *symbols = &tables->shdrs[state->symbols];
        size_t first_global;

        symbol_cut_stays(&state->symbol_cut, symbols->sh_info, &first_global);
        symbols->sh_info = (Elf64_Word)first_global;
        symbols->sh_size = state->symbol_cut.symbols.size;
        tables->shdrs[state->names].sh_size = state->symbol_cut.names.size;
    }
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        if (section->fate != FATE_STAYS)
            empty_section(state, section, &tables->shdrs[state->base.section_index[section->kind]]);
    }
    for (size_t i = 0; i < state->hole_count; i++)
        empty_zeros(state, &state->holes[i], tables->shdrs);
}

/* Puts the section headers in their new order, and the new numbers into them. */
static void sort_section_headers(struct tables *tables)
{
    const struct elf_state *state = tables->state;

    for (size_t i = 0; i < state->image.shnum; i++) {
        Elf64_Shdr *shdr = &tables->sorted[elf_new_number(state, i)];

        *shdr = tables->shdrs[i];
        shdr->sh_link = (Elf64_Word)elf_new_number(state, shdr->sh_link);
        if (shdr->sh_type == SHT_RELA || shdr->sh_type == SHT_REL ||
            (shdr->sh_flags & SHF_INFO_LINK) != 0)
            shdr->sh_info = (Elf64_Word)elf_new_number(state, shdr->sh_info);
    }
}

/* ---- dynamic section ---- */

static void make_dynamic(struct tables *tables)
{
    const struct elf_state *state = tables->state;
    const struct elf_relocation_changes *changes = &state->relocation_changes;

    for (size_t i = 0; i < state->image.dynamic_count; i++) {
        Elf64_Dyn *entry = &tables->dynamic[i];
        const struct elf_move *move = NULL;

        switch (entry->d_tag) {
        case DT_RELASZ:
        case DT_RELSZ:
            entry->d_un.d_val -= changes->table_removed;
            break;
        case DT_RELACOUNT:
        case DT_RELCOUNT:
            entry->d_un.d_val -= changes->relative_removed;
            break;
        case DT_RELRSZ:
            if (changes->relr_changed)
                entry->d_un.d_val = changes->relr_size;
            break;
        default:
            if (elf_is_table_tag(entry->d_tag))
                move = elf_move_of(state, entry->d_un.d_ptr);
            if (move != NULL)
                entry->d_un.d_ptr += move->distance;
            break;
        }
    }
}

/* ---- symbols ---- */

bool elf_may_renumber(const struct elf_image *image, size_t last, size_t names)
{
    for (size_t i = 1; i < image->shnum; i++) {
        Elf64_Word type = image->shdrs[i].sh_type;

        if (type == SHT_GROUP || type == SHT_SYMTAB_SHNDX)
            return false;
    }
    return last < names && image->shnum < SHN_LORESERVE;
}

size_t elf_new_number(const struct elf_state *state, size_t section)
{
    const struct elf_renumbered *moved = &state->renumbered;

    if (moved->count == 0 || section < moved->first || section > moved->names)
        return section;
    return section < moved->first + moved->count
               ? section + (moved->names - moved->first + 1) - moved->count
               : section - moved->count;
}

/* Symbols stay inside the sections that they are defined in. */

/* Overwrites a field of the symbol. */
static void put_field(struct elf_state *state, const struct elf_symbol *symbol, uint64_t field,
                      struct bytes value)
{
    const struct elf_image *image = &state->image;
    struct symbol_cut *cut = &state->symbol_cut;
    size_t index;

    if (cut->count == 0 || symbol->table != state->symbols) {
        edit_overwrite_differences(&state->base.plan->edits, image->elf.bytes,
                                   symbol->offset + field, value);
        return;
    }
    index = (symbol->offset - image->shdrs[symbol->table].sh_offset) / image->sizes.sym;
    if (symbol_cut_stays(cut, index, &index))
        memcpy(cut->symbols.data + index * image->sizes.sym + field, value.data, value.size);
}

/* The same for one that has the size of an address. */
static void put_word(struct elf_state *state, const struct elf_symbol *symbol, size_t wide,
                     size_t narrow, uint64_t value)
{
    const struct elf_image *image = &state->image;
    uint8_t bytes[8];

    elf_store_word(image, bytes, value);
    put_field(state, symbol, image->elf.wide ? wide : narrow,
              (struct bytes){bytes, image->sizes.word});
}

static void put_section(struct elf_state *state, const struct elf_symbol *symbol, size_t section)
{
    const struct elf_image *image = &state->image;
    uint64_t field =
        image->elf.wide ? offsetof(Elf64_Sym, st_shndx) : offsetof(Elf32_Sym, st_shndx);
    uint8_t number[2];

    store_u16(number, (uint16_t)elf_new_number(state, section), image->elf.big_endian);
    put_field(state, symbol, field, (struct bytes){number, sizeof number});
}

/* Section symbols, mapping symbols, and the one object in the ABI note move with their section.
 * Other symbols were not allowed there. */
static void move_symbol(struct elf_state *state, const struct elf_symbol *symbol)
{
    const struct elf_move *move = elf_move_of(state, symbol->st_value);
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    if (move != NULL && (type == STT_SECTION || type == STT_OBJECT || type == STT_NOTYPE))
        put_word(state, symbol, offsetof(Elf64_Sym, st_value), offsetof(Elf32_Sym, st_value),
                 symbol->st_value + move->distance);
}

/* The section that has the symbol. That of the stub may have the last counters, too. */
static size_t section_of_symbol(const struct tables *tables, const struct elf_symbol *symbol)
{
    const struct elf_state *state = tables->state;
    size_t data = state->base.section_index[SECTION_DATA];

    for (size_t i = 0; i < state->hole_count; i++) {
        uint64_t stub_section = state->holes[i].stub_section;

        if (stub_section != 0 && symbol->section == state->base.section_index[SECTION_COUNTERS] &&
            symbol->st_value >= stub_section)
            return data;
    }
    return symbol->section;
}

/* True for the end of the section, as linkers define it. Other symbols there (_edata) mean what
 * follows. */
static bool is_end(const struct elf_image *image, const struct elf_symbol *symbol)
{
    return bytes_start_with(elf_symbol_name(image, symbol), "__stop_");
}

/* True for names and data of which a part is left. */
static bool is_remnant(const struct elf_state *state, size_t section)
{
    static const enum section_kind kinds[] = {SECTION_NAMES, SECTION_DATA};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct section *plan = image_plan_section(state->base.plan, kinds[i]);

        if (plan != NULL && section_goes(plan) && state->base.section_index[kinds[i]] == section)
            return true;
    }
    return false;
}

/* What was behind the new end of its section is where it ends now: the bounds of names and records
 * are those that the runtime gets, and of the records behind the stub nothing is left. But what is
 * in memory as before, such as the pool of value nodes, is where it was: BOLT applies retained
 * relocations to symbols again. */
static void fit_symbol(const struct tables *tables, const struct elf_symbol *symbol, size_t section)
{
    struct elf_state *state = tables->state;
    const Elf64_Shdr *shdr = &tables->shdrs[section], *old = &state->image.shdrs[section];
    uint64_t start = shdr->sh_addr, end = start + shdr->sh_size, value = symbol->st_value;

    if ((start == old->sh_addr && shdr->sh_size == old->sh_size) || !is_remnant(state, section) ||
        !(range_within(value, 1, old->sh_addr, old->sh_size) ||
          (value == old->sh_addr + old->sh_size && is_end(&state->image, symbol))))
        return;
    if (value < start || ELF64_ST_TYPE(symbol->st_info) == STT_SECTION)
        value = start;
    else if (value > end)
        value = end;
    put_word(state, symbol, offsetof(Elf64_Sym, st_value), offsetof(Elf32_Sym, st_value), value);
    if (symbol->st_size > end - value)
        put_word(state, symbol, offsetof(Elf64_Sym, st_size), offsetof(Elf32_Sym, st_size),
                 end - value);
}

static void update_symbols(const struct tables *tables, size_t table)
{
    struct elf_state *state = tables->state;
    const struct elf_image *image = &state->image;
    bool is_dynamic = image->shdrs[table].sh_type == SHT_DYNSYM;
    struct elf_symbol symbol;
    struct symbol_walk walk;

    elf_symbols_open(image, table, &walk);
    while (elf_symbols_next(image, &walk, &symbol)) {
        bool may_change = !is_dynamic && elf_symbol_has_address(image, &symbol);
        size_t section = symbol.section;

        if (section >= image->shnum)
            continue;
        if (may_change)
            section = section_of_symbol(tables, &symbol);
        if (elf_new_number(state, section) != symbol.section && image->shnum < SHN_LORESERVE)
            put_section(state, &symbol, section);
        if (may_change && elf_move_of(state, symbol.st_value) != NULL)
            move_symbol(state, &symbol);
        else if (may_change)
            fit_symbol(tables, &symbol, section);
    }
}

/* Plans the table of symbols without those of coverage records, and how it is made whole again. */
static void finish_symbols(const struct tables *tables)
{
    const struct elf_state *state = tables->state;
    const struct symbol_cut *cut = &state->symbol_cut;
    struct edit_script *edits = &state->base.plan->edits;
    const Elf64_Shdr *symbols = &state->image.shdrs[state->symbols];
    const Elf64_Shdr *names = &state->image.shdrs[state->names];
    struct edit_tables *old = &edits->tables;
    size_t second = symbols->sh_offset < names->sh_offset ? 1 : 0;

    if (cut->count == 0 || edits->has_no_memory)
        return;
    memcpy(edits->literals.data + state->symbols_literal, cut->symbols.data, cut->symbols.size);
    old->ranges[1 - second].offset = symbols->sh_offset;
    old->ranges[1 - second].size = symbols->sh_size;
    old->ranges[second].offset = names->sh_offset;
    old->ranges[second].size = names->sh_size;
    if (!symbol_cut_encode(cut, tables->shdrs[state->symbols].sh_offset,
                           tables->shdrs[state->names].sh_offset, &old->recipe))
        edits->has_no_memory = true;
}

/* ---- the last look ---- */

/* The profile runtimes of LLVM 14 to 19 look for notes at __ehdr_start + p_offset. If notes were at
 * that address, they must still be; if something else was there, it must be unchanged. */
static bool notes_are_found(const struct tables *tables)
{
    const struct elf_image *image = &tables->state->image;
    uint64_t base = elf_header_base(image);
    size_t old = 0;

    if (tables->state->is_firmware)
        return true;
    for (size_t i = 0; i < tables->phnum; i++) {
        const Elf64_Phdr *phdr = &tables->phdrs[i];

        if (phdr->p_type != PT_NOTE)
            continue;
        /* Notes keep their order. */
        while (image->phdrs[old].p_type != PT_NOTE)
            old++;
        if (image->phdrs[old].p_vaddr - image->phdrs[old].p_offset == base
                ? phdr->p_vaddr - phdr->p_offset != base
                : phdr->p_offset != image->phdrs[old].p_offset)
            return false;
        old++;
    }
    return true;
}

/* True if the sections that are loaded from the file are in the order of their offsets. */
static bool are_in_order(const Elf64_Shdr *shdrs, size_t count)
{
    uint64_t last = 0;

    for (size_t i = 1; i < count; i++) {
        if ((shdrs[i].sh_flags & SHF_ALLOC) == 0 || !elf_section_in_file(&shdrs[i]))
            continue;
        if (shdrs[i].sh_offset < last)
            return false;
        last = shdrs[i].sh_offset;
    }
    return true;
}

/* Whatever was planned, what a loader and the runtime rely on must hold for the new tables as it
 * did for the old ones. */
static bool tables_hold_together(const struct tables *tables)
{
    const struct elf_state *state = tables->state;
    const struct elf_image *image = &state->image;
    uint64_t size = edit_script_result_size(&state->base.plan->edits);
    uint64_t headers = image->elf.header.e_phoff;

    /* The program headers stay where they are (room.c). */
    if (map_offset(state, headers) != headers)
        return false;
    for (size_t i = 0; i < tables->phnum; i++) {
        const Elf64_Phdr *phdr = &tables->phdrs[i];

        if (!range_within(phdr->p_offset, phdr->p_filesz, 0, size) ||
            (phdr->p_type == PT_LOAD && !elf_segment_is_aligned(phdr)))
            return false;
    }
    if (!elf_segments_are_apart(image, tables->phdrs, tables->phnum) || !notes_are_found(tables) ||
        (are_in_order(image->shdrs, image->shnum) && !are_in_order(tables->sorted, image->shnum)))
        return false;
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &tables->shdrs[i];
        const Elf64_Shdr *old = &image->shdrs[i];
        bool is_loaded = (shdr->sh_flags & SHF_ALLOC) != 0;

        if (!elf_section_in_file(shdr))
            continue;
        if (!range_within(shdr->sh_offset, shdr->sh_size, 0, size))
            return false;
        if (is_loaded && elf_is_where_loaded(old, image->phdrs, image->phnum) &&
            !elf_is_where_loaded(shdr, tables->phdrs, tables->phnum))
            return false;
        if (!is_loaded && shdr->sh_addralign > 1 &&
            (shdr->sh_offset - old->sh_offset) % shdr->sh_addralign != 0)
            return false;
    }
    return true;
}

/* ---- edits ---- */

/* Plans a table that replaces the one at `offset` in the file. Frees it. */
static void overwrite(struct elf_state *state, uint64_t offset, struct buffer *table)
{
    struct edit_script *edits = &state->base.plan->edits;

    if (table->failed)
        edits->has_no_memory = true;
    else
        edit_overwrite_differences(edits, state->image.elf.bytes, offset, buffer_view(table));
    buffer_free(table);
}

static void plan_edits(const struct tables *tables)
{
    struct elf_state *state = tables->state;
    const struct elf_image *image = &state->image;
    const struct elf_form form = elf_form(image);
    struct edit_script *edits = &state->base.plan->edits;
    struct buffer header = {0}, phdrs = {0}, shdrs = {0}, dynamic = {0};
    Elf64_Ehdr ehdr = image->elf.header;

    ehdr.e_phnum = (Elf64_Half)tables->phnum;
    ehdr.e_shoff = map_offset(state, ehdr.e_shoff);
    ehdr.e_shstrndx = (Elf64_Half)elf_new_number(state, ehdr.e_shstrndx);
    elf_put(&header, &elf_ehdr, form, &ehdr);
    overwrite(state, 0, &header);
    for (size_t i = 0; i < tables->phnum; i++)
        elf_put(&phdrs, &elf_phdr, form, &tables->phdrs[i]);
    /* In the room that layout.c has reserved, if it has. */
    if (state->hole_count != 0 || state->move_count != 0) {
        if (!phdrs.failed && !edits->has_no_memory)
            memcpy(edits->literals.data + state->headers_literal, phdrs.data, phdrs.size);
        edits->has_no_memory |= phdrs.failed;
        buffer_free(&phdrs);
    } else {
        overwrite(state, ehdr.e_phoff, &phdrs);
    }
    for (size_t i = 0; i < image->shnum; i++)
        elf_put(&shdrs, &elf_shdr, form, &tables->sorted[i]);
    overwrite(state, image->elf.header.e_shoff, &shdrs);
    for (size_t i = 0; i < image->dynamic_count; i++)
        elf_put(&dynamic, &elf_dyn, form, &tables->dynamic[i]);
    overwrite(state, image->dynamic_offset, &dynamic);
    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB || image->shdrs[i].sh_type == SHT_DYNSYM)
            update_symbols(tables, i);
    }
    finish_symbols(tables);
    elf_retained_neutralize(state);
}

bool elf_write(struct planning *planning, struct error *error)
{
    struct elf_state *state = (struct elf_state *)planning;
    struct elf_image *image = &state->image;
    struct arena *memory = &image->memory;
    struct tables tables = {
        .state = state,
        .phdrs = arena_array(memory, image->phnum + state->hole_count, sizeof(*tables.phdrs)),
        .shdrs = arena_array(memory, image->shnum, sizeof(*tables.shdrs)),
        .sorted = arena_array(memory, image->shnum, sizeof(*tables.sorted)),
        .dynamic = arena_array(memory, image->dynamic_count, sizeof(*tables.dynamic)),
    };

    if (!memory->failed) {
        memcpy(tables.shdrs, image->shdrs, image->shnum * sizeof(*tables.shdrs));
        if (image->dynamic_count != 0)
            memcpy(tables.dynamic, image->dynamic, image->dynamic_count * sizeof(*tables.dynamic));
        make_program_headers(&tables);
        make_section_headers(&tables);
        sort_section_headers(&tables);
        make_dynamic(&tables);
        if (!tables_hold_together(&tables))
            return error_set(error,
                             "%s: the image has a layout that covsplit cannot strip safely; remove "
                             "less with --sections",
                             planning->input->path);
        plan_edits(&tables);
    }
    return (!memory->failed && !planning->plan->edits.has_no_memory) ||
           error_out_of_memory(error, planning->input->path, planning->plan->edits.literals.size);
}

/* ---- other coverage mapping ---- */

/*
 * __llvm_covmap and __llvm_covfun are not loaded, and nothing in the image refers to them. So their
 * new contents go to the end of the file, and the section headers, which say where they are, behind
 * them. The old contents keep their place, only that no header mentions them any more. An image
 * that has no __llvm_covfun gets one, as its last section: then no index of a section changes.
 */

/* Appends zeros up to an alignment in the file. Returns the offset there. */
static uint64_t align_end(const struct elf_image *image, struct buffer *appendix,
                          uint64_t alignment)
{
    uint64_t end = image->elf.bytes.size + appendix->size, aligned = align_up(end, alignment);

    buffer_append_zeros(appendix, (size_t)(aligned - end));
    return aligned;
}

/* Appends the new contents of a section, and has its header say so. */
static void put_contents(const struct elf_image *image, struct buffer *appendix, Elf64_Shdr *shdr,
                         struct bytes contents, uint64_t alignment)
{
    shdr->sh_offset = align_end(image, appendix, alignment);
    shdr->sh_size = contents.size;
    shdr->sh_addralign = alignment;
    buffer_append(appendix, contents.data, (size_t)contents.size);
}

/* True if the section can be elsewhere in the file. */
static bool is_free(const Elf64_Shdr *shdr, Elf64_Word type)
{
    return shdr->sh_type == type && (shdr->sh_flags & (SHF_ALLOC | SHF_COMPRESSED)) == 0;
}

static bool check_mapping(const struct elf_image *image, size_t covmap, size_t covfun,
                          bool adds_covfun, struct error *error)
{
    if (covmap == NO_INDEX || !is_free(&image->shdrs[covmap], SHT_PROGBITS))
        return error_set(error,
                         "%s: its coverage mapping is loaded into memory, and cannot be replaced; "
                         "use 'covsplit run' or 'covsplit export'",
                         image->path);
    if (covfun != NO_INDEX && !is_free(&image->shdrs[covfun], SHT_PROGBITS))
        return error_set(error, "%s: its section %s is of an unexpected kind; link it again",
                         image->path, section_kind_name(SECTION_COVFUN));
    return !adds_covfun || is_free(&image->shdrs[image->elf.names], SHT_STRTAB) ||
           error_set(error, "%s: its section names cannot be moved; link it again", image->path);
}

static bool replace_mapping(struct elf_image *image, const struct mapping_sections *mapping,
                            struct buffer *appendix, struct edit_script *edits, struct error *error)
{
    size_t covmap = elf_section_find(image, section_kind_name(SECTION_COVMAP), 0);
    size_t covfun = elf_section_find(image, section_kind_name(SECTION_COVFUN), 0);
    size_t shnum = image->shnum;
    bool adds_covfun = covfun == NO_INDEX && mapping->covfun.size != 0;
    Elf64_Shdr *shdrs = arena_array(&image->memory, shnum + 1, sizeof(*shdrs));
    Elf64_Ehdr ehdr = image->elf.header;
    struct buffer header = {0}, names = {0};

    if (!elf_check_tail(image, error) || !check_mapping(image, covmap, covfun, adds_covfun, error))
        return false;
    if (shdrs == NULL)
        return error_out_of_memory(error, image->path, shnum * sizeof(*shdrs));
    memcpy(shdrs, image->shdrs, shnum * sizeof(*shdrs));
    put_contents(image, appendix, &shdrs[covmap], mapping->covmap, COVERAGE_ALIGNMENT);
    if (adds_covfun) {
        /* Like __llvm_covmap but for its name, which is added to .shstrtab. */
        const char *name = section_kind_name(SECTION_COVFUN);

        covfun = shnum++;
        shdrs[covfun] = image->shdrs[covmap];
        shdrs[covfun].sh_name = (Elf64_Word)image->section_names.size;
        buffer_append(&names, image->section_names.data, (size_t)image->section_names.size);
        buffer_append(&names, name, strlen(name) + 1);
        put_contents(image, appendix, &shdrs[image->elf.names], buffer_view(&names), 1);
    }
    if (covfun != NO_INDEX)
        put_contents(image, appendix, &shdrs[covfun], mapping->covfun, COVERAGE_ALIGNMENT);
    /* If there are too many sections for e_shnum, it is 0, and the first header has their number
     * (gABI, "ELF Header"). */
    ehdr.e_shoff = align_end(image, appendix, image->sizes.word);
    ehdr.e_shnum = shnum < SHN_LORESERVE ? (Elf64_Half)shnum : 0;
    if (ehdr.e_shnum == 0)
        shdrs[0].sh_size = shnum;
    for (size_t i = 0; i < shnum; i++)
        elf_put(appendix, &elf_shdr, elf_form(image), &shdrs[i]);
    if (!image->elf.wide && image->elf.bytes.size + appendix->size > UINT32_MAX) {
        buffer_free(&names);
        return error_set(error,
                         "%s: would be larger than 4 GB with ordinary coverage mapping; use "
                         "'covsplit export'",
                         image->path);
    }
    elf_put(&header, &elf_ehdr, elf_form(image), &ehdr);
    if (header.failed || names.failed || appendix->failed ||
        !edit_overwrite_differences(edits, image->elf.bytes, 0, buffer_view(&header)) ||
        !edit_replace(edits, image->elf.bytes.size, 0, buffer_view(appendix)))
        edits->has_no_memory = true;
    buffer_free(&header);
    buffer_free(&names);
    return !edits->has_no_memory || error_out_of_memory(error, image->path, appendix->size);
}

bool elf_replace_mapping(const struct input *input, const struct mapping_sections *mapping,
                         struct edit_script *edits, struct error *error)
{
    struct elf_image image;
    struct buffer appendix = {0};
    bool done;

    if (!elf_image_open(&image, input, error))
        return false;
    done = replace_mapping(&image, mapping, &appendix, edits, error);
    buffer_free(&appendix);
    elf_image_close(&image);
    return done;
}
