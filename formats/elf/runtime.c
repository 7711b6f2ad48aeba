/*
 * Making the profile runtime do without names and data: which of the two can go, and the edits to
 * the runtime's code and to the relocations.
 *
 * Nothing here is taken on trust. A section goes only if every function that returns its bounds is
 * found, has a body that is understood and returns just the bounds that the section headers say,
 * and if nothing else in the image is seen to refer to the section: no other code, no pointer, no
 * retained relocation.
 */
#include "formats/elf/plan.h"
#include "formats/runtime/callers.h"

#include <inttypes.h>
#include <string.h>

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
static bool slot_value(const void *format, uint64_t slot, uint64_t *value)
{
    const struct elf_plan_state *state = format;
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

/* To the end of the segment, or of the symbol where that has a size. */
static bool code_of(const void *format, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct elf_plan_state *state = format;
    size_t segment = elf_segment_of(&state->image, definition->address, 1);
    const GElf_Phdr *phdr;
    uint64_t left;

    if (segment == NO_INDEX)
        return false;
    phdr = &state->image.phdrs[segment];
    left = phdr->p_vaddr + phdr->p_filesz - definition->address;
    if (definition->size != 0 && definition->size < left)
        left = definition->size;
    code->address = definition->address;
    return (phdr->p_flags & PF_X) != 0 &&
           elf_bytes_at(&state->image, definition->address, left, &code->bytes);
}

static bool next_code(const void *format, size_t *index, struct code *code)
{
    const struct elf_plan_state *state = format;

    while (*index < state->image.shnum) {
        size_t i = (*index)++;

        if ((state->image.shdrs[i].sh_flags & SHF_EXECINSTR) == 0)
            continue;
        *code = (struct code){elf_section_bytes(&state->image, i), state->image.shdrs[i].sh_addr};
        return true;
    }
    return false;
}

static bool is_start_of_section(const void *format, uint64_t address)
{
    const struct elf_image *image = &((const struct elf_plan_state *)format)->image;

    for (size_t i = 1; i < image->shnum; i++) {
        if ((image->shdrs[i].sh_flags & SHF_ALLOC) != 0 && image->shdrs[i].sh_addr == address)
            return true;
    }
    return false;
}

struct runtime_image elf_runtime_image(const struct elf_plan_state *state)
{
    return (struct runtime_image){
        .input = state->image.input,
        .plan = state->plan,
        .definitions = state->runtime.definitions,
        .definition_count = state->runtime.count,
        .machine = state->image.ehdr.e_machine,
        .has_absolute_operands = state->image.ehdr.e_type == ET_EXEC,
        .folding_advice = "link without --icf=all",
        .missing_advice = "its profile runtime was inlined, or is not LLVM's; link without LTO of "
                          "the runtime",
        .format = state,
        .code_of = code_of,
        .next_code = next_code,
        .is_start_of_section = is_start_of_section,
        .slot_value = slot_value,
    };
}

/* ---- who else uses the accessors ---- */

struct function_teller {
    const struct elf_plan_state *state;
    struct runtime_callers *callers;
    struct bytes names;
};

/* Functions written in assembler may have no type. */
static bool tell_function(void *context, const GElf_Sym *symbol, uint64_t offset)
{
    const struct function_teller *teller = context;
    const struct elf_image *image = &teller->state->image;
    unsigned type = GELF_ST_TYPE(symbol->st_info);
    struct bytes name = {0};

    (void)offset;
    if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= image->shnum ||
        (image->shdrs[symbol->st_shndx].sh_flags & SHF_EXECINSTR) == 0)
        return true;
    if (symbol->st_name < teller->names.size)
        bytes_slice(teller->names, symbol->st_name, teller->names.size - symbol->st_name, &name);
    runtime_callers_tell(teller->callers, symbol->st_value, name);
    return true;
}

static void tell_functions(const void *format, struct runtime_callers *callers)
{
    const struct elf_plan_state *state = format;
    const struct elf_image *image = &state->image;

    for (size_t i = 1; i < image->shnum; i++) {
        struct function_teller teller = {state, callers, {0}};

        if (image->shdrs[i].sh_type != SHT_SYMTAB)
            continue;
        if (image->shdrs[i].sh_link < image->shnum)
            teller.names = elf_section_bytes(image, image->shdrs[i].sh_link);
        elf_symbols_each(image, i, tell_function, &teller);
    }
}

