/*
 * Finds the runtime's functions in the COFF symbol table (mingw) or in a map file of lld-link or
 * MSVC; and in the code if neither names them.
 *
 * Names are not trusted: a symbol is checked against the code at its address. Images linked by MSVC
 * or lld-link contain no symbols (these are in a PDB file). But the runtime's functions do just one
 * thing, and there is a byte or a record of its own in the section for each bound that they return,
 * to which nothing else refers. So a function is identified by its result; that no other code forms
 * the same address is checked, which proves more than a name would.
 */
#include "formats/coff/coff.h"

#include <string.h>

/* Offsets in a symbol of the table. */
#define SYMBOL_STRING_OFFSET     4
#define SYMBOL_VALUE             8
#define SYMBOL_SECTION_NUMBER    12
#define SYMBOL_TYPE              14
#define SYMBOL_AUX_COUNT         17

#define IMAGE_SYM_DTYPE_FUNCTION 0x20

/* Pages of tables are released in pieces of this size. */
#define PIECE_SIZE (UINT64_C(1) << 20)

/* The number of bytes at either end of a section that count as near its bounds, for counters and
 * bitmap: of these only the markers are looked for. */
#define MARKER_WINDOW UINT64_C(8)

/* ---- the symbol table ---- */

static void skip_underscore(const struct coff_image *image, struct bytes *name)
{
    if (image->pointer_size == 4 && name->size != 0 && name->data[0] == '_')
        *name = (struct bytes){name->data + 1, name->size - 1};
}

static bool next_in_table(const struct coff_image *image, struct symbol_walk *walk,
                          struct image_symbol *found)
{
    while (walk->at < image->symbol_count) {
        uint64_t offset = walk->at * COFF_SYMBOL_SIZE;
        struct bytes symbol;
        uint32_t name;
        uint16_t section;

        if (!bytes_slice(image->file, image->symbols_offset + offset, COFF_SYMBOL_SIZE, &symbol)) {
            walk->bad = true;
            return false;
        }
        if (offset - walk->released >= PIECE_SIZE) {
            input_release_pages(image->input, image->symbols_offset + walk->released,
                                offset - walk->released);
            walk->released = offset;
        }
        walk->at += 1 + (uint64_t)symbol.data[SYMBOL_AUX_COUNT];
        section = load_u16(symbol.data + SYMBOL_SECTION_NUMBER, false);
        if (section == 0 || section > image->section_count)
            continue;
        /* All names of interest are longer than eight bytes. */
        name = load_u32(symbol.data + SYMBOL_STRING_OFFSET, false);
        found->name = (struct bytes){symbol.data, 0};
        if (load_u32(symbol.data, false) == 0 && name < image->strings.size)
            bytes_slice(image->strings, name, image->strings.size - name, &found->name);
        skip_underscore(image, &found->name);
        found->address =
            image->sections[section - 1].address + load_u32(symbol.data + SYMBOL_VALUE, false);
        found->is_function = load_u16(symbol.data + SYMBOL_TYPE, false) == IMAGE_SYM_DTYPE_FUNCTION;
        return true;
    }
    return false;
}

/* ---- the map file ---- */

/* Takes a word off the start of the line. */
static bool take_word(struct bytes *line, struct bytes *word)
{
    uint64_t start = 0, end;

    while (start < line->size && line->data[start] == ' ')
        start++;
    for (end = start; end < line->size && line->data[end] > ' ';)
        end++;
    *word = (struct bytes){line->data + start, end - start};
    *line = (struct bytes){line->data + end, line->size - end};
    return word->size != 0;
}

static bool parse_hexadecimal(struct bytes word, uint64_t *value)
{
    static const char digits[] = "0123456789abcdef";

    *value = 0;
    for (uint64_t i = 0; i < word.size; i++) {
        uint8_t digit = word.data[i];
        const char *found = digit == 0 ? NULL : strchr(digits, digit | 0x20);

        if (found == NULL || *value >> 60 != 0)
            return false;
        *value = *value << 4 | (uint64_t)(found - digits);
    }
    return word.size != 0;
}

/* " 0001:00000a40       name       0000000140001a40 f   object": "f" marks a function. */
static bool parse_map_line(const struct coff_state *state, struct bytes line,
                           struct image_symbol *found)
{
    struct bytes place, address;

    if (!take_word(&line, &place) || place.size < 3 ||
        memchr(place.data, ':', (size_t)place.size) == NULL || !take_word(&line, &found->name) ||
        !take_word(&line, &address) || address.size < 8 ||
        !parse_hexadecimal(address, &found->address))
        return false;
    skip_underscore(&state->image, &found->name);
    /* lld-link does not mark functions, so every symbol counts as one: data is at other addresses
     * anyway. */
    found->is_function = true;
    return coff_section_of(&state->image, found->address, 1) != NO_INDEX;
}

