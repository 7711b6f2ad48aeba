/*
 * Making the profile runtime do without names and data: which of the two can go, and the edits to
 * the runtime's code and to the relocations.
 *
 * Nothing here is taken on trust. A section goes only if every function that returns its bounds is
 * found, has a body that is understood and returns just the bounds that the section headers say,
 * and if nothing else in the image is seen to refer to the section: no other code, no pointer, no
 * retained relocation.
 */
#include "formats/elf_plan.h"

#include <inttypes.h>
#include <string.h>

#include "formats/accessor.h"

/* ---- accessors ---- */

struct slot_search {
    uint64_t slot;
    uint64_t value;
    bool found;
    bool has_value;
};

static bool slot_visitor(void *context, const struct elf_relocation *relocation)
{
    struct slot_search *search = context;

    if (relocation->offset == search->slot) {
        search->found = true;
        search->has_value = relocation->has_target;
        search->value = relocation->target;
    }
    return true;
}

/* The address that a slot of the GOT holds at run time. */
static bool slot_value(const struct elf_plan_state *state, uint64_t slot, uint64_t *value)
{
    struct slot_search search = {.slot = slot};
    const char *reason;
    struct bytes bytes;

    if (!elf_relocations_each(&state->image, slot_visitor, &search, &reason))
        return false;
    if (search.found) {
        *value = search.value;
        return search.has_value;
    }
    if (!elf_bytes_at(&state->image, slot, 8, &bytes))
        return false;
    *value = load_u64(bytes.data, false);
    return true;
}

bool elf_runtime_decode(const struct elf_plan_state *state,
                        const struct runtime_definition *definition, struct bytes *code,
                        struct accessor *accessor)
{
    size_t segment = elf_segment_of(&state->image, definition->address, 1);
    const GElf_Phdr *phdr;
    uint64_t left;

    if (segment == NO_INDEX)
        return false;
    phdr = &state->image.phdrs[segment];
    left = phdr->p_vaddr + phdr->p_filesz - definition->address;
    if (definition->size != 0 && definition->size < left)
        left = definition->size;
    return (phdr->p_flags & PF_X) != 0 &&
           elf_bytes_at(&state->image, definition->address, left, code) &&
           accessor_decode(state->image.ehdr.e_machine, *code, definition->address, accessor);
}

/* Every definition of `symbol` must return `expected`, and there must be one. */
static bool check_accessor(struct elf_plan_state *state, enum section_kind kind,
                           enum runtime_symbol symbol, uint64_t expected)
{
    const char *name = runtime_symbol_name(symbol);
    size_t seen = 0;

    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct accessor accessor;
        struct bytes code;
        uint64_t value;

        if (definition->symbol != symbol)
            continue;
        seen++;
        if (!elf_runtime_decode(state, definition, &code, &accessor))
            return elf_plan_keep(state, kind,
                                 "the code of %s is not one that covsplit knows; link with LLVM's "
                                 "own profile runtime, without LTO",
                                 name);
        value = accessor.value;
        if (accessor.form == ACCESSOR_LOAD && !slot_value(state, accessor.value, &value))
            return elf_plan_keep(state, kind, "what %s returns cannot be told", name);
        if (value != expected)
            return elf_plan_keep(state, kind, "%s does not return the bound of the section", name);
    }
    if (seen == 0)
        return elf_plan_keep(state, kind,
                             "the image has no symbol %s: its profile runtime was inlined, or is "
                             "not LLVM's; link without LTO of the runtime",
                             name);
    return true;
}

/* An accessor that gets a new body must not be another function too. */
static bool check_not_shared(struct elf_plan_state *state, enum section_kind kind,
                             enum runtime_symbol symbol)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        if (definition->symbol == symbol && definition->is_shared)
            return elf_plan_keep(state, kind,
                                 "%s shares its code with another function; link without "
                                 "--icf=all",
                                 runtime_symbol_name(symbol));
    }
    return true;
}

static bool rewrite_accessor(struct elf_plan_state *state, enum runtime_symbol symbol,
                             uint64_t value)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        uint8_t instruction[ACCESSOR_INSTRUCTION_MAX];
        struct accessor accessor;
        struct bytes code;
        uint64_t offset;
        bool seen = false;

        if (definition->symbol != symbol)
            continue;
        /* Two symbols may name one copy. */
        for (size_t j = 0; j < i; j++)
            seen |= state->runtime.definitions[j].symbol == symbol &&
                    state->runtime.definitions[j].address == definition->address;
        if (seen)
            continue;
        if (!elf_runtime_decode(state, definition, &code, &accessor) ||
            !accessor_encode(state->image.ehdr.e_machine, &accessor, code, definition->address,
                             value, instruction))
            return false;
        offset = (uint64_t)(code.data - state->image.file.data) + accessor.instruction_offset;
        if (!edit_overwrite_differences(&state->plan->edits, state->image.file, offset,
                                        (struct bytes){instruction, accessor.instruction_size}))
            return false;
    }
    return true;
}

/* ---- what names and data have in common ---- */

/* Relocations that the linker kept (--emit-relocs) would be applied again by a tool that moves
 * code, and undo what is changed here: in code, or in the section itself. */
