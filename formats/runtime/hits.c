/*
 * References in code, told from numbers that only seem to be some: see runtime/hits.h.
 *
 * Hits are judged many at a time, in the order of their addresses. One pass over the symbols finds
 * the function of each, and no instruction is decoded twice, so time is in proportion to the image
 * whatever is in it.
 */
#include "formats/runtime/hits.h"

#include "common/base/array.h"

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

static void find_functions(struct hits *hits)
{
    hits->symbols->each(hits->symbols->planning, add_function, hits);
    for (size_t i = 1; i < hits->count; i++) {
        if (hits->list[i].function < hits->list[i - 1].function)
            hits->list[i].function = hits->list[i - 1].function;
    }
}

/* Data among the code may be the address itself. */
static bool is_address(const struct hits *hits, uint64_t from)
{
    const struct reference_target *target = &hits->search->target;
    struct bytes field;

    return target->absolute &&
           bytes_slice(hits->code->bytes, from - hits->code->address, sizeof(uint32_t), &field) &&
           load_u32(field.data, hits->search->machine->big_endian) == target->first;
}

/* Data that looks like the start of an instruction leads the decoding astray. So near the bounds of
 * the target what compilers make of an address counts wherever it is. */
static bool is_usual(const struct hits *hits, uint64_t from)
{
    return !hits->search->target.relative &&
           hits->search->machine->is_usual_reference(hits->code, from - hits->code->address);
}

static bool is_reference(struct hits *hits, const struct hit *hit)
{
    const struct code *code = hits->code;

    if (hit->function != hits->function) {
        hits->function = hits->next = hit->function;
        hits->is_lost = false;
    }
    while (!hits->is_lost && hits->next <= hit->from) {
        uint64_t size;

        hits->last_refers = false;
        size = hits->search->machine->judge_instruction(code, hits->next - code->address,
                                                        &hits->search->target, &hits->last_refers);
        hits->next += size;
        hits->is_lost = size == 0;
    }
    if (hits->is_lost)
        return !hits->search->target.relative;
    return hits->last_refers || is_address(hits, hit->from) || is_usual(hits, hit->from);
}

/* False if the visitor stops. */
static bool judge_hits(struct hits *hits)
{
    bool goes_on = true;

    if (hits->count != 0)
        find_functions(hits);
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
