/*
 * Writing a packed COFF object: see coff_object_packing.h.
 *
 * Behind the headers come, for each section, its contents, relocations and line numbers, then the
 * symbols and the string table: the order in which compilers and assemblers write them.
 */
#include <libdeflate.h>

#include "common/base/numbers.h"
#include "formats/object/coff_object_packing.h"
#include "formats/object/kept_strings.h"

/* Auxiliary records: of a weak symbol and of a function, */
#define AUX_TAG_INDEX     0
#define AUX_LINE_NUMBERS  8
#define AUX_NEXT_FUNCTION 12

/* a relocation of x86-64 whose field for a symbol has something else. */
#define IMAGE_REL_AMD64_PAIR 0x000f

/* GNU as aligns all that is in the file. */
#define PIECE_ALIGNMENT 4

/* ---- the string table ---- */

static enum result use_string(struct coff_packing *state, struct kept_strings *strings,
                              uint32_t offset)
{
    if (offset < COFF_STRINGS_FIRST || offset >= state->object.strings.size)
        return coff_keep_damaged(state, "a name is not in the string table");
    kept_strings_use(strings, offset);
    return RESULT_OK;
}

static enum result use_strings(struct coff_packing *state, struct kept_strings *strings)
{
    const struct coff_object *object = &state->object;
    struct coff_object_symbol symbol;
    enum result result = RESULT_OK;
    uint32_t offset;

    for (uint32_t i = 0; i < object->section_count && result == RESULT_OK; i++)
        if (state->parts[i].number != 0 &&
            coff_section_has_string(state->parts[i].section.header, &offset))
            result = use_string(state, strings, offset);
    for (uint32_t i = 0; i < object->symbol_count && result == RESULT_OK;
         i += 1u + symbol.aux_count) {
        coff_object_symbol_read(object, i, &symbol);
        if (state->symbols[i] != COFF_SYMBOL_GONE && coff_symbol_has_string(symbol.bytes, &offset))
            result = use_string(state, strings, offset);
    }
    return result;
}

/* Chooses the strings that stay. The size in front of them does, too. */
static enum result make_strings(struct coff_packing *state, struct kept_strings *strings)
{
    enum result result;

    if (state->object.strings.size == 0)
        return RESULT_OK;
    if (!kept_strings_start(strings, state->object.strings))
        return RESULT_NO_MEMORY;
    for (uint32_t i = 0; i < COFF_STRINGS_FIRST; i++)
        kept_strings_use(strings, i);
    result = use_strings(state, strings);
    kept_strings_choose(strings);
    return result;
}

static enum result write_strings(struct coff_packing *state, const struct kept_strings *strings)
{
    struct buffer *out = &state->packing->contents;
    size_t start = out->size;

    if (strings->table.size == 0)
        return RESULT_OK;
    if (!kept_strings_append(strings, out))
        return RESULT_NO_MEMORY;
    store_u32(out->data + start, (uint32_t)(out->size - start), false);
    return RESULT_OK;
}

/* ---- sections ---- */

static enum result write_headers(struct coff_packing *state, const struct kept_strings *strings)
{
    const struct coff_object *object = &state->object;
    struct buffer *out = &state->packing->contents;
    uint32_t offset;

    if (!buffer_append(out, object->file.data, object->header_size))
        return RESULT_NO_MEMORY;
    for (uint32_t i = 0; i < object->section_count; i++) {
        const struct coff_part *part = &state->parts[i];

        if (part->number == 0)
            continue;
        if (!buffer_append(out, part->section.header, COFF_OBJECT_SECTION_SIZE))
            return RESULT_NO_MEMORY;
        if (coff_section_has_string(part->section.header, &offset))
            coff_section_set_string(out->data + out->size - COFF_OBJECT_SECTION_SIZE,
                                    kept_strings_offset(strings, offset));
    }
    return RESULT_OK;
}

/* Appends a piece of a section, whose offset goes into the field of the section's header. A field
 * that was 0 stays so: the section has no such piece. */
static bool put_piece(struct coff_packing *state, const struct coff_part *part, unsigned field,
                      struct bytes piece, uint32_t alignment)
{
    struct buffer *out = &state->packing->contents;
    uint64_t header =
        state->object.header_size + (uint64_t)(part->number - 1) * COFF_OBJECT_SECTION_SIZE;

    if (load_u32(part->section.header + field, false) == 0)
        return true;
    if (!buffer_append_zeros(out, (size_t)(align_up(out->size, alignment) - out->size)))
        return false;
    store_u32(out->data + header + field, (uint32_t)out->size, false);
    return piece.size == 0 || buffer_append(out, piece.data, (size_t)piece.size);
}

static bool put_contents(struct coff_packing *state, const struct coff_part *part,
                         uint32_t alignment)
{
    struct buffer *out = &state->packing->contents;
    uint64_t header =
        state->object.header_size + (uint64_t)(part->number - 1) * COFF_OBJECT_SECTION_SIZE;

    if (!part->is_changed)
        return put_piece(state, part, COFF_OBJECT_POINTER_TO_RAW_DATA, part->section.contents,
                         alignment);
    if (!put_piece(state, part, COFF_OBJECT_POINTER_TO_RAW_DATA, buffer_view(&part->changed),
                   alignment))
        return false;
    store_u32(out->data + header + COFF_OBJECT_SIZE_OF_RAW_DATA, (uint32_t)part->changed.size,
              false);
    if (part->changed.size == 0)
        store_u32(out->data + header + COFF_OBJECT_POINTER_TO_RAW_DATA, 0, false);
    return true;
}