static bool has_retained_relocations(const struct elf_plan_state *state, size_t section)
{
    const struct elf_image *image = &state->image;

    for (size_t i = 1; i < image->shnum; i++) {
        const GElf_Shdr *shdr = &image->shdrs[i];

        if ((shdr->sh_type != SHT_RELA && shdr->sh_type != SHT_REL) ||
            (shdr->sh_flags & SHF_ALLOC) != 0 || shdr->sh_size == 0)
            continue;
        if (shdr->sh_info == section ||
            (shdr->sh_info < image->shnum &&
             (image->shdrs[shdr->sh_info].sh_flags & SHF_EXECINSTR) != 0))
            return true;
    }
    return false;
}

/* How much at either end of a section is looked for in code: who walks a section starts at one of
 * its bounds, or at a field of its first or last record. Looking for all of a large section would
 * find values in a large image that only seem to refer to it. */
#define BOUND_WINDOW UINT64_C(64)

/* True where another section starts at the address: references to it may mean that one. */
static bool is_start_of_section(const struct elf_image *image, uint64_t address)
{
    for (size_t i = 1; i < image->shnum; i++) {
        if ((image->shdrs[i].sh_flags & SHF_ALLOC) != 0 && image->shdrs[i].sh_addr == address)
            return true;
    }
    return false;
}

static bool find_reference_to_bounds(struct elf_plan_state *state, size_t index, uint64_t *from)
{
    const GElf_Shdr *shdr = &state->image.shdrs[index];
    uint64_t window = shdr->sh_size < BOUND_WINDOW ? shdr->sh_size : BOUND_WINDOW;
    uint64_t end = shdr->sh_addr + shdr->sh_size;
    uint64_t last = is_start_of_section(&state->image, end) ? 0 : 1;

    return elf_find_code_reference(state, shdr->sh_addr, window, from) ||
           elf_find_code_reference(state, end - window, window + last, from);
}

static bool check_loaded(struct elf_plan_state *state, enum section_kind kind)
{
    const struct elf_image *image = &state->image;
    size_t index = state->section_index[kind];
    const GElf_Shdr *shdr = &image->shdrs[index];
    size_t segment = elf_segment_of(image, shdr->sh_addr, shdr->sh_size);
    const char *reason;
    uint64_t from;

    if ((shdr->sh_flags & SHF_ALLOC) == 0 || (shdr->sh_flags & (SHF_TLS | SHF_EXECINSTR)) != 0 ||
        segment == NO_INDEX ||
        shdr->sh_addr - image->phdrs[segment].p_vaddr !=
            shdr->sh_offset - image->phdrs[segment].p_offset)
        return elf_plan_keep(state, kind, "it is not loaded as covsplit expects");
    if (!elf_section_is_alone(state, kind))
        return false;
    if (has_retained_relocations(state, index))
        return elf_plan_keep(state, kind,
                             "the image has retained relocations; link without --emit-relocs");
    if (elf_find_pointer(state, shdr->sh_addr, shdr->sh_size, &from, &reason)) {
        if (reason != NULL)
            return elf_plan_keep(state, kind, "%s", reason);
        return elf_plan_keep(state, kind, "a pointer at 0x%" PRIx64 " refers to it", from);
    }
    if (find_reference_to_bounds(state, index, &from))
        return elf_plan_keep(state, kind,
                             "code at 0x%" PRIx64
                             " refers to it, other than the runtime's accessors; link without LTO "
                             "of the runtime",
                             from);
    return true;
}

/* ---- names ---- */

static bool relocation_inside(void *context, const struct elf_relocation *relocation)
{
    const GElf_Shdr *shdr = context;

    return !ranges_overlap(relocation->offset & ~UINT64_C(7), 16, shdr->sh_addr, shdr->sh_size);
}

/* What can be known at all of the image's profiles. */
static bool check_runtime(struct elf_plan_state *state, enum section_kind kind)
{
    if (!state->runtime.has_symbol_table)
        return elf_plan_keep(state, kind, "no symbol table: run covsplit before strip");
    if (!state->has_record_layout)
        return elf_plan_keep(state, kind,
                             "the version of its raw profiles is not known to covsplit");
    return true;
}

static bool check_names(struct elf_plan_state *state)
{
    GElf_Shdr *shdr = &state->image.shdrs[state->section_index[SECTION_NAMES]];
    const char *reason;

    if (!check_runtime(state, SECTION_NAMES) || !check_loaded(state, SECTION_NAMES) ||
        !check_accessor(state, SECTION_NAMES, RUNTIME_BEGIN_NAMES, shdr->sh_addr) ||
        !check_accessor(state, SECTION_NAMES, RUNTIME_END_NAMES, shdr->sh_addr + shdr->sh_size) ||
        !check_not_shared(state, SECTION_NAMES, RUNTIME_END_NAMES))
        return false;
    if (!elf_relocations_each(&state->image, relocation_inside, shdr, &reason))
        return elf_plan_keep(state, SECTION_NAMES, "%s",
                             reason != NULL ? reason : "dynamic relocations apply to it");
    return true;
}

