/*
 * Searches for what refers to the names and records, or to the functions of the runtime: see
 * runtime.h.
 */
#include <string.h>

#include "common/base/array.h"
#include "formats/runtime/runtime.h"

/* ---- references in code, told from numbers that only seem to be some ---- */

void code_references_open(struct code_references *references, const struct image_code *image,
                          const struct reference_target *target)
{
    references->image = image;
    references->search =
        (struct code_search){.input = image->input, .machine = image->machine, .target = *target};
    references->search.target.absolute = image->has_absolute_operands && !target->relative;
    references->next_part = 0;
    references->hit_count = references->next_hit = 0;
}

static bool next_section(struct code_references *references)
{
    const struct image_code *image = references->image;
    struct image_part part;

    while (image->operations->part_at(image->planning, references->next_part, &part)) {
        references->next_part++;
        if (part.kind != PART_CODE)
            continue;
        references->search.code = part.code;
        references->search.code.machine = image->machine;
        references->search.piece = references->search.position = 0;
        references->function = references->next = part.code.address;
        references->is_lost = false;
        return true;
    }
    return false;
}

/* Finds the function that each hit is in. */
static void find_functions(struct code_references *references)
{
    const struct image_code *image = references->image;
    struct code_hit *hits = references->hits;
    size_t count = references->hit_count;
    struct symbol_walk walk = {0};
    struct image_symbol symbol;

    while (image->operations->next_symbol(image->planning, &walk, &symbol)) {
        uint64_t address = symbol.address;
        size_t before;

        if (!symbol.is_function || address < references->search.code.address ||
            address > hits[count - 1].from)
            continue;
        /* The first hit behind the start. */
        before = address == 0 ? 0 : array_count_up_to(hits, count, sizeof(*hits), address - 1);
        if (address > hits[before].function)
            hits[before].function = address;
    }
    for (size_t i = 1; i < count; i++) {
        if (hits[i].function < hits[i - 1].function)
            hits[i].function = hits[i - 1].function;
    }
}

static bool is_reference(struct code_references *references, const struct code_hit *hit)
{
    const struct code *code = &references->search.code;
    const struct machine *machine = references->search.machine;
    const struct reference_target *target = &references->search.target;
    uint64_t at = hit->from - code->address;
    struct bytes field;

    if (hit->function != references->function) {
        references->function = references->next = hit->function;
        references->is_lost = false;
    }
    while (!references->is_lost && references->next <= hit->from) {
        uint64_t size;

        references->last_refers = false;
        size = machine->judge_instruction(code, references->next - code->address, target,
                                          &references->last_refers);
        references->next += size;
        references->is_lost = size == 0;
    }
    if (references->is_lost)
        return !target->relative;
    /* Data among the code may be the address itself. Data that looks like the start of an
     * instruction leads the decoding astray. So near the bounds of the target what compilers make
     * of an address counts wherever it is. */
    return references->last_refers ||
           (target->absolute && bytes_slice(code->bytes, at, sizeof(uint32_t), &field) &&
            load_u32(field.data, machine->big_endian) == target->first) ||
           (!target->relative && machine->is_usual_reference(code, at));
}

bool code_references_next(struct code_references *references, uint64_t *from)
{
    struct code_search *search = &references->search;

    do {
        while (references->next_hit < references->hit_count) {
            const struct code_hit *hit = &references->hits[references->next_hit++];

            *from = hit->from;
            if (is_reference(references, hit))
                return true;
        }
        if (search->machine->judge_instruction == NULL && code_search_next(search, from))
            return true;
        references->hit_count = references->next_hit = 0;
        while (references->hit_count < HITS_MAX && code_search_next(search, from))
            references->hits[references->hit_count++] =
                (struct code_hit){*from, search->code.address};
        if (references->hit_count != 0)
            find_functions(references);
    } while (references->hit_count != 0 || next_section(references));
    return false;
}

bool rules_find_in_code(const struct image_code *image, const struct reference_target *target,
                        bool may_be_end, uint64_t *from)
{
    const struct code_operations *operations = image->operations;
    struct code_references references;

    code_references_open(&references, image, target);
    while (code_references_next(&references, from)) {
        if (!reference_is_own(target, *from) && !rules_is_inside_accessor(image, *from) &&
            !(may_be_end && operations->means_other_end(image->planning, target->first, *from)))
            return true;
    }
    return false;
}

