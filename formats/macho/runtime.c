/*
 * Making the profile runtime of a Mach-O image do without names and data: which of the two can go,
 * and the edits to the runtime's code (see elf/runtime.c, which does the same by the same rules).
 *
 * Nothing here is taken on trust. A section goes only if every function that returns its bounds is
 * found, has a body that is understood and returns just the bounds that the section headers say,
 * and if nothing else in the image is seen to refer to the section.
 */
#include <inttypes.h>
#include <string.h>

#include "formats/macho/fixups.h"
#include "formats/macho/plan.h"
#include "formats/runtime/rules.h"

static const struct macho_section *section_of(const struct macho_plan_state *state,
                                              enum section_kind kind)
{
    return &state->image.sections[state->section_index[kind]];
}

/* ---- accessors ---- */

/* To the end of the segment: symbols have no sizes. */
static bool code_of(const void *format, const struct runtime_definition *definition,
                    struct code *code)
{
    const struct macho_image *image = &((const struct macho_plan_state *)format)->image;

    for (size_t i = 0; i < image->segment_count; i++) {
        const struct macho_segment *segment = &image->segments[i];
        uint64_t inside = definition->address - segment->vmaddr;

        if ((segment->initprot & VM_PROT_EXECUTE) == 0 || inside >= segment->filesize)
            continue;
        code->address = definition->address;
        return bytes_slice(image->file, segment->fileoff + inside, segment->filesize - inside,
                           &code->bytes);
    }
    return false;
}

static bool next_code(const void *format, size_t *index, struct code *code)
{
    const struct macho_image *image = &((const struct macho_plan_state *)format)->image;

    while (*index < image->section_count) {
        const struct macho_section *section = &image->sections[(*index)++];

        if (!macho_section_is_code(section))
            continue;
        *code = (struct code){macho_section_bytes(image, section), section->addr};
        return true;
    }
    return false;
}

static bool is_start_of_section(const void *format, uint64_t address)
{
    const struct macho_image *image = &((const struct macho_plan_state *)format)->image;

    for (size_t i = 0; i < image->section_count; i++) {
        if (image->sections[i].addr == address && image->sections[i].size != 0)
            return true;
    }
    return false;
}

static struct runtime_image runtime_image(const struct macho_plan_state *state)
{
    return (struct runtime_image){
        .input = state->image.input,
        .plan = state->plan,
        .definitions = state->runtime.definitions,
        .definition_count = state->runtime.count,
        .machine = state->image.machine,
        .folding_advice = "link without identical code folding",
        .missing_advice = "it was stripped, or its profile runtime was inlined, or is not LLVM's; "
                          "run covsplit before strip",
        .format = state,
        .code_of = code_of,
        .next_code = next_code,
        .is_start_of_section = is_start_of_section,
    };
}

static void tell_functions(const void *format, struct runtime_callers *callers)
{
    macho_tell_functions(&((const struct macho_plan_state *)format)->image, callers);
}

/* A program that looks at its own names and records by the runtime's functions keeps them. */
static void keep_what_is_watched(struct macho_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);
    uint64_t from;

    if (runtime_find_foreign_caller(&runtime, tell_functions, &from))
        runtime_keep_watched(&runtime, from);
}

static bool check_bounds(struct macho_plan_state *state, enum section_kind victim,
                         enum section_kind kind, enum runtime_symbol begin)
{
    const struct macho_section *section = section_of(state, kind);
    struct runtime_image runtime = runtime_image(state);

    return runtime_check_accessor(&runtime, victim, begin, section->addr) &&
           runtime_check_accessor(&runtime, victim, begin + 1, section->addr + section->size);
}

/* ---- what names and data have in common ---- */

static bool check_unused(struct macho_plan_state *state, enum section_kind kind)
{
    const struct macho_image *image = &state->image;
    const struct macho_section *section = section_of(state, kind);
    struct runtime_image runtime = runtime_image(state);
    const char *reason;
    uint64_t from;

    if (!macho_section_in_file(section))
        return macho_plan_keep(state, kind, "it has no bytes in the file");
    if (macho_find_command(image, LC_SEGMENT_SPLIT_INFO) != NULL)
        return macho_plan_keep(state, kind,
                               "the image may become part of dyld's shared cache, which moves its "
                               "sections");
    if (macho_find_pointer(state, section->addr, section->size, &from, &reason)) {
        if (reason != NULL)
            return macho_plan_keep(state, kind, "%s", reason);
        return macho_plan_keep(state, kind, "a pointer at 0x%" PRIx64 " refers to it", from);
    }
    if (runtime_find_reference_to_bounds(&runtime, section->addr, section->size, &from))
        return macho_plan_keep(state, kind,
                               "code at 0x%" PRIx64
                               " refers to it, other than the runtime's accessors; link without "
                               "LTO of the runtime",
                               from);
    return true;
}

