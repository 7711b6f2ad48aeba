/*
 * Scans symbol tables, which are large in instrumented programs: in order, in time proportional to
 * their size, and releasing their pages on the way.
 *
 * Comparing every symbol's name would touch the string table at random. Instead, the few names that
 * matter are looked for in the string table itself, front to back; a symbol then has one of these
 * names exactly if its st_name is one of the offsets found. Linkers share strings with a common
 * end, so a name may be found more than once.
 */
#include "formats/elf/elf.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

/* Symbols are decoded, and pages released, in pieces of this many. */
#define SYMBOLS_IN_PIECE UINT64_C(65536)
#define STRING_PIECE     (UINT64_C(1) << 20)

bool elf_symbol_has_address(const struct elf_image *image, const struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    if (type == STT_FILE || type == STT_TLS || symbol->section == SHN_UNDEF)
        return false;
    return symbol->section >= image->shnum ||
           (image->shdrs[symbol->section].sh_flags & SHF_ALLOC) != 0;
}

/* ---- reading a table ---- */

/* The section indices of all symbols in the table, if there are more sections than st_shndx can
 * number (gABI: SHT_SYMTAB_SHNDX); empty if there is no such table. */
static struct bytes section_numbers(const struct elf_image *image, size_t section)
{
    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB_SHNDX && image->shdrs[i].sh_link == section)
            return elf_section_bytes(image, i);
    }
    return (struct bytes){0};
}

/* The section of symbol `index`. False if it should be in that table and is not. */
static bool find_section_of(const struct elf_image *image, const Elf64_Sym *symbol,
                            struct bytes numbers, uint64_t index, size_t *section)
{
    struct bytes number;

    *section = symbol->st_shndx < SHN_LORESERVE ? symbol->st_shndx : NO_INDEX;
    if (symbol->st_shndx != SHN_XINDEX)
        return true;
    if (!bytes_slice(numbers, index * sizeof(Elf32_Word), sizeof(Elf32_Word), &number))
        return false;
    *section = load_u32(number.data, image->machine->big_endian);
    return true;
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

bool elf_symbols_each(const struct elf_image *image, size_t section, elf_symbol_visitor visit,
                      void *context)
{
    const Elf64_Shdr *shdr = &image->shdrs[section];
    uint64_t sym = image->sizes.sym, piece = SYMBOLS_IN_PIECE * sym;
    struct bytes numbers = section_numbers(image, section);

    if (shdr->sh_entsize != sym || shdr->sh_offset % image->sizes.word != 0 ||
        shdr->sh_type == SHT_NOBITS)
        return false;
    for (uint64_t done = 0; done < shdr->sh_size; done += piece) {
        uint64_t left = shdr->sh_size - done;
        uint64_t size = left < piece ? left - left % sym : piece;
        uint64_t start = shdr->sh_offset + done;

        for (uint64_t i = done == 0 ? 1 : 0; i < size / sym; i++) {
            uint64_t offset = start + i * sym;
            Elf64_Sym entry = elf_load_symbol(image, image->elf.bytes.data + offset);
            struct elf_symbol symbol = {.table = section,
                                        .st_name = entry.st_name,
                                        .st_info = entry.st_info,
                                        .st_value = entry.st_value,
                                        .st_size = entry.st_size,
                                        .offset = offset};

            if (!find_section_of(image, &entry, numbers, done / sym + i, &symbol.section) ||
                !visit(context, &symbol))
                return false;
        }
        input_release_pages(image->input, start, size);
    }
    return true;
}

/* ---- the runtime's names in the string table ---- */

struct name_offset {
    uint64_t offset;
    enum runtime_symbol symbol;
};

struct name_offsets {
    struct name_offset *list; /* ascending, because the table is searched front to back */
    size_t count;
    size_t capacity;
};

static bool add_name_offset(struct name_offsets *names, uint64_t offset, enum runtime_symbol symbol)
{
    if (!ARRAY_ROOM_FOR_ONE(names->list, names->capacity, names->count))
        return false;
    names->list[names->count++] = (struct name_offset){offset, symbol};
    return true;
}

/* A search of a string table, front to back. */
struct string_search {
    const struct elf_image *image;
    struct bytes strings;
    uint64_t base; /* offset of the table in the file */
    const char *text;
    size_t size; /* of the text */
    uint64_t position;
    uint64_t released;
};

static struct string_search search_strings(const struct elf_image *image, size_t string_section,
                                           const char *text, size_t size)
{
    return (struct string_search){.image = image,
                                  .strings = elf_section_bytes(image, string_section),
                                  .base = image->shdrs[string_section].sh_offset,
                                  .text = text,
                                  .size = size};
}

/* The next occurrence of the text; false if there is none. */
static bool next_string(struct string_search *search, uint64_t *offset)
{
    while (search->position < search->strings.size) {
        uint64_t left = search->strings.size - search->position;
        /* Pieces overlap by the size of the text, so that none is missed between two pieces. */
        uint64_t piece = left < STRING_PIECE + search->size ? left : STRING_PIECE + search->size;
        const uint8_t *start = search->strings.data + search->position;
        const uint8_t *hit = memmem(start, (size_t)piece, search->text, search->size);

        *offset = hit == NULL ? 0 : (uint64_t)(hit - search->strings.data);
        if (hit != NULL)
            search->position = *offset + search->size;
        else
            search->position += piece == left ? left : STRING_PIECE;
        if (search->position - search->released >= STRING_PIECE) {
            input_release_pages(search->image->input, search->base + search->released,
                                search->position - search->released);
            search->released = search->position;
        }
        if (hit != NULL)
            return true;
    }
    return false;
}

static bool find_names(const struct elf_image *image, size_t string_section,
                       struct name_offsets *names)
{
    struct string_search search =
        search_strings(image, string_section, RUNTIME_PREFIX, strlen(RUNTIME_PREFIX));
    uint64_t offset;

