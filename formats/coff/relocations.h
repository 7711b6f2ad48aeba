/*
 * Base relocations, which list every absolute address in the image, and the removal of those that
 * apply to removed bytes.
 *
 * The table is a list of blocks, one for each page. A block has the page's RVA, its own size, and
 * 16 bits for each relocation: a type and an offset in the page.
 */
#ifndef COVSPLIT_FORMATS_COFF_RELOCATIONS_H
#define COVSPLIT_FORMATS_COFF_RELOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/edit/script.h"
#include "formats/coff/read.h"

struct coff_relocation {
    uint64_t address; /* of the word to which it applies, */
    uint64_t target;  /* which holds this address */
};

/* Calls `visit` for every base relocation, in the order of the table; if it returns false, stops
 * and returns false with *reason NULL. If the image has no complete table, or the table cannot be
 * read, returns false with *reason set to a phrase. */
typedef bool (*coff_relocation_visitor)(void *context, const struct coff_relocation *relocation);
bool coff_relocations_each(const struct coff_image *image, coff_relocation_visitor visit,
                           void *context, const char **reason);

struct coff_range {
    uint64_t address;
    uint64_t size;
};

/* Adds the edits that take out the relocations that apply to the ranges. The remaining blocks are
 * written at the start of the table, the rest of it is zeroed, and *size is the new size of the
 * table in bytes. False as above; *reason is NULL if memory ran out. */
bool coff_relocations_remove(const struct coff_image *image, const struct coff_range *ranges,
                             size_t count, struct edit_script *edits, uint32_t *size,
                             const char **reason);

#endif
