/*
 * Scans symbol tables, which are large in instrumented programs: in order, in time proportional to
 * their size, and releasing their pages on the way.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "formats/elf/elf.h"

/* Tables are read in pieces of this size, whose pages are then released. */
#define PIECE_SIZE (UINT64_C(1) << 20)

/* ---- symbols ---- */

bool elf_symbol_has_address(const struct elf_image *image, const struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    if (type == STT_FILE || type == STT_TLS || symbol->section == SHN_UNDEF)
        return false;
    return symbol->section >= image->shnum ||
           (image->shdrs[symbol->section].sh_flags & SHF_ALLOC) != 0;
}

struct bytes elf_symbol_name(const struct elf_image *image, const struct elf_symbol *symbol)
{
    size_t strings = image->shdrs[symbol->table].sh_link;
    struct bytes all = {0}, name = {0};

    if (strings < image->shnum)
        all = elf_section_bytes(image, strings);
    if (symbol->st_name < all.size)
        bytes_slice(all, symbol->st_name, all.size - symbol->st_name, &name);
    return name;
}

bool elf_symbol_is_mark(const struct elf_image *image, const struct elf_symbol *symbol)
{
    struct bytes name = {0};

    if (ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE && ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
        name = elf_symbol_name(image, symbol);
    return name.size >= 2 && (name.data[0] == '$' || (name.data[0] == '.' && name.data[1] == 'L'));
}

/* The address of a function's code: on some machines a bit of st_value tells the instruction
 * set. */
static uint64_t function_address(const struct elf_image *image, const struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return type == STT_FUNC || type == STT_GNU_IFUNC ? symbol->st_value & ~image->machine->state_bit
                                                     : symbol->st_value;
}

static bool is_in_code(const struct elf_image *image, const struct elf_symbol *symbol)
{
    return symbol->section != SHN_UNDEF && symbol->section < image->shnum &&
           (image->shdrs[symbol->section].sh_flags & SHF_EXECINSTR) != 0;
}

void elf_symbols_open(const struct elf_image *image, size_t section, struct symbol_walk *walk)
{
    const Elf64_Shdr *shdr = &image->shdrs[section];
    uint64_t sym = image->sizes.sym;

    *walk = (struct symbol_walk){.table = section, .at = sym, .released = sym, .bad = true};
    if (shdr->sh_entsize != sym || shdr->sh_offset % image->sizes.word != 0 ||
        shdr->sh_type == SHT_NOBITS)
        return;
    walk->bad = false;
    walk->symbols = elf_section_bytes(image, section);
    if (shdr->sh_link < image->shnum)
        walk->strings = elf_section_bytes(image, shdr->sh_link);
    /* If there are more sections than st_shndx can number (gABI: SHT_SYMTAB_SHNDX). */
    for (size_t i = 1; i < image->shnum && walk->more.size == 0; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB_SHNDX && image->shdrs[i].sh_link == section)
            walk->more = elf_section_bytes(image, i);
    }
}

bool elf_symbols_next(const struct elf_image *image, struct symbol_walk *walk,
                      struct elf_symbol *symbol)
{
    uint64_t sym = image->sizes.sym, table = image->shdrs[walk->table].sh_offset;
    bool is_end = walk->symbols.size < sym || walk->at > walk->symbols.size - sym;
    struct bytes number;
    Elf64_Sym entry;

    if (walk->at - walk->released >= PIECE_SIZE || (is_end && walk->released < walk->at)) {
        input_release_pages(image->input, table + walk->released, walk->at - walk->released);
        walk->released = walk->at;
    }
    if (is_end || walk->bad)
        return false;
    /* An image has more symbols than anything else. */
    if (elf_form_is_native(elf_form(image)))
        memcpy(&entry, walk->symbols.data + walk->at, sizeof(entry));
    else
        elf_load(&elf_sym, elf_form(image), walk->symbols, walk->at, &entry);
    *symbol = (struct elf_symbol){
        .table = walk->table,
        .st_name = entry.st_name,
        .st_info = entry.st_info,
        .st_value = entry.st_value,
        .st_size = entry.st_size,
        .section = entry.st_shndx < SHN_LORESERVE ? entry.st_shndx : NO_INDEX,
        .offset = table + walk->at,
    };
    if (entry.st_shndx == SHN_XINDEX) {
        walk->bad = !bytes_slice(walk->more, walk->at / sym * sizeof(Elf32_Word),
                                 sizeof(Elf32_Word), &number);
        if (walk->bad)
            return false;
        symbol->section = load_u32(number.data, image->machine->big_endian);
    }
    walk->at += sym;
    return true;
}

