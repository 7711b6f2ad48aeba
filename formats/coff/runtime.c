/*
 * Making the profile runtime of a COFF image do without names and data: see coff/plan.h, and
 * elf/runtime.c, which does the same by the same rules.
 */
#include <inttypes.h>
#include <string.h>

#include "formats/coff/plan.h"

/* What of a section lies between the runtime's markers. */
struct bounds {
    uint64_t begin;
    uint64_t end;
};

static enum runtime_symbol begin_of(enum section_kind kind)
{
    switch (kind) {
    case SECTION_NAMES:
        return RUNTIME_BEGIN_NAMES;
    case SECTION_DATA:
        return RUNTIME_BEGIN_DATA;
    case SECTION_COUNTERS:
        return RUNTIME_BEGIN_COUNTERS;
    default:
        return RUNTIME_BEGIN_BITMAP;
    }
}

static enum runtime_symbol end_of(enum section_kind kind)
{
    return begin_of(kind) + 1;
}

static const struct coff_section *section_of(const struct coff_plan_state *state,
                                             enum section_kind kind)
{
    return &state->image.sections[state->section_index[kind]];
}

/* ---- what the functions tell ---- */

/* All definitions of `symbol` must return the same address: *value. `kind` is the section that
 * stays where not. */
static bool told_by(struct coff_plan_state *state, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value)
{
    const char *name = runtime_symbol_name(symbol);
    bool seen = false;

    for (size_t i = 0; i < state->definition_count; i++) {
        const struct runtime_definition *definition = &state->definitions[i];
        struct accessor accessor;
        struct code code;

        if (definition->symbol != symbol)
            continue;
        if (!coff_runtime_decode(state, definition, &code, &accessor) ||
            accessor.form == ACCESSOR_LOAD)
            return coff_plan_keep(state, kind,
                                  "the code of %s is not one that covsplit knows; link with LLVM's "
                                  "own profile runtime, without LTO",
                                  name);
        if (seen && *value != accessor.value)
            return coff_plan_keep(state, kind, "there are several %s that differ", name);
        *value = accessor.value;
        seen = true;
    }
    if (!seen && state->has_symbols)
        return coff_plan_keep(state, kind,
                              "the image has no symbol %s: its profile runtime was inlined, or is "
                              "not LLVM's; link without LTO of the runtime",
                              name);
    if (!seen)
        return coff_plan_keep(state, kind,
                              "no function can be told to be %s; link with /map and give the file "
                              "with --map",
                              name);
    return true;
}

/* What is in front of and behind the bounds must be markers. */
static bool are_markers(const struct coff_plan_state *state, enum section_kind kind,
                        const struct bounds *bounds)
{
    const struct coff_section *section = section_of(state, kind);
    struct bytes whole = coff_section_bytes(&state->image, state->section_index[kind]);
    uint64_t marker = kind == SECTION_DATA ? state->record_layout.record_size : 1;
    uint64_t begin = bounds->begin - section->address, end = bounds->end - section->address;
    struct bytes front, back;

    return begin == marker && begin <= end && end < whole.size &&
           bytes_slice(whole, 0, begin, &front) &&
           bytes_slice(whole, end, whole.size - end, &back) && bytes_all_zero(front) &&
           bytes_all_zero(back) && whole.size == section->VirtualSize;
}

/* Finds and checks the bounds; `victim` is the section that stays where they are not as they
 * should be. */
static bool find_bounds(struct coff_plan_state *state, enum section_kind kind,
                        enum section_kind victim, struct bounds *bounds)
{
    if (!told_by(state, victim, begin_of(kind), &bounds->begin) ||
        !told_by(state, victim, end_of(kind), &bounds->end))
        return false;
    if (!are_markers(state, kind, bounds))
        return coff_plan_keep(state, victim, "%s and %s do not return the bounds of the section",
                              runtime_symbol_name(begin_of(kind)),
                              runtime_symbol_name(end_of(kind)));
    return true;
}

/* Two bytes are the markers alone, and then nobody asks for the bounds. */
static bool is_empty(const struct coff_plan_state *state, enum section_kind kind)
{
    return state->section_index[kind] == NO_INDEX || section_of(state, kind)->VirtualSize <= 2;
}

