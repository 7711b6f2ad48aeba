/*
 * Scans the symbol table: see macho/state.h.
 */
#include "formats/macho/state.h"

#include <string.h>

/* On Darwin, the names of C symbols start with this. */
#define NAME_PREFIX "_"

struct symbol_table {
    struct bytes symbols; /* a whole number of nlist_64 */
    struct bytes strings;
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

/* False if the symbol has no name, or is not an address in a section of the image. */
static bool read_symbol(const struct macho_image *image, const struct symbol_table *table,
                        uint64_t offset, struct image_symbol *symbol)
{
    const size_t prefix = strlen(NAME_PREFIX);
    const uint8_t *nlist = table->symbols.data + offset;
    uint8_t type = nlist[NLIST_TYPE];
    uint64_t start = load_u32(nlist + NLIST_STRX, false);
    size_t section = (size_t)nlist[NLIST_SECT] - 1; /* counted from 1 */

    if ((type & N_STAB) != 0 || (type & N_TYPE) != N_SECT || start >= table->strings.size)
        return false;
    if (table->strings.data[start] == NAME_PREFIX[0])
        start += prefix;
    bytes_slice(table->strings, start, table->strings.size - start, &symbol->name);
    symbol->address = load_u64(nlist + NLIST_VALUE, false);
    symbol->is_function =
        section >= image->section_count || macho_section_is_code(&image->sections[section]);
    return true;
}

bool macho_symbols_visit(const struct macho_image *image, runtime_symbol_visitor visit,
                         void *context)
{
    struct symbol_table table;
    struct image_symbol symbol;
    struct error ignored; /* the table was checked before */

    if (!open_table(image, &table, &ignored))
        return false;
    for (uint64_t offset = 0; offset < table.symbols.size; offset += NLIST_SIZE) {
        if (read_symbol(image, &table, offset, &symbol) && !visit(context, &symbol))
            return false;
    }
    return true;
}

bool macho_symbols_check(const struct macho_image *image, bool *has_symbols, struct error *error)
{
    struct symbol_table table;
    bool is_sound = open_table(image, &table, error);

    *has_symbols = is_sound && table.symbols.size != 0;
    return is_sound;
}
