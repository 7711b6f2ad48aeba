/*
 * Finds the runtime's symbols in the COFF symbol table (mingw) or in a map file of lld-link or
 * MSVC: see coff/state.h.
 *
 * Neither is trusted: a symbol is checked against the code at its address.
 */
#include <string.h>

#include "formats/coff/state.h"

/* Offsets in a symbol of the table. */
#define SYMBOL_STRING_OFFSET     4
#define SYMBOL_VALUE             8
#define SYMBOL_SECTION_NUMBER    12
#define SYMBOL_TYPE              14
#define SYMBOL_AUX_COUNT         17

#define IMAGE_SYM_DTYPE_FUNCTION 0x20

/* Pages of tables are released in pieces of this size. */
#define PIECE_SIZE (UINT64_C(1) << 20)

/* ---- the symbol table ---- */

static void skip_underscore(const struct coff_image *image, struct bytes *name)
{
    if (image->pointer_size == 4 && name->size != 0 && name->data[0] == '_') {
        name->data++;
        name->size--;
    }
}

/* The name of a symbol, if longer than eight bytes, as all names of interest are. */
static bool long_symbol_name(const struct coff_image *image, const uint8_t *symbol,
                             struct bytes *name)
{
    uint32_t offset = load_u32(symbol + SYMBOL_STRING_OFFSET, false);

    *name = (struct bytes){symbol, 0};
    return load_u32(symbol, false) == 0 && offset < image->strings.size &&
           bytes_slice(image->strings, offset, image->strings.size - offset, name);
}

static bool each_in_table(const struct coff_state *state, runtime_symbol_visitor visit,
                          void *context)
{
    const struct coff_image *image = &state->image;
    uint64_t released = 0, offset = 0;
    struct bytes symbol;

    for (uint64_t i = 0; i < image->symbol_count; i++) {
        struct image_symbol found;
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
        if (!visit(context, &found))
            return false;
        if (offset - released >= PIECE_SIZE) {
            input_release_pages(image->input, image->symbols_offset + released, offset - released);
            released = offset;
        }
    }
    return true;
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

static bool each_in_map(const struct coff_state *state, runtime_symbol_visitor visit, void *context)
{
    struct bytes left = {0};

    if (state->base.options->map != NULL)
        left = state->base.options->map->bytes;
    while (left.size != 0) {
        const uint8_t *newline = memchr(left.data, '\n', (size_t)left.size);
        uint64_t size = newline == NULL ? left.size : (uint64_t)(newline - left.data) + 1;
        struct image_symbol found;

        if (parse_map_line(state, (struct bytes){left.data, size}, &found) &&
            !visit(context, &found))
            return false;
        left = (struct bytes){left.data + size, left.size - size};
    }
    return true;
}

static bool stop_at_first(void *context, const struct image_symbol *found)
{
    (void)context;
    (void)found;
    return false;
}

/* Checks that the map file belongs to the image: there are several forms of map files, and several
 * builds of an image. */
static bool check_map(const struct coff_state *state, struct error *error)
{
    const struct input *map = state->base.options->map;

    return map == NULL || !each_in_map(state, stop_at_first, NULL) ||
           error_set(error,
                     "%s: not a map file of this image: no line has an address in it, in the form "
                     "that MSVC and lld-link write; give the one that /map writes (mingw: link "
                     "without -s instead)",
                     map->path);
}

bool coff_symbols_visit(const struct planning *planning, runtime_symbol_visitor visit,
                        void *context)
{
    const struct coff_state *state = (const struct coff_state *)planning;

    return each_in_table(state, visit, context) && each_in_map(state, visit, context);
}

bool coff_symbols_find(struct coff_state *state, struct error *error)
{
    struct runtime_symbols *symbols = &state->base.code.symbols;

    if (!check_map(state, error))
        return false;
    if (!runtime_symbols_find(symbols, coff_symbols_visit, &state->base))
        return error_set(error,
                         "%s: damaged COFF image or map file: the profile runtime is defined too "
                         "many times; link it again",
                         state->image.path);
    symbols->are_told = symbols->count != 0;
    return true;
}