/* Takes lines of the map file up to the next one that has a symbol. */
static bool next_in_map(const struct coff_state *state, struct bytes *map,
                        struct image_symbol *found)
{
    while (map->size != 0) {
        const uint8_t *newline = memchr(map->data, '\n', (size_t)map->size);
        uint64_t size = newline == NULL ? map->size : (uint64_t)(newline - map->data) + 1;
        struct bytes line = {map->data, size};

        *map = (struct bytes){map->data + size, map->size - size};
        if (parse_map_line(state, line, found))
            return true;
    }
    return false;
}

bool coff_symbols_next(const struct planning *planning, struct symbol_walk *walk,
                       struct image_symbol *symbol)
{
    const struct coff_state *state = (const struct coff_state *)planning;
    const struct input *map = planning->options->map;

    *symbol = (struct image_symbol){.size = 0};
    if (next_in_table(&state->image, walk, symbol))
        return true;
    if (walk->more.data == NULL && map != NULL)
        walk->more = map->bytes;
    return !walk->bad && next_in_map(state, &walk->more, symbol);
}

bool coff_symbols_find(struct coff_state *state, struct error *error)
{
    struct runtime_symbols *symbols = &state->base.code.symbols;
    const struct input *map = state->base.options->map;
    struct bytes lines = map != NULL ? map->bytes : (struct bytes){0};
    struct image_symbol first;

    /* There are several forms of map files, and several builds of an image. */
    if (map != NULL && !next_in_map(state, &lines, &first))
        return error_set(error,
                         "%s: not a map file of this image: no line has an address in it, in the "
                         "form that MSVC and lld-link write; give the one that /map writes (mingw: "
                         "link without -s instead)",
                         map->path);
    if (!runtime_symbols_find(symbols, coff_symbols_next, &state->base))
        return error_set(error,
                         "%s: damaged COFF image or map file: the profile runtime is defined too "
                         "many times; link it again",
                         state->image.path);
    symbols->from_symbol_table = symbols->count != 0;
    return true;
}

/* ---- functions without names ---- */

/* The functions that return an address in the range; they may return two different addresses at
 * most. */
struct bodies {
    const struct coff_state *state;
    struct reference_target target; /* the range to which references are looked for: all of it, */
    uint64_t first, size;           /* or a part */
    struct {
        uint64_t value;
        uint64_t address; /* of a function's body */
        size_t count;
    } found[2];
    size_t found_count;
    bool too_many;
};

/* Collects the body that has the operand at `from`. */
static void collect_body(struct bodies *bodies, uint64_t from)
{
    const struct coff_image *image = &bodies->state->image;
    size_t section = coff_section_of(image, from, 1), i = 0;
    struct code code;
    struct accessor accessor;
    uint64_t start;

    if (section == NO_INDEX)
        return;
    code = (struct code){.bytes = coff_section_bytes(image, section),
                         .address = image->sections[section].address};
    if (!code_decode_around(bodies->state->base.code.machine, &code, from - code.address, &start,
                            &accessor) ||
        accessor.form == ACCESSOR_LOAD || accessor.value - bodies->first >= bodies->size)
        return;
    while (i < bodies->found_count && bodies->found[i].value != accessor.value)
        i++;
    bodies->too_many = i == 2;
    if (bodies->too_many)
        return;
    if (i == bodies->found_count)
        bodies->found[bodies->found_count++].value = accessor.value;
    /* An operand in the overlap of two pieces may be reported twice. */
    if (bodies->found[i].count == 0 || bodies->found[i].address != code.address + start)
        bodies->found[i].count++;
    bodies->found[i].address = code.address + start;
}

/* Collects the functions that refer to bodies->target. */
static void search_code(struct bodies *bodies)
{
    const struct image_code *code = &bodies->state->base.code;
    struct coff_relocations relocations = coff_relocations_open(&bodies->state->image);
    struct coff_relocation relocation;
    struct code_references references;
    uint64_t from;

    code_references_open(&references, code, &bodies->target);
    while (!bodies->too_many && !code->code_has_relocations &&
           code_references_next(&references, &from))
        collect_body(bodies, from);
    while (!bodies->too_many && code->code_has_relocations &&
           coff_relocations_next(&relocations, &relocation)) {
        if (reference_counts(&bodies->target, relocation.target) &&
            coff_is_code(relocations.image, relocation.address))
            collect_body(bodies, relocation.address);
    }
}

/* Defines both bounds or neither. The function that returns the end is going to be changed, so
 * there must be only one; the start may be returned by several. */
static void search_bounds(struct coff_state *state, enum section_kind kind, uint64_t window,
                          enum runtime_symbol begin)
{
    struct runtime_symbols *symbols = &state->base.code.symbols;
    size_t index = state->base.section_index[kind], last;
    struct bodies bodies = {.state = state};

