/*
 * Searches for what refers to the names and records, or to the functions of the runtime: see
 * runtime.h.
 */
#include <string.h>

#include "common/base/array.h"
#include "formats/runtime/runtime.h"

/* ---- references in code, told from numbers that only seem to be some ---- */

/*
 * Hits are judged many at a time, in the order of their addresses. One pass over the symbols finds
 * the function of each, and no instruction is decoded twice, so time is in proportion to the image
 * whatever is in it.
 */

/* Large images with much code have some ten thousand. */
#define HITS_MAX 4096

struct hit {
    uint64_t from;
    uint64_t function; /* the last start of a function at or before it */
};

struct hits {
    const struct hit_symbols *symbols;
    const struct code_search *search;
    const struct code *code;
    code_search_visitor visit;
    void *context;
    struct hit list[HITS_MAX];
    size_t count;
    /* The decoding of a function, from its start: */
    uint64_t function;
    uint64_t next;    /* address of the next instruction */
    bool last_refers; /* the one before that refers to the target */
    bool is_lost;     /* the next one is not known */
};

/* A runtime_symbol_visitor: notes the start of a function at the first hit behind it. */
static bool add_function(void *context, const struct image_symbol *symbol)
{
    struct hits *hits = context;
    uint64_t address = symbol->address;
    size_t before;

    if (!symbol->is_function || address < hits->code->address ||
        address > hits->list[hits->count - 1].from)
        return true;
    before = address == 0
                 ? 0
                 : array_count_up_to(hits->list, hits->count, sizeof(*hits->list), address - 1);
    if (address > hits->list[before].function)
        hits->list[before].function = address;
    return true;
}

static bool is_reference(struct hits *hits, const struct hit *hit)
{
    const struct code *code = hits->code;
    const struct machine *machine = hits->search->machine;
    const struct reference_target *target = &hits->search->target;
    uint64_t at = hit->from - code->address;
    struct bytes field;

    if (hit->function != hits->function) {
        hits->function = hits->next = hit->function;
        hits->is_lost = false;
    }
    while (!hits->is_lost && hits->next <= hit->from) {
        uint64_t size;

        hits->last_refers = false;
        size = machine->judge_instruction(code, hits->next - code->address, target,
                                          &hits->last_refers);
        hits->next += size;
        hits->is_lost = size == 0;
    }
    if (hits->is_lost)
        return !target->relative;
    /* Data among the code may be the address itself. Data that looks like the start of an
     * instruction leads the decoding astray. So near the bounds of the target what compilers make
     * of an address counts wherever it is. */
    return hits->last_refers ||
           (target->absolute && bytes_slice(code->bytes, at, sizeof(uint32_t), &field) &&
            load_u32(field.data, machine->big_endian) == target->first) ||
           (!target->relative && machine->is_usual_reference(code, at));
}

/* False if the visitor stops. */
static bool judge_hits(struct hits *hits)
{
    bool goes_on = true;

    if (hits->count != 0)
        hits->symbols->each(hits->symbols->planning, add_function, hits);
    for (size_t i = 1; i < hits->count; i++) {
        if (hits->list[i].function < hits->list[i - 1].function)
            hits->list[i].function = hits->list[i - 1].function;
    }
    for (size_t i = 0; i < hits->count && goes_on; i++) {
        if (is_reference(hits, &hits->list[i]))
            goes_on = hits->visit(hits->context, hits->list[i].from);
    }
    hits->count = 0;
    return goes_on;
}

/* A code_search_visitor. */
static bool add_hit(void *context, uint64_t from)
{
    struct hits *hits = context;

    if (hits->count == HITS_MAX && !judge_hits(hits))
        return false;
    hits->list[hits->count++] = (struct hit){from, hits->code->address};
    return true;
}

bool hits_search(const struct hit_symbols *symbols, const struct code_search *search,
                 const struct code *code, code_search_visitor visit, void *context)
{
    struct code judged = *code;
    struct hits hits = {.symbols = symbols,
                        .search = search,
                        .code = &judged,
                        .visit = visit,
                        .context = context,
                        .function = code->address,
                        .next = code->address};

    if (search->machine->judge_instruction == NULL)
        return code_search(search, code, visit, context);
    judged.machine = search->machine;
    return code_search(search, code, add_hit, &hits) && judge_hits(&hits);
}

/* ---- searches of all code ---- */

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

/* True if the table that starts at an offset also leads to another bound. */
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

/* True if the number at an offset leads to the bound. Zero and powers of two are in all programs.
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
    struct accessor accessor;
    struct code code;
    size_t index = 0;

    add_bound(&search, address);
    if (is_bound)
        add_bound(&search, address + size);
    for (size_t i = 0; is_bound && rules_next_accessor(image, &i, &code, &accessor);) {
        if (accessor.form != ACCESSOR_LOAD && accessor.value - address < size)
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

/* True if the function starts at the address; some have a second entry. */
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

/* True if a foreign function calls a watched one. Only symbols tell foreign callers from the
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

bool rules_find_foreign_caller(const struct image_code *image, uint64_t *from)
{
    struct reference_target watched = watched_functions(image), pointers = watched;
    const char *reason;

    pointers.counts = is_watched_pointer;
    return watched.size != 0 && image->symbols.from_symbol_table &&
           (find_call(image, &watched, from) ||
            (image->operations->find_pointer(image->planning, &pointers, from, &reason) &&
             reason == NULL));
}