static bool check_runtime(struct macho_plan_state *state, enum section_kind kind)
{
    if (!state->runtime.has_symbol_table)
        return macho_plan_keep(state, kind, "no symbol table: run covsplit before strip");
    if (macho_find_command(&state->image, LC_DYLD_CHAINED_FIXUPS) == NULL &&
        macho_find_command(&state->image, LC_DYLD_INFO) == NULL &&
        macho_find_command(&state->image, LC_DYLD_INFO_ONLY) == NULL)
        return macho_plan_keep(state, kind,
                               "the image has no fixups, which would tell who points to it");
    if (!state->has_record_layout)
        return macho_plan_keep(state, kind,
                               "the version of its raw profiles is not known to covsplit");
    return true;
}

/* ---- names ---- */

static bool fixup_is_outside(void *context, const struct macho_fixup *fixup)
{
    const struct macho_section *section = context;

    return !ranges_overlap(fixup->address, 8, section->addr, section->size);
}

static bool check_names(struct macho_plan_state *state)
{
    const struct macho_section *section = section_of(state, SECTION_NAMES);
    struct runtime_image runtime = runtime_image(state);
    enum section_kind kind = SECTION_NAMES;
    const char *reason;

    if (!check_runtime(state, kind) || !check_unused(state, kind) ||
        !check_bounds(state, kind, kind, RUNTIME_BEGIN_NAMES) ||
        !runtime_check_not_shared(&runtime, kind, RUNTIME_END_NAMES))
        return false;
    if (!macho_fixups_each(&state->image, fixup_is_outside, (void *)(uintptr_t)section, &reason))
        return macho_plan_keep(state, kind, "dyld applies fixups to it");
    if (image_plan_tripwire_size(state->plan, section->size) == 0)
        return macho_plan_keep(state, kind, "it is too small to gain anything");
    return true;
}

/* ---- data ---- */

static bool make_stub(struct macho_plan_state *state)
{
    size_t counters = state->section_index[SECTION_COUNTERS];
    size_t bitmap = state->section_index[SECTION_BITMAP];
    struct stub_place place;

    if (counters == MACHO_NONE)
        return false;
    place = (struct stub_place){
        .record = section_of(state, SECTION_DATA)->addr,
        .counters = state->image.sections[counters].addr,
        .counters_size = state->image.sections[counters].size,
    };
    if (bitmap != MACHO_NONE && state->image.sections[bitmap].size != 0) {
        place.bitmap = state->image.sections[bitmap].addr;
        place.bitmap_size = state->image.sections[bitmap].size;
    }
    return stub_encode(&state->record_layout, state->plan->facts.raw_version, &place, false,
                       state->stub);
}

static bool has_content(const struct macho_plan_state *state, enum section_kind kind)
{
    return state->section_index[kind] != MACHO_NONE && section_of(state, kind)->size != 0;
}

/* A rebase in the data goes with it. Nothing else is expected there. */
static bool fixup_can_go(void *context, const struct macho_fixup *fixup)
{
    const struct macho_section *section = context;

    return fixup_is_outside(context, fixup) ||
           (fixup->is_rebase && range_within(fixup->address, 8, section->addr, section->size));
}

static bool check_records(struct macho_plan_state *state)
{
    const struct macho_section *section = section_of(state, SECTION_DATA);
    const struct profile_record_layout *layout = &state->record_layout;
    struct bytes records = macho_section_bytes(&state->image, section);
    const char *reason;

    if (records.size % layout->record_size != 0)
        return macho_plan_keep(state, SECTION_DATA, "its size is not a whole number of records");
    if (!layout->relative)
        return macho_plan_keep(state, SECTION_DATA,
                               "its records hold addresses (LLVM 13); build with LLVM 14 or later");
    if (records_have_value_sites(layout, records, false))
        return macho_plan_keep(state, SECTION_DATA,
                               "value profiling is on, and uses it at run time");
    if (has_content(state, SECTION_COVDATA))
        return macho_plan_keep(state, SECTION_DATA,
                               "a part of the image was built with -profile-correlate=binary");
    if (!make_stub(state))
        return macho_plan_keep(state, SECTION_DATA, "the image's counters do not fit one record");
    if (!macho_fixups_each(&state->image, fixup_can_go, (void *)(uintptr_t)section, &reason))
        return macho_plan_keep(state, SECTION_DATA, "%s",
                               reason != NULL ? reason : "it refers to other images");
    return true;
}

