/*
 * Writes the tables of the stripped image: ELF header, program headers, section headers, dynamic
 * section and symbols.
 *
 * By now all edits that change sizes are known, so every new file offset can be computed from the
 * old one. Section and symbol indices stay as they are: a removed section keeps its header, but
 * empty.
 */
#include "formats/elf/elf.h"

#include <stdlib.h>
#include <string.h>

#include "common/elf_file/elf_file.h"

#ifndef SHT_RELR
#define SHT_RELR 19
#endif
#ifndef DT_RELRSZ
#define DT_RELRSZ 35
#define DT_RELR   36
#endif

struct tables {
    struct elf_state *state;
    Elf64_Phdr *phdrs; /* state->new_phnum of them */
    Elf64_Shdr *shdrs;
    Elf64_Dyn *dynamic;
};

static uint64_t map_offset(const struct elf_state *state, uint64_t offset)
{
    return edit_script_map(&state->base.plan->edits, offset);
}

/* ---- program headers ---- */

/* Appends the parts of a PT_LOAD between the holes in it. */
static size_t split_segment(const struct elf_state *state, size_t index, Elf64_Phdr *parts)
{
    const Elf64_Phdr *old = &state->image.phdrs[index];
    uint64_t delta = old->p_offset - old->p_vaddr;
    uint64_t end = old->p_vaddr + old->p_filesz;
    uint64_t start = old->p_vaddr;
    bool stays_mapped = (old->p_flags & PF_W) != 0 && !state->is_firmware;
    bool is_cut_short = false;
    size_t count = 0;

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

static void make_program_headers(struct tables *tables)
{
    struct elf_state *state = tables->state;
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
        count++;
        if (old->p_type == PT_PHDR) {
            table_header = phdr;
        } else if (old->p_memsz != 0 && move != NULL) {
            phdr->p_offset += move->distance;
            phdr->p_vaddr += move->distance;
            phdr->p_paddr += move->distance;
        } else if (old->p_offset != 0) {
            phdr->p_offset = map_offset(state, old->p_offset);
        }
    }
    state->new_phnum = count;
    if (table_header != NULL)
        table_header->p_filesz = table_header->p_memsz = count * state->image.sizes.phdr;
}

/* ---- section headers ---- */

static void empty_section(const struct elf_state *state, const struct section *section,
                          Elf64_Shdr *shdr)
{
    /* What is left must be in a section, or tools that rewrite images would lose it. The entry
     * size, which linkers leave 0, marks the section as ours (see is_rest in elf.c).
     *
     * An empty section does not become SHT_NOBITS: GNU strip and readelf treat a section of that
     * type, if it is not loaded, as part of every segment, and strip then writes an image that does
     * not start. */
    if (section->kind == SECTION_NAMES) {
        const struct section *place = image_plan_section(
            state->base.plan, state->rests_are_joined ? SECTION_DATA : SECTION_NAMES);

        shdr->sh_addr = state->names_address;
        shdr->sh_offset =
            map_offset(state, place->offset) + (state->names_address - place->address);
    }
    shdr->sh_size = planning_rest(&state->base, section->kind, section->size).size;
    shdr->sh_entsize = section->kind == SECTION_DATA ? shdr->sh_size : EMPTIED_SECTION_MARK;
}

/* Sections of which nothing is in the file any more, and that of the stub, which has the end of the
 * counters before it (elf/zeros.c). */
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
    const Elf64_Dyn *table = elf_relocation_table(&state->image);
    const Elf64_Dyn *relr = elf_dynamic_find(&state->image, DT_RELR);

    for (size_t i = 1; i < state->image.shnum; i++) {
        const Elf64_Shdr *old = &state->image.shdrs[i];
        Elf64_Shdr *shdr = &tables->shdrs[i];
        const struct elf_move *move = NULL;

        if ((old->sh_flags & SHF_ALLOC) != 0 && elf_section_in_file(old))
            move = elf_move_of(state, old->sh_addr);
        if (move != NULL) {
            shdr->sh_addr += move->distance;
            shdr->sh_offset += move->distance;
        } else if (old->sh_offset != 0) {
            shdr->sh_offset = map_offset(state, old->sh_offset);
        }
        if (elf_retained_goes(state, i))
            shdr->sh_size = 0;
        if ((old->sh_type == SHT_RELA || old->sh_type == SHT_REL) && table != NULL &&
            old->sh_addr == table->d_un.d_ptr && (old->sh_flags & SHF_ALLOC) != 0 &&
            old->sh_size >= changes->table_removed)
            shdr->sh_size -= changes->table_removed;
        if (old->sh_type == SHT_RELR && relr != NULL && old->sh_addr == relr->d_un.d_ptr &&
            changes->relr_changed)
            shdr->sh_size = changes->relr_size;
    }
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *section = &state->base.plan->sections[i];
        if (section->fate != FATE_STAYS)
            empty_section(state, section, &tables->shdrs[state->base.section_index[section->kind]]);
    }
    for (size_t i = 0; i < state->hole_count; i++)
        empty_zeros(state, &state->holes[i], tables->shdrs);
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
        case DT_SYMTAB:
        case DT_STRTAB:
        case DT_VERSYM:
        case DT_VERNEED:
        case DT_VERDEF:
        case DT_GNU_HASH:
        case DT_HASH:
            move = elf_move_of(state, entry->d_un.d_ptr);
            if (move != NULL)
                entry->d_un.d_ptr += move->distance;
            break;
        default:
            break;
        }
    }
}