/* Where the functions do not tell, the markers are taken to be where they always are. */
static void describe_between_markers(struct coff_plan_state *state, enum section_kind kind)
{
    struct image_section *section = image_plan_section(state->plan, kind);
    uint64_t marker = kind == SECTION_DATA ? state->record_layout.record_size : 1;

    if (section == NULL || section->size < 2 * marker)
        return;
    section->address += marker;
    section->offset += marker;
    section->size -= 2 * marker;
}

void coff_runtime_describe(struct coff_plan_state *state)
{
    describe_between_markers(state, SECTION_NAMES);
    describe_between_markers(state, SECTION_COUNTERS);
    describe_between_markers(state, SECTION_BITMAP);
    if (state->has_record_layout)
        describe_between_markers(state, SECTION_DATA);
}

static void set_bounds(struct coff_plan_state *state, enum section_kind kind,
                       const struct bounds *bounds)
{
    const struct coff_section *header = section_of(state, kind);
    struct image_section *section = image_plan_section(state->plan, kind);

    section->address = bounds->begin;
    section->offset = header->PointerToRawData + (bounds->begin - header->address);
    section->size = bounds->end - bounds->begin;
}

/* ---- checks ---- */

/* What the shared rules want to know. They do not search for references to sections: see
 * check_references. */
static struct runtime_image runtime_image(const struct coff_plan_state *state)
{
    return (struct runtime_image){
        .input = state->image.input,
        .plan = state->plan,
        .definitions = state->definitions,
        .definition_count = state->definition_count,
        .machine = state->image.machine,
        .folding_advice = "link without /opt:icf",
        .format = state,
        .code_of = coff_code_of,
        .next_code = coff_next_code,
    };
}

static void tell_functions(const void *format, struct runtime_callers *callers)
{
    coff_tell_functions((struct coff_plan_state *)(uintptr_t)format, callers);
}

/* A program that looks at its own names and records by the runtime's functions keeps them, where
 * symbols tell the two apart. */
static void keep_what_is_watched(struct coff_plan_state *state)
{
    struct runtime_image runtime = runtime_image(state);
    uint64_t from;

    if (state->has_symbols && runtime_find_foreign_caller(&runtime, tell_functions, &from))
        runtime_keep_watched(&runtime, from);
}

/* The function of the section's end is going to return `value`, and must be no other function. */
static bool check_rewritable(struct coff_plan_state *state, enum section_kind kind, uint64_t value)
{
    struct runtime_image runtime = runtime_image(state);

    return runtime_check_not_shared(&runtime, kind, end_of(kind)) &&
           (runtime_can_rewrite(&runtime, end_of(kind), value) ||
            coff_plan_keep(state, kind, "%s cannot be rewritten",
                           runtime_symbol_name(end_of(kind))));
}

static bool check_references(struct coff_plan_state *state, enum section_kind kind)
{
    const struct coff_section *section = section_of(state, kind);
    const char *reason;
    uint64_t from;

    if (!coff_find_reference(state, section->address, section->VirtualSize, &from, &reason))
        return true;
    if (reason != NULL)
        return coff_plan_keep(state, kind, "%s", reason);
    return coff_plan_keep(state, kind,
                          "0x%" PRIx64
                          " refers to it, other than the runtime's functions; link without LTO of "
                          "the runtime",
                          from);
}

/* Without the version nothing could be put back into profiles. */
static bool check_version(struct coff_plan_state *state, enum section_kind kind)
{
    if (state->has_record_layout && state->record_layout.relative)
        return true;
    if (state->plan->facts.raw_version == 0 && !state->has_symbols)
        return coff_plan_keep(state, kind,
                              "the version of its raw profiles cannot be told; link with /map and "
                              "give the file with --map");
    return coff_plan_keep(state, kind, "the version of its raw profiles is not known to covsplit");
}

/* Whether profiles have bytes of a bitmap that is in no section: the records tell, and where they
 * are not known, the functions. Gives the reason for `victim` to stay then. */