static bool check_data(struct macho_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);
    enum section_kind kind = SECTION_DATA;

    return check_runtime(state, kind) && check_records(state) && check_unused(state, kind) &&
           check_bounds(state, kind, kind, RUNTIME_BEGIN_DATA) &&
           runtime_check_not_shared(&runtime, kind, RUNTIME_END_DATA) &&
           check_bounds(state, kind, SECTION_COUNTERS, RUNTIME_BEGIN_COUNTERS) &&
           (!has_content(state, SECTION_BITMAP) ||
            check_bounds(state, kind, SECTION_BITMAP, RUNTIME_BEGIN_BITMAP));
}

static bool place_stub(struct macho_plan_state *state)
{
    const struct macho_section *section = section_of(state, SECTION_DATA);
    struct bytes stub = {state->stub, state->record_layout.record_size};

    state->plan->stub_uuid_literal = state->plan->edits.literals.size;
    return edit_replace(&state->plan->edits, section->offset, stub.size, stub);
}

/* Where records stay, the first one must be known, since it changes when names go, and nobody may
 * look at it: see elf/runtime.c. */
static bool check_first_record(struct macho_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);
    struct reference_target name = {.size = RUNTIME_NAME_REFERENCE_SIZE};
    struct bytes records = {0};
    const char *reason;
    uint64_t from;

    if (has_content(state, SECTION_DATA))
        records = macho_section_bytes(&state->image, section_of(state, SECTION_DATA));
    if (records.size < state->record_layout.record_size)
        return macho_plan_keep(state, SECTION_NAMES, "the image has no records beside it");
    name.first = section_of(state, SECTION_DATA)->addr;
    if (!records_have_value_sites(&state->record_layout, records, false) &&
        ((macho_find_pointer(state, name.first, name.size, &from, &reason) && reason == NULL) ||
         runtime_find_code_reference(&runtime, &name, &from)))
        return macho_plan_keep(state, SECTION_NAMES, RUNTIME_FIRST_RECORD_IS_WATCHED, from);
    return runtime_check_accessor(&runtime, SECTION_NAMES, RUNTIME_BEGIN_DATA, name.first);
}

static bool rewrite_data(struct macho_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);

    return place_stub(state) && runtime_rewrite(&runtime, RUNTIME_END_DATA,
                                                section_of(state, SECTION_DATA)->addr +
                                                    state->record_layout.record_size);
}

static bool plan_names(struct macho_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);
    struct image_plan *plan = state->plan;
    uint64_t size = section_of(state, SECTION_NAMES)->size;

    plan->tripwire_size = image_plan_tripwire_size(plan, size);
    state->names_may_move = !runtime_is_shared(&runtime, RUNTIME_BEGIN_NAMES);
    return macho_plan_removes(state, SECTION_DATA) ||
           image_plan_keep_signature(plan, state->image.file,
                                     section_of(state, SECTION_DATA)->offset, size, false);
}

static bool cannot_rewrite(const struct macho_plan_state *state, struct error *error)
{
    if (state->plan->edits.has_no_memory)
        return error_out_of_memory(error, state->image.path, state->plan->edits.literals.size);
    return error_set(error,
                     "%s: an accessor cannot be rewritten; use --sections without names and data",
                     state->image.path);
}

bool macho_runtime_plan(struct macho_plan_state *state, struct error *error)
{
    struct runtime_image runtime = runtime_image(state);
    bool data, names;

    if (macho_plan_removes(state, SECTION_NAMES) || macho_plan_removes(state, SECTION_DATA))
        keep_what_is_watched(state);
    names = macho_plan_removes(state, SECTION_NAMES) && check_names(state);
    data = macho_plan_removes(state, SECTION_DATA) && check_data(state) &&
           runtime_check_names_go(&runtime, names);
    names = names && (data || check_first_record(state));
    return ((!data || rewrite_data(state)) && (!names || plan_names(state))) ||
           cannot_rewrite(state, error);
}

bool macho_runtime_move_names(struct macho_plan_state *state, struct error *error)
{
    struct runtime_image runtime = runtime_image(state);
    uint64_t start = macho_plan_names_address(state);

    return ((start == section_of(state, SECTION_NAMES)->addr ||
             runtime_rewrite(&runtime, RUNTIME_BEGIN_NAMES, start)) &&
            runtime_rewrite(&runtime, RUNTIME_END_NAMES, start + state->plan->tripwire_size)) ||
           cannot_rewrite(state, error);
}
