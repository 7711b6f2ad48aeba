/*
 * The rules for the runtime's functions: see runtime/rules.h.
 */
#include "formats/runtime/rules.h"

#include <string.h>

#include "formats/runtime/hits.h"

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

/* ---- what functions return ---- */

/* What a definition returns. If that cannot be found out, the section stays. */
static bool find_value(const struct image_code *image, enum section_kind kind,
                       const struct runtime_definition *definition, uint64_t *value)
{
    const struct code_operations *operations = image->operations;
    const char *name = runtime_symbol_name(definition->symbol);
    struct accessor accessor;
    struct code code;

    if (!decode(image, definition, &code, &accessor) ||
        (accessor.form == ACCESSOR_LOAD && operations->slot_value == NULL))
        return image_plan_keep(image->plan, kind,
                               "covsplit does not know the code of %s; link with LLVM's own "
                               "profile runtime, without LTO",
                               name);
    *value = accessor.value;
    return accessor.form != ACCESSOR_LOAD ||
           operations->slot_value(image->planning, accessor.value, value) ||
           image_plan_keep(image->plan, kind, "covsplit cannot tell what %s returns", name);
}

bool rules_returned(const struct image_code *image, enum section_kind kind,
                    enum runtime_symbol symbol, uint64_t *value)
{
    const char *name = runtime_symbol_name(symbol);
    bool seen = false;

    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        uint64_t returned;

        if (definition->symbol != symbol)
            continue;
        if (!find_value(image, kind, definition, &returned))
            return false;
        if (seen && *value != returned)
            return image_plan_keep(image->plan, kind,
                                   "the image has several definitions of %s that differ", name);
        *value = returned;
        seen = true;
    }
    if (!seen && image->symbols.are_told)
        return image_plan_keep(image->plan, kind, "the image has no symbol %s: %s", name,
                               image->operations->missing_advice);
    return seen || image_plan_keep(image->plan, kind,
                                   "covsplit cannot tell which function is %s; link with /map and "
                                   "give the file with --map",
                                   name);
}

bool rules_is_shared(const struct image_code *image, enum runtime_symbol symbol)
{
    for (size_t i = 0; i < image->symbols.count; i++) {
        if (image->symbols.definitions[i].symbol == symbol &&
            image->symbols.definitions[i].is_shared)
            return true;
    }
    return false;
}

/* ---- edits ---- */

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

