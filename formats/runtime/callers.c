/*
 * Judging the callers of the runtime's functions: see runtime/callers.h.
 */
#include "formats/runtime/callers.h"

#include <inttypes.h>
#include <string.h>

/* All functions of the runtime that others than itself can call are named so; behind the second of
 * these is a capital letter. */
#define PUBLIC_PREFIX "__llvm_"
#define SHARED_PREFIX "lprof"
/* Its static functions that look at records, alone or with what compilers may inline into them. */
static const char *const own_names[] = {
    "mmapForContinuousMode",
    "initializeProfileForContinuousMode",
    "parseAndSetFilename",
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

static bool is_watched_address(const void *context, uint64_t address)
{
    const struct runtime_image *image = context;

    for (size_t i = 0; i < image->definition_count; i++) {
        if (image->definitions[i].address == address && is_watched(image->definitions[i].symbol))
            return true;
    }
    return false;
}

struct reference_target runtime_watched_functions(const struct runtime_image *image)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (size_t i = 0; i < image->definition_count; i++) {
        uint64_t address = image->definitions[i].address;

        if (!is_watched(image->definitions[i].symbol))
            continue;
        first = address < first ? address : first;
        last = address > last ? address : last;
    }
    return (struct reference_target){
        .first = first,
        .size = first <= last ? last - first + 1 : 0,
        .called = true,
        .counts = is_watched_address,
        .context = image,
    };
}

/* ---- who they are ---- */

static bool has_prefix(struct bytes name, const char *prefix)
{
    size_t size = strlen(prefix);

    return name.size >= size && memcmp(name.data, prefix, size) == 0;
}

/* Compilers make parts of a function, and name them with a dot and more. */
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

void runtime_callers_tell(struct runtime_callers *callers, uint64_t address, struct bytes name)
{
    for (size_t i = 0; i < callers->count; i++) {
        struct runtime_caller *caller = &callers->list[i];

        if (address > caller->from || (caller->has_function && address < caller->function))
            continue;
        if (!caller->has_function || address != caller->function)
            caller->is_own = false;
        caller->has_function = true;
        caller->function = address;
        /* A function may have several names. */
        caller->is_own |= is_own_name(name);
    }
}

/* A code_search_visitor. */
static bool add_caller(void *context, uint64_t from)
{
    struct runtime_callers *callers = context;

    if (callers->count == RUNTIME_CALLERS_MAX)
        return false;
    callers->list[callers->count++] = (struct runtime_caller){.from = from};
    return true;
}

bool runtime_find_foreign_caller(const struct runtime_image *image,
                                 void (*tell)(const void *format, struct runtime_callers *callers),
                                 uint64_t *from)
{
    struct reference_target watched = runtime_watched_functions(image);
    struct runtime_callers callers = {.count = 0};

    /* Too many callers cannot all be the runtime's. */
    *from = watched.first;
    if (!runtime_search_code(image, &watched, add_caller, &callers))
        return true;
    if (callers.count != 0)
        tell(image->format, &callers);
    for (size_t i = 0; i < callers.count; i++) {
        *from = callers.list[i].from;
        if (!callers.list[i].is_own)
            return true;
    }
    return false;
}

/* ---- what then ---- */

void runtime_keep_watched(const struct runtime_image *image, uint64_t from)
{
    static const enum section_kind kinds[] = {SECTION_NAMES, SECTION_DATA};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct image_section *section = image_plan_section(image->plan, kinds[i]);

        if (section != NULL && section->fate != SECTION_STAYS)
            runtime_keep(image, kinds[i],
                         "the program looks at its own records: at 0x%" PRIx64
                         " it calls the profile runtime's functions for that",
                         from);
    }
}
