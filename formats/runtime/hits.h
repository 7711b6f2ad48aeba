/*
 * References in code, told from numbers that only seem to be some.
 *
 * On x86-64 an instruction may start at any byte, and so a search of the code finds many places
 * that are parts of other instructions. But a function starts with an instruction, and so does a
 * section. Decoding from there to such a place tells what it is.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_HITS_H
#define COVSPLIT_FORMATS_RUNTIME_HITS_H

#include "formats/machine/machine.h"
#include "formats/runtime/symbols.h"

/* How to get the symbols of the image. */
struct hit_symbols {
    runtime_symbols_each each;
    const struct planning *planning;
};

/* Like code_search, in one section of the image, but leaves out what is no reference. What is
 * behind an instruction that is not known counts as one unless target.relative is set: there may be
 * data in the function, such as tables of pointers. So does what machine->is_usual_reference knows:
 * data may look like code. */
bool hits_search(const struct hit_symbols *symbols, const struct code_search *search,
                 const struct code *code, code_search_visitor visit, void *context);

#endif