/* A program that looks at its own names and records by the runtime's functions, called or by a
 * pointer, keeps them. */
static void keep_what_is_watched(struct elf_plan_state *state)
{
    struct runtime_image runtime = elf_runtime_image(state);
    struct reference_target watched = runtime_watched_functions(&runtime);
    const char *reason;
    uint64_t from;

    if (watched.size != 0 &&
        (runtime_find_foreign_caller(&runtime, tell_functions, &from) ||
         (elf_find_pointer(state, &watched, &from, &reason) && reason == NULL)))
        runtime_keep_watched(&runtime, from);
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

/* The bytes that the section header tells of in the file are those that the program has at the
 * address. */
static bool is_where_loaded(const struct elf_plan_state *state, size_t index)
{
    const GElf_Shdr *shdr = &state->image.shdrs[index];
    size_t segment = elf_segment_of(&state->image, shdr->sh_addr, shdr->sh_size);

    return segment != NO_INDEX && shdr->sh_addr - state->image.phdrs[segment].p_vaddr ==
                                      shdr->sh_offset - state->image.phdrs[segment].p_offset;
}

static bool check_loaded(struct elf_plan_state *state, enum section_kind kind)
{
    const struct elf_image *image = &state->image;
    size_t index = state->section_index[kind];
    const GElf_Shdr *shdr = &image->shdrs[index];
    const char *reason;
    struct runtime_image runtime = elf_runtime_image(state);
    struct reference_target target = {.first = shdr->sh_addr, .size = shdr->sh_size};
    uint64_t from;

    if ((shdr->sh_flags & SHF_ALLOC) == 0 || (shdr->sh_flags & (SHF_TLS | SHF_EXECINSTR)) != 0 ||
        !is_where_loaded(state, index))
        return elf_plan_keep(state, kind, "it is not loaded as covsplit expects");
    if (!elf_section_is_alone(state, kind))
        return false;
    if (has_retained_relocations(state, index))
        return elf_plan_keep(state, kind,
                             "the image has retained relocations; link without --emit-relocs");
    if (elf_find_pointer(state, &target, &from, &reason)) {
        if (reason != NULL)
            return elf_plan_keep(state, kind, "%s", reason);
        return elf_plan_keep(state, kind, "a pointer at 0x%" PRIx64 " refers to it", from);
    }
    if (runtime_find_reference_to_bounds(&runtime, shdr->sh_addr, shdr->sh_size, &from))
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
    struct runtime_image runtime = elf_runtime_image(state);
    const char *reason;

    if (!check_runtime(state, SECTION_NAMES) || !check_loaded(state, SECTION_NAMES) ||
        !runtime_check_accessor(&runtime, SECTION_NAMES, RUNTIME_BEGIN_NAMES, shdr->sh_addr) ||
        !runtime_check_accessor(&runtime, SECTION_NAMES, RUNTIME_END_NAMES,
                                shdr->sh_addr + shdr->sh_size) ||
        !runtime_check_not_shared(&runtime, SECTION_NAMES, RUNTIME_END_NAMES))
        return false;
    if (!elf_relocations_each(&state->image, relocation_inside, shdr, &reason))
        return elf_plan_keep(state, SECTION_NAMES, "%s",
                             reason != NULL ? reason : "dynamic relocations apply to it");
    if (image_plan_tripwire_size(state->plan, shdr->sh_size) == 0)
        return elf_plan_keep(state, SECTION_NAMES, "it is too small to gain anything");
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
    struct runtime_image runtime = elf_runtime_image(state);
    enum section_kind kind = SECTION_DATA;

    if (!runtime_check_accessor(&runtime, kind, RUNTIME_BEGIN_DATA, shdr->sh_addr) ||
        !runtime_check_accessor(&runtime, kind, RUNTIME_END_DATA, shdr->sh_addr + shdr->sh_size) ||
        !runtime_check_not_shared(&runtime, kind, RUNTIME_END_DATA) ||
        !runtime_check_accessor(&runtime, kind, RUNTIME_BEGIN_COUNTERS, place->counters) ||
        !runtime_check_accessor(&runtime, kind, RUNTIME_END_COUNTERS,
                                place->counters + place->counters_size))
        return false;
    return place->bitmap_size == 0 ||
           (runtime_check_accessor(&runtime, kind, RUNTIME_BEGIN_BITMAP, place->bitmap) &&
            runtime_check_accessor(&runtime, kind, RUNTIME_END_BITMAP,
                                   place->bitmap + place->bitmap_size));
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
    if (reason == NULL)
        return elf_plan_no_memory(state);
    return elf_plan_keep(state, SECTION_DATA, "%s", reason);
}

/* ---- deciding ---- */

/* Where records stay, the first one must be known, since it changes when names go; and nobody may
 * look at it. (Where values are profiled, code hands it to the runtime, which only counts.) */
static bool check_first_record(struct elf_plan_state *state)
{
    struct runtime_image runtime = elf_runtime_image(state);
    size_t index = state->section_index[SECTION_DATA];
    struct reference_target name = {.size = RUNTIME_NAME_REFERENCE_SIZE};
    const char *reason;
    struct bytes records;
    uint64_t from;

    if (index == NO_INDEX ||
        elf_section_bytes(&state->image, index).size < state->record_layout.record_size)
        return elf_plan_keep(state, SECTION_NAMES, "the image has no records beside it");
    if (!is_where_loaded(state, index) || !elf_section_is_alone(state, SECTION_DATA))
        return elf_plan_keep(state, SECTION_NAMES, "the records beside it are not where expected");
    records = elf_section_bytes(&state->image, index);
    name.first = state->image.shdrs[index].sh_addr;
    if (!records_have_value_sites(&state->record_layout, records, false) &&
        ((elf_find_pointer(state, &name, &from, &reason) && reason == NULL) ||
         runtime_find_code_reference(&runtime, &name, &from)))
        return elf_plan_keep(state, SECTION_NAMES, RUNTIME_FIRST_RECORD_IS_WATCHED, from);
    return runtime_check_accessor(&runtime, SECTION_NAMES, RUNTIME_BEGIN_DATA, name.first);
}

/* The end of the names is behind the tripwire then, for which there is room at their start. */
static bool rewrite_names(struct elf_plan_state *state)
{
    struct runtime_image runtime = elf_runtime_image(state);
    const GElf_Shdr *names = &state->image.shdrs[state->section_index[SECTION_NAMES]];
    struct image_plan *plan = state->plan;

    plan->tripwire_size = image_plan_tripwire_size(plan, names->sh_size);
    if (!elf_plan_removes(state, SECTION_DATA) &&
        !image_plan_keep_signature(plan, state->image.file,
                                   state->image.shdrs[state->section_index[SECTION_DATA]].sh_offset,
                                   names->sh_size, false))
        return false;
    return (buffer_append_zeros(&state->moved, plan->tripwire_size) || elf_plan_no_memory(state)) &&
           runtime_rewrite(&runtime, RUNTIME_END_NAMES, names->sh_addr + plan->tripwire_size);
}

static bool rewrite_data(struct elf_plan_state *state)
{
    struct runtime_image runtime = elf_runtime_image(state);
    uint64_t start = state->image.shdrs[state->section_index[SECTION_DATA]].sh_addr;

    return runtime_rewrite(&runtime, RUNTIME_END_DATA, start + state->record_layout.record_size);
}

bool elf_runtime_plan(struct elf_plan_state *state, struct error *error)
{
    struct runtime_image runtime = elf_runtime_image(state);
    bool data, names;

    if (elf_plan_removes(state, SECTION_NAMES) || elf_plan_removes(state, SECTION_DATA))
        keep_what_is_watched(state);
    names = elf_plan_removes(state, SECTION_NAMES) && check_names(state);
    data = elf_plan_removes(state, SECTION_DATA) && check_data(state) &&
           runtime_check_names_go(&runtime, names) && remove_data_relocations(state);
    names = names && (data || check_first_record(state));
    if ((!names || rewrite_names(state)) && (!data || rewrite_data(state)) &&
        !state->plan->edits.has_no_memory)
        return true;
    if (state->plan->edits.has_no_memory)
        return error_out_of_memory(error, state->image.path, state->plan->edits.literals.size);
    return error_set(error,
                     "%s: an accessor cannot be rewritten; use --sections without names and data",
                     state->image.path);
}
