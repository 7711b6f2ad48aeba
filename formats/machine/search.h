/*
 * Searching code for who refers to a range of memory, in sections of any size, and for bodies of
 * accessors that no symbol tells of: the same for every machine.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_SEARCH_H
#define COVSPLIT_FORMATS_MACHINE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/file.h"
#include "formats/machine/machine.h"

struct code_search {
    const struct input *input; /* that the code is a view of */
    const struct machine *machine;
    struct reference_target target;
};

/* Called with the address of each operand that leads to the target, some maybe twice. Stops the
 * search with false. */
typedef bool (*code_search_visitor)(void *context, uint64_t from);

/* False where the visitor stopped it. Pages of the input are given back on the way. */
bool code_search(const struct code_search *search, const struct code *code,
                 code_search_visitor visit, void *context);

/* Looks for a body that has the byte at `position` among those that make the address: *start is
 * where in `code` it starts. */
bool code_decode_around(const struct machine *machine, const struct code *code, uint64_t position,
                        uint64_t *start, struct accessor *accessor);

#endif
