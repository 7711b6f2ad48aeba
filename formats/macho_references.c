/*
 * Who refers to a range of a Mach-O image's memory: the proof that bytes can go without anybody
 * missing them (see elf_references.c, which does the same by the same rules).
 */
#include "formats/accessor.h"
#include "formats/macho_fixups.h"
#include "formats/macho_plan.h"

/* Code is searched in pieces, and its pages given back. */
#define CODE_PIECE (UINT64_C(1) << 20)
/* Further than any instruction form that the search recognizes reaches. */
#define CODE_OVERLAP 4096

bool macho_runtime_decode(const struct macho_plan_state *state,
                          const struct runtime_definition *definition, struct bytes *code,
                          struct accessor *accessor)
{
    for (size_t i = 0; i < state->image.segment_count; i++) {
        const struct macho_segment *segment = &state->image.segments[i];
        uint64_t inside = definition->address - segment->vmaddr;

        if ((segment->initprot & VM_PROT_EXECUTE) == 0 || inside >= segment->filesize)
            continue;
        return bytes_slice(state->image.file, segment->fileoff + inside, segment->filesize - inside,
                           code) &&
               accessor_decode(state->image.machine, *code, definition->address, accessor);
    }
    return false;
}

static bool inside_bound_accessor(const struct macho_plan_state *state, uint64_t address)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct accessor accessor;
        struct bytes code;

        if (definition->symbol != RUNTIME_RAW_VERSION && address >= definition->address &&
            address - definition->address < 64 &&
            macho_runtime_decode(state, definition, &code, &accessor) &&
            address - definition->address < accessor.size)
            return true;
    }
    return false;
}

static bool find_reference_in(const struct macho_plan_state *state,
                              const struct macho_section *section, uint64_t address, uint64_t size,
                              uint64_t *from)
{
    struct bytes code = macho_section_bytes(&state->image, section);

    for (uint64_t start = 0; start < code.size; start += CODE_PIECE) {
        uint64_t left = code.size - start, position = 0;
        uint64_t piece_size = left < CODE_PIECE + CODE_OVERLAP ? left : CODE_PIECE + CODE_OVERLAP;
        struct bytes piece = {code.data + start, piece_size};

        /* What starts in the overlap is found whole in the next piece. */
        while (accessor_find_reference(state->image.machine, piece, section->addr + start, address,
                                       size, false, &position) &&
               (position < CODE_PIECE || piece_size == left)) {
            *from = section->addr + start + position;
            if (!inside_bound_accessor(state, *from))
                return true;
            position++;
        }
        input_release_pages(state->image.input, section->offset + start, piece_size);
    }
    return false;
}

bool macho_find_code_reference(const struct macho_plan_state *state, uint64_t address,
                               uint64_t size, uint64_t *from)
{
    for (size_t i = 0; i < state->image.section_count; i++) {
        const struct macho_section *section = &state->image.sections[i];

        if ((section->flags & (S_ATTR_PURE_INSTRUCTIONS | S_ATTR_SOME_INSTRUCTIONS)) != 0 &&
            find_reference_in(state, section, address, size, from))
            return true;
    }
    return false;
}

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