/* References to the first address may mean the end of the section before it. */
static bool find_at_start(const struct image_code *image, const struct reference_target *target,
                          uint64_t *from)
{
    struct reference_target first = *target, rest = *target;

    first.size = 1;
    rest.first++;
    rest.size--;
    return rules_find_in_code(image, target, false, from) &&
           (image->operations->means_other_end == NULL ||
            rules_find_in_code(image, &first, true, from) ||
            rules_find_in_code(image, &rest, false, from));
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
    struct reference_target all = {.first = address, .size = size + last, .inside_counts = true};

    if (image->machine->has_chance_hits && size > 2 * window) {
        bool has_inside = image->machine->judge_instruction != NULL;

        /* One search for all of them mostly shows that there are none. (But of absolute operands,
         * each target's first address counts wherever it is.) */
        if (has_inside && !image->has_absolute_operands &&
            !rules_find_in_code(image, &all, false, from))
            return false;
        return find_at_start(image, &start, from) || rules_find_in_code(image, &end, false, from) ||
               (has_inside && rules_find_in_code(image, &inside, false, from));
    }
    start.size = size + last;
    start.counts = NULL;
    return find_at_start(image, &start, from);
}

/* True if no other section starts at the end of the range, so that what leads there means the
 * range.
 */
static bool end_counts(const struct image_code *image, uint64_t end)
{
    const struct code_operations *operations = image->operations;

    return operations->is_start_of_section != NULL &&
           !operations->is_start_of_section(image->planning, end);
}

enum reference_kind rules_find_reference(const struct image_code *image, uint64_t address,
                                         uint64_t size, bool is_bound, bool has_records,
                                         uint64_t *from, const char **reason)
{
    struct reference_target target = {.first = address, .size = size};
    uint64_t last = is_bound && end_counts(image, address + size) ? 1 : 0;

    if (image->operations->find_pointer(image->planning, &target, from, reason) && *reason == NULL)
        return REFERENCE_POINTER;
    if (!image->code_has_relocations &&
        find_in_windows(image, address, size, last, has_records, from))
        return REFERENCE_CODE;
    return *reason != NULL ? REFERENCE_UNKNOWN : REFERENCE_NONE;
}

/* ---- distances in data ---- */

#define BOUNDS_MAX       8
#define NUMBER_SIZE      4
#define STRIDE_MAX       64
#define PROGRESSION_SIZE 4
#define PIECE_SIZE       (UINT64_C(1) << 20)
#define FILTER_BITS      UINT64_C(4096)
#define NEAR             UINT32_C(0x10000)

/* So many numbers are told from distances by what refers to them. More count as distances. */
#define NUMBERS_MAX 256

/* So many are told by relocations and symbols, of which each takes a pass over all of them. */
#define LOOKUPS_MAX 32

/* A number that is a distance if code or a pointer refers to a place from `first` to `last`. */
struct number {
    uint64_t address;
    uint64_t first, last;
};

struct distance_search {
    const struct image_code *image;
    uint64_t first, size;        /* the range */
    uint64_t bounds[BOUNDS_MAX]; /* what a number may lead to */
    size_t count;
    bool end_counts;          /* no other section starts at the end */
    bool filter[FILTER_BITS]; /* by the low bits of all numbers that lead to a bound from a base */
    struct number numbers[NUMBERS_MAX];
    size_t number_count;
    size_t lookups;
};

static void add_bound(struct distance_search *search, uint64_t address)
{
    for (size_t i = 0; i < search->count; i++) {
        if (search->bounds[i] == address)
            return;
    }
    if (search->count < BOUNDS_MAX)
        search->bounds[search->count++] = address;
}

static uint32_t number_at(const struct distance_search *search, const struct image_part *data,
                          uint64_t offset)
{
    return load_u32(data->code.bytes.data + offset, search->image->machine->big_endian);
}

/* The number by which data leads from a base to a bound. A small number from a base that is near
 * does not count: programs are full of them. */
static bool take_number(const struct image_part *data, size_t base, uint64_t bound,
                        uint32_t *number)
{
    *number = (uint32_t)(bound - data->bases[base]);
    return base < DATA_BASE_OTHERS || *number >= NEAR;
}

enum leading {
    LEADS_NOWHERE,
    LEADS_FROM_TABLE, /* from a place that may be the start of a table */
    LEADS_FROM_BASE,  /* from one of the part's bases */
    LEADS_FROM_ITSELF,
};

/* True if the number at an offset is one of four in even steps, with other fields between them or
 * without, that lead to other places: rows of a table may all have the same distances. */
