/*
 * Making the profile runtime of a Mach-O image do without names and data: which of the two can go,
 * and the edits to the runtime's code (see elf_runtime.c, which does the same by the same rules).
 *
 * Nothing here is taken on trust. A section goes only if every function that returns its bounds is
 * found, has a body that is understood and returns just the bounds that the section headers say,
 * and if nothing else in the image is seen to refer to the section.
 */
#include <inttypes.h>
#include <string.h>

#include "formats/accessor.h"
#include "formats/macho_fixups.h"
#include "formats/macho_plan.h"

static const struct macho_section *section_of(const struct macho_plan_state *state,
                                              enum section_kind kind)
{
    return &state->image.sections[state->section_index[kind]];
}

/* ---- accessors ---- */

/* Every definition of `symbol` must return `expected`, and there must be one. */
static bool check_accessor(struct macho_plan_state *state, enum section_kind kind,
                           enum runtime_symbol symbol, uint64_t expected)
{
    const char *name = runtime_symbol_name(symbol);
    size_t seen = 0;

    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        struct accessor accessor;
        struct bytes code;

        if (definition->symbol != symbol)
            continue;
        seen++;
        if (!macho_runtime_decode(state, definition, &code, &accessor) ||
            accessor.form != ACCESSOR_PC_RELATIVE)
            return macho_plan_keep(state, kind,
                                   "the code of %s is not one that covsplit knows; link with "
                                   "LLVM's own profile runtime, without LTO",
                                   name);
        if (accessor.value != expected)
            return macho_plan_keep(state, kind, "%s does not return the bound of the section",
                                   name);
    }
    if (seen == 0)
        return macho_plan_keep(state, kind,
                               "the image has no symbol %s: it was stripped, or its profile "
                               "runtime was inlined, or is not LLVM's; run covsplit before strip",
                               name);
    return true;
}

static bool check_bounds(struct macho_plan_state *state, enum section_kind victim,
                         enum section_kind kind, enum runtime_symbol begin)
{
    const struct macho_section *section = section_of(state, kind);

    return check_accessor(state, victim, begin, section->addr) &&
           check_accessor(state, victim, begin + 1, section->addr + section->size);
}

/* An accessor that gets a new body must not be another function too. */
static bool check_not_shared(struct macho_plan_state *state, enum section_kind kind,
                             enum runtime_symbol symbol)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        if (definition->symbol == symbol && definition->is_shared)
            return macho_plan_keep(state, kind,
                                   "%s shares its code with another function; link without "
                                   "identical code folding",
                                   runtime_symbol_name(symbol));
    }
    return true;
}

/* Whether this address was seen for the symbol before: two symbols may name one copy. */
static bool is_repeated(const struct macho_plan_state *state, size_t index)
{
    const struct runtime_definition *definitions = state->runtime.definitions;

    for (size_t i = 0; i < index; i++) {
        if (definitions[i].symbol == definitions[index].symbol &&
            definitions[i].address == definitions[index].address)
            return true;
    }
    return false;
}

static bool rewrite_accessor(struct macho_plan_state *state, enum runtime_symbol symbol,
                             uint64_t value)
{
    for (size_t i = 0; i < state->runtime.count; i++) {
        const struct runtime_definition *definition = &state->runtime.definitions[i];
        uint8_t instruction[ACCESSOR_INSTRUCTION_MAX];
        struct accessor accessor;
        struct bytes code;
        uint64_t offset;

        if (definition->symbol != symbol || is_repeated(state, i))
            continue;
        if (!macho_runtime_decode(state, definition, &code, &accessor) ||
            !accessor_encode(state->image.machine, &accessor, code, definition->address, value,
                             instruction))
            return false;
        offset = (uint64_t)(code.data - state->image.file.data) + accessor.instruction_offset;
        if (!edit_overwrite_differences(&state->plan->edits, state->image.file, offset,
                                        (struct bytes){instruction, accessor.instruction_size}))
            return false;
    }
    return true;
}

/* ---- what names and data have in common ---- */

/* How much at either end of a section is looked for in code: who walks a section starts at one of
 * its bounds, or at a field of its first or last record. Looking for all of a large section would
 * find values in a large image that only seem to refer to it. */
#define BOUND_WINDOW UINT64_C(64)

/* True where a section that stays starts at the address: references to it may mean that one. */
static bool is_start_of_section(const struct macho_image *image, uint64_t address)
{
    for (size_t i = 0; i < image->section_count; i++) {
        if (image->sections[i].addr == address && image->sections[i].size != 0)
            return true;
    }
    return false;
}

static bool find_reference_to_bounds(struct macho_plan_state *state,
                                     const struct macho_section *section, uint64_t *from)
{
    uint64_t window = section->size < BOUND_WINDOW ? section->size : BOUND_WINDOW;
    uint64_t end = section->addr + section->size;
    uint64_t last = is_start_of_section(&state->image, end) ? 0 : 1;

    return macho_find_code_reference(state, section->addr, window, from) ||
           macho_find_code_reference(state, end - window, window + last, from);
}

static bool check_unused(struct macho_plan_state *state, enum section_kind kind)
{
    const struct macho_image *image = &state->image;
    const struct macho_section *section = section_of(state, kind);
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
    if (find_reference_to_bounds(state, section, &from))
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
    enum section_kind kind = SECTION_NAMES;
    const char *reason;

    if (!check_runtime(state, kind) || !check_unused(state, kind) ||
        !check_bounds(state, kind, kind, RUNTIME_BEGIN_NAMES) ||
        !check_not_shared(state, kind, RUNTIME_END_NAMES))
        return false;
    if (!macho_fixups_each(&state->image, fixup_is_outside,
                           (void *)(uintptr_t)section_of(state, kind), &reason))
        return macho_plan_keep(state, kind, "dyld applies fixups to it");
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
    enum section_kind kind = SECTION_DATA;

    return check_runtime(state, kind) && check_records(state) && check_unused(state, kind) &&
           check_bounds(state, kind, kind, RUNTIME_BEGIN_DATA) &&
           check_not_shared(state, kind, RUNTIME_END_DATA) &&
           check_bounds(state, kind, SECTION_COUNTERS, RUNTIME_BEGIN_COUNTERS) &&
           (!has_content(state, SECTION_BITMAP) ||
            check_bounds(state, kind, SECTION_BITMAP, RUNTIME_BEGIN_BITMAP));
}

static bool place_stub(struct macho_plan_state *state)
{
    const struct macho_section *section = section_of(state, SECTION_DATA);
    struct bytes stub = {state->stub, state->record_layout.record_size};

    state->reserved[SECTION_DATA] = stub.size;
    state->plan->stub_uuid_literal = state->plan->edits.literals.size;
    return edit_replace(&state->plan->edits, section->offset, stub.size, stub);
}

bool macho_runtime_plan(struct macho_plan_state *state, struct error *error)
{
    bool done = true;

    if (macho_plan_removes(state, SECTION_NAMES) && check_names(state))
        done = rewrite_accessor(state, RUNTIME_END_NAMES, section_of(state, SECTION_NAMES)->addr);
    if (done && macho_plan_removes(state, SECTION_DATA) && check_data(state))
        done = place_stub(state) && rewrite_accessor(state, RUNTIME_END_DATA,
                                                     section_of(state, SECTION_DATA)->addr +
                                                         state->record_layout.record_size);
    return done ? true
                : error_set(error,
                            "%s: an accessor cannot be rewritten; use --sections without names "
                            "and data",
                            state->image.path);
}
