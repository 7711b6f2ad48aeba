/*
 * Finding foreign callers of the runtime's functions: see runtime/callers.h.
 */
#include "formats/runtime/callers.h"

#include <string.h>

/* The runtime itself contains some twenty calls. */
#define CALLERS_MAX 256

/* All functions of the runtime that can be called from outside start with one of these prefixes; a
 * capital letter follows the second one. */
#define PUBLIC_PREFIX "__llvm_"
#define SHARED_PREFIX "lprof"
/* Static functions of the runtime that look at records, or into which compilers may inline code
 * that does. */
static const char *const own_names[] = {
    "mmapForContinuousMode",
    "initializeProfileForContinuousMode",
    "parseAndSetFilename",
    /* Of covsplit's own writer of profiles, which copies what is between the bounds: see
     * device/stream.c. */
    "covsplit_device_find_ranges",
};

/* ---- whom they call ---- */

static bool is_watched(enum runtime_symbol symbol)
{
    switch (symbol) {
    case RUNTIME_BEGIN_DATA:
    case RUNTIME_END_DATA:
    case RUNTIME_BEGIN_NAMES:
    case RUNTIME_END_NAMES:
    case RUNTIME_SET_VALUE_SITES:
        return true;
    default:
        return false;
    }
}

static bool starts_at(const struct image_code *image, const struct runtime_definition *definition,
                      uint64_t address)
{
    return is_watched(definition->symbol) &&
           (address == definition->address ||
            address == definition->address + image->machine->local_entry);
}

/* In code, pointers to functions include the bit that tells the instruction set; calls do not. */
static bool is_watched_address(const void *context, uint64_t address)
{
    const struct image_code *image = context;

    for (size_t i = 0; i < image->symbols.count; i++) {
        if (starts_at(image, &image->symbols.definitions[i], address & ~image->machine->state_bit))
            return true;
    }
    return false;
}

/* In data all are pointers: each has the bit if its function needs it. */
static bool is_watched_pointer(const void *context, uint64_t address)
{
    const struct image_code *image = context;

    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];

        if (starts_at(image, definition,
                      address - (definition->is_thumb ? image->machine->state_bit : 0)))
            return true;
    }
    return false;
}

/* A range that includes all watched functions. */
static struct reference_target watched_functions(const struct image_code *image)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (size_t i = 0; i < image->symbols.count; i++) {
        uint64_t address = image->symbols.definitions[i].address;

        if (!is_watched(image->symbols.definitions[i].symbol))
            continue;
        first = address < first ? address : first;
        last = address > last ? address : last;
    }
    return (struct reference_target){
        .first = first,
        .size = first <= last
                    ? last - first + image->machine->local_entry + image->machine->state_bit + 1
                    : 0,
        .called = true,
        .counts = is_watched_address,
        .context = image,
    };
}

/* ---- who they are ---- */

struct caller {
    uint64_t from;
    uint64_t function; /* start of the last function at or before `from` seen so far */
    bool has_function;
    bool is_own; /* it is a function of the runtime */
};

struct callers {
    struct caller list[CALLERS_MAX];
    size_t count;
};

static bool has_prefix(struct bytes name, const char *prefix)
{
    size_t size = strlen(prefix);

    return name.size >= size && memcmp(name.data, prefix, size) == 0;
}

/* Compilers split off parts of a function, and name them NAME.SUFFIX. */
static bool is_own_name(struct bytes name)
{
    size_t shared = strlen(SHARED_PREFIX);

    if (has_prefix(name, PUBLIC_PREFIX) || (has_prefix(name, SHARED_PREFIX) && name.size > shared &&
                                            name.data[shared] >= 'A' && name.data[shared] <= 'Z'))
        return true;
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        size_t size = strlen(own_names[i]);

        if (has_prefix(name, own_names[i]) &&
            (name.size == size || name.data[size] <= ' ' || name.data[size] == '.'))
            return true;
    }
    return false;
}

/* A runtime_symbol_visitor: if the symbol is a function, finds out which callers may be in it. */
static bool judge_callers(void *context, const struct image_symbol *symbol)
{
    struct callers *callers = context;

    for (size_t i = 0; i < callers->count && symbol->is_function; i++) {
        struct caller *caller = &callers->list[i];

        if (symbol->address > caller->from ||
            (caller->has_function && symbol->address < caller->function))
            continue;
        if (!caller->has_function || symbol->address != caller->function)
            caller->is_own = false;
        caller->has_function = true;
        caller->function = symbol->address;
        /* A function may have several names. */
        caller->is_own |= is_own_name(symbol->name);
    }
    return true;
}

/* A code_search_visitor. */
static bool add_caller(void *context, uint64_t from)
{
    struct callers *callers = context;

    if (callers->count == CALLERS_MAX)
        return false;
    callers->list[callers->count++] = (struct caller){.from = from};
    return true;
}

/* Whether a foreign function calls a watched one. Only symbols tell foreign callers from the
 * runtime. */
static bool find_call(const struct image_code *image, const struct reference_target *watched,
                      uint64_t *from)
{
    struct callers callers = {.count = 0};

    /* More callers than fit the list cannot all be the runtime's. */
    *from = watched->first;
    if (!rules_search_code(image, watched, add_caller, &callers))
        return true;
    if (callers.count != 0)
        image->operations->each_symbol(image->planning, judge_callers, &callers);
    for (size_t i = 0; i < callers.count; i++) {
        *from = callers.list[i].from;
        if (!callers.list[i].is_own)
            return true;
    }
    return false;
}

bool callers_find_foreign(const struct image_code *image, uint64_t *from)
{
    struct reference_target watched = watched_functions(image), pointers = watched;
    const char *reason;

    pointers.counts = is_watched_pointer;
    return watched.size != 0 && image->symbols.are_told &&
           (find_call(image, &watched, from) ||
            (image->operations->find_pointer(image->planning, &pointers, from, &reason) &&
             reason == NULL));
}