size_t elf_symbol_table(const struct elf_image *image)
{
    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB)
            return i;
    }
    return NO_INDEX;
}

/* ---- definitions ---- */

/* Index of the symbol table; NO_INDEX: none. False if there are two, or one without strings. */
static bool find_table(const struct elf_image *image, size_t *table, struct error *error)
{
    *table = elf_symbol_table(image);
    if (*table == NO_INDEX)
        return true;
    for (size_t i = *table + 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB)
            return error_set(error, "%s: the image has two symbol tables; link it again",
                             image->path);
    }
    return (image->shdrs[*table].sh_link < image->shnum &&
            image->shdrs[image->shdrs[*table].sh_link].sh_type == SHT_STRTAB) ||
           error_set(error, "%s: damaged ELF image: the symbol table has no strings; link it again",
                     image->path);
}

/* Releases the pages of names that were read, from the first to the last one in the string table.
 * In most tables names are in the order of their symbols. */
static void release_names(const struct elf_image *image, struct symbol_walk *walk)
{
    const Elf64_Shdr *strings = &image->shdrs[image->shdrs[walk->table].sh_link];

    if (walk->names_end != 0)
        input_release_pages(image->input, strings->sh_offset + walk->first_name,
                            walk->names_end - walk->first_name);
    walk->names_end = 0;
}

/* Takes the next symbol that is an address in the loaded image. */
static bool next_address(const struct planning *planning, struct symbol_walk *walk,
                         struct image_symbol *found)
{
    const struct elf_image *image = &((const struct elf_state *)planning)->image;
    struct elf_symbol symbol;
    uint64_t released;

    if (walk->table == 0)
        elf_symbols_open(image, elf_symbol_table(image), walk);
    released = walk->released;
    while (elf_symbols_next(image, walk, &symbol)) {
        if (walk->released != released)
            release_names(image, walk);
        released = walk->released;
        if (!elf_symbol_has_address(image, &symbol))
            continue;
        *found = (struct image_symbol){
            .address = function_address(image, &symbol),
            .size = symbol.st_size,
            .is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC,
            .is_thumb = function_address(image, &symbol) != symbol.st_value,
        };
        if (symbol.st_name >= walk->strings.size)
            return true;
        found->name = (struct bytes){walk->strings.data + symbol.st_name,
                                     walk->strings.size - symbol.st_name};
        if (walk->names_end == 0 || symbol.st_name < walk->first_name)
            walk->first_name = symbol.st_name;
        if (symbol.st_name >= walk->names_end)
            walk->names_end = symbol.st_name + UINT64_C(1);
        return true;
    }
    release_names(image, walk);
    return false;
}

bool elf_symbols_find(struct elf_state *state, struct error *error)
{
    const struct elf_image *image = &state->image;
    struct runtime_symbols *symbols = &state->base.code.symbols;
    const char *wrong = NULL;
    size_t table;

    if (!find_table(image, &table, error))
        return false;
    symbols->from_symbol_table = table != NO_INDEX;
    symbols->base_name = image->machine->base_symbol;
    if (table == NO_INDEX)
        return true;
    if (!runtime_symbols_find(symbols, next_address, &state->base))
        wrong = symbols->count == RUNTIME_DEFINITIONS_MAX
                    ? "the profile runtime is defined too many times"
                    : "damaged ELF image: its symbol table cannot be read";
    else if (symbols->has_bases)
        wrong = "the symbol for the base register of its data has several values";
    state->code_base = symbols->base;
    return wrong == NULL || error_set(error, "%s: %s; link it again", image->path, wrong);
}

/* ---- all functions ---- */

/* Most symbols are of counters and records. */
static void skip_objects(const struct elf_image *image, struct symbol_walk *walk)
{
    uint64_t sym = image->sizes.sym;
    uint64_t info = image->elf.wide ? offsetof(Elf64_Sym, st_info) : offsetof(Elf32_Sym, st_info);

    while (walk->symbols.size >= sym && walk->at <= walk->symbols.size - sym &&
           ELF64_ST_TYPE(walk->symbols.data[walk->at + info]) == STT_OBJECT)
        walk->at += sym;
}

bool elf_functions_next(const struct planning *planning, struct symbol_walk *walk,
                        struct image_symbol *function)
{
    const struct elf_image *image = &((const struct elf_state *)planning)->image;
    struct elf_symbol symbol;

