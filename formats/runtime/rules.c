/*
 * The rules of runtime/rules.h.
 */
#include "formats/runtime/rules.h"

/* No body of a function that accessor.h knows is longer. */
#define BODY_MAX 64
/* How much at either end of a section is looked for in code: who walks a section starts at one of
 * its bounds, or at a field of its first or last record. Looking for all of a large section would
 * find values in a large image that only seem to refer to it. */
#define BOUND_WINDOW UINT64_C(64)

bool runtime_keep(const struct runtime_image *image, enum section_kind kind, const char *format,
                  ...)
{
    va_list arguments;

    va_start(arguments, format);
    image_plan_keep(image->plan, kind, format, arguments);
    va_end(arguments);
    return false;
}

bool runtime_decode(const struct runtime_image *image, const struct runtime_definition *definition,
                    struct code *code, struct accessor *accessor)
{
    return image->code_of(image->format, definition, code) &&
           accessor_decode(image->machine, code->bytes, code->address, accessor);
}

/* ---- checks ---- */

bool runtime_check_accessor(const struct runtime_image *image, enum section_kind kind,
                            enum runtime_symbol symbol, uint64_t expected)
{
    const char *name = runtime_symbol_name(symbol);
    size_t seen = 0;

    for (size_t i = 0; i < image->definition_count; i++) {
        struct accessor accessor;
        struct code code;
        uint64_t value;

        if (image->definitions[i].symbol != symbol)
            continue;
        seen++;
        if (!runtime_decode(image, &image->definitions[i], &code, &accessor) ||
            (accessor.form == ACCESSOR_LOAD && image->slot_value == NULL))
            return runtime_keep(
                image, kind,
                "the code of %s is not one that covsplit knows; link with LLVM's own "
                "profile runtime, without LTO",
                name);
        value = accessor.value;
        if (accessor.form == ACCESSOR_LOAD &&
            !image->slot_value(image->format, accessor.value, &value))
            return runtime_keep(image, kind, "what %s returns cannot be told", name);
        if (value != expected)
            return runtime_keep(image, kind, "%s does not return the bound of the section", name);
    }
    if (seen == 0)
        return runtime_keep(image, kind, "the image has no symbol %s: %s", name,
                            image->missing_advice);
    return true;
}

bool runtime_check_names_go(const struct runtime_image *image, bool names_go)
{
    return names_go ||
           runtime_keep(image, SECTION_DATA,
                        "the names stay, and without its records nobody would see that a profile "
                        "lacks them; remove both");
}

bool runtime_is_shared(const struct runtime_image *image, enum runtime_symbol symbol)
{
    for (size_t i = 0; i < image->definition_count; i++) {
        if (image->definitions[i].symbol == symbol && image->definitions[i].is_shared)
            return true;
    }
    return false;
}

bool runtime_check_not_shared(const struct runtime_image *image, enum section_kind kind,
                              enum runtime_symbol symbol)
{
    return !runtime_is_shared(image, symbol) ||
           runtime_keep(image, kind, "%s shares its code with another function; %s",
                        runtime_symbol_name(symbol), image->folding_advice);
}

/* ---- edits ---- */

/* Whether this code was seen for the symbol before: two symbols may name one copy. */
static bool is_repeated(const struct runtime_image *image, size_t index, uint64_t address)
{
    for (size_t i = 0; i < index; i++) {
        struct code other;

        if (image->definitions[i].symbol == image->definitions[index].symbol &&
            image->code_of(image->format, &image->definitions[i], &other) &&
            other.address == address)
            return true;
    }
    return false;
}

bool runtime_can_rewrite(const struct runtime_image *image, enum runtime_symbol symbol,
                         uint64_t value)
{
    for (size_t i = 0; i < image->definition_count; i++) {
        uint8_t instruction[ACCESSOR_INSTRUCTION_MAX];
        struct accessor accessor;
        struct code code;

        if (image->definitions[i].symbol == symbol &&
            (!runtime_decode(image, &image->definitions[i], &code, &accessor) ||
             !accessor_encode(image->machine, &accessor, code.bytes, code.address, value,
                              instruction)))
            return false;
    }
    return true;
}

