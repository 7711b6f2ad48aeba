/*
 * Searching code for who refers to a range of memory (accessor_find_reference), in sections of any
 * size: piece by piece, giving the pages back.
 */
#ifndef COVSPLIT_FORMATS_MACHINE_SEARCH_H
#define COVSPLIT_FORMATS_MACHINE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/file.h"
#include "formats/machine/accessor.h"

/* A view of bytes of the image, and where they are loaded. */
struct code {
    struct bytes bytes;
    uint64_t address;
};

struct code_search {
    const struct input *input; /* that the code is a view of */
    uint16_t machine;          /* an ELF machine number */
    struct reference_target target;
};

/* Called with the address of each operand that leads to the target, some maybe twice. Stops the
 * search with false. */
typedef bool (*code_search_visitor)(void *context, uint64_t from);

/* False where the visitor stopped it. */
bool code_search(const struct code_search *search, const struct code *code,
                 code_search_visitor visit, void *context);

#endif
