/*
 * Dynamic relocations, and those that the linker retained: see elf.h.
 *
 * Tables are compacted by cutting runs of entries (and adding as many zero bytes at the table's
 * end), so the number of edits depends on what is removed, not on the size of the table. RELR
 * (gABI: "Relative relocation table") is a small compressed list, so it is encoded anew.
 */
#include <string.h>

#include "formats/elf/elf.h"

#ifndef SHT_CREL
#define SHT_CREL 0x40000014
#endif

/* Android's packed tables (bionic's linker). */
#define DT_ANDROID_REL  0x6000000f
#define DT_ANDROID_RELA 0x60000011
#define DT_ANDROID_RELR 0x6fffe000

/* Tables are read in pieces of this size, whose pages are then released, to use little memory. */
#define PIECE_SIZE (UINT64_C(1) << 20)

/* ---- finding the tables ---- */

static bool locate(const struct elf_image *image, uint64_t address, uint64_t size,
                   uint64_t entry_size, struct elf_relocation_table *table)
{
    table->entry_size = entry_size;
    table->has_addends = entry_size == image->sizes.rela;
    if (size % entry_size != 0 || !elf_bytes_at(image, address, size, &table->bytes))
        return false;
    table->offset = (uint64_t)(table->bytes.data - image->elf.bytes.data);
    return table->offset % image->sizes.word == 0;
}

/* The table that two dynamic tags describe; it is empty if there is none. No tag may occur twice,
 * because it depends on the loader which of them counts. */
static bool locate_by_tags(const struct elf_image *image, Elf64_Sxword address_tag,
                           Elf64_Sxword size_tag, uint64_t entry_size,
                           struct elf_relocation_table *table)
{
    const Elf64_Dyn *address = elf_dynamic_find(image, address_tag);
    const Elf64_Dyn *size = elf_dynamic_find(image, size_tag);
    size_t occurrences = 0;

    for (size_t i = 0; i < image->dynamic_count; i++) {
        if (image->dynamic[i].d_tag == address_tag || image->dynamic[i].d_tag == size_tag)
            occurrences++;
    }
    if (address == NULL || size == NULL || size->d_un.d_val == 0)
        return occurrences <= 2;
    return occurrences == 2 &&
           locate(image, address->d_un.d_ptr, size->d_un.d_val, entry_size, table);
}

/* Finds the tables of an image with a dynamic section. False if they are malformed or of an unknown
 * kind. */
static bool find_tables(struct elf_relocations *relocations)
{
    static const Elf64_Sxword unknown[] = {DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELR};
    const struct elf_image *image = relocations->image;
    const struct elf_sizes *sizes = &image->sizes;
    const Elf64_Dyn *plt_kind = elf_dynamic_find(image, DT_PLTREL);
    bool is_rel = elf_dynamic_find(image, DT_REL) != NULL;
    struct elf_relocation_table *tables = relocations->tables;
    uint64_t plt_size = sizes->rela;

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        if (elf_dynamic_find(image, unknown[i]) != NULL)
            return false;
    }
    if (plt_kind != NULL && plt_kind->d_un.d_val == DT_REL)
        plt_size = sizes->rel;
    else if (plt_kind != NULL && plt_kind->d_un.d_val != DT_RELA)
        return false;
    if (is_rel && elf_dynamic_find(image, DT_RELA) != NULL)
        return false;
    for (unsigned i = 0; i < RELOCATION_STATIC; i++)
        tables[i].kind = (enum relocation_kind)i;
    return locate_by_tags(image, is_rel ? DT_REL : DT_RELA, is_rel ? DT_RELSZ : DT_RELASZ,
                          is_rel ? sizes->rel : sizes->rela, &tables[RELOCATION_TABLE]) &&
           locate_by_tags(image, DT_JMPREL, DT_PLTRELSZ, plt_size, &tables[RELOCATION_PLT]) &&
           locate_by_tags(image, DT_RELR, DT_RELRSZ, sizes->word, &tables[RELOCATION_RELR]);
}

/* ---- reading ---- */

static bool fail(struct elf_relocations *relocations, const char *reason)
{
    relocations->reason = reason;
    return false;
}