    while (next_string(&search, &offset)) {
        struct bytes rest = {search.strings.data + offset, search.strings.size - offset};
        enum runtime_symbol symbol;

        if (runtime_symbol_classify(rest, &symbol) && !add_name_offset(names, offset, symbol))
            return false;
    }
    return true;
}

/* Finds the offsets of the name of the machine's base symbol; which number they get does not
 * matter. */
static bool find_base_names(const struct elf_image *image, size_t string_section,
                            struct name_offsets *names)
{
    const char *name = image->machine->base_symbol;
    struct string_search search;
    uint64_t offset;

    if (name == NULL)
        return true;
    search = search_strings(image, string_section, name, strlen(name) + 1);
    while (next_string(&search, &offset)) {
        if (!add_name_offset(names, offset, RUNTIME_OTHER_BOUND))
            return false;
    }
    return true;
}

static const struct name_offset *lookup_name(const struct name_offsets *names, uint64_t offset)
{
    size_t low = 0, high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names->list[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < names->count && names->list[low].offset == offset ? &names->list[low] : NULL;
}

/* ---- definitions ---- */

struct scan {
    const struct elf_image *image;
    struct runtime_symbols *found;
    struct name_offsets names;
    struct name_offsets base_names;
    uint64_t code_base;
    bool has_bases; /* base symbols at different addresses */
    bool too_many;
};

/* The address of a function's code: on some machines a bit of st_value tells the instruction
 * set. */
static uint64_t function_address(const struct elf_image *image, const struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return type == STT_FUNC || type == STT_GNU_IFUNC ? symbol->st_value & ~image->machine->state_bit
                                                     : symbol->st_value;
}

static bool collect_definition(void *context, const struct elf_symbol *symbol)
{
    struct scan *scan = context;
    const struct name_offset *name;
    uint64_t address = function_address(scan->image, symbol);

    if (!elf_symbol_has_address(scan->image, symbol))
        return true;
    name = lookup_name(&scan->names, symbol->st_name);
    if (name == NULL)
        return true;
    scan->too_many = !runtime_symbols_add(scan->found, name->symbol, address, symbol->st_size);
    if (!scan->too_many)
        scan->found->definitions[scan->found->count - 1].is_thumb = address != symbol->st_value;
    return !scan->too_many;
}

static bool collect_base(void *context, const struct elf_symbol *symbol)
{
    struct scan *scan = context;

    if (elf_symbol_has_address(scan->image, symbol) &&
        lookup_name(&scan->base_names, symbol->st_name) != NULL) {
        scan->has_bases |= scan->code_base != 0 && scan->code_base != symbol->st_value;
        scan->code_base = symbol->st_value;
    }
    return true;
}

/* An accessor is shared if a function of another name is at its address: --icf=all folds functions
 * that return the same address, and changing one would change the other. */
static bool mark_shared(void *context, const struct elf_symbol *symbol)
{
    struct scan *scan = context;
    const struct name_offset *name;

    if (!elf_symbol_has_address(scan->image, symbol) || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
        return true;
    for (size_t i = 0; i < scan->found->count; i++) {
        struct runtime_definition *definition = &scan->found->definitions[i];
        if (definition->address != function_address(scan->image, symbol))
            continue;
        name = lookup_name(&scan->names, symbol->st_name);
        if (name == NULL || name->symbol != definition->symbol)
            definition->is_shared = true;
    }
    return true;
}

/* Index of the symbol table; NO_INDEX: none. False if there are two, or one without strings. */
static bool find_table(const struct elf_image *image, size_t *table, struct error *error)
{
    *table = NO_INDEX;
    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        if (*table != NO_INDEX)
            return error_set(error, "%s: the image has two symbol tables; link it again",
                             image->path);
        *table = i;
    }
    if (*table != NO_INDEX && (image->shdrs[*table].sh_link >= image->shnum ||
                               image->shdrs[image->shdrs[*table].sh_link].sh_type != SHT_STRTAB))
        return error_set(error,
                         "%s: damaged ELF image: the symbol table has no strings; link it "
                         "again",
                         image->path);
    return true;
}

/* What is wrong with the table; NULL if nothing is. */
static const char *scan_table(struct scan *scan, size_t table)
{
    const struct elf_image *image = scan->image;
    bool done =
        scan->names.count == 0 || (elf_symbols_each(image, table, collect_definition, scan) &&
                                   elf_symbols_each(image, table, mark_shared, scan));

    if (done && scan->base_names.count != 0)
        done = elf_symbols_each(image, table, collect_base, scan);
    if (scan->too_many)
        return "the profile runtime is defined too many times";
    if (scan->has_bases)
        return "the symbol for the base register of its data has several values";
    return done ? NULL : "damaged ELF image: its symbol table cannot be read";
}

bool elf_symbols_find(const struct elf_image *image, struct runtime_symbols *symbols,
                      uint64_t *code_base, struct error *error)
{
    struct scan scan = {.image = image, .found = symbols};
    const char *wrong;
    size_t table, strings;
    bool done;

    symbols->count = 0;
    symbols->are_told = false;
    *code_base = 0;
    if (!find_table(image, &table, error))
        return false;
    if (table == NO_INDEX)
        return true;
    symbols->are_told = true;
    strings = image->shdrs[table].sh_link;
    if (!find_names(image, strings, &scan.names) ||
        !find_base_names(image, strings, &scan.base_names)) {
        done = error_out_of_memory(error, image->path,
                                   (scan.names.count + scan.base_names.count) *
                                       sizeof(struct name_offset));
    } else {
        wrong = scan_table(&scan, table);
        done = wrong == NULL || error_set(error, "%s: %s; link it again", image->path, wrong);
    }
    *code_base = scan.code_base;
    free(scan.names.list);
    free(scan.base_names.list);
    return done;
}

/* ---- all functions ---- */

struct visiting {
    const struct elf_image *image;
    runtime_symbol_visitor visit;
    void *context;
};

/* Functions written in assembly may have no type. */
static bool visit_function(void *context, const struct elf_symbol *symbol)
{
    const struct visiting *visiting = context;
    const struct elf_image *image = visiting->image;
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    struct image_symbol found = {.address = function_address(image, symbol), .is_function = true};

    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        symbol->section == SHN_UNDEF || symbol->section >= image->shnum ||
        (image->shdrs[symbol->section].sh_flags & SHF_EXECINSTR) == 0)
        return true;
    found.name = elf_symbol_name(image, symbol);
    return elf_symbol_is_mark(image, symbol) || visiting->visit(visiting->context, &found);
}

bool elf_symbols_visit(const struct elf_image *image, runtime_symbol_visitor visit, void *context)
{
    for (size_t i = 1; i < image->shnum; i++) {
        struct visiting visiting = {image, visit, context};

        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        if (!elf_symbols_each(image, i, visit_function, &visiting))
            return false;
    }
    return true;
}

/* ---- kinds of code ---- */

/* Where something starts or ends, in the order in which this matters at one address. */
enum place_type { PLACE_SECTION, PLACE_FUNCTION_END, PLACE_FUNCTION, PLACE_MARK };

struct place {
    uint64_t address;
    enum place_type type;
    enum code_kind kind;
};

struct places {
    const struct elf_image *image;
    struct place *list;
    size_t count;
    size_t capacity;
    bool lacks_memory;
};

static bool add_place(struct places *places, uint64_t address, enum place_type type,
                      enum code_kind kind)
{
    places->lacks_memory = !ARRAY_ROOM_FOR_ONE(places->list, places->capacity, places->count);
    if (places->lacks_memory)
        return false;
    places->list[places->count++] = (struct place){address, type, kind};
    return true;
}

static int compare_places(const void *first, const void *second)
{
    const struct place *a = first, *b = second;

    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->type != b->type ? (a->type < b->type ? -1 : 1) : (int)a->kind - (int)b->kind;
}

/* An elf_symbol_visitor: collects mapping symbols ($a, $t and $d; a dot and anything may follow),
 * and functions of a known size. */
static bool collect_place(void *context, const struct elf_symbol *symbol)
{
    struct places *places = context;
    const struct elf_image *image = places->image;
    uint64_t address = function_address(image, symbol);
    struct bytes name;

    if (symbol->section == SHN_UNDEF || symbol->section >= image->shnum ||
        (image->shdrs[symbol->section].sh_flags & SHF_EXECINSTR) == 0)
        return true;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size != 0)
        return add_place(places, address, PLACE_FUNCTION,
                         address == symbol->st_value ? CODE_A32 : CODE_T32) &&
               add_place(places, address + symbol->st_size, PLACE_FUNCTION_END, CODE_UNKNOWN);
    if (!elf_symbol_is_mark(image, symbol))
        return true;
    name = elf_symbol_name(image, symbol);
    if (name.size < 3 || name.data[0] != '$' || (name.data[2] != 0 && name.data[2] != '.'))
        return true;
    switch (name.data[1]) {
    case 'a':
        return add_place(places, address, PLACE_MARK, CODE_A32);
    case 't':
        return add_place(places, address, PLACE_MARK, CODE_T32);
    case 'd':
        return add_place(places, address, PLACE_MARK, CODE_DATA);
    default:
        return true;
    }
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

bool elf_symbols_mark(const struct elf_image *image, struct code_mark **marks, size_t *count)
{
    struct places places = {.image = image};
    bool done = image->machine->state_bit != 0;

    for (size_t i = 1; i < image->shnum && done; i++) {
        if ((image->shdrs[i].sh_flags & SHF_EXECINSTR) != 0)
            done = add_place(&places, image->shdrs[i].sh_addr, PLACE_SECTION, CODE_UNKNOWN);
    }
    for (size_t i = 1; i < image->shnum && done; i++) {
        if (image->shdrs[i].sh_type == SHT_SYMTAB)
            done = elf_symbols_each(image, i, collect_place, &places);
    }
    if (done && places.count != 0) {
        *marks = malloc(places.count * sizeof(**marks));
        places.lacks_memory = *marks == NULL;
    }
    if (*marks != NULL) {
        qsort(places.list, places.count, sizeof(*places.list), compare_places);
        *count = make_marks(places.list, places.count, *marks);
    }
    free(places.list);
    return !places.lacks_memory;
}
