/*
 * Base relocations: every absolute address in the image, and taking out those in removed bytes.
 *
 * The table is a list of blocks, one for a page: the page's RVA, the block's size, and 16 bits for
 * each relocation, a type and an offset in the page.
 */
#ifndef COVSPLIT_FORMATS_COFF_RELOCATIONS_H
#define COVSPLIT_FORMATS_COFF_RELOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/edit/script.h"
#include "formats/coff/read.h"

struct coff_relocation {
    uint64_t address; /* it applies to the word there, */
    uint64_t target;  /* which holds this address */
};

/* Calls `visit` for every base relocation, in the order of the table. Stops at false and returns
 * it. Where the image has no complete table, or one that cannot be read, returns false with *reason
 * set (to a phrase; NULL means that `visit` stopped). */
typedef bool (*coff_relocation_visitor)(void *context, const struct coff_relocation *relocation);
bool coff_relocations_each(const struct coff_image *image, coff_relocation_visitor visit,
                           void *context, const char **reason);

struct coff_range {
    uint64_t address;
    uint64_t size;
};

/* Adds the edits that take out the relocations that apply to the ranges: the blocks are written
 * anew at the table's place, what becomes free at its end is zero, and *size is the new size of the
 * table. False as above; a *reason that is NULL means that there is no memory. */
bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason);

#endif
