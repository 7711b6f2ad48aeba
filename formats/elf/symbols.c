/*
 * Scanning symbol tables, which are large in instrumented programs: in order, in proportion to
 * their size, and with their pages given back as the scan goes.
 *
 * To compare every symbol's name would touch the string table at random. Instead the few names that
 * matter are looked for in the string table itself, front to back; after that a symbol is one of
 * them exactly if its st_name is one of the offsets that were found. Linkers share strings that end
 * alike, so one name may be found more than once.
 */
#include "formats/elf/state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"

/* Symbols are decoded, and pages given back, in pieces of so many bytes (a multiple of a symbol's
 * size). */
#define SYMBOL_PIECE (UINT64_C(65536) * sizeof(Elf64_Sym))
#define STRING_PIECE (UINT64_C(1) << 20)

bool elf_symbol_has_address(const struct elf_image *image, const GElf_Sym *symbol)
{
    unsigned type = GELF_ST_TYPE(symbol->st_info);

    if (type == STT_FILE || type == STT_TLS || symbol->st_shndx == SHN_UNDEF)
        return false;
    return symbol->st_shndx >= image->shnum ||
           (image->shdrs[symbol->st_shndx].sh_flags & SHF_ALLOC) != 0;
}

bool elf_symbols_each(const struct elf_image *image, size_t section, elf_symbol_visitor visit,
                      void *context)
{
    const GElf_Shdr *shdr = &image->shdrs[section];
    uint64_t done;

    if (shdr->sh_entsize != sizeof(Elf64_Sym) || shdr->sh_offset % 8 != 0 ||
        shdr->sh_type == SHT_NOBITS)
        return false;
    for (done = 0; done < shdr->sh_size; done += SYMBOL_PIECE) {
        uint64_t left = shdr->sh_size - done;
        uint64_t size = left < SYMBOL_PIECE ? left - left % sizeof(Elf64_Sym) : SYMBOL_PIECE;
        uint64_t start = shdr->sh_offset + done;

        for (uint64_t i = done == 0 ? 1 : 0; i < size / sizeof(Elf64_Sym); i++) {
            uint64_t offset = start + i * sizeof(Elf64_Sym);
            GElf_Sym symbol = elf_load_symbol(image->file.data + offset);

            if (!visit(context, &symbol, offset))
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
    struct name_offset *list; /* ascending, since the table is searched front to back */
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

static bool find_names(const struct elf_image *image, size_t string_section,
                       struct name_offsets *names)
{
    struct bytes strings = elf_section_bytes(image, string_section);
    uint64_t base = image->shdrs[string_section].sh_offset;
    uint64_t position = 0, released = 0;
    const size_t prefix = strlen(RUNTIME_PREFIX);

    while (position < strings.size) {
        uint64_t left = strings.size - position;
        /* Pieces overlap by the prefix, so that none is missed between two. */
        uint64_t piece = left < STRING_PIECE + prefix ? left : STRING_PIECE + prefix;
        const uint8_t *start = strings.data + position;
        const uint8_t *hit = memmem(start, (size_t)piece, RUNTIME_PREFIX, prefix);

        if (hit == NULL) {
            position += piece == left ? left : STRING_PIECE;
        } else {
            uint64_t offset = (uint64_t)(hit - strings.data);
            enum runtime_symbol symbol;
            struct bytes rest = {hit, strings.size - offset};
            if (runtime_symbol_classify(rest, &symbol) && !add_name_offset(names, offset, symbol))
                return false;
            position = offset + prefix;
        }
        if (position - released >= STRING_PIECE) {
            input_release_pages(image->input, base + released, position - released);
            released = position;
        }
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
    bool too_many;
};

static bool collect_definition(void *context, const GElf_Sym *symbol, uint64_t offset)
{
    struct scan *scan = context;
    const struct name_offset *name;

    (void)offset;
    if (!elf_symbol_has_address(scan->image, symbol))
        return true;
    name = lookup_name(&scan->names, symbol->st_name);
    scan->too_many = name != NULL && !runtime_symbols_add(scan->found, name->symbol,
                                                          symbol->st_value, symbol->st_size);
    return !scan->too_many;
}

/* An accessor is shared where a function of another name is at its address: --icf=all folds those
 * that return the same address, and changing one would change the other. */
static bool mark_shared(void *context, const GElf_Sym *symbol, uint64_t offset)
{
    struct scan *scan = context;
    const struct name_offset *name;

    (void)offset;
    if (!elf_symbol_has_address(scan->image, symbol) || GELF_ST_TYPE(symbol->st_info) != STT_FUNC)
        return true;
    for (size_t i = 0; i < scan->found->count; i++) {
        struct runtime_definition *definition = &scan->found->definitions[i];
        if (definition->address != symbol->st_value)
            continue;
        name = lookup_name(&scan->names, symbol->st_name);
        if (name == NULL || name->symbol != definition->symbol)
            definition->is_shared = true;
    }
    return true;
}

bool elf_symbols_find(const struct elf_image *image, struct runtime_symbols *symbols,
                      struct error *error)
{
    struct scan scan = {.image = image, .found = symbols};
    size_t table = NO_INDEX;
    bool done = false;

    symbols->count = 0;
    symbols->are_told = false;
    for (size_t i = 1; i < image->shnum; i++) {
        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        if (table != NO_INDEX)
            return error_set(error, "%s: the image has two symbol tables; link it again",
                             image->path);
        table = i;
    }
    if (table == NO_INDEX)
        return true;
    if (image->shdrs[table].sh_link >= image->shnum ||
        image->shdrs[image->shdrs[table].sh_link].sh_type != SHT_STRTAB)
        return error_set(error,
                         "%s: damaged ELF image: the symbol table has no strings; link it "
                         "again",
                         image->path);
    symbols->are_told = true;
    if (!find_names(image, image->shdrs[table].sh_link, &scan.names)) {
        error_out_of_memory(error, image->path, scan.names.count * sizeof(struct name_offset));
    } else if (scan.names.count == 0) {
        done = true;
    } else {
        done = elf_symbols_each(image, table, collect_definition, &scan) &&
               elf_symbols_each(image, table, mark_shared, &scan);
        if (!done)
            error_set(error, "%s: %s; link it again", image->path,
                      scan.too_many ? "the profile runtime is defined too many times"
                                    : "damaged ELF image: its symbol table cannot be read");
    }
    free(scan.names.list);
    return done;
}

/* ---- all functions ---- */

struct visiting {
    const struct elf_image *image;
    runtime_symbol_visitor visit;
    void *context;
    struct bytes names;
};

/* Functions written in assembler may have no type. */
static bool visit_function(void *context, const GElf_Sym *symbol, uint64_t offset)
{
    const struct visiting *visiting = context;
    const struct elf_image *image = visiting->image;
    unsigned type = GELF_ST_TYPE(symbol->st_info);
    struct image_symbol found = {.address = symbol->st_value, .is_function = true};

    (void)offset;
    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= image->shnum ||
        (image->shdrs[symbol->st_shndx].sh_flags & SHF_EXECINSTR) == 0)
        return true;
    if (symbol->st_name < visiting->names.size)
        bytes_slice(visiting->names, symbol->st_name, visiting->names.size - symbol->st_name,
                    &found.name);
    return visiting->visit(visiting->context, &found);
}

bool elf_symbols_visit(const struct elf_image *image, runtime_symbol_visitor visit, void *context)
{
    for (size_t i = 1; i < image->shnum; i++) {
        struct visiting visiting = {image, visit, context, {0}};

        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        if (image->shdrs[i].sh_link < image->shnum)
            visiting.names = elf_section_bytes(image, image->shdrs[i].sh_link);
        if (!elf_symbols_each(image, i, visit_function, &visiting))
            return false;
    }
    return true;
}
