/*
 * What the symbol table says of the profile runtime, and who else has symbols where.
 *
 * Symbol tables of instrumented programs are large: they are read in order, in proportion to their
 * size, and their pages are given back as the scan goes, so that they do not add to the resident
 * size.
 */
#ifndef COVSPLIT_FORMATS_ELF_SYMBOLS_H
#define COVSPLIT_FORMATS_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/elf/read.h"
#include "formats/runtime/symbols.h"

struct elf_runtime {
    bool has_symbol_table;
    struct runtime_definition definitions[RUNTIME_DEFINITIONS_MAX];
    size_t count;
};

/* Finds all definitions of the runtime's symbols. False for a damaged symbol table. */
bool elf_runtime_find(const struct elf_image *image, struct elf_runtime *runtime,
                      struct error *error);

/* True where st_value is an address in the loaded image. In sections that are not loaded (where
 * every
 * __covrec_ symbol is) it is an offset from 0, and for TLS an offset too. */
bool elf_symbol_has_address(const struct elf_image *image, const GElf_Sym *symbol);

/* Calls `visit` for every symbol but the first of the section (SHT_SYMTAB or SHT_DYNSYM);
 * `offset` is the symbol's place in the file. Stops at false and returns it. A table that cannot be
 * read as one gives false too, without a call. */
typedef bool (*elf_symbol_visitor)(void *context, const GElf_Sym *symbol, uint64_t offset);
bool elf_symbols_each(const struct elf_image *image, size_t section, elf_symbol_visitor visit,
                      void *context);

#endif
