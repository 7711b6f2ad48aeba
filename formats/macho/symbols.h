/*
 * What the symbol table of a Mach-O image says of the profile runtime.
 */
#ifndef COVSPLIT_FORMATS_MACHO_SYMBOLS_H
#define COVSPLIT_FORMATS_MACHO_SYMBOLS_H

#include "formats/macho/read.h"
#include "formats/runtime/callers.h"

struct macho_runtime {
    bool has_symbol_table; /* one with local symbols, where the runtime's are */
    struct runtime_definition definitions[RUNTIME_DEFINITIONS_MAX]; /* sizes are not known */
    size_t count;
};

/* Finds all definitions of the runtime's symbols. False for a damaged symbol table. */
bool macho_runtime_find(const struct macho_image *image, struct macho_runtime *runtime,
                        struct error *error);

/* Tells all functions: see runtime/callers.h. */
void macho_tell_functions(const struct macho_image *image, struct runtime_callers *callers);

#endif
