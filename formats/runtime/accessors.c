/*
 * The symbols of the profile runtime, its functions, and the stub record: see runtime.h.
 */
#include "formats/runtime/runtime.h"

#include <string.h>

#include "common/base/cursor.h"

/* ---- symbols ---- */

static const char *const runtime_names[RUNTIME_SYMBOLS] = {
    [RUNTIME_BEGIN_DATA] = RUNTIME_PREFIX "begin_data",
    [RUNTIME_END_DATA] = RUNTIME_PREFIX "end_data",
    [RUNTIME_BEGIN_NAMES] = RUNTIME_PREFIX "begin_names",
    [RUNTIME_END_NAMES] = RUNTIME_PREFIX "end_names",
    [RUNTIME_BEGIN_COUNTERS] = RUNTIME_PREFIX "begin_counters",
    [RUNTIME_END_COUNTERS] = RUNTIME_PREFIX "end_counters",
    [RUNTIME_BEGIN_BITMAP] = RUNTIME_PREFIX "begin_bitmap",
    [RUNTIME_END_BITMAP] = RUNTIME_PREFIX "end_bitmap",
    [RUNTIME_RAW_VERSION] = RUNTIME_PREFIX "raw_version",
    [RUNTIME_SET_VALUE_SITES] = RUNTIME_PREFIX "set_num_value_sites",
};

const char *runtime_symbol_name(enum runtime_symbol symbol)
{
    return runtime_names[symbol];
}

/* True if the text starts with the name, and that ends there. */
static bool is_name(struct bytes text, const char *name)
{
    size_t size = strlen(name);

    return bytes_start_with(text, name) && (text.size == size || text.data[size] <= ' ');
}

/* Finds out which of these names the text starts with. */
static bool classify(struct bytes text, enum runtime_symbol *symbol)
{
    if (!bytes_start_with(text, RUNTIME_PREFIX))
        return false;
    for (unsigned i = 0; i < RUNTIME_OTHER_BOUND; i++) {
        if (is_name(text, runtime_names[i])) {
            *symbol = (enum runtime_symbol)i;
            return true;
        }
    }
    *symbol = RUNTIME_OTHER_BOUND;
    return bytes_start_with(text, RUNTIME_PREFIX "begin_") ||
           bytes_start_with(text, RUNTIME_PREFIX "end_");
}

/* Looks whether the symbol is one of the runtime itself. Those that compilers define in objects for
 * it are none. */
static void look(struct runtime_symbols *symbols, struct bytes name)
{
    /* INSTR_PROF_RAW_VERSION_VAR, INSTR_PROF_PROFILE_NAME_VAR and the like in InstrProfData.inc. */
    static const char *const of_objects[] = {
        RUNTIME_PREFIX "raw_version", RUNTIME_PREFIX "filename", RUNTIME_PREFIX "counter_bias",
        RUNTIME_PREFIX "bitmap_bias", RUNTIME_PREFIX "runtime"};
    bool is_own = bytes_start_with(name, RUNTIME_PREFIX) || bytes_start_with(name, "lprof");

    for (size_t i = 0; is_own && i < sizeof(of_objects) / sizeof(of_objects[0]); i++)
        is_own = !bytes_start_with(name, of_objects[i]);
    symbols->is_linked |= is_own;
}

bool runtime_symbols_add(struct runtime_symbols *symbols, enum runtime_symbol symbol,
                         uint64_t address, uint64_t size)
{
    if (symbols->count == RUNTIME_DEFINITIONS_MAX)
        return false;
    symbols->definitions[symbols->count++] =
        (struct runtime_definition){.symbol = symbol, .address = address, .size = size};
    return true;
}

