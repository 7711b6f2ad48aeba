/*
 * Finds what points to a range of the image's memory. Together with the search of code
 * (runtime/runtime.h), this proves that bytes can be removed or moved without harm.
 *
 * In a position-independent image, pointers in data have relocations; in an image at a fixed
 * address any aligned word may be one. Slots of the GOT (and of ppc64's TOC) are made by the
 * linker, and only code loads them. lld keeps slots that it has made superfluous by changing the
 * code, so a slot counts as a pointer only if code refers to it. The search may see a pointer where
 * there is none, and then something stays that could have gone; it never misses a pointer.
 */
#include "formats/elf/elf.h"

#include <string.h>

/* Data is searched in pieces, whose pages are released afterwards. */
#define PIECE (UINT64_C(1) << 20)

/* The most slots of the GOT that may lead to the target: the bounds of a section take fewer. */
#define SLOTS_MAX 16

struct pointer_search {
    const struct elf_image *image;
    const struct image_code *code;
    const struct reference_target *target; /* what pointers are looked for */
    uint64_t from;
    size_t records; /* index of the section that has them */
    uint64_t slots[SLOTS_MAX];
    size_t slot_count;
};

/* True if a section whose name starts so has the address. */
static bool is_in_section(const struct elf_image *image, uint64_t address, const char *prefix)
{
    for (size_t i = 1; i < image->shnum; i++) {
        if (address - image->shdrs[i].sh_addr < image->shdrs[i].sh_size &&
            strncmp(elf_section_name(image, i), prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

/* True for the address of a slot in .got or .toc. */
static bool is_got_slot(const struct elf_image *image, uint64_t address)
{
    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_flags & SHF_ALLOC) != 0 && address - shdr->sh_addr < shdr->sh_size &&
            (strcmp(elf_section_name(image, i), ".got") == 0 ||
             strcmp(elf_section_name(image, i), ".toc") == 0))
            return true;
    }
    return false;
}

/* Handles a word that leads to the target; false ends the search. The slot of an accessor is noted,
 * too, because other code may load it. */
static bool add_pointer(struct pointer_search *search, uint64_t address, uint64_t value)
{
    bool is_slot =
        is_got_slot(search->image, address) || rules_is_accessor_slot(search->code, address);

    if ((is_slot && search->image->machine->got_size_max != 0) ||
        (value == search->target->first &&
         elf_means_other_end(search->code->planning, value, address)))
        return true;
    search->from = address;
    if (search->slot_count == SLOTS_MAX || !is_slot)
        return false;
    search->slots[search->slot_count++] = address;
    return true;
}

/* Only addresses of whole slots count: code loads all of a slot. */
static bool is_at_slot(const void *context, uint64_t address)
{
    const struct pointer_search *search = context;

    for (size_t i = 0; i < search->slot_count; i++) {
        if (address == search->slots[i])
            return true;
    }
    return false;
}

/* True if code may load one of the slots that were found: code that is neither an accessor nor one
 * of the linker's stubs. Stubs load only addresses of functions; the numbers that they add may look
 * like distances from the GOT. */
static bool is_slot_used(const struct pointer_search *search)
{
    struct reference_target target = {
        .first = UINT64_MAX, .loaded = true, .counts = is_at_slot, .context = search};
    struct code_references references;
    uint64_t last = 0, from;

    if (search->slot_count == 0)
        return false;
    for (size_t i = 0; i < search->slot_count; i++) {
        target.first = search->slots[i] < target.first ? search->slots[i] : target.first;
        last = search->slots[i] > last ? search->slots[i] : last;
    }
    target.size = last + search->image->sizes.word - target.first;
    code_references_open(&references, search->code, &target);
    while (code_references_next(&references, &from)) {
        if (!rules_is_inside_accessor(search->code, from) &&
            !is_in_section(search->image, from, ".plt"))
            return true;
    }
    return false;
}

/* Text of up to seven characters looks like this in a word: read-only data is full of it, and three
 * characters look like an address. */
static bool is_short_text(uint64_t word)
{
    for (; word != 0; word >>= 8) {
        if ((word & 0xff) < 0x20 || (word & 0xff) > 0x7e)
            return false;
    }
    return true;
}

/* True if a number in an image without relocations leads to the target as a pointer does, and not
 * by chance. A number of 64 bits that may be text only counts if it leads to where an object may
 * start: at the section itself, or at a record, of 16 bytes or a multiple of that. Numbers of 32
 * bits, and those of images at the low addresses where linkers for RISC-V and LoongArch start, hit
 * a large range so often that only its bounds count, as in code (rules_find_reference). */
#define LOW_ADDRESSES UINT64_C(0x100000)

static bool leads_to_object(const struct pointer_search *search, uint64_t word, uint64_t distance)
{
    const struct reference_target *target = search->target;
    uint64_t window = search->code->bound_window;

    if (search->image->sizes.word == 4 || target->first < LOW_ADDRESSES)
        return distance < window || target->size - distance <= window;
    return !is_short_text(word) || (target->first % 8 == 0 ? distance % 16 == 0 : distance == 0);
}

/* In an image at a fixed address pointers have no relocations: any aligned word of its data may be
 * one. */
static bool find_word_in(struct pointer_search *search, size_t section)
{
    const struct reference_target *target = search->target;
    const Elf64_Shdr *shdr = &search->image->shdrs[section];
    struct bytes bytes = elf_section_bytes(search->image, section);
    uint64_t word = search->image->sizes.word, released = 0;

    for (uint64_t i = align_up(shdr->sh_addr, word) - shdr->sh_addr; i + word <= bytes.size;
         i += word) {
        uint64_t value = elf_load_word(search->image, bytes.data + i);
        uint64_t distance = value - target->first;

        if (distance < target->size && leads_to_object(search, value, distance) &&
            reference_counts(target, value) && !add_pointer(search, shdr->sh_addr + i, value))
            return true;
        if (i - released >= PIECE) {
            input_release_pages(search->image->input, shdr->sh_offset + released, i - released);
            released = i;
        }
    }
    return false;
}

static bool find_word(struct pointer_search *search)
{
    const struct elf_image *image = search->image;

    for (size_t i = 1; i < image->shnum; i++) {
        const Elf64_Shdr *shdr = &image->shdrs[i];
        bool holds_pointers = shdr->sh_type == SHT_PROGBITS || shdr->sh_type == SHT_INIT_ARRAY ||
                              shdr->sh_type == SHT_FINI_ARRAY || shdr->sh_type == SHT_PREINIT_ARRAY;
        bool is_itself = reference_is_own(search->target, shdr->sh_addr);

        /* Records point to counters and functions only, and have hashes, which may be any number.
         * .eh_frame points to code, and contains numbers of single bytes. */
        if (holds_pointers && !is_itself && i != search->records &&
            (shdr->sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC &&
            strcmp(elf_section_name(image, i), ".eh_frame") != 0 && find_word_in(search, i))
            return true;
    }
    return false;
}

bool elf_find_pointer(const struct planning *planning, const struct reference_target *target,
                      uint64_t *from, const char **reason)
{
    const struct elf_state *state = (const struct elf_state *)planning;
    struct pointer_search search = {
        .image = &state->image,
        .code = &state->base.code,
        .target = target,
        .records = state->base.section_index[SECTION_DATA],
    };
    struct elf_relocations relocations = elf_relocations_open(&state->image);
    struct elf_relocation relocation;
    bool found = false;

    while (!found && elf_relocations_next(&relocations, &relocation))
        found = !reference_is_own(target, relocation.offset) && relocation.has_target &&
                reference_counts(target, relocation.target) &&
                !add_pointer(&search, relocation.offset, relocation.target);
    *reason = relocations.reason;
    found = found || *reason != NULL ||
            (state->image.elf.header.e_type == ET_EXEC && find_word(&search)) ||
            is_slot_used(&search);
    *from = search.from;
    return found;
}

/* ---- bounds that two sections share ---- */

/* Sections that linkers may place right before names or data, and what refers to the end of each:
 * functions of runtimes and of the C library, and a variable. The program may have something of
 * that name, too, and then nothing is known. GCC's start files are compiled without sizes of
 * functions, which those of programs have. */
static const struct other_end {
    const char *section;
    const char *user;
    bool has_size;
} other_ends[] = {
    {"xray_instr_map", "__xray_init", true},
    {"xray_fn_idx", "__xray_init", true},
    {"__llvm_prf_vnds", "__llvm_profile_end_vnodes", true},
    {"__llvm_prf_vnds", "EndVNode", true},
    {".tm_clone_table", "register_tm_clones", false},
    {".tm_clone_table", "deregister_tm_clones", false},
    {".data", "register_tm_clones", false}, /* GNU ld drops the table if it is empty */
    {".data", "deregister_tm_clones", false},
    {"__libc_atexit", "__run_exit_handlers", true},
};

_Static_assert(sizeof(other_ends) / sizeof(other_ends[0]) == END_USERS, "one user for each");

/* The end of a section with this name if names or data start there; 0: none does. */
static uint64_t end_before(const struct elf_state *state, const char *name)
{
    static const enum section_kind kinds[] = {SECTION_NAMES, SECTION_DATA};
    const struct elf_image *image = &state->image;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t index = state->base.section_index[kinds[i]];

        for (size_t j = 1; index != NO_INDEX && j < image->shnum; j++) {
            const Elf64_Shdr *shdr = &image->shdrs[j];

            if (shdr->sh_addr + shdr->sh_size == image->shdrs[index].sh_addr &&
                strcmp(elf_section_name(image, j), name) == 0)
                return image->shdrs[index].sh_addr;
        }
    }
    return 0;
}

/* True for a function or a variable of the image. */
static bool has_start(const struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return (type == STT_FUNC || type == STT_OBJECT) && symbol->section != SHN_UNDEF;
}

/* Notes the user that the symbol is by its name. */
static void note_user(struct elf_state *state, const struct elf_symbol *symbol)
{
    struct bytes name = elf_symbol_name(&state->image, symbol);

    for (size_t i = 0; i < END_USERS; i++) {
        struct elf_end_user *user = &state->end_users[i];
        size_t size = strlen(other_ends[i].user) + 1;

        if (user->end == 0 || name.size < size || memcmp(name.data, other_ends[i].user, size) != 0)
            continue;
        if (user->is_found && user->start != symbol->st_value)
            user->end = 0;
        user->is_found = true;
        user->start = symbol->st_value;
        user->size = symbol->st_size;
    }
}

void elf_find_end_users(struct elf_state *state)
{
    const struct elf_image *image = &state->image;
    struct elf_end_user *users = state->end_users;
    struct elf_symbol symbol;
    struct symbol_walk walk;
    size_t table = elf_symbol_table(image);
    bool has_end = false;

    for (size_t i = 0; i < END_USERS; i++) {
        users[i] = (struct elf_end_user){.end = end_before(state, other_ends[i].section)};
        has_end |= users[i].end != 0;
    }
    if (!has_end || table == NO_INDEX)
        return;
    elf_symbols_open(image, table, &walk);
    while (elf_symbols_next(image, &walk, &symbol)) {
        if (has_start(&symbol))
            note_user(state, &symbol);
    }
    if (walk.bad)
        return;
    for (size_t i = 0; i < END_USERS; i++) {
        if (users[i].is_found && !other_ends[i].has_size)
            users[i].size = users[i].size == 0 ? UINT64_MAX - users[i].start : 0;
    }
    /* A user without a size goes on to the next function or variable. */
    elf_symbols_open(image, table, &walk);
    while (elf_symbols_next(image, &walk, &symbol)) {
        for (size_t i = 0; i < END_USERS && has_start(&symbol); i++) {
            uint64_t distance = symbol.st_value - users[i].start;

            if (!other_ends[i].has_size && distance != 0 && distance < users[i].size)
                users[i].size = distance;
        }
    }
}

bool elf_means_other_end(const struct planning *planning, uint64_t address, uint64_t from)
{
    const struct elf_end_user *users = ((const struct elf_state *)planning)->end_users;

    for (size_t i = 0; i < END_USERS; i++) {
        if (users[i].end == address && from - users[i].start < users[i].size)
            return true;
    }
    return false;
}

/* ---- slots ---- */

/* The address that a slot of the GOT holds at run time. */
bool elf_slot_value(const struct planning *planning, uint64_t slot, uint64_t *value)
{
    const struct elf_state *state = (const struct elf_state *)planning;
    struct elf_relocations relocations = elf_relocations_open(&state->image);
    bool is_relocated = false, has_value = false;
    struct elf_relocation relocation;
    struct bytes bytes;

    while (elf_relocations_next(&relocations, &relocation)) {
        if (relocation.offset != slot)
            continue;
        is_relocated = true;
        has_value = relocation.has_target;
        *value = relocation.target;
    }
    if (relocations.reason != NULL || is_relocated)
        return relocations.reason == NULL && has_value;
    if (!elf_bytes_at(&state->image, slot, state->image.sizes.word, &bytes))
        return false;
    *value = elf_load_word(&state->image, bytes.data);
    return true;
}