/* Whether an earlier definition of the symbol has the same code: two symbols may name one copy. */
static bool is_repeated(const struct image_code *image, size_t index, uint64_t address)
{
    const struct runtime_definition *definitions = image->symbols.definitions;

    for (size_t i = 0; i < index; i++) {
        struct code other;

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

/* ---- searches ---- */

bool rules_is_inside_accessor(const struct image_code *image, uint64_t address)
{
    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        struct accessor accessor;
        struct code code;

        if (definition->symbol != RUNTIME_RAW_VERSION &&
            decode(image, definition, &code, &accessor) && address - code.address < accessor.size)
            return true;
    }
    return false;
}

bool rules_is_accessor_slot(const struct image_code *image, uint64_t slot)
{
    for (size_t i = 0; i < image->symbols.count; i++) {
        const struct runtime_definition *definition = &image->symbols.definitions[i];
        struct accessor accessor;
        struct code code;

        if (definition->symbol != RUNTIME_RAW_VERSION &&
            decode(image, definition, &code, &accessor) && accessor.form == ACCESSOR_LOAD &&
            accessor.value == slot)
            return true;
    }
    return false;
}

bool rules_search_code(const struct image_code *image, const struct reference_target *target,
                       code_search_visitor visit, void *context)
{
    struct code_search search = {
        .input = image->input, .machine = image->machine, .target = *target};
    struct hit_symbols symbols = {image->operations->each_symbol, image->planning};
    struct code code;
    size_t index = 0;

    search.target.absolute = image->has_absolute_operands && !target->relative;
    while (image->operations->next_code(image->planning, &index, &code)) {
        if (!hits_search(&symbols, &search, &code, visit, context))
            return false;
    }
    return true;
}

struct foreign {
    const struct image_code *image;
    uint64_t address; /* start of the range */
    uint64_t size;
    bool is_bound; /* the range is one address, which may also be another section's end */
    uint64_t from;
};

/* A code_search_visitor: stops at the first foreign reference. The range may refer to itself. */
static bool is_own(void *context, uint64_t from)
{
    struct foreign *foreign = context;

    foreign->from = from;
    return range_within(from, 1, foreign->address, foreign->size) ||
           rules_is_inside_accessor(foreign->image, from) ||
           (foreign->is_bound && foreign->image->operations->means_other_end(
                                     foreign->image->planning, foreign->address, from));
}

static bool find_foreign(const struct image_code *image, const struct reference_target *target,
                         bool is_bound, uint64_t *from)
{
    struct foreign foreign = {image, target->first, target->size, is_bound, 0};
    bool found = !rules_search_code(image, target, is_own, &foreign);

    *from = foreign.from;
    return found;
}

bool rules_find_in_code(const struct image_code *image, const struct reference_target *target,
                        uint64_t *from)
{
    return find_foreign(image, target, false, from);
}

/* References to the first address may mean the end of the section before it. */
static bool find_at_start(const struct image_code *image, const struct reference_target *target,
                          uint64_t *from)
{
    struct reference_target first = *target, rest = *target;

    first.size = 1;
    rest.first++;
    rest.size--;

    if (!find_foreign(image, target, false, from))
        return false;
    return image->operations->means_other_end == NULL || find_foreign(image, &first, true, from) ||
           find_foreign(image, &rest, false, from);
}

static bool is_field(const void *context, uint64_t address)
{
    const uint64_t *start = context;

    return (address - *start) % RULES_FIELD_UNIT == 0;
}

/* `last` is 1 if the end counts as part of the range, else 0. */
static bool find_in_windows(const struct image_code *image, uint64_t address, uint64_t size,
                            uint64_t last, bool has_records, uint64_t *from)
{
    uint64_t window = image->bound_window;
    bool (*counts)(const void *, uint64_t) = has_records ? is_field : NULL;
    struct reference_target start = {
        .first = address, .size = window, .counts = counts, .context = &address};
    struct reference_target end = {.first = address + size - window,
                                   .size = window + last,
                                   .counts = counts,
                                   .context = &address};
    struct reference_target inside = {.first = address + 1, .size = size - 1, .relative = true};

    if (image->machine->has_chance_hits && size > 2 * window)
        return find_at_start(image, &start, from) || rules_find_in_code(image, &end, from) ||
               (image->machine->judge_instruction != NULL &&
                rules_find_in_code(image, &inside, from));
    start.size = size + last;
    start.counts = NULL;
    return find_at_start(image, &start, from);
}

/* ---- distances in data ---- */

#define BOUNDS_MAX  8
#define TABLE_SIZE  256
#define NUMBER_SIZE 4
#define PIECE_SIZE  (UINT64_C(1) << 20)
#define FILTER_BITS UINT64_C(4096)
#define NEAR        UINT32_C(0x10000)

struct offset_search {
    const struct image_code *image;
    uint64_t first, size;        /* the range */
    uint64_t bounds[BOUNDS_MAX]; /* what a number may lead to */
    size_t count;
    bool end_counts;          /* no other section starts at the end */
    size_t loaders;           /* hits that were looked up among the relocations */
    bool filter[FILTER_BITS]; /* by the low bits of all numbers that lead to a bound from a base */
};

static void add_bound(struct offset_search *search, uint64_t address)
{
    for (size_t i = 0; i < search->count; i++) {
        if (search->bounds[i] == address)
            return;
    }
    if (search->count < BOUNDS_MAX)
        search->bounds[search->count++] = address;
}

static uint32_t number_at(const struct offset_search *search, const struct image_data *data,
                          uint64_t offset)
{
    return load_u32(data->bytes.data + offset, search->image->machine->big_endian);
}

/* The number by which data leads from a base to a bound. A small number from a base that is near
 * does not count: programs are full of them. */
static bool take_number(const struct image_data *data, size_t base, uint64_t bound,
                        uint32_t *number)
{
    *number = (uint32_t)(bound - data->bases[base]);
    return base < DATA_BASE_OTHERS || *number >= NEAR;
}

/* Whether the table that starts at an offset also leads to another bound. */
static bool is_table(const struct offset_search *search, const struct image_data *data,
                     uint64_t start, uint64_t bound)
{
    for (uint64_t i = 0; i < TABLE_SIZE && data->bytes.size - start >= i + NUMBER_SIZE;
         i += NUMBER_SIZE) {
        uint32_t to = (uint32_t)(data->address + start) + number_at(search, data, start + i);

        for (size_t j = 0; j < search->count; j++) {
            if (to == (uint32_t)search->bounds[j] && search->bounds[j] != bound)
                return true;
        }
    }
    return false;
}

/* Whether the number at an offset leads to the bound. Zero and powers of two are in all programs.
 */
static bool leads_to(const struct offset_search *search, const struct image_data *data,
                     uint64_t offset, uint64_t bound)
{
    uint32_t number = number_at(search, data, offset), wanted;
    uint32_t entry = (uint32_t)(data->address + offset + number - bound);
    uint32_t upper = offset < NUMBER_SIZE ? 1 : number_at(search, data, offset - NUMBER_SIZE);

    if ((number & (number - 1)) == 0)
        return false;
    /* A number of 8 bytes counts from its upper half. */
    if (search->image->machine->big_endian && (upper == 0 || upper == UINT32_MAX) &&
        entry == NUMBER_SIZE)
        return true;
    for (size_t i = 0; i < DATA_BASES; i++) {
        if (take_number(data, i, bound, &wanted) && wanted == number)
            return true;
    }
    return entry == 0 || (entry < TABLE_SIZE && entry % NUMBER_SIZE == 0 && entry <= offset &&
                          is_table(search, data, offset - entry, bound));
}

static bool counts_at(const struct offset_search *search, const struct image_data *data,
                      uint64_t offset)
{
    const struct image_code *image = search->image;
    uint64_t from = data->address + offset;

    for (size_t i = 0; i < search->count; i++) {
        uint64_t bound = search->bounds[i];
        bool is_other = (bound == search->first + search->size && !search->end_counts) ||
                        (bound == search->first && image->operations->means_other_end != NULL &&
                         image->operations->means_other_end(image->planning, bound, from));

        if (!is_other && leads_to(search, data, offset, bound))
            return true;
    }
    return false;
}

/* The filter tells of nearly all numbers that they lead nowhere. */
static void make_filter(struct offset_search *search, const struct image_data *data)
{
    uint32_t number;

    memset(search->filter, 0, sizeof(search->filter));
    for (size_t i = 0; i < search->count; i++) {
        for (size_t j = 0; j < DATA_BASES; j++) {
            if (take_number(data, j, search->bounds[i], &number))
                search->filter[number % FILTER_BITS] = true;
        }
    }
}

/* So many pointers that seem to be distances are told from these; each takes a pass over all
 * relocations. */
#define LOADERS_MAX 32

static bool is_loaders(struct offset_search *search, uint64_t address)
{
    const struct code_operations *operations = search->image->operations;

    return operations->is_loaders != NULL && search->loaders++ < LOADERS_MAX &&
           operations->is_loaders(search->image->planning, address);
}

static bool find_offset_in(struct offset_search *search, const struct image_data *data,
                           uint64_t *from)
{
    uint64_t file_offset = (uint64_t)(data->bytes.data - search->image->input->bytes.data);
    uint64_t start = (0 - data->address) % NUMBER_SIZE, released = 0;

    if (data->bytes.size < NUMBER_SIZE)
        return false;
    make_filter(search, data);
    for (uint64_t i = start; i + NUMBER_SIZE <= data->bytes.size; i += NUMBER_SIZE) {
        uint32_t number = number_at(search, data, i);
        uint32_t to = (uint32_t)(data->address + i) + number;
        bool may_lead = search->filter[number % FILTER_BITS];

        for (size_t j = 0; j < search->count; j++)
            may_lead |= to - (uint32_t)search->bounds[j] < TABLE_SIZE;
        *from = data->address + i;
        if (may_lead && *from - search->first >= search->size && counts_at(search, data, i) &&
            !is_loaders(search, *from))
            return true;
        if (i - released >= PIECE_SIZE) {
            input_release_pages(search->image->input, file_offset + released, i - released);
            released = i;
        }
    }
    return false;
}

static bool find_offset(const struct image_code *image, uint64_t address, uint64_t size,
                        bool is_bound, bool end_counts, uint64_t *from)
{
    struct offset_search search = {
        .image = image, .first = address, .size = size, .end_counts = end_counts};
    struct image_data data;
    size_t index = 0;

    add_bound(&search, address);
    if (is_bound)
        add_bound(&search, address + size);
    for (size_t i = 0; i < image->symbols.count && is_bound; i++) {
        struct accessor accessor;
        struct code code;

        if (decode(image, &image->symbols.definitions[i], &code, &accessor) &&
            accessor.form != ACCESSOR_LOAD && accessor.value - address < size)
            add_bound(&search, accessor.value);
    }
    while (image->operations->next_data != NULL &&
           image->operations->next_data(image->planning, &index, &data)) {
        if (find_offset_in(&search, &data, from))
            return true;
    }
    return false;
}

enum reference_kind rules_find_reference(const struct image_code *image, uint64_t address,
                                         uint64_t size, bool is_bound, bool has_records,
                                         uint64_t *from, const char **reason)
{
    const struct code_operations *operations = image->operations;
    struct reference_target target = {.first = address, .size = size};
    uint64_t last = is_bound && operations->is_start_of_section != NULL &&
                            !operations->is_start_of_section(image->planning, address + size)
                        ? 1
                        : 0;

    if (operations->find_pointer(image->planning, &target, from, reason) && *reason == NULL)
        return REFERENCE_POINTER;
    if (!image->code_has_relocations &&
        find_in_windows(image, address, size, last, has_records, from))
        return REFERENCE_CODE;
    if ((is_bound || has_records) && find_offset(image, address, size, is_bound, last != 0, from))
        return REFERENCE_OFFSET;
    return *reason != NULL ? REFERENCE_UNKNOWN : REFERENCE_NONE;
}