/* ---- symbols ---- */

/* Section symbols, mapping symbols, and the one object in the ABI note move with their section.
 * Other symbols were not allowed there. */
static bool update_symbol(void *context, const struct elf_symbol *symbol)
{
    struct elf_state *state = context;
    const struct elf_move *move = elf_move_of(state, symbol->st_value);
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    uint8_t value[8];

    if (move == NULL || !elf_symbol_has_address(&state->image, symbol) ||
        (type != STT_SECTION && type != STT_OBJECT && type != STT_NOTYPE))
        return true;
    elf_store_word(&state->image, value, symbol->st_value + move->distance);
    return edit_overwrite_differences(&state->base.plan->edits, state->image.elf.bytes,
                                      symbol->offset + (state->image.elf.wide
                                                            ? offsetof(Elf64_Sym, st_value)
                                                            : offsetof(Elf32_Sym, st_value)),
                                      (struct bytes){value, state->image.sizes.word});
}

static bool plan_symbols(struct elf_state *state)
{
    if (state->move_count == 0)
        return true;
    for (size_t i = 1; i < state->image.shnum; i++) {
        if (state->image.shdrs[i].sh_type == SHT_SYMTAB &&
            !elf_symbols_each(&state->image, i, update_symbol, state))
            return false;
    }
    return true;
}

/* ---- encoding ---- */

/* Plans a table that replaces the one at `offset` in the file. Frees it. */
static bool plan_table(struct elf_state *state, uint64_t offset, struct buffer *encoded)
{
    bool done = !encoded->failed &&
                edit_overwrite_differences(&state->base.plan->edits, state->image.elf.bytes, offset,
                                           buffer_view(encoded));

    buffer_free(encoded);
    return done;
}

static bool plan_elf_header(struct elf_state *state)
{
    Elf64_Ehdr ehdr = state->image.elf.header;
    struct buffer encoded = {0};

    ehdr.e_phnum = (Elf64_Half)state->new_phnum;
    ehdr.e_shoff = map_offset(state, ehdr.e_shoff);
    elf_put_ehdr(&encoded, elf_form(&state->image), &ehdr);
    return plan_table(state, 0, &encoded);
}

static bool plan_program_headers(struct tables *tables)
{
    struct elf_state *state = tables->state;
    struct buffer encoded = {0};
    bool done;

    for (size_t i = 0; i < state->new_phnum; i++)
        elf_put_phdr(&encoded, elf_form(&state->image), &tables->phdrs[i]);
    if (state->hole_count == 0 && state->move_count == 0)
        return plan_table(state, state->image.elf.header.e_phoff, &encoded);
    done = !encoded.failed;
    if (done && encoded.size != 0)
        memcpy(state->base.plan->edits.literals.data + state->headers_literal, encoded.data,
               encoded.size);
    buffer_free(&encoded);
    return done;
}

static bool plan_others(struct tables *tables)
{
    struct elf_state *state = tables->state;
    struct buffer shdrs = {0}, dynamic = {0};
    bool done;

    for (size_t i = 0; i < state->image.shnum; i++)
        elf_put_shdr(&shdrs, elf_form(&state->image), &tables->shdrs[i]);
    for (size_t i = 0; i < state->image.dynamic_count; i++)
        elf_put_dyn(&dynamic, elf_form(&state->image), &tables->dynamic[i]);
    done = plan_table(state, state->image.elf.header.e_shoff, &shdrs);
    return plan_table(state, state->image.dynamic_offset, &dynamic) && done;
}

/* ---- the last look ---- */

