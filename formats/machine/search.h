/*
 * Searches code, in sections of any size, for references to a range of memory, and for bodies of
 * accessors that have no symbol: the same for every machine.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_SEARCH_H
#define COVSPLIT_FORMATS_MACHINE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/file.h"
#include "formats/machine/machine.h"

struct code_search {
    const struct input *input; /* of which the code is a view */
    const struct machine *machine;
    struct reference_target target;
};

/* Called with the address of each operand that refers to the target; some may be reported twice.
 * Returning false stops the search. */
typedef bool (*code_search_visitor)(void *context, uint64_t from);

/* False if the visitor stopped the search. Releases pages of the input that were searched. */
bool code_search(const struct code_search *search, const struct code *code,
                 code_search_visitor visit, void *context);

/* Looks for an accessor's body in which the byte at `position` is among those that form the
 * address: *start is the offset in `code` where it starts. */
bool code_decode_around(const struct machine *machine, const struct code *code, uint64_t position,
                        uint64_t *start, struct accessor *accessor);

#endif
