/*
 * Scanning the symbol table: see macho/symbols.h.
 */
#include "formats/macho/symbols.h"

#include <string.h>

/* C's names have this in front on Darwin. */
#define NAME_PREFIX "_"

struct symbol_table {
    struct bytes symbols; /* whole nlist_64 */
    struct bytes strings;
};

struct symbol {
    struct bytes name; /* from its first byte to the end of the strings */
    uint64_t address;
    size_t section; /* index; behind the last one in a damaged image */
};

static bool open_table(const struct macho_image *image, struct symbol_table *table,
                       struct error *error)
{
    const struct macho_command *command = macho_find_command(image, LC_SYMTAB);

    *table = (struct symbol_table){.symbols = {0}};
    if (command == NULL)
        return true;
    if (!bytes_slice(image->file, macho_field(image, command, SYMTAB_SYMOFF),
                     (uint64_t)macho_field(image, command, SYMTAB_NSYMS) * NLIST_SIZE,
                     &table->symbols) ||
        !bytes_slice(image->file, macho_field(image, command, SYMTAB_STROFF),
                     macho_field(image, command, SYMTAB_STRSIZE), &table->strings))
        return error_set(error,
                         "%s: damaged Mach-O image: its symbol table is cut short; link it "
                         "again",
                         image->path);
    return true;
}

/* False for a symbol that is no address in a section of the image, or has no name. */
static bool read_symbol(const struct symbol_table *table, uint64_t offset, struct symbol *symbol)
{
    const uint8_t *nlist = table->symbols.data + offset;
    uint8_t type = nlist[NLIST_TYPE];
    uint64_t start = load_u32(nlist + NLIST_STRX, false);

    if ((type & N_STAB) != 0 || (type & N_TYPE) != N_SECT || start >= table->strings.size)
        return false;
    bytes_slice(table->strings, start, table->strings.size - start, &symbol->name);
    symbol->address = load_u64(nlist + NLIST_VALUE, false);
    symbol->section = (size_t)nlist[NLIST_SECT] - 1; /* counted from 1 */
    return true;
}

static bool classify(const struct symbol *symbol, enum runtime_symbol *which)
{
    const size_t prefix = strlen(NAME_PREFIX);
    struct bytes rest;

    return symbol->name.size > prefix && memcmp(symbol->name.data, NAME_PREFIX, prefix) == 0 &&
           bytes_slice(symbol->name, prefix, symbol->name.size - prefix, &rest) &&
           runtime_symbol_classify(rest, which);
}

/* An accessor is shared where a symbol of another name is at its address: linkers fold functions
 * that return the same address, and changing one would change the other. */
static void mark_shared(const struct symbol_table *table, struct macho_runtime *runtime)
{
    struct symbol symbol;

    for (uint64_t offset = 0; offset < table->symbols.size; offset += NLIST_SIZE) {
        enum runtime_symbol which;

        if (!read_symbol(table, offset, &symbol))
            continue;
        for (size_t i = 0; i < runtime->count; i++) {
            struct runtime_definition *definition = &runtime->definitions[i];
            if (definition->address == symbol.address &&
                (!classify(&symbol, &which) || which != definition->symbol))
                definition->is_shared = true;
        }
    }
}

bool macho_runtime_find(const struct macho_image *image, struct macho_runtime *runtime,
                        struct error *error)
{
    struct symbol_table table;
    struct symbol symbol;

    runtime->count = 0;
    if (!open_table(image, &table, error))
        return false;
    runtime->has_symbol_table = table.symbols.size != 0;
    for (uint64_t offset = 0; offset < table.symbols.size; offset += NLIST_SIZE) {
        enum runtime_symbol which;

        if (!read_symbol(&table, offset, &symbol) || !classify(&symbol, &which))
            continue;
        if (runtime->count == RUNTIME_DEFINITIONS_MAX)
            return error_set(error,
                             "%s: the profile runtime is defined too many times; link it again",
                             image->path);
        runtime->definitions[runtime->count++] =
            (struct runtime_definition){which, symbol.address, 0, false};
    }
    if (runtime->count != 0)
        mark_shared(&table, runtime);
    return true;
}

void macho_tell_functions(const struct macho_image *image, struct runtime_callers *callers)
{
    const size_t prefix = strlen(NAME_PREFIX);
    struct symbol_table table;
    struct symbol symbol;
    struct error ignored; /* the table was opened before */

    if (!open_table(image, &table, &ignored))
        return;
    for (uint64_t offset = 0; offset < table.symbols.size; offset += NLIST_SIZE) {
        if (!read_symbol(&table, offset, &symbol) || symbol.section >= image->section_count ||
            !macho_section_is_code(&image->sections[symbol.section]))
            continue;
        if (symbol.name.data[0] == NAME_PREFIX[0])
            bytes_slice(symbol.name, prefix, symbol.name.size - prefix, &symbol.name);
        runtime_callers_tell(callers, symbol.address, symbol.name);
    }
}