/* Whether a loaded section is where its segment says in the file. */
static bool is_where_loaded(const Elf64_Shdr *shdr, const Elf64_Phdr *phdrs, size_t phnum)
{
    for (size_t i = 0; i < phnum; i++) {
        if (phdrs[i].p_type == PT_LOAD &&
            range_within(shdr->sh_addr, shdr->sh_size, phdrs[i].p_vaddr, phdrs[i].p_filesz) &&
            shdr->sh_addr - phdrs[i].p_vaddr == shdr->sh_offset - phdrs[i].p_offset)
            return true;
    }
    return false;
}

/* The profile runtimes of LLVM 14 to 19 look for notes at __ehdr_start + p_offset. If notes were at
 * that address, they must still be; if something else was there, it must be unchanged. */
static bool notes_are_found(const struct tables *tables)
{
    const struct elf_image *image = &tables->state->image;
    uint64_t base = elf_header_base(image);
    size_t old = 0;

    if (tables->state->is_firmware)
        return true;
    for (size_t i = 0; i < tables->state->new_phnum; i++) {
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

static bool segments_hold_together(const struct tables *tables, uint64_t size)
{
    const struct elf_state *state = tables->state;

    for (size_t i = 0; i < state->new_phnum; i++) {
        const Elf64_Phdr *phdr = &tables->phdrs[i];

        if (!range_within(phdr->p_offset, phdr->p_filesz, 0, size))
            return false;
        if (phdr->p_type == PT_LOAD && !elf_segment_is_aligned(phdr))
            return false;
    }
    return elf_segments_are_apart(&state->image, tables->phdrs, state->new_phnum);
}

/* Whatever was planned, what a loader and the runtime rely on must hold for the new tables as it
 * did for the old ones. */
static bool tables_hold_together(const struct tables *tables)
{
    const struct elf_state *state = tables->state;
    const struct elf_image *image = &state->image;
    uint64_t size = edit_script_result_size(&state->base.plan->edits);

    if (!segments_hold_together(tables, size) || !notes_are_found(tables))
        return false;
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &tables->shdrs[i];
        const Elf64_Shdr *old = &image->shdrs[i];
        bool is_loaded = (shdr->sh_flags & SHF_ALLOC) != 0;

        if (!elf_section_in_file(shdr))
            continue;
        if (!range_within(shdr->sh_offset, shdr->sh_size, 0, size))
            return false;
        if (is_loaded && is_where_loaded(old, image->phdrs, image->phnum) &&
            !is_where_loaded(shdr, tables->phdrs, state->new_phnum))
            return false;
        if (!is_loaded && shdr->sh_addralign > 1 &&
            (shdr->sh_offset - old->sh_offset) % shdr->sh_addralign != 0)
            return false;
    }
    return true;
}

static bool make_tables(struct tables *tables)
{
    struct elf_state *state = tables->state;
    size_t shnum = state->image.shnum, dynamic_count = state->image.dynamic_count;

    tables->phdrs = calloc(state->new_phnum, sizeof(*tables->phdrs));
    tables->shdrs = calloc(shnum, sizeof(*tables->shdrs));
    tables->dynamic = calloc(dynamic_count + 1, sizeof(*tables->dynamic));
    if (tables->phdrs == NULL || tables->shdrs == NULL || tables->dynamic == NULL)
        return false;
    memcpy(tables->shdrs, state->image.shdrs, shnum * sizeof(*tables->shdrs));
    if (dynamic_count != 0)
        memcpy(tables->dynamic, state->image.dynamic, dynamic_count * sizeof(*tables->dynamic));
    make_program_headers(tables);
    make_section_headers(tables);
    make_dynamic(tables);
    return true;
}

static bool add_edits(struct tables *tables)
{
    return plan_elf_header(tables->state) && plan_program_headers(tables) && plan_others(tables) &&
           plan_symbols(tables->state) && elf_retained_silence(tables->state);
}

bool elf_write(struct planning *planning, struct error *error)
{
    struct tables tables = {.state = (struct elf_state *)planning};
    bool done = make_tables(&tables);

    if (done && !tables_hold_together(&tables))
        done = error_set(error,
                         "%s: the image has a layout that covsplit cannot strip safely; remove "
                         "less with --sections",
                         planning->input->path);
    else if (!done || !add_edits(&tables))
        done =
            error_out_of_memory(error, planning->input->path, planning->plan->edits.literals.size);
    free(tables.phdrs);
    free(tables.shdrs);
    free(tables.dynamic);
    return done;
}