/* ---- data ---- */

static bool place_stub(struct elf_plan_state *state, struct stub_place *place)
{
    size_t counters = state->section_index[SECTION_COUNTERS];
    size_t bitmap = state->section_index[SECTION_BITMAP];

    if (counters == NO_INDEX)
        return false;
    *place = (struct stub_place){
        .record = state->image.shdrs[state->section_index[SECTION_DATA]].sh_addr,
        .counters = state->image.shdrs[counters].sh_addr,
        .counters_size = state->image.shdrs[counters].sh_size,
    };
    if (bitmap != NO_INDEX && state->image.shdrs[bitmap].sh_size != 0) {
        place->bitmap = state->image.shdrs[bitmap].sh_addr;
        place->bitmap_size = state->image.shdrs[bitmap].sh_size;
    }
    return true;
}

static bool check_data_accessors(struct elf_plan_state *state, const struct stub_place *place)
{
    const GElf_Shdr *shdr = &state->image.shdrs[state->section_index[SECTION_DATA]];
    enum section_kind kind = SECTION_DATA;

    if (!check_accessor(state, kind, RUNTIME_BEGIN_DATA, shdr->sh_addr) ||
        !check_accessor(state, kind, RUNTIME_END_DATA, shdr->sh_addr + shdr->sh_size) ||
        !check_not_shared(state, kind, RUNTIME_END_DATA) ||
        !check_accessor(state, kind, RUNTIME_BEGIN_COUNTERS, place->counters) ||
        !check_accessor(state, kind, RUNTIME_END_COUNTERS, place->counters + place->counters_size))
        return false;
    return place->bitmap_size == 0 ||
           (check_accessor(state, kind, RUNTIME_BEGIN_BITMAP, place->bitmap) &&
            check_accessor(state, kind, RUNTIME_END_BITMAP, place->bitmap + place->bitmap_size));
}

static bool check_data(struct elf_plan_state *state)
{
    size_t index = state->section_index[SECTION_DATA];
    const struct profile_record_layout *layout = &state->record_layout;
    struct bytes records = elf_section_bytes(&state->image, index);
    struct stub_place place;

    if (!check_runtime(state, SECTION_DATA))
        return false;
    if (records.size % layout->record_size != 0)
        return elf_plan_keep(state, SECTION_DATA, "its size is not a whole number of records");
    if (records_have_value_sites(layout, records, false))
        return elf_plan_keep(state, SECTION_DATA, "value profiling is on, and uses it at run time");
    if (state->section_index[SECTION_COVDATA] != NO_INDEX)
        return elf_plan_keep(state, SECTION_DATA,
                             "a part of the image was built with -profile-correlate=binary");
    if (!place_stub(state, &place) ||
        !stub_encode(layout, state->plan->facts.raw_version, &place, false, state->stub))
        return elf_plan_keep(state, SECTION_DATA, "the image's counters do not fit one record");
    return check_loaded(state, SECTION_DATA) && check_data_accessors(state, &place);
}

/* In version 7 the stub's CounterPtr is an address, which a position-independent image relocates.
 */
static bool remove_data_relocations(struct elf_plan_state *state)
{
    const GElf_Shdr *shdr = &state->image.shdrs[state->section_index[SECTION_DATA]];
    struct elf_relocation_removal removal = {shdr->sh_addr, shdr->sh_size, UINT64_MAX, 0};
    struct edit_script *edits = &state->plan->edits;
    size_t edits_before = edits->count, literals_before = edits->literals.size;
    const char *reason;

    if (!state->record_layout.relative && state->image.ehdr.e_type == ET_DYN) {
        removal.kept_offset = shdr->sh_addr + state->record_layout.counter_ptr;
        removal.kept_target = load_u64(state->stub + state->record_layout.counter_ptr, false);
    }
    if (elf_relocations_remove(&state->image, &removal, edits, &state->relocation_changes, &reason))
        return true;
    edits->count = edits_before;
    edits->literals.size = literals_before;
    state->relocation_changes = (struct elf_relocation_changes){0};
    return elf_plan_keep(state, SECTION_DATA, "%s", reason);
}

bool elf_runtime_plan(struct elf_plan_state *state, struct error *error)
{
    const GElf_Shdr *shdrs = state->image.shdrs;

    if (elf_plan_removes(state, SECTION_NAMES) && check_names(state)) {
        uint64_t start = shdrs[state->section_index[SECTION_NAMES]].sh_addr;
        if (!rewrite_accessor(state, RUNTIME_END_NAMES, start))
            return error_set(error,
                             "%s: an accessor cannot be rewritten; use --sections without "
                             "names",
                             state->image.path);
    }
    if (elf_plan_removes(state, SECTION_DATA) && check_data(state) &&
        remove_data_relocations(state)) {
        uint64_t start = shdrs[state->section_index[SECTION_DATA]].sh_addr;
        if (!rewrite_accessor(state, RUNTIME_END_DATA, start + state->record_layout.record_size))
            return error_set(error,
                             "%s: an accessor cannot be rewritten; use --sections without "
                             "data",
                             state->image.path);
    }
    return true;
}
