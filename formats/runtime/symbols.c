/*
 * The table behind runtime/symbols.h.
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

static bool starts_with(struct bytes text, const char *start, size_t size)
{
    return size <= text.size && memcmp(text.data, start, size) == 0;
}

bool runtime_symbol_classify(struct bytes text, enum runtime_symbol *symbol)
{
    for (unsigned i = 0; i < RUNTIME_OTHER_BOUND; i++) {
        if (starts_with(text, runtime_names[i], strlen(runtime_names[i]) + 1)) {
            *symbol = (enum runtime_symbol)i;
            return true;
        }
    }
    *symbol = RUNTIME_OTHER_BOUND;
    return starts_with(text, RUNTIME_PREFIX "begin_", strlen(RUNTIME_PREFIX "begin_")) ||
           starts_with(text, RUNTIME_PREFIX "end_", strlen(RUNTIME_PREFIX "end_"));
}