    if (walk->table == 0) {
        size_t table = elf_symbol_table(image);

        if (table == NO_INDEX)
            return false;
        elf_symbols_open(image, table, walk);
    }
    for (skip_objects(image, walk); elf_symbols_next(image, walk, &symbol);
         skip_objects(image, walk)) {
        unsigned type = ELF64_ST_TYPE(symbol.st_info);

        /* Functions written in assembly may have no type. */
        if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
            !is_in_code(image, &symbol) || elf_symbol_is_mark(image, &symbol))
            continue;
        *function = (struct image_symbol){.name = elf_symbol_name(image, &symbol),
                                          .address = function_address(image, &symbol),
                                          .is_function = true};
        return true;
    }
    return false;
}

/* ---- kinds of code ---- */

/* The starts and ends of things, in the order in which this matters at one address. */
enum place_type { PLACE_SECTION, PLACE_FUNCTION_END, PLACE_FUNCTION, PLACE_MARK };

struct place {
    uint64_t address;
    enum place_type type;
    enum code_kind kind;
};

struct places {
    struct place *list;
    size_t count, capacity;
    bool failed; /* memory ran out */
};

static void add_place(struct places *places, uint64_t address, enum place_type type,
                      enum code_kind kind)
{
    places->failed |= !ARRAY_ROOM_FOR_ONE(places->list, places->capacity, places->count);
    if (!places->failed)
        places->list[places->count++] = (struct place){address, type, kind};
}

static int compare_places(const void *first, const void *second)
{
    const struct place *a = first, *b = second;

    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->type != b->type ? (a->type < b->type ? -1 : 1) : (int)a->kind - (int)b->kind;
}

/* Adds what a symbol tells: a mapping symbol ($a, $t and $d; a dot and anything may follow), or a
 * function of a known size. */
static void add_symbol(const struct elf_image *image, const struct elf_symbol *symbol,
                       struct places *places)
{
    uint64_t address = function_address(image, symbol);
    struct bytes name;

    if (!is_in_code(image, symbol))
        return;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size != 0) {
        add_place(places, address, PLACE_FUNCTION,
                  address == symbol->st_value ? CODE_A32 : CODE_T32);
        add_place(places, address + symbol->st_size, PLACE_FUNCTION_END, CODE_UNKNOWN);
    }
    if (!elf_symbol_is_mark(image, symbol))
        return;
    name = elf_symbol_name(image, symbol);
    if (name.size >= 3 && name.data[0] == '$' && (name.data[2] == 0 || name.data[2] == '.') &&
        memchr("atd", name.data[1], 3) != NULL)
        add_place(places, address, PLACE_MARK,
                  name.data[1] == 'a'   ? CODE_A32
                  : name.data[1] == 't' ? CODE_T32
                                        : CODE_DATA);
}

/* Returns how many marks there are, not more than places. A function without mapping symbols is of
 * one kind. Objects may have been stripped of theirs before the link: where the last one before a
 * function tells another kind than the function's symbol, it does not count. */
static size_t make_marks(const struct place *places, size_t count, struct code_mark *marks)
{
    enum code_kind kind = CODE_UNKNOWN;
    bool is_mapped = false;
    size_t made = 0, last = 0;

    for (size_t i = 0; i < count; i++) {
        const struct place *place = &places[i];
        bool is_new = i == 0 || place->address != places[i - 1].address;
        bool is_last = i + 1 == count || places[i + 1].address != place->address;

        if (place->type == PLACE_MARK) {
            bool differs = !is_new && places[i - 1].type == PLACE_MARK && place->kind != kind;

            kind = differs ? CODE_UNKNOWN : place->kind;
            is_mapped = true;
            last = made;
        } else if (place->type == PLACE_SECTION) {
            kind = CODE_UNKNOWN;
            is_mapped = false;
        } else if (!is_mapped) {
            kind = place->kind;
        } else if (place->type == PLACE_FUNCTION && place->kind != kind && is_last) {
            marks[last].kind = CODE_UNKNOWN;
            kind = place->kind;
            is_mapped = false;
        }
        if (is_last)
            marks[made++] = (struct code_mark){place->address, kind};
    }
    return made;
}

