/*
 * The symbol table of a Mach-O image.
 */
#ifndef COVSPLIT_FORMATS_MACHO_SYMBOLS_H
#define COVSPLIT_FORMATS_MACHO_SYMBOLS_H

#include "formats/macho/read.h"
#include "formats/runtime/symbols.h"

/* False for a damaged symbol table. *has_symbols: there is one with local symbols, where those of
 * the profile runtime are. */
bool macho_symbols_check(const struct macho_image *image, bool *has_symbols, struct error *error);

/* Calls `visit` for every symbol that is an address, as runtime/symbols.h has it. */
bool macho_symbols_visit(const struct macho_image *image, runtime_symbol_visitor visit,
                         void *context);

#endif
