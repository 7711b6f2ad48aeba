/*
 * Retained relocations: those that the linker applied, kept in the image by --emit-relocs for tools
 * that move code later (BOLT) or analyze it. No loader reads them.
 *
 * Such a tool applies them again, or relies on them to find what an instruction refers to. So the
 * relocations of a removed section are removed with it, and one that applies to the body of a
 * rewritten accessor becomes R_..._NONE. All others stay true, because no code moves.
 */
#include "formats/elf/elf.h"

#ifndef SHT_CREL
#define SHT_CREL 0x40000014
#endif

static bool is_retained(const Elf64_Shdr *shdr)
{
    return (shdr->sh_type == SHT_RELA || shdr->sh_type == SHT_REL || shdr->sh_type == SHT_CREL) &&
           (shdr->sh_flags & SHF_ALLOC) == 0 && shdr->sh_size != 0;
}

/* Whether its entries have the size that the gABI prescribes. */
static bool is_table(const struct elf_image *image, const Elf64_Shdr *shdr)
{
    uint64_t size = shdr->sh_type == SHT_RELA ? image->sizes.rela : image->sizes.rel;

    return shdr->sh_type != SHT_CREL && shdr->sh_entsize == size && shdr->sh_size % size == 0;
}

bool elf_retained_is_known(const struct elf_image *image)
{
    for (size_t i = 1; i < image->shnum; i++) {
        if (is_retained(&image->shdrs[i]) && !is_table(image, &image->shdrs[i]))
            return false;
    }
    return true;
}

bool elf_retained_goes(const struct elf_state *state, size_t section)
{
    const Elf64_Shdr *shdr = &state->image.shdrs[section];

    if (!is_retained(shdr))
        return false;
    for (size_t i = 0; i < state->base.plan->section_count; i++) {
        const struct section *removed = &state->base.plan->sections[i];
        if (removed->fate != FATE_STAYS &&
            state->base.section_index[removed->kind] == shdr->sh_info)
            return true;
    }
    return false;
}

/* ---- the bodies of accessors ---- */

struct bodies {
    struct code code[RUNTIME_DEFINITIONS_MAX];
    size_t count;
};

static bool is_rewritten(const struct elf_state *state, enum runtime_symbol symbol)
{
    struct image_plan *plan = state->base.plan;

    switch (symbol) {
    case RUNTIME_END_DATA:
        return image_plan_removes(plan, SECTION_DATA);
    case RUNTIME_END_NAMES:
        return image_plan_removes(plan, SECTION_NAMES);
    case RUNTIME_BEGIN_NAMES:
        return image_plan_removes(plan, SECTION_NAMES) &&
               state->names_address != image_plan_section(plan, SECTION_NAMES)->address;
    default:
        return false;
    }
}

static void find_bodies(const struct elf_state *state, struct bodies *bodies)
{
    const struct image_code *code = &state->base.code;

    bodies->count = 0;
    for (size_t i = 0; i < code->symbols.count; i++) {
        const struct runtime_definition *definition = &code->symbols.definitions[i];

        if (is_rewritten(state, definition->symbol) &&
            rules_find_body(code, definition, &bodies->code[bodies->count]))
            bodies->count++;
    }
}

static bool is_in_body(const struct bodies *bodies, uint64_t address)
{
    for (size_t i = 0; i < bodies->count; i++) {
        if (address - bodies->code[i].address < bodies->code[i].bytes.size)
            return true;
    }
    return false;
}

static bool silence_table(struct elf_state *state, const struct bodies *bodies, size_t section)
{
    const struct elf_image *image = &state->image;
    const Elf64_Shdr *shdr = &image->shdrs[section];
    struct bytes table = elf_section_bytes(image, section);
    uint8_t nothing[sizeof(uint64_t)];
    struct bytes info = {nothing, image->sizes.word};

    elf_store_word(image, nothing, image->machine->relocations->none);
    for (uint64_t i = 0; i < table.size; i += shdr->sh_entsize) {
        if (is_in_body(bodies, elf_load_word(image, table.data + i)) &&
            !edit_overwrite_differences(&state->base.plan->edits, image->elf.bytes,
                                        shdr->sh_offset + i + image->sizes.word, info))
            return false;
    }
    return true;
}

bool elf_retained_silence(struct elf_state *state)
{
    struct bodies bodies;

    find_bodies(state, &bodies);
    for (size_t i = 1; i < state->image.shnum && bodies.count != 0; i++) {
        if (is_retained(&state->image.shdrs[i]) && !elf_retained_goes(state, i) &&
            !silence_table(state, &bodies, i))
            return false;
    }
    return true;
}