struct elf_relocations elf_relocations_open(const struct elf_image *image)
{
    struct elf_relocations relocations = {.image = image};

    for (size_t i = 1; i < image->shnum && relocations.symbols.size == 0; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (shdr->sh_type == SHT_DYNSYM && shdr->sh_offset % image->sizes.word == 0 &&
            shdr->sh_entsize == image->sizes.sym)
            relocations.symbols = elf_section_bytes(image, i);
    }
    if (image->dynamic_count != 0 && !find_tables(&relocations))
        fail(&relocations, "its dynamic relocations are of a kind that covsplit does not know");
    return relocations;
}

/* Goes on to the next table; false if there is none. */
static bool next_table(struct elf_relocations *relocations)
{
    const struct elf_image *image = relocations->image;

    relocations->position = relocations->released = 0;
    if (image->dynamic_count != 0) {
        if (relocations->next_table == RELOCATION_STATIC)
            return false;
        relocations->table = relocations->tables[relocations->next_table++];
        return true;
    }
    while (relocations->next_table < image->shnum) {
        const Elf64_Shdr *shdr = &image->shdrs[relocations->next_table++];

        if ((shdr->sh_type != SHT_RELA && shdr->sh_type != SHT_REL) ||
            (shdr->sh_flags & SHF_ALLOC) == 0 || shdr->sh_size == 0)
            continue;
        relocations->table.kind = RELOCATION_STATIC;
        return locate(image, shdr->sh_addr, shdr->sh_size,
                      shdr->sh_type == SHT_RELA ? image->sizes.rela : image->sizes.rel,
                      &relocations->table) ||
               fail(relocations, "its relocations cannot be read");
    }
    return false;
}

/* The address that a relocation with a symbol leads to, if the symbol is defined in this image. (If
 * the definition of another image takes precedence, the relocation does not lead here at all.) */
static bool symbol_target(const struct elf_relocations *relocations, uint64_t index,
                          uint64_t addend, uint64_t *target)
{
    const struct elf_image *image = relocations->image;
    Elf64_Sym symbol;

    if (index == 0 || !elf_load(&elf_sym, elf_form(image), relocations->symbols,
                                index * image->sizes.sym, &symbol))
        return false;
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
        return false;
    *target = symbol.st_value + addend;
    if (!image->elf.wide)
        *target &= UINT32_MAX;
    return true;
}

/* True if the loader stores no address there but a module number, an offset in thread-local
 * storage, or a size. */
static bool makes_no_address(const struct elf_relocation_types *types, uint32_t type)
{
    for (size_t i = 0; i < NO_ADDRESS_TYPES_MAX && types->no_address[i] != 0; i++) {
        if (types->no_address[i] == type)
            return true;
    }
    return false;
}

/* Reads an addend that is at the relocated place. */
static bool read_place(struct elf_relocations *relocations, uint64_t address, uint64_t *addend)
{
    const struct elf_image *image = relocations->image;
    struct bytes place;

    if (!elf_bytes_at(image, address, image->sizes.word, &place))
        return fail(relocations, "a relative relocation applies outside the file");
    *addend = elf_load_word(image, place.data);
    return true;
}

static bool read_entry(struct elf_relocations *relocations, const uint8_t *entry,
                       struct elf_relocation *relocation)
{
    const struct elf_image *image = relocations->image;
    const struct elf_relocation_types *types = image->machine->relocations;
    bool has_addends = relocations->table.has_addends;
    uint64_t word = image->sizes.word, info = elf_load_word(image, entry + word), symbol;
    uint64_t addend = has_addends ? elf_load_word(image, entry + 2 * word) : 0;

