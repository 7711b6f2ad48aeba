/*
 * Who points to a range of a Mach-O image's memory (see elf/references.c, which does the same by
 * the same rules): fixups tell, of either kind.
 */
#include "formats/macho/fixups.h"
#include "formats/macho/plan.h"

struct pointer_search {
    uint64_t address;
    uint64_t size;
    uint64_t from;
};

static bool pointer_visitor(void *context, const struct macho_fixup *fixup)
{
    struct pointer_search *search = context;

    search->from = fixup->address;
    return !fixup->is_rebase || range_within(fixup->address, 1, search->address, search->size) ||
           !range_within(fixup->target, 1, search->address, search->size);
}

bool macho_find_pointer(const struct macho_plan_state *state, uint64_t address, uint64_t size,
                        uint64_t *from, const char **reason)
{
    struct pointer_search search = {address, size, 0};
    bool found = !macho_fixups_each(&state->image, pointer_visitor, &search, reason);

    *from = search.from;
    return found;
}
