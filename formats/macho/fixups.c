/*
 * All fixups of an image, whatever their form: see macho/fixups.h.
 */
#include "formats/macho/fixups.h"

#include "formats/macho/chains.h"

bool macho_fixups_each(const struct macho_image *image, macho_fixup_visitor visit, void *context,
                       const char **reason)
{
    const struct macho_command *dysymtab = macho_find_command(image, LC_DYSYMTAB);

    *reason = NULL;
    /* Used by old images, and by kernels and their extensions. */
    if (dysymtab != NULL && (macho_field(image, dysymtab, DYSYMTAB_NEXTREL) != 0 ||
                             macho_field(image, dysymtab, DYSYMTAB_NLOCREL) != 0)) {
        *reason = "it has relocations of a kind that covsplit does not know";
        return false;
    }
    return macho_chains_each(image, visit, context, reason) &&
           macho_opcodes_each(image, visit, context, reason);
}

static bool is_elsewhere(void *context, const struct macho_fixup *fixup)
{
    return fixup->segment != *(const size_t *)context;
}

bool macho_segment_may_have_fixups(const struct macho_image *image, size_t segment)
{
    const struct macho_command *dysymtab = macho_find_command(image, LC_DYSYMTAB);
    struct chains_table table;
    const char *reason;

    if (dysymtab != NULL && (macho_field(image, dysymtab, DYSYMTAB_NEXTREL) != 0 ||
                             macho_field(image, dysymtab, DYSYMTAB_NLOCREL) != 0))
        return true;
    if (!chains_table_open(image, &table))
        return true;
    if (segment < table.seg_count) {
        const uint8_t *offsets = table.blob.data + table.starts + STARTS_SEG_INFO_OFFSET;

        if (load_u32(offsets + 4 * segment, false) != 0)
            return true;
    }
    return !macho_opcodes_each(image, is_elsewhere, &segment, &reason);
}