    /* The symbol comes first in memory and the types come last, the first type at the very end. */
    if (types->are_composed)
        info = info << 32 | __builtin_bswap32((uint32_t)(info >> 32));
    symbol = word == 8 ? ELF64_R_SYM(info) : ELF32_R_SYM((uint32_t)info);
    relocation->offset = elf_load_word(image, entry);
    relocation->type = (uint32_t)(word == 8 ? ELF64_R_TYPE(info) : ELF32_R_TYPE((uint32_t)info));
    if (!has_addends &&
        (relocation->type == types->relative || relocation->type == types->absolute) &&
        !read_place(relocations, relocation->offset, &addend))
        return false;
    if (relocation->type == types->relative &&
        (symbol == 0 || types->relative != types->absolute)) {
        relocation->has_target = true;
        relocation->target = addend;
    } else if (!makes_no_address(types, relocation->type)) {
        relocation->has_target = symbol_target(relocations, symbol, addend, &relocation->target);
    }
    return true;
}

/* The number of bits of a RELR bitmap entry: all but the lowest, which marks it as a bitmap. */
static uint64_t relr_bits(const struct elf_image *image)
{
    return 8 * image->sizes.word - 1;
}

/* Takes an entry of RELR: an address, or a bitmap of those behind it. */
static void take_relr(struct elf_relocations *relocations, uint64_t entry)
{
    uint64_t word = relocations->image->sizes.word;

    if ((entry & 1) == 0) {
        relocations->address = entry;
        relocations->bits = 1;
        relocations->next_bitmap = entry + word;
    } else {
        relocations->address = relocations->next_bitmap;
        relocations->bits = entry >> 1;
        relocations->next_bitmap += word * relr_bits(relocations->image);
    }
}

/* Takes the next address of those that are left of the last entry. */
static bool next_of_relr(struct elf_relocations *relocations, struct elf_relocation *relocation)
{
    const struct elf_image *image = relocations->image;

    for (; (relocations->bits & 1) == 0; relocations->bits >>= 1)
        relocations->address += image->sizes.word;
    relocation->offset = relocations->address;
    relocation->type = image->machine->relocations->relative;
    relocation->has_target = true;
    relocations->bits >>= 1;
    relocations->address += image->sizes.word;
    return read_place(relocations, relocation->offset, &relocation->target);
}

bool elf_relocations_next(struct elf_relocations *relocations, struct elf_relocation *relocation)
{
    const struct elf_image *image = relocations->image;
    const struct elf_relocation_table *table = &relocations->table;
    const uint8_t *entry;

    while (relocations->reason == NULL) {
        uint64_t done = relocations->position - relocations->released;
        bool is_end = relocations->position == table->bytes.size;

        *relocation = (struct elf_relocation){.kind = table->kind,
                                              .entry = table->offset + relocations->position};
        if (relocations->bits != 0)
            return next_of_relr(relocations, relocation);
        if (done >= PIECE_SIZE || (is_end && done != 0)) {
            input_release_pages(image->input, table->offset + relocations->released, done);
            relocations->released = relocations->position;
        }
        if (is_end && !next_table(relocations))
            return false;
        if (is_end)
            continue;
        entry = table->bytes.data + relocations->position;
        relocations->position += table->entry_size;
        if (table->kind != RELOCATION_RELR)
            return read_entry(relocations, entry, relocation);
        take_relr(relocations, elf_load_word(image, entry));
    }
    return false;
}

/* ---- taking out ---- */

/* Encodes addresses, which must come in the order of the table, as RELR. */
struct relr_encoder {
    const struct elf_image *image;
    struct buffer encoded;
    uint64_t base; /* address that bit 0 of `bits` stands for */
    uint64_t bits;
    bool started;
};

static void put_relr_entry(struct relr_encoder *encoder, uint64_t value)
{
    uint8_t entry[8];

    elf_store_word(encoder->image, entry, value);
    buffer_append(&encoder->encoded, entry, encoder->image->sizes.word);
}

static void flush_relr_bits(struct relr_encoder *encoder)
{
    if (encoder->bits != 0)
        put_relr_entry(encoder, encoder->bits << 1 | 1);
    encoder->bits = 0;
    encoder->base += encoder->image->sizes.word * relr_bits(encoder->image);
}