static bool is_in_progression(const struct distance_search *search, const struct image_part *data,
                              uint64_t offset, enum leading leading)
{
    for (uint64_t stride = NUMBER_SIZE; stride <= STRIDE_MAX; stride += NUMBER_SIZE) {
        for (uint64_t before = 0; before < PROGRESSION_SIZE; before++) {
            uint64_t start = offset - before * stride;
            uint32_t first, second, third;

            if (before * stride > offset ||
                data->code.bytes.size - start < (PROGRESSION_SIZE - 1) * stride + NUMBER_SIZE)
                continue;
            first = number_at(search, data, start);
            second = number_at(search, data, start + stride);
            third = number_at(search, data, start + 2 * stride);
            if (second - first != (leading == LEADS_FROM_ITSELF ? 0 - (uint32_t)stride : 0) &&
                second - first == third - second &&
                number_at(search, data, start + 3 * stride) - third == third - second)
                return true;
        }
    }
    return false;
}

/* Finds out from where the number at an offset leads to the bound. */
static enum leading leads_to(const struct distance_search *search, const struct image_part *data,
                             uint64_t offset, uint64_t bound)
{
    uint32_t number = number_at(search, data, offset), wanted;
    uint32_t entry = (uint32_t)(data->code.address + offset + number - bound);
    uint32_t upper = offset < NUMBER_SIZE ? 1 : number_at(search, data, offset - NUMBER_SIZE);

    /* Zero and powers of two are in all programs. */
    if ((number & (number - 1)) == 0)
        return LEADS_NOWHERE;
    /* A number of 8 bytes counts from its upper half. */
    if (entry == 0 || (search->image->machine->big_endian && (upper == 0 || upper == UINT32_MAX) &&
                       entry == NUMBER_SIZE))
        return LEADS_FROM_ITSELF;
    for (size_t i = 0; i < DATA_BASES; i++) {
        if (take_number(data, i, bound, &wanted) && wanted == number)
            return LEADS_FROM_BASE;
    }
    return entry < RULES_TABLE_SIZE && entry % NUMBER_SIZE == 0 && entry <= offset
               ? LEADS_FROM_TABLE
               : LEADS_NOWHERE;
}

/* True if beside the number at an offset, which leads to the bound, there is another one that leads
 * to another bound in the same way, or that is the size of the range. */
static bool has_mate(const struct distance_search *search, const struct image_part *data,
                     uint64_t offset, uint64_t bound, enum leading leading)
{
    uint32_t base = (uint32_t)bound - number_at(search, data, offset);
    uint64_t back = offset < RULES_TABLE_SIZE ? offset : RULES_TABLE_SIZE;

    for (uint64_t i = offset - back / NUMBER_SIZE * NUMBER_SIZE;
         i < offset + RULES_TABLE_SIZE && data->code.bytes.size - i >= NUMBER_SIZE;
         i += NUMBER_SIZE) {
        uint32_t mate = number_at(search, data, i);
        uint32_t to = base + mate + (leading == LEADS_FROM_ITSELF ? (uint32_t)(i - offset) : 0);
        bool is_size = leading != LEADS_FROM_TABLE && mate == (uint32_t)search->size;
        bool leads = false;

        for (size_t j = 0; j < search->count; j++)
            leads |= search->bounds[j] != bound && mate != 0 && to == (uint32_t)search->bounds[j];
        if (i != offset && ((leads && !is_in_progression(search, data, i, leading)) ||
                            (is_size && !is_in_progression(search, data, i, LEADS_FROM_BASE))))
            return true;
    }
    return false;
}

/* Notes a number, which is a distance if something refers to such a place. False if there are too
 * many. */
static bool add_number(struct distance_search *search, uint64_t address, uint64_t first,
                       uint64_t last)
{
    for (size_t i = 0; i < search->number_count; i++) {
        if (search->numbers[i].first == first && search->numbers[i].last == last)
            return true;
    }
    if (search->number_count == NUMBERS_MAX)
        return false;
    search->numbers[search->number_count++] = (struct number){address, first, last};
    return true;
}

/* Looks at the number at an offset. True if it is a distance in any case. */
static bool is_distance(struct distance_search *search, const struct image_part *data,
                        uint64_t offset)
{
    const struct image_code *image = search->image;
    uint64_t from = data->code.address + offset;
    uint64_t front = from < RULES_FRONT_SIZE ? 0 : from - RULES_FRONT_SIZE;

    for (size_t i = 0; i < search->count; i++) {
        uint64_t bound = search->bounds[i];
        uint64_t start = from - (uint32_t)(from + number_at(search, data, offset) - bound);
        bool is_other = (bound == search->first + search->size && !search->end_counts) ||
                        (bound == search->first && image->operations->means_other_end != NULL &&
                         image->operations->means_other_end(image->planning, bound, from));
        enum leading leading = is_other ? LEADS_NOWHERE : leads_to(search, data, offset, bound);
        bool is_paired;

        if (leading == LEADS_NOWHERE || is_in_progression(search, data, offset, leading))
            continue;
        is_paired = has_mate(search, data, offset, bound, leading);
        if (leading == LEADS_FROM_TABLE ? is_paired && !add_number(search, from, start, start)
                                        : is_paired || !add_number(search, from, front, from))
            return true;
    }
    return false;
}