/* Gives the symbol at `field` its new number. */
static enum result renumber(struct coff_packing *state, uint8_t *field)
{
    uint32_t now = 0;
    enum result result =
        coff_renumber(&state->numbering, load_u32(field, false), &now, state->packing);

    store_u32(field, now, false);
    return result;
}

static enum result write_relocations(struct coff_packing *state, const struct coff_part *part,
                                     uint32_t alignment)
{
    struct buffer *out = &state->packing->contents;
    uint64_t size = part->section.relocations.size;
    enum result result = RESULT_OK;
    uint8_t *at, *end;

    if (!put_piece(state, part, COFF_OBJECT_POINTER_TO_RELOCATIONS, part->section.relocations,
                   alignment))
        return RESULT_NO_MEMORY;
    end = out->data + out->size;
    at = end - size;
    if (size != 0 && coff_relocations_overflow(&part->section))
        at += COFF_OBJECT_RELOCATION_SIZE;
    for (; at < end && result == RESULT_OK; at += COFF_OBJECT_RELOCATION_SIZE) {
        if (state->object.is_amd64 &&
            load_u16(at + COFF_RELOCATION_TYPE, false) == IMAGE_REL_AMD64_PAIR)
            return object_keep(state->packing, "it has relocations of a type that is not known "
                                               "(PAIR); leave it as it is");
        result = renumber(state, at + COFF_RELOCATION_SYMBOL);
    }
    return result;
}

/* The first entry of each function has a symbol, and the number 0. */
static enum result write_line_numbers(struct coff_packing *state, const struct coff_part *part,
                                      uint32_t alignment)
{
    struct buffer *out = &state->packing->contents;
    enum result result = RESULT_OK;

    if (!put_piece(state, part, COFF_OBJECT_POINTER_TO_LINENUMBERS, part->section.line_numbers,
                   alignment))
        return RESULT_NO_MEMORY;
    for (uint64_t left = part->section.line_numbers.size; left != 0 && result == RESULT_OK;
         left -= COFF_OBJECT_LINE_SIZE) {
        uint8_t *at = out->data + out->size - left;

        if (load_u16(at + COFF_LINE_NUMBER, false) == 0)
            result = renumber(state, at + COFF_LINE_SYMBOL);
    }
    return result;
}

/* PIECE_ALIGNMENT if everything was aligned so. */
static uint32_t find_alignment(const struct coff_packing *state)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < state->object.section_count; i++) {
        const uint8_t *header = state->parts[i].section.header;

        all |= load_u32(header + COFF_OBJECT_POINTER_TO_RAW_DATA, false) |
               load_u32(header + COFF_OBJECT_POINTER_TO_RELOCATIONS, false);
    }
    return all % PIECE_ALIGNMENT == 0 ? PIECE_ALIGNMENT : 1;
}

static enum result write_sections(struct coff_packing *state)
{
    uint32_t alignment = find_alignment(state);

