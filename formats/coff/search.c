/*
 * Searching the code of a COFF image: for the runtime's functions where no symbols name them, and
 * for whoever else refers to what will go. See coff/plan.h.
 *
 * Images by MSVC or lld-link carry no symbols (they are in a PDB file). But the runtime's functions
 * do just one thing, and the bounds that they return have a byte or a record of their own in the
 * section, to which nothing else leads. So a function is known by its result; and that no other
 * code makes the same address is checked, which is more than a name would prove.
 */
#include "formats/coff/plan.h"

#include <elf.h>
#include <string.h>

/* How much at either end of a section counts as near its bounds: the marker and the next record. */
#define BOUND_WINDOW UINT64_C(128)
/* The same for counters and bitmap, of which only the markers are looked for. */
#define MARKER_WINDOW UINT64_C(8)

static bool is_code(const struct coff_section *section)
{
    return (section->Characteristics & (IMAGE_SCN_MEM_EXECUTE | IMAGE_SCN_CNT_CODE)) != 0;
}

bool coff_next_code(const void *format, size_t *index, struct code *code)
{
    const struct coff_image *image = &((const struct coff_plan_state *)format)->image;

    while (*index < image->section_count) {
        size_t i = (*index)++;

        if (!is_code(&image->sections[i]))
            continue;
        *code = (struct code){coff_section_bytes(image, i), image->sections[i].address};
        return true;
    }
    return false;
}

/* ---- bodies ---- */

bool coff_code_of(const void *format, const struct runtime_definition *definition,
                  struct code *code)
{
    const struct coff_image *image = &((const struct coff_plan_state *)format)->image;

    code->address = definition->address;
    if (!coff_bytes_from(image, code->address, &code->bytes))
        return false;
    if (accessor_follow_jump(image->machine, code->bytes, code->address, &code->address) &&
        !coff_bytes_from(image, code->address, &code->bytes))
        return false;
    return is_code(&image->sections[coff_section_of(image, code->address, 1)]);
}

bool coff_runtime_decode(const struct coff_plan_state *state,
                         const struct runtime_definition *definition, struct code *code,
                         struct accessor *accessor)
{
    return coff_code_of(state, definition, code) &&
           accessor_decode(state->image.machine, code->bytes, code->address, accessor);
}

static bool inside_known_body(const struct coff_plan_state *state, uint64_t position)
{
    for (size_t i = 0; i < state->definition_count; i++) {
        struct accessor accessor;
        struct code code;

        if (state->definitions[i].symbol != RUNTIME_RAW_VERSION &&
            coff_runtime_decode(state, &state->definitions[i], &code, &accessor) &&
            range_within(position, 1, code.address, accessor.size))
            return true;
    }
    return false;
}

/* ---- references ---- */

struct search {
    const struct coff_plan_state *state;
    uint64_t first; /* the range */
    uint64_t size;
    bool code_only;
    code_search_visitor visit; /* also for pointers */
    void *context;
};

static bool search_section(const struct search *search, size_t index)
{
    const struct coff_image *image = &search->state->image;
    struct code code = {coff_section_bytes(image, index), image->sections[index].address};
    struct code_search in_code = {.input = image->input,
                                  .machine = image->machine,
                                  .target = {.first = search->first, .size = search->size}};

    return code_search(&in_code, &code, search->visit, search->context);
}

static bool visit_relocation(void *context, const struct coff_relocation *relocation)
{
    const struct search *search = context;
    const struct coff_image *image = &search->state->image;
    size_t section = coff_section_of(image, relocation->address, 1);

    if (relocation->target - search->first >= search->size ||
        (search->code_only && (section == NO_INDEX || !is_code(&image->sections[section]))))
        return true;
    return search->visit(search->context, relocation->address);
}

/* Calls the visitor for every reference; false where it stopped, or with *reason. */
static bool search_code(const struct search *search, const char **reason)
{
    const struct coff_image *image = &search->state->image;

    *reason = NULL;
    if (image->machine == EM_386)
        return coff_relocations_each(image, visit_relocation, (void *)(uintptr_t)search, reason);
    for (size_t i = 0; i < image->section_count; i++) {
        if (is_code(&image->sections[i]) && !search_section(search, i))
            return false;
    }
    return true;
}