bool elf_symbols_mark(struct elf_image *image, struct code_mark **marks, size_t *count)
{
    struct places places = {.count = 0};
    struct symbol_walk walk = {.bad = image->machine->state_bit == 0};
    struct elf_symbol symbol;

    for (size_t i = 1; i < image->shnum && !walk.bad; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_EXECINSTR) != 0)
            add_place(&places, shdr->sh_addr, PLACE_SECTION, CODE_UNKNOWN);
        if (shdr->sh_type != SHT_SYMTAB)
            continue;
        elf_symbols_open(image, i, &walk);
        while (!places.failed && elf_symbols_next(image, &walk, &symbol))
            add_symbol(image, &symbol, &places);
    }
    if (!walk.bad && !places.failed && places.count != 0)
        *marks = arena_array(&image->memory, places.count, sizeof(**marks));
    if (*marks != NULL) {
        qsort(places.list, places.count, sizeof(*places.list), compare_places);
        *count = make_marks(places.list, places.count, *marks);
    }
    free(places.list);
    return !places.failed && !image->memory.failed;
}

/* ---- symbols of coverage records ---- */

/* True for relocations of which none has a symbol, such as those that start-up code of static
 * images applies. */
static bool has_no_symbols(const struct elf_image *image, size_t section)
{
    const Elf64_Shdr *shdr = &image->shdrs[section];
    struct bytes table = elf_section_bytes(image, section);
    uint64_t size = shdr->sh_type == SHT_RELA ? image->sizes.rela : image->sizes.rel;

    /* MIPS has the parts of r_info in another order, and no such relocations. */
    if ((shdr->sh_type != SHT_RELA && shdr->sh_type != SHT_REL) ||
        image->machine->relocations->are_composed || table.size % size != 0)
        return false;
    for (uint64_t offset = image->sizes.word; offset < table.size; offset += size) {
        uint64_t info = elf_load_word(image, table.data + offset);

        if ((image->elf.wide ? ELF64_R_SYM(info) : ELF32_R_SYM(info)) != STN_UNDEF)
            return false;
    }
    return true;
}

/* True if no other section refers to the table or to its names: relocations do if they were
 * retained, by the numbers of symbols. */
static bool has_tables_for_itself(const struct elf_image *image, size_t table)
{
    size_t names = image->shdrs[table].sh_link;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if (i != table &&
            (shdr->sh_type == SHT_SYMTAB || shdr->sh_type == SHT_GROUP || shdr->sh_link == names ||
             (shdr->sh_link == table && !has_no_symbols(image, i))))
            return false;
    }
    return names != SHN_UNDEF && names < image->shnum && names != image->elf.names &&
           image->shdrs[names].sh_type == SHT_STRTAB && image->shnum < SHN_LORESERVE;
}

/* Lists the records, and releases their pages. False if out of memory. */
static bool list_records(struct elf_state *state, const struct section *section)
{
    const struct input *input = state->image.input;
    struct record_list *list = &state->symbol_cut.records;
    bool done = true;

    record_list_start(list, section->size, state->image.machine->big_endian);
    while (done && list->added < section->size) {
        uint64_t offset = section->offset + list->added, left = section->size - list->added;
        struct bytes piece = {0};

        done = bytes_slice(input->bytes, offset, left < PIECE_SIZE ? left : PIECE_SIZE, &piece) &&
               record_list_add(list, piece);
        input_drop_pages(input, piece);
    }
    return done;
}

bool elf_symbols_cut(struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    const struct section *section = image_plan_section(state->base.plan, SECTION_COVFUN);
    struct symbol_cut *cut = &state->symbol_cut;
    struct symbol_tables tables;
    size_t table = elf_symbol_table(image);
    const char *name;

    if (section == NULL || section->fate != FATE_REMOVED || section->encoded || section->loaded ||
        table == NO_INDEX || !has_tables_for_itself(image, table))
        return true;
    state->symbols = table;
    state->names = image->shdrs[table].sh_link;
    cut->section = state->base.section_index[SECTION_COVFUN];
    cut->address = image->shdrs[cut->section].sh_addr;
    tables = (struct symbol_tables){elf_section_bytes(image, table),
                                    elf_section_bytes(image, state->names)};
    if (((image->shdrs[table].sh_flags | image->shdrs[state->names].sh_flags) &
         (SHF_ALLOC | SHF_COMPRESSED)) != 0 ||
        image->shdrs[table].sh_entsize != image->sizes.sym ||
        tables.symbols.size % image->sizes.sym != 0 || tables.names.size == 0 ||
        elf_why_shared(image, table, &name) != NULL ||
        elf_why_shared(image, state->names, &name) != NULL)
        return true;
    return list_records(state, section) && symbol_cut_make(cut, elf_form(image), &tables);
}