/* The filter tells of nearly all numbers that they lead nowhere. */
static void make_filter(struct distance_search *search, const struct image_part *data)
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

static bool can_be_distance(struct distance_search *search, uint64_t address)
{
    const struct code_operations *operations = search->image->operations;

    return operations->is_no_distance == NULL || search->lookups++ >= LOOKUPS_MAX ||
           !operations->is_no_distance(search->image->planning, address);
}

static bool find_distance_in(struct distance_search *search, const struct image_part *data,
                             uint64_t *from)
{
    struct bytes bytes = data->code.bytes;
    uint64_t file_offset = (uint64_t)(bytes.data - search->image->input->bytes.data), released = 0;
    uint64_t address = data->code.address, start = (0 - address) % NUMBER_SIZE;
    /* From the first bound, the start of the range, to the last one, and a table behind that. */
    uint64_t span = search->size + RULES_TABLE_SIZE;
    uint32_t base = (uint32_t)(address - search->first);
    bool big_endian = search->image->machine->big_endian;

    if (bytes.size < NUMBER_SIZE)
        return false;
    make_filter(search, data);
    for (uint64_t i = start; i + NUMBER_SIZE <= bytes.size; i += NUMBER_SIZE) {
        uint32_t number = load_u32(bytes.data + i, big_endian);

        if (i - released >= PIECE_SIZE) {
            input_release_pages(search->image->input, file_offset + released, i - released);
            released = i;
        }
        if (base + (uint32_t)i + number >= span && !search->filter[number % FILTER_BITS])
            continue;
        *from = address + i;
        if (*from - search->first >= search->size && is_distance(search, data, i) &&
            can_be_distance(search, *from))
            return true;
    }
    return false;
}

struct number_search {
    const struct distance_search *search;
    size_t *found; /* index of the number to which the last address refers */
};

static bool refers_to_number(const void *context, uint64_t address)
{
    const struct number_search *numbers = context;

    for (size_t i = 0; i < numbers->search->number_count; i++) {
        const struct number *number = &numbers->search->numbers[i];

        *numbers->found = i;
        if (address >= number->first && address <= number->last)
            return true;
    }
    return false;
}

/* Finds one of the numbers noted that is a distance, because code or a pointer refers to it. */
static bool find_number(struct distance_search *search, uint64_t *from)
{
    const struct image_code *image = search->image;
    size_t found = 0;
    struct number_search numbers = {search, &found};
    struct reference_target target = {.first = UINT64_MAX,
                                      .inside_counts = true,
                                      .counts = refers_to_number,
                                      .context = &numbers};
    uint64_t last = 0, at;
    const char *reason;

    for (size_t i = 0; i < search->number_count; i++) {
        const struct number *number = &search->numbers[i];

        target.first = number->first < target.first ? number->first : target.first;
        last = number->last > last ? number->last : last;
    }
    target.size = last - target.first + 1;
    while (search->number_count != 0 &&
           (image->operations->find_pointer(image->planning, &target, &at, &reason) ||
            (!image->code_has_relocations && rules_find_in_code(image, &target, false, &at)))) {
        *from = search->numbers[found].address;
        if (can_be_distance(search, *from))
            return true;
        search->numbers[found] = search->numbers[--search->number_count];
        found = 0;
    }
    return false;
}

bool rules_find_distance(const struct image_code *image, uint64_t address, uint64_t size,
                         uint64_t *from)
{
    struct distance_search search = {.image = image,
                                     .first = address,
                                     .size = size,
                                     .end_counts = end_counts(image, address + size)};
    struct image_part part;
    struct accessor accessor;
    struct code code;

    add_bound(&search, address);
    add_bound(&search, address + size);
    for (size_t i = 0; rules_next_accessor(image, &i, &code, &accessor);) {
        if (accessor.form != ACCESSOR_LOAD && accessor.value - address < size)
            add_bound(&search, accessor.value);
    }
    for (size_t i = 0; image->operations->part_at(image->planning, i, &part); i++) {
        if (part.kind == PART_DATA && find_distance_in(&search, &part, from))
            return true;
    }
    return find_number(&search, from);
}