struct foreign {
    const struct coff_plan_state *state;
    uint64_t address; /* of what goes */
    uint64_t size;
    uint64_t from;
};

static bool is_known(void *context, uint64_t from)
{
    struct foreign *foreign = context;

    /* What goes may well refer to itself. */
    if (range_within(from, 1, foreign->address, foreign->size) ||
        inside_known_body(foreign->state, from))
        return true;
    foreign->from = from;
    return false;
}

bool coff_find_reference(const struct coff_plan_state *state, uint64_t address, uint64_t size,
                         uint64_t *from, const char **reason)
{
    struct foreign foreign = {state, address, size, 0};
    struct search search = {state, address, size, false, is_known, &foreign};
    bool alone = coff_relocations_each(&state->image, visit_relocation, &search, reason);

    /* On i386 code has relocations too. On AArch64 two instructions make an address, which is
     * hardly ever seen where there is none; on x86-64 many numbers look like distances. */
    if (alone && state->image.machine == EM_X86_64 && size > 2 * BOUND_WINDOW) {
        search.size = BOUND_WINDOW;
        alone = search_code(&search, reason);
        search.first = address + size - BOUND_WINDOW;
    }
    if (alone && state->image.machine != EM_386)
        alone = search_code(&search, reason);
    *from = foreign.from;
    return !alone;
}

/* ---- functions without names ---- */

/* The functions that return an address in the range: at most two different addresses count. */
struct bodies {
    const struct coff_plan_state *state;
    uint64_t first, size;
    struct {
        uint64_t value;
        uint64_t address; /* of a body */
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
    struct accessor accessor;
    uint64_t start, address;
    size_t i = 0;

    if (section == NO_INDEX ||
        !accessor_decode_around(image->machine, coff_section_bytes(image, section),
                                image->sections[section].address,
                                from - image->sections[section].address, &start, &accessor) ||
        accessor.form == ACCESSOR_LOAD || accessor.value - bodies->first >= bodies->size)
        return true;
    address = image->sections[section].address + start;
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
    /* An operand may be seen in the overlap of two pieces, twice. */
    if (bodies->found[i].count == 0 || bodies->found[i].address != address)
        bodies->found[i].count++;
    bodies->found[i].address = address;
    return true;
}

static void define(struct coff_plan_state *state, enum runtime_symbol symbol, uint64_t address)
{
    if (state->definition_count < RUNTIME_DEFINITIONS_MAX)
        state->definitions[state->definition_count++] =
            (struct runtime_definition){.symbol = symbol, .address = address};
}

/* Both bounds, or none. The function of the end is going to be changed, so it must be the only one;
 * the start may be told by several. */
static void define_bounds(struct coff_plan_state *state, struct bodies *bodies,
                          enum runtime_symbol begin, enum runtime_symbol end)
{
    size_t last = bodies->found_count == 2 && bodies->found[1].value > bodies->found[0].value;

    if (bodies->too_many || bodies->found_count != 2 || bodies->found[last].count != 1)
        return;
    define(state, begin, bodies->found[1 - last].address);
    define(state, end, bodies->found[last].address);
}

static void search_bounds(struct coff_plan_state *state, enum section_kind kind, uint64_t window,
                          enum runtime_symbol begin, enum runtime_symbol end)
{
    size_t index = state->section_index[kind];
    struct bodies bodies = {.state = state};
    struct search search = {state, 0, 0, true, collect_body, &bodies};
    const struct coff_section *section;
    const char *reason;

