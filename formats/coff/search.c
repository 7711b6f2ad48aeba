/*
 * Searches the code of a COFF image for the runtime's functions if no symbols name them.
 *
 * Images linked by MSVC or lld-link contain no symbols (these are in a PDB file). But the runtime's
 * functions do just one thing, and there is a byte or a record of its own in the section for each
 * bound that they return, to which nothing else refers. So a function is identified by its result;
 * that no other code forms the same address is checked, which proves more than a name would.
 */
#include "formats/coff/state.h"

#include <string.h>

/* How many bytes at either end of a section count as near its bounds, for counters and bitmap: of
 * these only the markers are looked for. */
#define MARKER_WINDOW UINT64_C(8)

struct search {
    const struct coff_state *state;
    struct reference_target target; /* the range to which references are looked for */
    code_search_visitor visit;
    void *context;
};

static bool visit_relocation(void *context, const struct coff_relocation *relocation)
{
    const struct search *search = context;
    const struct coff_image *image = &search->state->image;
    size_t section = coff_section_of(image, relocation->address, 1);

    if (!reference_counts(&search->target, relocation->target) || section == NO_INDEX ||
        !coff_section_is_code(&image->sections[section]))
        return true;
    return search->visit(search->context, relocation->address);
}

/* Calls the visitor for every reference to the range in code, until it stops the search. */
static void search_code(const struct search *search)
{
    const struct image_code *code = &search->state->base.code;
    const char *reason;

    if (code->code_has_relocations)
        coff_relocations_each(&search->state->image, visit_relocation, (void *)(uintptr_t)search,
                              &reason);
    else
        rules_search_code(code, &search->target, search->visit, search->context);
}

/* ---- functions without names ---- */

/* The functions that return an address in the range; they may return two different addresses at
 * most. */
struct bodies {
    const struct coff_state *state;
    uint64_t first, size;
    struct {
        uint64_t value;
        uint64_t address; /* of a function's body */
        size_t count;
    } found[2];
    size_t found_count;
    bool too_many;
};

static bool collect_body(void *context, uint64_t from)
{
    struct bodies *bodies = context;
    const struct coff_image *image = &bodies->state->image;
    size_t section = coff_section_of(image, from, 1);
    struct code code = {.address = 0};
    struct accessor accessor;
    uint64_t start, address;
    size_t i = 0;

    if (section != NO_INDEX)
        code = (struct code){.bytes = coff_section_bytes(image, section),
                             .address = image->sections[section].address};
    if (section == NO_INDEX ||
        !code_decode_around(bodies->state->base.code.machine, &code, from - code.address, &start,
                            &accessor) ||
        accessor.form == ACCESSOR_LOAD || accessor.value - bodies->first >= bodies->size)
        return true;
    address = code.address + start;
    while (i < bodies->found_count && bodies->found[i].value != accessor.value)
        i++;
    if (i == 2) {
        bodies->too_many = true;
        return false;
    }
    if (i == bodies->found_count) {
        bodies->found_count++;
        bodies->found[i].value = accessor.value;
    }
    /* An operand in the overlap of two pieces may be reported twice. */
    if (bodies->found[i].count == 0 || bodies->found[i].address != address)
        bodies->found[i].count++;
    bodies->found[i].address = address;
    return true;
}

/* Defines both bounds or neither. The function that returns the end is going to be changed, so
 * there must be only one; the start may be returned by several. */
static void define_bounds(struct coff_state *state, struct bodies *bodies,
                          enum runtime_symbol begin, enum runtime_symbol end)
{
    size_t last = bodies->found_count == 2 && bodies->found[1].value > bodies->found[0].value;

    if (bodies->too_many || bodies->found_count != 2 || bodies->found[last].count != 1)
        return;
    runtime_symbols_add(&state->base.code.symbols, begin, bodies->found[1 - last].address, 0);
    runtime_symbols_add(&state->base.code.symbols, end, bodies->found[last].address, 0);
}

static void search_bounds(struct coff_state *state, enum section_kind kind, uint64_t window,
                          enum runtime_symbol begin, enum runtime_symbol end)
{
    size_t index = state->base.section_index[kind];
    struct bodies bodies = {.state = state};
    struct search search = {.state = state, .visit = collect_body, .context = &bodies};
    const struct coff_section *section;

    if (index == NO_INDEX)
        return;
    section = &state->image.sections[index];
    bodies.first = search.target.first = section->address;
    bodies.size = search.target.size = section->VirtualSize;
    if (bodies.size > 2 * window) {
        search.target.size = window;
        search_code(&search);
        search.target.first = section->address + bodies.size - window;
    }
    search_code(&search);
    define_bounds(state, &bodies, begin, end);
}

/* ---- the version without a name ---- */

/* Whether the image's records make sense with this layout: the counters of each must be in the
 * section of counters. */
