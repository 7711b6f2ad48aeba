/*
 * The runtime's symbols, from the COFF symbol table (mingw) or from a map file of lld-link or MSVC:
 * see coff/plan.h.
 *
 * Neither is trusted: what a symbol is said to be is checked against the code at its address.
 */
#include <string.h>

#include "formats/coff/plan.h"

/* Of a symbol in the table. */
#define SYMBOL_STRING_OFFSET     4
#define SYMBOL_VALUE             8
#define SYMBOL_SECTION_NUMBER    12
#define SYMBOL_TYPE              14
#define SYMBOL_AUX_COUNT         17

#define IMAGE_SYM_DTYPE_FUNCTION 0x20

/* Pages of tables are given back in such pieces. */
#define PIECE_SIZE (UINT64_C(1) << 20)

struct found_symbol {
    struct bytes name; /* and what follows; without the underscore that i386 has in front */
    uint64_t address;
    bool is_function;
};

typedef bool (*symbol_visitor)(struct coff_plan_state *state, const struct found_symbol *found);

/* Whether the text is the name of a symbol of the runtime, with any character behind it that is not
 * part of a name. */
static bool classify(struct bytes name, enum runtime_symbol *symbol)
{
    char text[64] = {0};
    size_t size = 0;

    while (size < name.size && size + 1 < sizeof(text) && name.data[size] > ' ') {
        text[size] = (char)name.data[size];
        size++;
    }
    return runtime_symbol_classify((struct bytes){(const uint8_t *)text, size + 1}, symbol);
}

static bool starts_like_runtime(struct bytes name)
{
    const size_t prefix = sizeof(RUNTIME_PREFIX) - 1;

    return name.size > prefix && memcmp(name.data, RUNTIME_PREFIX, prefix) == 0;
}

static bool collect(struct coff_plan_state *state, const struct found_symbol *found)
{
    enum runtime_symbol symbol;

    if (!starts_like_runtime(found->name) || !classify(found->name, &symbol))
        return true;
    if (state->definition_count == RUNTIME_DEFINITIONS_MAX)
        return false;
    state->definitions[state->definition_count++] =
        (struct runtime_definition){.symbol = symbol, .address = found->address};
    return true;
}

/* Identical functions may have been folded into one. */
static bool mark_shared(struct coff_plan_state *state, const struct found_symbol *found)
{
    for (size_t i = 0; i < state->definition_count; i++) {
        struct runtime_definition *definition = &state->definitions[i];
        enum runtime_symbol symbol;

        if (definition->address == found->address && found->is_function &&
            (!starts_like_runtime(found->name) || !classify(found->name, &symbol) ||
             symbol != definition->symbol))
            definition->is_shared = true;
    }
    return true;
}

/* ---- the symbol table ---- */

static void skip_underscore(const struct coff_image *image, struct bytes *name)
{
    if (image->pointer_size == 4 && name->size != 0 && name->data[0] == '_') {
        name->data++;
        name->size--;
    }
}

/* All names of interest are longer than eight bytes. */
static bool long_symbol_name(const struct coff_image *image, const uint8_t *symbol,
                             struct bytes *name)
{
    uint32_t offset = load_u32(symbol + SYMBOL_STRING_OFFSET, false);

    *name = (struct bytes){symbol, 0};
    return load_u32(symbol, false) == 0 && offset < image->strings.size &&
           bytes_slice(image->strings, offset, image->strings.size - offset, name);
}

static bool each_in_table(struct coff_plan_state *state, symbol_visitor visit)
{
    const struct coff_image *image = &state->image;
    uint64_t released = 0, offset = 0;
    struct bytes symbol;

    for (uint64_t i = 0; i < image->symbol_count; i++) {
        struct found_symbol found;
        uint16_t section;

        offset = i * COFF_SYMBOL_SIZE;
        if (!bytes_slice(image->file, image->symbols_offset + offset, COFF_SYMBOL_SIZE, &symbol))
            return false;
        i += symbol.data[SYMBOL_AUX_COUNT];
        section = load_u16(symbol.data + SYMBOL_SECTION_NUMBER, false);
        if (section == 0 || section > image->section_count)
            continue;
        long_symbol_name(image, symbol.data, &found.name);
        skip_underscore(image, &found.name);
        found.address =
            image->sections[section - 1].address + load_u32(symbol.data + SYMBOL_VALUE, false);
        found.is_function = load_u16(symbol.data + SYMBOL_TYPE, false) == IMAGE_SYM_DTYPE_FUNCTION;
        if (!visit(state, &found))
            return false;
        if (offset - released >= PIECE_SIZE) {
            input_release_pages(image->input, image->symbols_offset + released, offset - released);
            released = offset;
        }
    }
    return true;
}

/* ---- the map file ---- */

/* Takes a word off the front of the line. */
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

/* " 0001:00000a40       name       0000000140001a40 f   object": f stands for a function. */
static bool parse_map_line(struct coff_plan_state *state, struct bytes line,
                           struct found_symbol *found)
{
    struct bytes place, address;

    if (!take_word(&line, &place) || place.size < 3 ||
        memchr(place.data, ':', (size_t)place.size) == NULL || !take_word(&line, &found->name) ||
        !take_word(&line, &address) || address.size < 8 ||
        !parse_hexadecimal(address, &found->address))
        return false;
    skip_underscore(&state->image, &found->name);
    /* lld-link does not say what is a function. Data is not where functions are. */
    found->is_function = true;
    return coff_section_of(&state->image, found->address, 1) != NO_INDEX;
}

static bool each_in_map(struct coff_plan_state *state, symbol_visitor visit)
{
    struct bytes left = {0};

    if (state->options->map != NULL)
        left = state->options->map->bytes;
    while (left.size != 0) {
        const uint8_t *newline = memchr(left.data, '\n', (size_t)left.size);
        uint64_t size = newline == NULL ? left.size : (uint64_t)(newline - left.data) + 1;
        struct found_symbol found;

        if (parse_map_line(state, (struct bytes){left.data, size}, &found) && !visit(state, &found))
            return false;
        left = (struct bytes){left.data + size, left.size - size};
    }
    return true;
}

static bool stop_at_first(struct coff_plan_state *state, const struct found_symbol *found)
{
    (void)state;
    (void)found;
    return false;
}

/* Linkers have several forms of map files, and images several builds. */
static bool check_map(struct coff_plan_state *state, struct error *error)
{
    const struct input *map = state->options->map;

    return map == NULL || !each_in_map(state, stop_at_first) ||
           error_set(error,
                     "%s: not a map file of this image in the form of MSVC and lld-link, in which "
                     "no line names an address of it; give the one that /map writes (mingw: link "
                     "without -s instead)",
                     map->path);
}

bool coff_symbols_find(struct coff_plan_state *state, struct error *error)
{
    if (!check_map(state, error))
        return false;
    if (!each_in_table(state, collect) || !each_in_map(state, collect))
        return error_set(error,
                         "%s: damaged COFF image or map file: the profile runtime is defined too "
                         "many times; link it again",
                         state->image.path);
    state->has_symbols = state->definition_count != 0;
    return each_in_table(state, mark_shared) && each_in_map(state, mark_shared);
}

static bool tell_function(struct coff_plan_state *state, const struct found_symbol *found)
{
    if (found->is_function)
        runtime_callers_tell(state->callers, found->address, found->name);
    return true;
}

void coff_tell_functions(struct coff_plan_state *state, struct runtime_callers *callers)
{
    state->callers = callers;
    each_in_table(state, tell_function);
    each_in_map(state, tell_function);
    state->callers = NULL;
}