static bool has_hidden_bitmap(struct coff_plan_state *state, enum section_kind victim)
{
    const struct profile_record_layout *layout = &state->record_layout;
    size_t data = state->section_index[SECTION_DATA];
    struct bounds bitmap;
    struct bytes records;
    bool found = false;

    if (layout->bitmap_ptr == 0)
        return false;
    if (data == NO_INDEX) {
        if (!told_by(state, victim, RUNTIME_BEGIN_BITMAP, &bitmap.begin) ||
            !told_by(state, victim, RUNTIME_END_BITMAP, &bitmap.end))
            return true;
        found = bitmap.begin != bitmap.end;
    } else {
        records = coff_section_bytes(&state->image, data);
        for (uint64_t i = 0; i + layout->record_size <= records.size; i += layout->record_size)
            found |= load_u32(records.data + i + layout->num_bitmap_bytes, false) != 0;
    }
    return found && !coff_plan_keep(state, victim, "its bitmap cannot be told from other data");
}

/* What profiles have of counters and bitmap must be known, or no sidecar could complete them. */
static bool find_counted(struct coff_plan_state *state, enum section_kind victim,
                         struct bounds *counters, struct bounds *bitmap)
{
    *bitmap = (struct bounds){0};
    if (state->section_index[SECTION_COUNTERS] == NO_INDEX)
        return coff_plan_keep(state, victim,
                              "the linker merged the counters into other data, as runtimes up to "
                              "LLVM 17 tell it to; link with a later one");
    if (!find_bounds(state, SECTION_COUNTERS, victim, counters))
        return false;
    set_bounds(state, SECTION_COUNTERS, counters);
    if (is_empty(state, SECTION_BITMAP))
        return !has_hidden_bitmap(state, victim);
    if (!find_bounds(state, SECTION_BITMAP, victim, bitmap))
        return false;
    set_bounds(state, SECTION_BITMAP, bitmap);
    return true;
}

/* The end of the names is going to be behind the tripwire, for which there must be room at their
 * start. */
static uint64_t tripwire_end(const struct coff_plan_state *state, const struct bounds *names)
{
    return names->begin + image_plan_tripwire_size(state->plan, names->end - names->begin);
}

static bool check_names(struct coff_plan_state *state, struct bounds *bounds)
{
    struct bounds counters, bitmap;

    if (!check_version(state, SECTION_NAMES) ||
        !find_bounds(state, SECTION_NAMES, SECTION_NAMES, bounds) ||
        !find_counted(state, SECTION_NAMES, &counters, &bitmap))
        return false;
    if (tripwire_end(state, bounds) == bounds->begin)
        return coff_plan_keep(state, SECTION_NAMES, "it is too small to gain anything");
    return check_rewritable(state, SECTION_NAMES, tripwire_end(state, bounds)) &&
           check_references(state, SECTION_NAMES);
}

/* Where records stay, the first one must be known, since it changes when names go, and nobody may
 * look at it: see elf/runtime.c. */
static bool find_first_record(struct coff_plan_state *state, uint64_t *offset)
{
    struct bounds data;
    struct bytes record, records;
    const char *reason;
    uint64_t from;

    if (!told_by(state, SECTION_NAMES, RUNTIME_BEGIN_DATA, &data.begin) ||
        !told_by(state, SECTION_NAMES, RUNTIME_END_DATA, &data.end))
        return false;
    if (data.end - data.begin < state->record_layout.record_size ||
        !coff_bytes_at(&state->image, data.begin, state->record_layout.record_size, &record))
        return coff_plan_keep(state, SECTION_NAMES, "the image has no records beside it");
    *offset = (uint64_t)(record.data - state->image.file.data);
    if (coff_bytes_at(&state->image, data.begin, data.end - data.begin, &records) &&
        !records_have_value_sites(&state->record_layout, records, false) &&
        coff_find_reference(state, data.begin, RUNTIME_NAME_REFERENCE_SIZE, &from, &reason) &&
        reason == NULL)
        return coff_plan_keep(state, SECTION_NAMES, RUNTIME_FIRST_RECORD_IS_WATCHED, from);
    return true;
}

