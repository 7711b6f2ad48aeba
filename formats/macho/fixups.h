/*
 * Fixups: the pointers in a Mach-O image that dyld sets when it loads the image.
 *
 * An image has them in one of two forms: chained fixups (macho/chains.c), where the pointers in
 * each page form a linked list, or opcodes for a small virtual machine (macho/opcodes.c). A rebase
 * points into the image, a bind to a symbol of another image.
 */
#ifndef COVSPLIT_FORMATS_MACHO_FIXUPS_H
#define COVSPLIT_FORMATS_MACHO_FIXUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/macho/read.h"

struct macho_fixup {
    size_t segment;
    uint64_t address; /* of the pointer */
    uint64_t target;  /* the address in the image to which it points; only if is_rebase */
    bool is_rebase;
    /* With opcodes: offset in their table of the opcode that set segment and offset. */
    uint64_t place_opcode;
};

/* Calls `visit` for every fixup of the image; if it returns false, stops and returns false with
 * *reason NULL. If the fixups cannot be read, or are of an unknown kind, returns false with *reason
 * set to a phrase. The image's layout must have been checked. */
typedef bool (*macho_fixup_visitor)(void *context, const struct macho_fixup *fixup);
bool macho_fixups_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);

/* The same for each of the two forms; true if the image has no fixups in that form. */
bool macho_chains_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason);
bool macho_opcodes_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                        const char **reason);

/* Whether a segment has fixups at all, which is often known even if macho_fixups_each fails. True
 * if it is not known. */
bool macho_segment_may_have_fixups(const struct macho_image *image, size_t segment);

#endif