    for (uint32_t i = 0; i < state->object.section_count; i++) {
        const struct coff_part *part = &state->parts[i];
        enum result result;

        if (part->number == 0)
            continue;
        if (!put_contents(state, part, alignment))
            return RESULT_NO_MEMORY;
        result = write_relocations(state, part, alignment);
        if (result == RESULT_OK)
            result = write_line_numbers(state, part, alignment);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* ---- symbols ---- */

/* The checksum of a section as compilers write it: CRC-32 without its inversions. */
static uint32_t check_sum(const struct buffer *contents)
{
    return ~libdeflate_crc32(UINT32_MAX, contents->data, contents->size);
}

/* The definition of a section has its size and checksum, and the number of the section that it
 * belongs to, which mostly is its own. */
static enum result write_definition(struct coff_packing *state, const struct coff_part *part,
                                    uint8_t *aux)
{
    uint32_t number = coff_definition_number(&state->object, aux);

    if (number > state->object.section_count)
        return coff_keep_damaged(state, "a section belongs to one that does not exist");
    if (number != 0 && state->parts[number - 1].number == 0)
        return object_keep(state->packing, "a section belongs to a function's record; compile it "
                                           "again");
    if (number != 0)
        coff_definition_set_number(&state->object, aux, state->parts[number - 1].number);
    if (!part->is_changed)
        return RESULT_OK;
    store_u32(aux + COFF_DEFINITION_LENGTH, (uint32_t)part->changed.size, false);
    if (load_u32(aux + COFF_DEFINITION_CHECK_SUM, false) != 0)
        store_u32(aux + COFF_DEFINITION_CHECK_SUM, check_sum(&part->changed), false);
    return RESULT_OK;
}

/* 0 stands for no symbol here. */
static enum result renumber_optional(struct coff_packing *state, uint8_t *field)
{
    return load_u32(field, false) == 0 ? RESULT_OK : renumber(state, field);
}

/* A function, or one of the symbols .bf, .lf and .ef that describe it. */
static enum result write_function(struct coff_packing *state,
                                  const struct coff_object_symbol *symbol, uint8_t *aux)
{
    bool is_definition = symbol->storage_class == IMAGE_SYM_CLASS_EXTERNAL;
    enum result result = RESULT_OK;

    if (is_definition && load_u32(aux + AUX_LINE_NUMBERS, false) != 0)
        return object_keep(state->packing, "it has line numbers in COFF's own form; compile it "
                                           "with other debug information");
    if (is_definition)
        result = renumber_optional(state, aux + AUX_TAG_INDEX);
    return result == RESULT_OK ? renumber_optional(state, aux + AUX_NEXT_FUNCTION) : result;
}

static bool is_function(const struct coff_object_symbol *symbol)
{
    return symbol->storage_class == IMAGE_SYM_CLASS_FUNCTION ||
           (symbol->storage_class == IMAGE_SYM_CLASS_EXTERNAL && symbol->section > 0 &&
            symbol->type == IMAGE_SYM_TYPE_FUNCTION);
}

static enum result write_aux(struct coff_packing *state, const struct coff_object_symbol *symbol,
                             uint8_t *aux)
{
    struct bytes all = {symbol->aux, (uint64_t)symbol->aux_count * state->object.symbol_size};

    if (symbol->storage_class == IMAGE_SYM_CLASS_FILE || bytes_all_zero(all))
        return RESULT_OK;
    if (coff_is_definition(symbol))
        return write_definition(state, &state->parts[symbol->section - 1], aux);
    if (symbol->storage_class == IMAGE_SYM_CLASS_WEAK_EXTERNAL && symbol->aux_count == 1)
        return renumber(state, aux + AUX_TAG_INDEX);
    if (is_function(symbol) && symbol->aux_count == 1)
        return write_function(state, symbol, aux);
    return object_keep(state->packing, "a symbol has an auxiliary record that is not known; leave "
                                       "it as it is");
}

static enum result write_symbol(struct coff_packing *state, const struct coff_object_symbol *symbol,
                                const struct kept_strings *strings)
{
    const struct coff_object *object = &state->object;
    struct buffer *out = &state->packing->contents;
    size_t size = object->symbol_size * (1u + symbol->aux_count);
    uint32_t offset;
    uint8_t *at;

    if (!buffer_append(out, symbol->bytes, size))
        return RESULT_NO_MEMORY;
    at = out->data + out->size - size;
    if (coff_symbol_has_string(at, &offset))
        store_u32(at + COFF_SYMBOL_STRING, kept_strings_offset(strings, offset), false);
    if (symbol->section > 0) {
        const struct coff_part *part = &state->parts[symbol->section - 1];

        if (part->is_changed && part->changed.size != part->section.contents.size &&
            !coff_is_definition(symbol))
            return object_keep(state->packing, "it has a symbol in a section that changes; compile "
                                               "it again");
        store_number(at + COFF_SYMBOL_SECTION, part->number, object->is_big ? 4 : 2, false);
    }
    return symbol->aux_count == 0 ? RESULT_OK : write_aux(state, symbol, at + object->symbol_size);
}

static enum result write_symbols(struct coff_packing *state, const struct kept_strings *strings)
{
    struct coff_object_symbol symbol;

    for (uint32_t i = 0; i < state->object.symbol_count; i += 1u + symbol.aux_count) {
        enum result result = RESULT_OK;

        coff_object_symbol_read(&state->object, i, &symbol);
        if (state->symbols[i] != COFF_SYMBOL_GONE)
            result = write_symbol(state, &symbol, strings);
        if (result != RESULT_OK)
            return result;
    }
    return RESULT_OK;
}

/* ---- all of it ---- */

static enum result write_object(struct coff_packing *state, const struct kept_strings *strings)
{
    const struct coff_object *object = &state->object;
    struct buffer *out = &state->packing->contents;
    enum result result = RESULT_OK;
    uint64_t symbols = 0;

    if (!buffer_reserve(out, (size_t)(object->file.size + state->packing->packed_size)))
        return RESULT_NO_MEMORY;
    result = write_headers(state, strings);
    if (result == RESULT_OK)
        result = write_sections(state);
    if (result == RESULT_OK && object->strings.size != 0) {
        symbols = out->size;
        result = write_symbols(state, strings);
    }
    if (result == RESULT_OK)
        result = write_strings(state, strings);
    if (result != RESULT_OK)
        return result;
    if (out->size > UINT32_MAX)
        return object_keep(state->packing, "it is too large to be packed; leave it as it is");
    coff_header_set(object, out->data, state->part_count, (uint32_t)symbols, state->symbol_count);
    return RESULT_OK;
}

enum result coff_object_write(struct coff_packing *state)
{
    struct kept_strings strings = {0};
    enum result result = make_strings(state, &strings);

    if (result == RESULT_OK)
        result = write_object(state, &strings);
    kept_strings_free(&strings);
    return result;
}