/* The stub covers whole counters: those behind the bytes that align the first one. */
static bool place_stub(struct coff_plan_state *state, const struct bounds *data,
                       struct stub_place *place)
{
    struct bounds counters, bitmap;
    uint64_t unit = profile_counter_size(state->plan->facts.raw_version);

    if (!find_counted(state, SECTION_DATA, &counters, &bitmap))
        return false;
    *place = (struct stub_place){.narrow = true,
                                 .record = data->begin,
                                 .counters = align_up(counters.begin, unit),
                                 .bitmap = bitmap.begin,
                                 .bitmap_size = bitmap.end - bitmap.begin};
    if (place->counters < counters.end)
        place->counters_size = counters.end - place->counters;
    return true;
}

static bool check_records(struct coff_plan_state *state, const struct bounds *bounds)
{
    const struct profile_record_layout *layout = &state->record_layout;
    struct bytes records;

    if (bounds->end == bounds->begin || (bounds->end - bounds->begin) % layout->record_size != 0 ||
        !coff_bytes_at(&state->image, bounds->begin, bounds->end - bounds->begin, &records))
        return coff_plan_keep(state, SECTION_DATA, "its size is not a whole number of records");
    if (records_have_value_sites(layout, records, false))
        return coff_plan_keep(state, SECTION_DATA,
                              "value profiling is on, and uses it at run time");
    if (state->section_index[SECTION_COVDATA] != NO_INDEX)
        return coff_plan_keep(state, SECTION_DATA,
                              "a part of the image was built with -profile-correlate=binary");
    return true;
}

static bool check_data(struct coff_plan_state *state, struct bounds *bounds)
{
    struct stub_place place;

    if (!check_version(state, SECTION_DATA) ||
        !find_bounds(state, SECTION_DATA, SECTION_DATA, bounds) || !check_records(state, bounds) ||
        !place_stub(state, bounds, &place))
        return false;
    if (!stub_encode(&state->record_layout, state->plan->facts.raw_version, &place, false,
                     state->stub))
        return coff_plan_keep(state, SECTION_DATA, "the image's counters do not fit one record");
    return check_rewritable(state, SECTION_DATA,
                            bounds->begin + state->record_layout.record_size) &&
           check_references(state, SECTION_DATA);
}

/* ---- edits ---- */

static bool plan_data(struct coff_plan_state *state, const struct bounds *bounds)
{
    struct runtime_image runtime = runtime_image(state);

    set_bounds(state, SECTION_DATA, bounds);
    return runtime_rewrite(&runtime, RUNTIME_END_DATA,
                           bounds->begin + state->record_layout.record_size);
}

static bool plan_names(struct coff_plan_state *state, const struct bounds *bounds,
                       uint64_t first_record)
{
    struct runtime_image runtime = runtime_image(state);
    struct image_plan *plan = state->plan;
    uint64_t size = bounds->end - bounds->begin;

    set_bounds(state, SECTION_NAMES, bounds);
    plan->tripwire_size = image_plan_tripwire_size(plan, size);
    return (coff_plan_removes(state, SECTION_DATA) ||
            image_plan_keep_signature(plan, state->image.file, first_record, size, false)) &&
           runtime_rewrite(&runtime, RUNTIME_END_NAMES, tripwire_end(state, bounds));
}

/* Once all is checked, an edit can fail for want of memory alone. */
bool coff_runtime_plan(struct coff_plan_state *state, struct error *error)
{
    struct bounds data_bounds, names_bounds;
    struct runtime_image runtime = runtime_image(state);
    uint64_t first_record = 0;
    bool data, names;

    if (coff_plan_removes(state, SECTION_NAMES) || coff_plan_removes(state, SECTION_DATA))
        keep_what_is_watched(state);
    names = coff_plan_removes(state, SECTION_NAMES) && check_names(state, &names_bounds);
    data = coff_plan_removes(state, SECTION_DATA) && check_data(state, &data_bounds) &&
           runtime_check_names_go(&runtime, names);
    names = names && (data || find_first_record(state, &first_record));
    return ((!data || plan_data(state, &data_bounds)) &&
            (!names || plan_names(state, &names_bounds, first_record))) ||
           error_out_of_memory(error, state->image.path, sizeof(struct edit));
}
