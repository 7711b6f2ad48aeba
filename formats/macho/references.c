/*
 * Finds what points to a range of a Mach-O image's memory (by the same rules as elf/references.c):
 * fixups of either form tell.
 */
#include "formats/macho/fixups.h"
#include "formats/macho/state.h"

struct pointer_search {
    const struct reference_target *target;
    uint64_t from;
};

static bool pointer_visitor(void *context, const struct macho_fixup *fixup)
{
    struct pointer_search *search = context;
    const struct reference_target *target = search->target;

    search->from = fixup->address;
    return !fixup->is_rebase || range_within(fixup->address, 1, target->first, target->size) ||
           !reference_counts(target, fixup->target);
}

bool macho_find_pointer(const struct planning *planning, const struct reference_target *target,
                        uint64_t *from, const char **reason)
{
    const struct macho_state *state = (const struct macho_state *)planning;
    struct pointer_search search = {target, 0};
    bool found = !macho_fixups_each(&state->image, pointer_visitor, &search, reason);

    *from = search.from;
    return found;
}

/* A macho_fixup_visitor: stops at the one of the word that the address is in. */
static bool is_elsewhere(void *context, const struct macho_fixup *fixup)
{
    const uint64_t *address = context;

    return *address - fixup->address >= sizeof(uint64_t);
}

bool macho_is_loaders(const struct planning *planning, uint64_t address)
{
    const struct macho_state *state = (const struct macho_state *)planning;
    const char *reason = NULL;

    return !macho_fixups_each(&state->image, is_elsewhere, &address, &reason) && reason == NULL;
}