static bool records_fit(const struct coff_state *state, uint64_t raw_version)
{
    size_t data = state->base.section_index[SECTION_DATA];
    size_t counters = state->base.section_index[SECTION_COUNTERS];
    struct profile_record_layout layout;
    const struct coff_section *section = &state->image.sections[counters];
    struct bytes records = coff_section_bytes(&state->image, data);
    uint64_t start = state->image.sections[data].address;
    uint64_t size = profile_counter_size(raw_version);

    if (!stub_layout(raw_version, state->image.pointer_size, &layout) || !layout.relative ||
        records.size < 3 * layout.record_size || records.size % layout.record_size != 0)
        return false;
    /* The first and the last one are the runtime's markers. */
    for (uint64_t i = layout.record_size; i < records.size - layout.record_size;
         i += layout.record_size) {
        const uint8_t *record = records.data + i;
        uint32_t pointer = load_u32(record + layout.counter_ptr, false);
        uint64_t offset = (uint32_t)(start + i + pointer - section->address);
        uint64_t count = load_u32(record + layout.num_counters, false);

        if (count == 0 || !range_within(offset, count * size, 0, section->VirtualSize))
            return false;
    }
    return true;
}

struct versions {
    struct coff_state *state;
    bool indirect;    /* code reads the variable's address from another one */
    uint64_t address; /* of the variable that was found; 0: none */
    uint64_t value;
    bool several;
};

/* Reads the value of an aligned variable of 8 bytes. */
static bool read_variable(const struct coff_image *image, uint64_t address, uint64_t *value)
{
    size_t section = coff_section_of(image, address, sizeof(uint64_t));
    struct bytes bytes;

    if (section == NO_INDEX || coff_section_is_code(&image->sections[section]) ||
        address % sizeof(uint64_t) != 0 || !coff_bytes_at(image, address, sizeof(uint64_t), &bytes))
        return false;
    *value = load_u64(bytes.data, false);
    return true;
}

/* Checks whether a variable that code reads may be a version. */
static bool look_at_variable(struct versions *versions, uint64_t address)
{
    const struct coff_image *image = &versions->state->image;
    struct profile_record_layout layout;
    uint64_t value;

    if (versions->indirect && !read_variable(image, address, &address))
        return true;
    if (!read_variable(image, address, &value))
        return true;
    if ((versions->address != 0 && value == versions->value) ||
        !stub_layout(value, image->pointer_size, &layout) || !records_fit(versions->state, value))
        return true;
    versions->several = versions->address != 0;
    versions->address = address;
    versions->value = value;
    return !versions->several;
}

static bool visit_variable(void *context, const struct coff_relocation *relocation)
{
    struct versions *versions = context;
    const struct coff_image *image = &versions->state->image;
    size_t section = coff_section_of(image, relocation->address, 1);

    return section == NO_INDEX || !coff_section_is_code(&image->sections[section]) ||
           look_at_variable(versions, relocation->target);
}

static void search_version_in(struct versions *versions, size_t index)
{
    const struct coff_image *image = &versions->state->image;
    const struct machine *machine = versions->state->base.code.machine;
    struct code code = {.bytes = coff_section_bytes(image, index),
                        .address = image->sections[index].address};
    uint64_t position = 0, target;

    while (machine->find_load(&code, &position, &target) && look_at_variable(versions, target))
        continue;
    input_release_pages(image->input, image->sections[index].PointerToRawData, code.bytes.size);
}

static struct versions search_versions(struct coff_state *state, bool indirect)
{
    const struct coff_image *image = &state->image;
    struct versions versions = {.state = state, .indirect = indirect};
    const char *reason;

    if (state->base.code.machine->find_load == NULL) {
        coff_relocations_each(image, visit_variable, &versions, &reason);
        return versions;
    }
    for (size_t i = 0; i < image->section_count && !versions.several; i++) {
        if (coff_section_is_code(&image->sections[i]))
            search_version_in(&versions, i);
    }
    return versions;
}

/* The runtime reads its version from a variable. That variable is recognized by its value, which
 * must fit the records, if no other variable has such a value. Compilers for mingw read the address
 * of a variable that may be in another image from a variable of its own, .refptr.NAME. */
void coff_search_version(struct coff_state *state)
{
    struct versions versions;

    if (state->base.section_index[SECTION_DATA] == NO_INDEX ||
        state->base.section_index[SECTION_COUNTERS] == NO_INDEX)
        return;
    versions = search_versions(state, false);
    if (versions.address == 0)
        versions = search_versions(state, true);
    if (versions.address != 0 && !versions.several)
        runtime_symbols_add(&state->base.code.symbols, RUNTIME_RAW_VERSION, versions.address, 0);
}

void coff_search_functions(struct coff_state *state)
{
    search_bounds(state, SECTION_NAMES, state->base.code.bound_window, RUNTIME_BEGIN_NAMES,
                  RUNTIME_END_NAMES);
    search_bounds(state, SECTION_DATA, state->base.code.bound_window, RUNTIME_BEGIN_DATA,
                  RUNTIME_END_DATA);
    search_bounds(state, SECTION_COUNTERS, MARKER_WINDOW, RUNTIME_BEGIN_COUNTERS,
                  RUNTIME_END_COUNTERS);
    search_bounds(state, SECTION_BITMAP, MARKER_WINDOW, RUNTIME_BEGIN_BITMAP, RUNTIME_END_BITMAP);
}
