/*
 * Who refers to a range of the image's memory: the proof that bytes can go, or move, without
 * anybody missing them.
 *
 * References are of two kinds. Code forms addresses in instructions, which are recognized by their
 * encoding wherever they may start, so that no disassembly can get out of step. Pointers in data
 * have relocations in a position-independent image; in one at a fixed address any aligned word may
 * be one. Both searches may see a reference where there is none, and then something stays that
 * could have gone; they never take a reference for none.
 */
#include "formats/elf_plan.h"

#include "formats/accessor.h"

/* Code is searched in pieces, and its pages given back. */
#define CODE_PIECE (UINT64_C(1) << 20)
/* Longest instruction form that the search recognizes, in front of and with its address field. */
#define CODE_OVERLAP 8

static bool inside_bound_accessor(const struct elf_plan_state *state, uint64_t address)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct accessor accessor;
        struct bytes code;

        if (definition->symbol != RUNTIME_RAW_VERSION && address >= definition->address &&
            address - definition->address < 64 &&
            elf_runtime_decode(state, definition, &code, &accessor) &&
            address - definition->address < accessor.size)
            return true;
    }
    return false;
}

static bool find_reference_in(const struct elf_plan_state *state, size_t section, uint64_t address,
                              uint64_t size, uint64_t *from)
{
    struct bytes code = elf_section_bytes(&state->image, section);
    const GElf_Shdr *shdr = &state->image.shdrs[section];
    bool absolute = state->image.ehdr.e_type == ET_EXEC;

    for (uint64_t start = 0; start < code.size; start += CODE_PIECE) {
        uint64_t left = code.size - start;
        uint64_t piece_size = left < CODE_PIECE + CODE_OVERLAP ? left : CODE_PIECE + CODE_OVERLAP;
        struct bytes piece = {code.data + start, piece_size};
        uint64_t position = 0;

        while (accessor_find_reference(state->image.ehdr.e_machine, piece, shdr->sh_addr + start,
                                       address, size, absolute, &position)) {
            *from = shdr->sh_addr + start + position;
            if (!inside_bound_accessor(state, *from))
                return true;
            position++;
        }
        input_release_pages(state->image.input, shdr->sh_offset + start, piece_size);
    }
    return false;
}

bool elf_find_code_reference(const struct elf_plan_state *state, uint64_t address, uint64_t size,
                             uint64_t *from)
{
    for (size_t i = 1; i < state->image.shnum; i++) {
        if ((state->image.shdrs[i].sh_flags & SHF_EXECINSTR) != 0 &&
            find_reference_in(state, i, address, size, from))
            return true;
    }
    return false;
}

/* True where an accessor loads its address from this slot: it was decoded and checked. */
static bool is_accessor_slot(const struct elf_plan_state *state, uint64_t slot)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        struct accessor accessor;
        struct bytes code;

        if (state->runtime.definitions[i].symbol != RUNTIME_RAW_VERSION &&
            elf_runtime_decode(state, &state->runtime.definitions[i], &code, &accessor) &&
            accessor.form == ACCESSOR_LOAD && accessor.value == slot)
            return true;
    }
    return false;
}

struct pointer_search {
    const struct elf_plan_state *state;
    uint64_t address; /* of what may be pointed to */
    uint64_t size;
    uint64_t from;
};

static bool pointer_visitor(void *context, const struct elf_relocation *relocation)
{
    struct pointer_search *search = context;
    bool from_inside = range_within(relocation->offset, 1, search->address, search->size);

    if (from_inside || !relocation->has_target ||
        !range_within(relocation->target, 1, search->address, search->size) ||
        is_accessor_slot(search->state, relocation->offset))
        return true;
    search->from = relocation->offset;
    return false;
}

/* Text of up to seven characters, as it looks in a word: read-only data is full of it, and three
 * characters make a likely address. */
static bool is_short_text(uint64_t word)
{
    for (; word != 0; word >>= 8) {
        if ((word & 0xff) < 0x20 || (word & 0xff) > 0x7e)
            return false;
    }
    return true;
}

/* Whether a word may be a pointer to what is looked for. One that could be text must lead to where
 * an object starts: the section itself, or a record of 16 bytes or a multiple. */
static bool may_be_pointer(const struct pointer_search *search, uint64_t word)
{
    uint64_t distance = word - search->address;

    return distance < search->size &&
           (!is_short_text(word) ||
            (search->address % 8 == 0 ? distance % 16 == 0 : distance == 0));
}

/* An image at a fixed address has its pointers without relocations: any aligned word of its data
 * may be one. */
static bool find_word_in(struct pointer_search *search, size_t section)
{
    const GElf_Shdr *shdr = &search->state->image.shdrs[section];
    struct bytes bytes = elf_section_bytes(&search->state->image, section);
    uint64_t released = 0;

    for (uint64_t i = align_up(shdr->sh_addr, 8) - shdr->sh_addr; i + 8 <= bytes.size; i += 8) {
        if (may_be_pointer(search, load_u64(bytes.data + i, false)) &&
            !is_accessor_slot(search->state, shdr->sh_addr + i)) {
            search->from = shdr->sh_addr + i;
            return true;
        }
        if (i - released >= CODE_PIECE) {
            input_release_pages(search->state->image.input, shdr->sh_offset + released,
                                i - released);
            released = i;
        }
    }
    return false;
}

static bool find_word(struct pointer_search *search)
{
    const struct elf_image *image = &search->state->image;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];
        bool holds_pointers = shdr->sh_type == SHT_PROGBITS || shdr->sh_type == SHT_INIT_ARRAY ||
                              shdr->sh_type == SHT_FINI_ARRAY || shdr->sh_type == SHT_PREINIT_ARRAY;
        bool is_itself = range_within(shdr->sh_addr, 1, search->address, search->size);

        if (holds_pointers && !is_itself && (shdr->sh_flags & SHF_ALLOC) != 0 &&
            (shdr->sh_flags & SHF_EXECINSTR) == 0 && find_word_in(search, i))
            return true;
    }
    return false;
}

bool elf_find_pointer(const struct elf_plan_state *state, uint64_t address, uint64_t size,
                      uint64_t *from, const char **reason)
{
    struct pointer_search search = {state, address, size, 0};
    bool found = !elf_relocations_each(&state->image, pointer_visitor, &search, reason) ||
                 (state->image.ehdr.e_type == ET_EXEC && find_word(&search));

    *from = search.from;
    return found;
}