bool runtime_rewrite(const struct runtime_image *image, enum runtime_symbol symbol, uint64_t value)
{
    struct bytes file = image->input->bytes;

    for (size_t i = 0; i < image->definition_count; i++) {
        uint8_t instruction[ACCESSOR_INSTRUCTION_MAX];
        struct accessor accessor;
        struct code code;
        uint64_t offset;

        if (image->definitions[i].symbol != symbol)
            continue;
        if (!runtime_decode(image, &image->definitions[i], &code, &accessor) ||
            !accessor_encode(image->machine, &accessor, code.bytes, code.address, value,
                             instruction))
            return false;
        if (is_repeated(image, i, code.address))
            continue;
        offset = (uint64_t)(code.bytes.data - file.data) + accessor.instruction_offset;
        if (!edit_overwrite_differences(&image->plan->edits, file, offset,
                                        (struct bytes){instruction, accessor.instruction_size}))
            return false;
    }
    return true;
}

/* ---- searches ---- */

static bool is_inside_accessor(const struct runtime_image *image, uint64_t address)
{
    for (size_t i = 0; i < image->definition_count; i++) {
        const struct runtime_definition *definition = &image->definitions[i];
        struct accessor accessor;
        struct code code;

        if (definition->symbol != RUNTIME_RAW_VERSION && address - definition->address < BODY_MAX &&
            runtime_decode(image, definition, &code, &accessor) &&
            address - code.address < accessor.size)
            return true;
    }
    return false;
}

struct foreign {
    const struct runtime_image *image;
    uint64_t from;
};

/* A code_search_visitor: stops at the first one that is not in a function of the runtime. */
static bool is_own(void *context, uint64_t from)
{
    struct foreign *foreign = context;

    foreign->from = from;
    return is_inside_accessor(foreign->image, from);
}

bool runtime_search_code(const struct runtime_image *image, const struct reference_target *target,
                         code_search_visitor visit, void *context)
{
    struct code_search search = {
        .input = image->input, .machine = image->machine, .target = *target};
    struct code code;
    size_t index = 0;

    search.target.absolute = image->has_absolute_operands;
    while (image->next_code(image->format, &index, &code)) {
        if (!code_search(&search, &code, visit, context))
            return false;
    }
    return true;
}

bool runtime_find_code_reference(const struct runtime_image *image,
                                 const struct reference_target *target, uint64_t *from)
{
    struct foreign foreign = {.image = image};
    bool found = !runtime_search_code(image, target, is_own, &foreign);

    *from = foreign.from;
    return found;
}

bool runtime_find_reference_to_bounds(const struct runtime_image *image, uint64_t address,
                                      uint64_t size, uint64_t *from)
{
    uint64_t window = size < BOUND_WINDOW ? size : BOUND_WINDOW;
    uint64_t end = address + size;
    uint64_t last = image->is_start_of_section(image->format, end) ? 0 : 1;
    struct reference_target first = {.first = address, .size = window};
    struct reference_target second = {.first = end - window, .size = window + last};

    return runtime_find_code_reference(image, &first, from) ||
           runtime_find_code_reference(image, &second, from);
}

bool runtime_is_accessor_slot(const struct runtime_image *image, uint64_t slot)
{
    for (size_t i = 0; i < image->definition_count; i++) {
        struct accessor accessor;
        struct code code;

        if (image->definitions[i].symbol != RUNTIME_RAW_VERSION &&
            runtime_decode(image, &image->definitions[i], &code, &accessor) &&
            accessor.form == ACCESSOR_LOAD && accessor.value == slot)
            return true;
    }
    return false;
}
