/*
 * Fixups: the pointers in a Mach-O image that dyld sets when it loads the image.
 *
 * An image has them in one of two forms: chained fixups (macho/chains.c), where the pointers
 * themselves are a linked list in each page, or opcodes for a small machine (macho/opcodes.c). A
 * rebase points into the image, a bind to a symbol of another one.
 */
#ifndef COVSPLIT_FORMATS_MACHO_FIXUPS_H
#define COVSPLIT_FORMATS_MACHO_FIXUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/macho/read.h"

struct macho_fixup {
    size_t segment;
    uint64_t address; /* of the pointer */
    uint64_t target;  /* the address in the image that it points to; only if is_rebase */
    bool is_rebase;
    /* Of a fixup by opcodes: where in its table the opcode is that set segment and offset. */
    uint64_t place_opcode;
};

/* Calls `visit` for every fixup of the image. Stops at false and returns it. Where the fixups
 * cannot be read, or are of a kind that is not known, returns false with *reason set (to a phrase;
 * NULL means that `visit` stopped). The image's layout must have been checked. */
typedef bool (*macho_fixup_visitor)(void *context, const struct macho_fixup *fixup);
bool macho_fixups_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);

/* The same for each of the forms; true where the image has none of it. */
bool macho_chains_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);
bool macho_opcodes_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                        const char **reason);

/* Whether a segment has fixups at all, which can often be told where macho_fixups_each fails. True
 * where it cannot be told. */
bool macho_segment_may_have_fixups(const struct macho_image *image, size_t segment);

#endif