bool runtime_symbols_find(struct runtime_symbols *symbols, runtime_symbols_next next,
                          const struct planning *planning)
{
    struct symbol_walk walk = {0};
    struct image_symbol found;
    enum runtime_symbol symbol;

    symbols->count = 0;
    while (next(planning, &walk, &found)) {
        look(symbols, found.name);
        symbols->has_functions |= found.is_function;
        if (symbols->base_name != NULL && is_name(found.name, symbols->base_name)) {
            symbols->has_bases |= symbols->base != 0 && symbols->base != found.address;
            symbols->base = found.address;
        }
        if (!classify(found.name, &symbol))
            continue;
        if (!runtime_symbols_add(symbols, symbol, found.address, found.size))
            return false;
        symbols->definitions[symbols->count - 1].is_thumb = found.is_thumb;
    }
    /* Linkers fold functions that return the same address; changing one would change the others
     * too. */
    walk = (struct symbol_walk){.bad = walk.bad};
    while (symbols->count != 0 && next(planning, &walk, &found)) {
        for (size_t i = 0; found.is_function && i < symbols->count; i++) {
            struct runtime_definition *definition = &symbols->definitions[i];

            if (definition->address == found.address &&
                (!classify(found.name, &symbol) || symbol != definition->symbol))
                definition->is_shared = true;
        }
    }
    return !walk.bad;
}

/* ---- bodies ---- */

/* Decodes the body of a definition. False if it is not one of the known bodies. */
static bool decode(const struct image_code *image, const struct runtime_definition *definition,
                   struct code *code, struct accessor *accessor)
{
    *code = (struct code){.machine = image->machine};
    if (!image->operations->code_of(image->planning, definition, code))
        return false;
    code->machine = image->machine;
    return image->machine->decode_accessor(code, accessor);
}

bool rules_next_accessor(const struct image_code *image, size_t *index, struct code *code,
                         struct accessor *accessor)
{
    while (*index < image->symbols.count) {
        const struct runtime_definition *definition = &image->symbols.definitions[(*index)++];

        if (definition->symbol != RUNTIME_RAW_VERSION && decode(image, definition, code, accessor))
            return true;
    }
    return false;
}

bool rules_is_inside_accessor(const struct image_code *image, uint64_t address)
{
    struct accessor accessor;
    struct code code;

    for (size_t i = 0; rules_next_accessor(image, &i, &code, &accessor);) {
        if (address - code.address < accessor.size)
            return true;
    }
    return false;
}

bool rules_is_accessor_slot(const struct image_code *image, uint64_t slot)
{
    struct accessor accessor;
    struct code code;

    for (size_t i = 0; rules_next_accessor(image, &i, &code, &accessor);) {
        if (accessor.form == ACCESSOR_LOAD && accessor.value == slot)
            return true;
    }
    return false;
}

bool rules_find_body(const struct image_code *image, const struct runtime_definition *definition,
                     struct code *body)
{
    struct accessor accessor;
    size_t end;

    if (!decode(image, definition, body, &accessor))
        return false;
    /* The address may be in a literal pool behind the code. */
    end = accessor.patch_offset + accessor.patch_size;
    return bytes_slice(body->bytes, 0, end > accessor.size ? end : accessor.size, &body->bytes);
}

/* ---- what functions return ---- */

bool rules_returned(const struct image_code *image, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value)
{
    const struct code_operations *operations = image->operations;
    const char *name = runtime_symbol_name(symbol);
    bool seen = false;

    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        struct accessor accessor;
        struct code code;
        uint64_t returned;

        if (definition->symbol != symbol)
            continue;
        if (!decode(image, definition, &code, &accessor) ||
            (accessor.form == ACCESSOR_LOAD && operations->slot_value == NULL))
            return image_plan_keep(image->plan, kind,
                                   "covsplit does not know the code of %s; link with LLVM's own "
                                   "profile runtime, without LTO",
                                   name);
        returned = accessor.value;
        if (accessor.form == ACCESSOR_LOAD &&
            !operations->slot_value(image->planning, accessor.value, &returned))
            return image_plan_keep(image->plan, kind, "covsplit cannot tell what %s returns", name);
        if (seen && *value != returned)
            return image_plan_keep(image->plan, kind,
                                   "the image has several definitions of %s that differ", name);
        *value = returned;
        seen = true;
    }
    if (!seen && image->symbols.from_symbol_table)
        return image_plan_keep(image->plan, kind, "the image has no symbol %s: %s", name,
                               operations->missing_advice);
    return seen || image_plan_keep(image->plan, kind,
                                   "covsplit cannot tell which function is %s; link with /map and "
                                   "give the file with --map",
                                   name);
}

/* ---- new results ---- */

bool rules_is_shared(const struct image_code *image, enum runtime_symbol symbol)
{
    for (size_t i = 0; i < image->symbols.count; i++) {
        if (image->symbols.definitions[i].symbol == symbol &&
            image->symbols.definitions[i].is_shared)
            return true;
    }
    return false;
}