    if (index == NO_INDEX)
        return;
    bodies.first = bodies.target.first = state->image.sections[index].address;
    bodies.size = bodies.target.size = state->image.sections[index].VirtualSize;
    if (bodies.size > 2 * window) {
        bodies.target.size = window;
        search_code(&bodies);
        bodies.target.first = bodies.first + bodies.size - window;
    }
    search_code(&bodies);
    last = bodies.found_count == 2 && bodies.found[1].value > bodies.found[0].value;
    if (bodies.too_many || bodies.found_count != 2 || bodies.found[last].count != 1)
        return;
    runtime_symbols_add(symbols, begin, bodies.found[1 - last].address, 0);
    runtime_symbols_add(symbols, begin + 1, bodies.found[last].address, 0);
}

void coff_search_functions(struct coff_state *state)
{
    uint64_t window = state->base.code.bound_window;

    search_bounds(state, SECTION_NAMES, window, RUNTIME_BEGIN_NAMES);
    search_bounds(state, SECTION_DATA, window, RUNTIME_BEGIN_DATA);
    search_bounds(state, SECTION_COUNTERS, MARKER_WINDOW, RUNTIME_BEGIN_COUNTERS);
    search_bounds(state, SECTION_BITMAP, MARKER_WINDOW, RUNTIME_BEGIN_BITMAP);
}

/* ---- the version without a name ---- */

/* True if the image's records make sense with this layout: the counters of each must be in the
 * section of counters. */
static bool records_fit(const struct coff_state *state, uint64_t raw_version)
{
    const struct coff_section *data =
        &state->image.sections[state->base.section_index[SECTION_DATA]];
    const struct coff_section *counters =
        &state->image.sections[state->base.section_index[SECTION_COUNTERS]];
    struct bytes records =
        coff_section_bytes(&state->image, state->base.section_index[SECTION_DATA]);
    uint64_t size = profile_counter_size(raw_version);
    struct profile_record_layout layout;

    if (!stub_layout(raw_version, state->image.pointer_size, &layout) || !layout.relative ||
        records.size < 3 * layout.record_size || records.size % layout.record_size != 0)
        return false;
    /* The first and the last one are the runtime's markers. */
    for (uint64_t i = layout.record_size; i < records.size - layout.record_size;
         i += layout.record_size) {
        uint32_t pointer = load_u32(records.data + i + layout.counter_ptr, false);
        uint64_t offset = (uint32_t)(data->address + i + pointer - counters->address);
        uint64_t count = load_u32(records.data + i + layout.num_counters, false);

        if (count == 0 || !range_within(offset, count * size, 0, counters->VirtualSize))
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
    struct bytes bytes;

    if (address % sizeof(uint64_t) != 0 || coff_is_code(image, address) ||
        !coff_bytes_at(image, address, sizeof(uint64_t), &bytes))
        return false;
    *value = load_u64(bytes.data, false);
    return true;
}

/* Checks whether a variable that code reads may be a version. False if it is the second one. */
static bool look_at_variable(struct versions *versions, uint64_t address)
{
    const struct coff_image *image = &versions->state->image;
    struct profile_record_layout layout;
    uint64_t value;

    if ((versions->indirect && !read_variable(image, address, &address)) ||
        !read_variable(image, address, &value) ||
        (versions->address != 0 && value == versions->value) ||
        !stub_layout(value, image->pointer_size, &layout) || !records_fit(versions->state, value))
        return true;
    versions->several = versions->address != 0;
    versions->address = address;
    versions->value = value;
    return !versions->several;
}

static void search_versions(struct versions *versions)
{
    const struct coff_image *image = &versions->state->image;
    const struct machine *machine = versions->state->base.code.machine;
    struct coff_relocations relocations = coff_relocations_open(image);
    struct coff_relocation relocation;

    while (machine->find_load == NULL && coff_relocations_next(&relocations, &relocation)) {
        if (coff_is_code(image, relocation.address) &&
            !look_at_variable(versions, relocation.target))
            return;
    }
    for (size_t i = 0; i < image->section_count && machine->find_load != NULL; i++) {
        struct code code = {.bytes = coff_section_bytes(image, i),
                            .address = image->sections[i].address};
        uint64_t position = 0, target;

        if (versions->several || !coff_section_is_code(&image->sections[i]))
            continue;
        while (machine->find_load(&code, &position, &target) && look_at_variable(versions, target))
            continue;
        input_release_pages(image->input, image->sections[i].PointerToRawData, code.bytes.size);
    }
}

/* The runtime reads its version from a variable. That variable is recognized by its value, which
 * must fit the records, if no other variable has such a value. Compilers for mingw read the address
 * of a variable that may be in another image from a variable of its own, .refptr.NAME. */
void coff_search_version(struct coff_state *state)
{
    struct versions versions = {.state = state};

    if (state->base.section_index[SECTION_DATA] == NO_INDEX ||
        state->base.section_index[SECTION_COUNTERS] == NO_INDEX)
        return;
    search_versions(&versions);
    if (versions.address == 0) {
        versions = (struct versions){.state = state, .indirect = true};
        search_versions(&versions);
    }
    if (versions.address != 0 && !versions.several)
        runtime_symbols_add(&state->base.code.symbols, RUNTIME_RAW_VERSION, versions.address, 0);
}