static void put_relr_address(struct relr_encoder *encoder, uint64_t address)
{
    uint64_t word = encoder->image->sizes.word;

    while (encoder->started) {
        uint64_t distance = address - encoder->base;
        bool had_bits = encoder->bits != 0;

        if (distance < word * relr_bits(encoder->image) && distance % word == 0) {
            encoder->bits |= UINT64_C(1) << (distance / word);
            return;
        }
        /* The address is past this bitmap: go on in the next one, unless this one is empty, because
         * then a new address entry costs no more. */
        flush_relr_bits(encoder);
        if (!had_bits)
            break;
    }
    put_relr_entry(encoder, address);
    encoder->base = address + word;
    encoder->bits = 0;
    encoder->started = true;
}

struct remover {
    struct elf_state *state;
    const Elf64_Shdr *data;
    struct elf_relocations all;
    uint64_t relative_count; /* DT_RELACOUNT or DT_RELCOUNT */
    uint64_t kept_offset;    /* the stub's own relocation; UINT64_MAX: it needs none */
    bool found_kept;
    struct relr_encoder relr; /* of those that stay */
    bool relr_hit;
    uint64_t run_start; /* file offset of the current run of entries to cut */
    uint64_t run_size;
};

/* The stub's own relocation stays, but gets another addend. */
static bool retarget(struct remover *remover, const struct elf_relocation *relocation)
{
    const struct elf_state *state = remover->state;
    const struct elf_image *image = &state->image;
    struct bytes pointer = {state->base.stub + state->base.record_layout.counter_ptr,
                            image->sizes.word};

    if (relocation->type != image->machine->relocations->relative)
        return fail(&remover->all,
                    "the first record's counter pointer is not relocated as expected");
    remover->found_kept = true;
    /* In these cases the addend is in the stub itself, or need not change. */
    if (relocation->kind == RELOCATION_RELR || !remover->all.table.has_addends ||
        relocation->target == elf_load_word(image, pointer.data))
        return true;
    return edit_replace(&state->base.plan->edits, relocation->entry + 2 * image->sizes.word,
                        image->sizes.word, pointer);
}

/* Adds an entry to the run of those that are cut. */
static bool drop_entry(struct remover *remover, const struct elf_relocation *relocation)
{
    struct elf_state *state = remover->state;
    const struct elf_relocation_types *types = state->image.machine->relocations;
    const struct elf_relocation_table *table = &remover->all.tables[RELOCATION_TABLE];
    uint32_t type = relocation->type;

    if (relocation->kind != RELOCATION_TABLE)
        return fail(&remover->all, "relocations outside DT_RELA and DT_REL apply to it");
    if (type != types->relative && type != types->absolute && type != types->irelative &&
        type != types->none)
        return fail(&remover->all, "relocations of an unexpected type apply to it");
    if ((relocation->entry - table->offset) / table->entry_size < remover->relative_count)
        state->relocation_changes.relative_removed++;
    state->relocation_changes.table_removed += table->entry_size;
    if (remover->run_start + remover->run_size != relocation->entry) {
        edit_cut(&state->base.plan->edits, remover->run_start, remover->run_size);
        remover->run_start = relocation->entry;
        remover->run_size = 0;
    }
    remover->run_size += table->entry_size;
    return true;
}

/* Takes the relocation out if it applies to the records. */
static bool remove_relocation(struct remover *remover, const struct elf_relocation *relocation)
{
    const Elf64_Shdr *data = remover->data;
    uint64_t word = remover->state->image.sizes.word;
    bool touches = ranges_overlap(relocation->offset, word, data->sh_addr, data->sh_size) &&
                   relocation->offset + word > relocation->offset;

    if (touches && relocation->offset == remover->kept_offset) {
        if (!retarget(remover, relocation))
            return false;
        touches = false;
    } else if (touches && !range_within(relocation->offset, word, data->sh_addr, data->sh_size)) {
        return fail(&remover->all, "a relocation applies to its edge");
    }
    if (relocation->kind != RELOCATION_RELR)
        return !touches || drop_entry(remover, relocation);
    if (touches)
        remover->relr_hit = true;
    else
        put_relr_address(&remover->relr, relocation->offset);
    return true;
}