/* ---- callers of the runtime ---- */

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

static bool is_watched_symbol(enum runtime_symbol symbol)
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

/* Addresses of functions of the runtime that lead to names and records. */
struct watched {
    const struct image_code *image;
    bool are_pointers;
};

/* In data, each pointer has the bit that tells the instruction set if its function needs it. In
 * code, pointers to functions have it, too, and calls do not. Some functions have a second entry.
 */
static bool is_watched(const void *context, uint64_t address)
{
    const struct watched *watched = context;
    const struct machine *machine = watched->image->machine;
    const struct runtime_symbols *symbols = &watched->image->symbols;

    for (size_t i = 0; i < symbols->count; i++) {
        const struct runtime_definition *definition = &symbols->definitions[i];
        uint64_t start = !watched->are_pointers ? address & ~machine->state_bit
                         : definition->is_thumb ? address - machine->state_bit
                                                : address;

        if (is_watched_symbol(definition->symbol) &&
            (start == definition->address || start == definition->address + machine->local_entry))
            return true;
    }
    return false;
}

struct caller {
    uint64_t from;
    uint64_t function; /* start of the last function at or before `from` seen so far */
    bool has_function;
    bool is_own; /* it is a function of the runtime */
};

/* Compilers split off parts of a function, and name them NAME.SUFFIX. */
static bool is_own_name(struct bytes name)
{
    size_t shared = strlen(SHARED_PREFIX);

    if (bytes_start_with(name, PUBLIC_PREFIX) ||
        (bytes_start_with(name, SHARED_PREFIX) && name.size > shared && name.data[shared] >= 'A' &&
         name.data[shared] <= 'Z'))
        return true;
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        size_t size = strlen(own_names[i]);

        if (bytes_start_with(name, own_names[i]) &&
            (name.size == size || name.data[size] <= ' ' || name.data[size] == '.'))
            return true;
    }
    return false;
}

/* Finds out which of the callers may be in a function. */
static void judge_callers(struct caller *callers, size_t count, const struct image_symbol *function)
{
    for (size_t i = 0; i < count; i++) {
        struct caller *caller = &callers[i];

        if (function->address > caller->from ||
            (caller->has_function && function->address < caller->function))
            continue;
        if (!caller->has_function || function->address != caller->function)
            caller->is_own = false;
        caller->has_function = true;
        caller->function = function->address;
        /* A function may have several names. */
        caller->is_own |= is_own_name(function->name);
    }
}

/* True if a foreign function calls a watched one. Only symbols tell foreign callers from the
 * runtime. */
static bool find_call(const struct image_code *image, const struct reference_target *watched,
                      uint64_t *from)
{
    struct code_references references;
    struct caller callers[CALLERS_MAX];
    struct symbol_walk walk = {0};
    struct image_symbol symbol;
    size_t count = 0;

    code_references_open(&references, image, watched);
    while (code_references_next(&references, from)) {
        if (count == CALLERS_MAX) { /* not all of them can be the runtime's */
            *from = watched->first;
            return true;
        }
        callers[count++] = (struct caller){.from = *from};
    }
    while (count != 0 && image->operations->next_symbol(image->planning, &walk, &symbol)) {
        if (symbol.is_function)
            judge_callers(callers, count, &symbol);
    }
    for (size_t i = 0; i < count; i++) {
        *from = callers[i].from;
        if (!callers[i].is_own)
            return true;
    }
    return false;
}

bool rules_find_foreign_caller(const struct image_code *image, uint64_t *from)
{
    struct watched functions = {image, false};
    struct reference_target target = {
        .first = UINT64_MAX, .called = true, .counts = is_watched, .context = &functions};
    uint64_t last = 0;
    const char *reason;

    for (size_t i = 0; i < image->symbols.count; i++) {
        uint64_t address = image->symbols.definitions[i].address;

        if (!is_watched_symbol(image->symbols.definitions[i].symbol))
            continue;
        target.first = address < target.first ? address : target.first;
        last = address > last ? address : last;
    }
    if (target.first > last || !image->symbols.from_symbol_table)
        return false;
    target.size = last - target.first + image->machine->local_entry + image->machine->state_bit + 1;
    if (find_call(image, &target, from))
        return true;
    functions.are_pointers = true;
    return image->operations->find_pointer(image->planning, &target, from, &reason) &&
           reason == NULL;
}