/* Encodes the definition with its new result: the first accessor->patch_size bytes of `patch`. */
static bool encode(const struct image_code *image, const struct runtime_definition *definition,
                   uint64_t value, struct code *code, struct accessor *accessor,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    return decode(image, definition, code, accessor) &&
           image->machine->encode_accessor(code, accessor, value, patch);
}

bool rules_can_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value)
{
    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        uint8_t patch[ACCESSOR_PATCH_MAX];
        struct accessor accessor;
        struct code code;

        if (definition->symbol == symbol &&
            !encode(image, definition, value, &code, &accessor, patch))
            return false;
    }
    return !rules_is_shared(image, symbol);
}

bool rules_check_rewrite(const struct image_code *image, enum section_kind kind,
                         enum runtime_symbol symbol, uint64_t value)
{
    const char *name = runtime_symbol_name(symbol);

    if (rules_is_shared(image, symbol))
        return image_plan_keep(image->plan, kind, "%s shares its code with another function; %s",
                               name, image->operations->folding_advice);
    return rules_can_rewrite(image, symbol, value) ||
           image_plan_keep(image->plan, kind, "%s cannot be rewritten", name);
}

/* True if an earlier definition of the symbol has the same code: two symbols may name one copy. */
static bool is_repeated(const struct image_code *image, size_t index, uint64_t address)
{
    const struct runtime_definition *definitions = image->symbols.definitions;

    for (size_t i = 0; i < index; i++) {
        struct code other = {.machine = image->machine};

        if (definitions[i].symbol == definitions[index].symbol &&
            image->operations->code_of(image->planning, &definitions[i], &other) &&
            other.address == address)
            return true;
    }
    return false;
}

bool rules_rewrite(const struct image_code *image, enum runtime_symbol symbol, uint64_t value)
{
    struct bytes file = image->input->bytes;

    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        uint8_t patch[ACCESSOR_PATCH_MAX];
        struct accessor accessor;
        struct code code;

        if (definition->symbol != symbol)
            continue;
        if (!encode(image, definition, value, &code, &accessor, patch))
            return false;
        if (!is_repeated(image, i, code.address) &&
            !edit_overwrite_differences(&image->plan->edits, file,
                                        (uint64_t)(code.bytes.data - file.data) +
                                            accessor.patch_offset,
                                        (struct bytes){patch, accessor.patch_size}))
            return false;
    }
    return true;
}

/* ---- the stub record ---- */

bool stub_layout(uint64_t raw_version, size_t pointer_size, struct profile_record_layout *layout)
{
    for (unsigned bit = PROFILE_VARIANT_BIT_FIRST; bit <= PROFILE_VARIANT_BIT_LAST; bit++) {
        if ((raw_version >> bit & 1) != 0 && profile_variant_name(bit) == NULL)
            return false;
    }
    return profile_record_layout(raw_version, pointer_size, layout);
}

bool stub_encode(const struct profile_record_layout *layout, uint64_t raw_version,
                 const struct stub_place *place, const uint8_t id[PROFILE_STUB_ID_SIZE],
                 bool big_endian, uint8_t record[STUB_RECORD_MAX])
{
    uint64_t counter_size = profile_counter_size(raw_version);
    uint64_t counters = place->counters_size / counter_size;
    uint64_t origin = layout->relative ? place->record : 0;
    uint64_t mask = place->has_narrow_distances ? UINT32_MAX : UINT64_MAX;
    unsigned width = (unsigned)layout->pointer_size;

    if (counters == 0 || counters > UINT32_MAX || place->counters_size % counter_size != 0 ||
        place->bitmap_size > UINT32_MAX)
        return false;
    if (place->bitmap_size != 0 && layout->bitmap_ptr == 0)
        return false;
    memset(record, 0, layout->record_size);
    memcpy(record, id, PROFILE_STUB_ID_SIZE);
    store_number(record + layout->counter_ptr, (place->counters - origin) & mask, width,
                 big_endian);
    store_u32(record + layout->num_counters, (uint32_t)counters, big_endian);
    if (place->bitmap_size != 0) {
        store_number(record + layout->bitmap_ptr, (place->bitmap - origin) & mask, width,
                     big_endian);
        store_u32(record + layout->num_bitmap_bytes, (uint32_t)place->bitmap_size, big_endian);
    }
    return true;
}