static bool finish_relr(struct remover *remover)
{
    struct edit_script *edits = &remover->state->base.plan->edits;
    struct elf_relocation_changes *changes = &remover->state->relocation_changes;
    const struct elf_relocation_table *relr = &remover->all.tables[RELOCATION_RELR];
    struct buffer *encoded = &remover->relr.encoded;

    if (!remover->relr_hit)
        return true;
    flush_relr_bits(&remover->relr);
    if (encoded->size > relr->bytes.size)
        return fail(&remover->all, "its packed relative relocations would grow");
    changes->relr_changed = true;
    changes->relr_size = encoded->size;
    if (!buffer_append_zeros(encoded, (size_t)relr->bytes.size - encoded->size))
        edits->has_no_memory = true;
    return !encoded->failed && edit_overwrite_differences(edits, remover->state->image.elf.bytes,
                                                          relr->offset, buffer_view(encoded));
}

/* Takes out the relocations that apply to the records. The tables keep their space in the file:
 * layout.c fills it up with zeros, unless room is needed (room.c). In version 7 the stub's
 * CounterPtr is an address, which needs a relocation in a position-independent image. */
static bool remove_from_data(struct remover *remover)
{
    struct elf_state *state = remover->state;
    const struct elf_image *image = &state->image;
    struct edit_script *edits = &state->base.plan->edits;
    const struct elf_relocation_table *table = &remover->all.tables[RELOCATION_TABLE];
    const Elf64_Dyn *relative_count = elf_dynamic_find(image, DT_RELACOUNT);
    struct elf_relocation relocation;

    if (remover->all.reason != NULL)
        return fail(&remover->all, "its dynamic relocations cannot be changed");
    if (relative_count == NULL)
        relative_count = elf_dynamic_find(image, DT_RELCOUNT);
    remover->relative_count = relative_count == NULL ? 0 : relative_count->d_un.d_val;
    while (elf_relocations_next(&remover->all, &relocation)) {
        if (!remove_relocation(remover, &relocation))
            return false;
    }
    if (remover->all.reason != NULL)
        return false;
    edit_cut(edits, remover->run_start, remover->run_size);
    state->relocation_changes.table_end = table->offset + table->bytes.size;
    if (!finish_relr(remover))
        return false;
    return remover->kept_offset == UINT64_MAX || remover->found_kept ||
           fail(&remover->all, "the first record's counter pointer has no relocation");
}

bool elf_settle_relocations(struct planning *planning, enum section_kind kind)
{
    struct elf_state *state = (struct elf_state *)planning;
    struct edit_script *edits = &planning->plan->edits;
    size_t edits_before = edits->count, literals_before = edits->literals.size;
    struct remover remover = {.state = state,
                              .data = &state->image.shdrs[planning->section_index[kind]],
                              .all = elf_relocations_open(&state->image),
                              .kept_offset = UINT64_MAX,
                              .relr = {.image = &state->image}};
    uint64_t word = state->image.sizes.word;
    struct elf_relocation relocation;
    bool done;

    if (kind != SECTION_DATA) {
        while (elf_relocations_next(&remover.all, &relocation)) {
            if (ranges_overlap(align_down(relocation.offset, word), 2 * word, remover.data->sh_addr,
                               remover.data->sh_size))
                fail(&remover.all, "dynamic relocations apply to it");
        }
        return remover.all.reason == NULL ||
               image_plan_keep(planning->plan, kind, "%s", remover.all.reason);
    }
    if (!planning->record_layout.relative && state->image.elf.header.e_type == ET_DYN)
        remover.kept_offset = remover.data->sh_addr + planning->record_layout.counter_ptr;
    done = remove_from_data(&remover) && !edits->has_no_memory;
    buffer_free(&remover.relr.encoded);
    if (done)
        return true;
    edits->count = edits_before;
    edits->literals.size = literals_before;
    state->relocation_changes = (struct elf_relocation_changes){0};
    if (remover.all.reason == NULL)
        edits->has_no_memory = true;
    return remover.all.reason != NULL &&
           image_plan_keep(planning->plan, kind, "%s", remover.all.reason);
}

/* ---- retained relocations ---- */

/*
 * Those that the linker applied, and that --emit-relocs keeps in the image for tools that move code
 * later (BOLT) or analyze it. No loader reads them.
 *
 * Such a tool applies them again, or relies on them to find what an instruction refers to. So the
 * relocations of a removed section are removed with it, except one that becomes R_..._NONE, as
 * eu-strip takes no empty table; and so does one that applies to the body of a rewritten accessor.
 * All others stay true, because no code moves.
 */

