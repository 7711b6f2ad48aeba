/*
 * The runtime's symbols: see runtime/symbols.h.
 */
#include "formats/runtime/symbols.h"

#include <string.h>

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

static bool starts_with(struct bytes text, const char *start)
{
    size_t size = strlen(start);

    return size <= text.size && memcmp(text.data, start, size) == 0;
}

bool runtime_symbol_classify(struct bytes text, enum runtime_symbol *symbol)
{
    if (!starts_with(text, RUNTIME_PREFIX))
        return false;
    for (unsigned i = 0; i < RUNTIME_OTHER_BOUND; i++) {
        size_t size = strlen(runtime_names[i]);

        if (starts_with(text, runtime_names[i]) && (text.size == size || text.data[size] <= ' ')) {
            *symbol = (enum runtime_symbol)i;
            return true;
        }
    }
    *symbol = RUNTIME_OTHER_BOUND;
    return starts_with(text, RUNTIME_PREFIX "begin_") || starts_with(text, RUNTIME_PREFIX "end_");
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

/* ---- finding them among all symbols ---- */

static bool collect(void *context, const struct image_symbol *found)
{
    enum runtime_symbol symbol;

    return !runtime_symbol_classify(found->name, &symbol) ||
           runtime_symbols_add(context, symbol, found->address, 0);
}

/* Linkers fold functions that return the same address; changing one would change the others too. */
static bool mark_shared(void *context, const struct image_symbol *found)
{
    struct runtime_symbols *symbols = context;

    for (size_t i = 0; i < symbols->count && found->is_function; i++) {
        struct runtime_definition *definition = &symbols->definitions[i];
        enum runtime_symbol symbol;

        if (definition->address == found->address &&
            (!runtime_symbol_classify(found->name, &symbol) || symbol != definition->symbol))
            definition->is_shared = true;
    }
    return true;
}

bool runtime_symbols_find(struct runtime_symbols *symbols, runtime_symbols_each each,
                          const struct planning *planning)
{
    symbols->count = 0;
    return each(planning, collect, symbols) &&
           (symbols->count == 0 || each(planning, mark_shared, symbols));
}