    if (index == NO_INDEX)
        return;
    section = &state->image.sections[index];
    bodies.first = section->address;
    bodies.size = section->VirtualSize;
    search.first = section->address;
    search.size = section->VirtualSize;
    if (search.size > 2 * window) {
        search.size = window;
        search_code(&search, &reason);
        search.first = section->address + section->VirtualSize - window;
    }
    search_code(&search, &reason);
    define_bounds(state, &bodies, begin, end);
}

/* ---- the version without a name ---- */

/* Whether the records of the image make sense if they have this layout: the counters of each are in
 * the section of counters. */
static bool records_fit(const struct coff_plan_state *state, uint64_t raw_version)
{
    size_t data = state->section_index[SECTION_DATA];
    size_t counters = state->section_index[SECTION_COUNTERS];
    struct profile_record_layout layout;
    const struct coff_section *section = &state->image.sections[counters];
    struct bytes records = coff_section_bytes(&state->image, data);
    uint64_t start = state->image.sections[data].address;
    uint64_t size = profile_counter_size(raw_version);

    if (!stub_layout(raw_version, state->image.pointer_size, &layout) || !layout.relative ||
        records.size < 3 * layout.record_size || records.size % layout.record_size != 0)
        return false;
    /* The first and the last are the runtime's markers. */
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
    struct coff_plan_state *state;
    bool indirect;    /* code reads the variable's address from another one */
    uint64_t address; /* of the one that was found; 0: none */
    uint64_t value;
    bool several;
};

/* The value of an aligned variable of 8 bytes. */
static bool read_variable(const struct coff_image *image, uint64_t address, uint64_t *value)
{
    size_t section = coff_section_of(image, address, sizeof(uint64_t));
    struct bytes bytes;

    if (section == NO_INDEX || is_code(&image->sections[section]) ||
        address % sizeof(uint64_t) != 0 || !coff_bytes_at(image, address, sizeof(uint64_t), &bytes))
        return false;
    *value = load_u64(bytes.data, false);
    return true;
}

/* A variable that code reads: is it a version? */
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

    return section == NO_INDEX || !is_code(&image->sections[section]) ||
           look_at_variable(versions, relocation->target);
}

static void search_version_in(struct versions *versions, size_t index)
{
    const struct coff_image *image = &versions->state->image;
    struct bytes code = coff_section_bytes(image, index);
    uint64_t position = 0, target;

    while (accessor_find_load(image->machine, code, image->sections[index].address, &position,
                              &target) &&
           look_at_variable(versions, target))
        continue;
    input_release_pages(image->input, image->sections[index].PointerToRawData, code.size);
}

static struct versions search_versions(struct coff_plan_state *state, bool indirect)
{
    const struct coff_image *image = &state->image;
    struct versions versions = {.state = state, .indirect = indirect};
    const char *reason;

    if (image->machine == EM_386)
        coff_relocations_each(image, visit_variable, &versions, &reason);
    for (size_t i = 0; i < image->section_count && !versions.several; i++) {
        if (is_code(&image->sections[i]))
            search_version_in(&versions, i);
    }
    return versions;
}

/* The runtime reads its version from a variable. Which one that is can be told by its value, which
 * must fit the records, where no other such value is about. mingw's compilers have the address of
 * what may be in another image read from a variable of its own, .refptr.NAME. */
void coff_search_version(struct coff_plan_state *state)
{
    struct versions versions;

    if (state->section_index[SECTION_DATA] == NO_INDEX ||
        state->section_index[SECTION_COUNTERS] == NO_INDEX)
        return;
    versions = search_versions(state, false);
    if (versions.address == 0)
        versions = search_versions(state, true);
    if (versions.address != 0 && !versions.several)
        define(state, RUNTIME_RAW_VERSION, versions.address);
}

void coff_search_functions(struct coff_plan_state *state)
{
    search_bounds(state, SECTION_NAMES, BOUND_WINDOW, RUNTIME_BEGIN_NAMES, RUNTIME_END_NAMES);
    search_bounds(state, SECTION_DATA, BOUND_WINDOW, RUNTIME_BEGIN_DATA, RUNTIME_END_DATA);
    search_bounds(state, SECTION_COUNTERS, MARKER_WINDOW, RUNTIME_BEGIN_COUNTERS,
                  RUNTIME_END_COUNTERS);
    search_bounds(state, SECTION_BITMAP, MARKER_WINDOW, RUNTIME_BEGIN_BITMAP, RUNTIME_END_BITMAP);
}