static bool is_retained(const Elf64_Shdr *shdr)
{
    return (shdr->sh_type == SHT_RELA || shdr->sh_type == SHT_REL || shdr->sh_type == SHT_CREL) &&
           (shdr->sh_flags & SHF_ALLOC) == 0 && shdr->sh_size != 0;
}

bool elf_retained_is_known(const struct elf_image *image)
{
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        uint64_t size = shdr->sh_type == SHT_RELA ? image->sizes.rela : image->sizes.rel;

        if (is_retained(shdr) &&
            (shdr->sh_type == SHT_CREL || shdr->sh_entsize != size || shdr->sh_size % size != 0))
            return false;
    }
    return true;
}

bool elf_retained_goes(const struct elf_state *state, size_t section)
{
    const Elf64_Shdr *shdr = &state->image.shdrs[section];

    if (!is_retained(shdr))
        return false;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *removed = &state->base.plan->sections[i];

        if (section_goes(removed) && state->base.section_index[removed->kind] == shdr->sh_info)
            return true;
    }
    return false;
}

uint64_t elf_retained_rest(const struct elf_image *image, const Elf64_Shdr *shdr)
{
    uint64_t size = shdr->sh_type == SHT_RELA ? image->sizes.rela : image->sizes.rel;

    return shdr->sh_type != SHT_CREL && shdr->sh_entsize == size && shdr->sh_size >= size ? size
                                                                                          : 0;
}

void elf_retained_empty(struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    uint64_t word = image->sizes.word;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        uint8_t entry[sizeof(Elf64_Rela)] = {0};
        struct section section = {.offset = shdr->sh_offset, .size = shdr->sh_size};

        if (!elf_retained_goes(state, i))
            continue;
        elf_store_word(image, entry, image->shdrs[shdr->sh_info].sh_addr);
        elf_store_word(image, entry + word, image->machine->relocations->none);
        elf_cut_unloaded(state, &section, (struct bytes){entry, elf_retained_rest(image, shdr)});
    }
}

static bool is_rewritten(const struct elf_state *state, enum runtime_symbol symbol)
{
    struct image_plan *plan = state->base.plan;

    switch (symbol) {
    case RUNTIME_END_DATA:
        return image_plan_removes(plan, SECTION_DATA);
    case RUNTIME_END_NAMES:
        return image_plan_removes(plan, SECTION_NAMES);
    case RUNTIME_BEGIN_NAMES:
        return image_plan_removes(plan, SECTION_NAMES) &&
               state->names_address != image_plan_section(plan, SECTION_NAMES)->address;
    default:
        return false;
    }
}

void elf_retained_neutralize(struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    const struct runtime_symbols *symbols = &state->base.code.symbols;
    struct code bodies[RUNTIME_DEFINITIONS_MAX];
    uint8_t nothing[sizeof(uint64_t)];
    struct bytes info = {nothing, image->sizes.word};
    size_t count = 0;

    for (size_t i = 0; i < symbols->count; i++) {
        const struct runtime_definition *definition = &symbols->definitions[i];

        if (is_rewritten(state, definition->symbol) &&
            rules_find_body(&state->base.code, definition, &bodies[count]))
            count++;
    }
    elf_store_word(image, nothing, image->machine->relocations->none);
    for (size_t i = 1; i < image->shnum && count != 0; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        struct bytes table = elf_section_bytes(image, i);

        if (!is_retained(shdr) || elf_retained_goes(state, i))
            continue;
        for (uint64_t offset = 0; offset < table.size; offset += shdr->sh_entsize) {
            uint64_t address = elf_load_word(image, table.data + offset);
            bool is_in_body = false;

            for (size_t j = 0; j < count; j++)
                is_in_body |= address - bodies[j].address < bodies[j].bytes.size;
            if (is_in_body)
                edit_overwrite_differences(&state->base.plan->edits, image->elf.bytes,
                                           shdr->sh_offset + offset + image->sizes.word, info);
        }
    }
}
