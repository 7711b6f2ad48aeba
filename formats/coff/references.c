/*
 * Tells where code and data of a COFF image are, and finds what points to a range of its memory:
 * base relocations list every absolute address, also those in code.
 */
#include "formats/coff/state.h"

#include <string.h>

bool coff_next_code(const struct planning *planning, size_t *index, struct code *code)
{
    const struct coff_image *image = &((const struct coff_state *)planning)->image;

    while (*index < image->section_count) {
        size_t i = (*index)++;

        if (!coff_section_is_code(&image->sections[i]))
            continue;
        *code = (struct code){.bytes = coff_section_bytes(image, i),
                              .address = image->sections[i].address};
        return true;
    }
    return false;
}

bool coff_next_data(const struct planning *planning, size_t *index, struct image_data *data)
{
    const struct coff_image *image = &((const struct coff_state *)planning)->image;

    for (; *index < image->section_count; ++*index) {
        const struct coff_section *section = &image->sections[*index];
        bool is_table =
            strcmp(section->name, ".pdata") == 0 || strcmp(section->name, ".xdata") == 0 ||
            strcmp(section->name, ".rsrc") == 0 ||
            section->VirtualAddress == image->directories[DIRECTORY_BASE_RELOCATION].rva ||
            (section->Characteristics & IMAGE_SCN_MEM_DISCARDABLE) != 0;

        for (size_t i = 1; i <= SECTION_KIND_MAX; i++)
            is_table |= planning->section_index[i] == *index;
        if (is_table || coff_section_is_code(section))
            continue;
        *data = (struct image_data){.bytes = coff_section_bytes(image, *index),
                                    .address = section->address,
                                    .bases = {image->image_base}};
        ++*index;
        return true;
    }
    return false;
}

/* Tables of RVAs are in the data directories. The names of imported functions, and the table of
 * their RVAs, are behind the import directory, at the end of the section. */
bool coff_is_loaders(const struct planning *planning, uint64_t address)
{
    const struct coff_image *image = &((const struct coff_state *)planning)->image;
    uint64_t rva = address - image->image_base;
    uint64_t imports = image->directories[DIRECTORY_IMPORT].rva;

    for (size_t i = 0; i < DIRECTORY_COUNT; i++) {
        if (i != DIRECTORY_CERTIFICATE &&
            rva - image->directories[i].rva < image->directories[i].size)
            return true;
    }
    return imports != 0 && rva >= imports &&
           coff_section_of(image, image->image_base + imports, 1) ==
               coff_section_of(image, address, 1);
}

bool coff_code_of(const struct planning *planning, const struct runtime_definition *definition,
                  struct code *code)
{
    const struct coff_state *state = (const struct coff_state *)planning;
    const struct coff_image *image = &state->image;

    code->address = definition->address;
    if (!coff_bytes_from(image, code->address, &code->bytes))
        return false;
    if (state->base.code.machine->follow_jump(code, &code->address) &&
        !coff_bytes_from(image, code->address, &code->bytes))
        return false;
    return coff_section_is_code(&image->sections[coff_section_of(image, code->address, 1)]);
}

struct pointer_search {
    const struct coff_state *state;
    const struct reference_target *target;
    uint64_t from;
};

static bool pointer_visitor(void *context, const struct coff_relocation *relocation)
{
    struct pointer_search *search = context;
    const struct reference_target *target = search->target;

    search->from = relocation->address;
    return !reference_counts(target, relocation->target) ||
           range_within(relocation->address, 1, target->first, target->size) ||
           rules_is_inside_accessor(&search->state->base.code, relocation->address);
}

bool coff_find_pointer(const struct planning *planning, const struct reference_target *target,
                       uint64_t *from, const char **reason)
{
    const struct coff_state *state = (const struct coff_state *)planning;
    struct pointer_search search = {state, target, 0};
    bool found = !coff_relocations_each(&state->image, pointer_visitor, &search, reason);

    *from = search.from;
    return found;
}
