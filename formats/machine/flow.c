/*
 * Following halves of addresses: see machine/flow.h.
 *
 * For each place where an instruction may start it is known which registers may hold the half in
 * front of it: a mask, of which bit 0 says that it may be on the stack. Sweeps over the code carry
 * masks from each instruction to those that follow it, until nothing changes.
 */
#include "formats/machine/flow.h"

#define PLACES    (2 * FLOW_RANGE_UNITS)
#define ON_STACK  UINT32_C(1)
#define SLOTS_MAX 8
/* More loops than that are not nested in real code. */
#define SWEEPS_MAX 16

struct walk {
    const struct flow *flow;
    const struct flow_half *half;
    uint64_t start; /* offset of the first place */
    uint32_t *masks;
    size_t low, end; /* places outside of [low, end) have no mask, and no memory for one is set */
    uint64_t slots[SLOTS_MAX];
    size_t slot_count;
    uint32_t anywhere; /* what holds it at a jump to anywhere */
    unsigned found;    /* FLOW_... */
    bool changed;      /* a mask in front of where the sweep is */
};

static void add_mask(struct walk *walk, size_t place, uint32_t mask)
{
    if (walk->low == walk->end)
        walk->low = walk->end = place;
    while (place < walk->low)
        walk->masks[--walk->low] = 0;
    while (place >= walk->end)
        walk->masks[walk->end++] = 0;
    walk->masks[place] |= mask;
}

static uint32_t mask_at(const struct walk *walk, size_t place)
{
    return place >= walk->low && place < walk->end ? walk->masks[place] : 0;
}

/* From the instruction at an offset the one at `to` may follow; `behind` is where it ends. One that
 * is out of range and not behind it is another function, that has been jumped to: then no more than
 * what calls keep may be used, and nothing of the stack. */
static void join(struct walk *walk, uint64_t offset, uint64_t behind, uint64_t to, uint32_t mask)
{
    uint64_t size = walk->half->code->bytes.size, unit = walk->flow->unit;
    uint64_t place = (to - walk->start) / unit;
    uint32_t left = to == behind ? mask : mask & ~walk->flow->changed_by_calls & ~ON_STACK;

    if (to < walk->start || place >= PLACES) {
        /* Behind the last instruction, and in front of the first one, there is no code. */
        if (to < size && left != 0)
            walk->found |= FLOW_LEFT;
        return;
    }
    if (!range_within(to, unit, 0, size) || (mask & ~mask_at(walk, (size_t)place)) == 0)
        return;
    add_mask(walk, (size_t)place, mask);
    walk->changed |= to <= offset;
}

static bool is_slot(const struct walk *walk, uint64_t slot)
{
    for (size_t i = 0; i < walk->slot_count; i++) {
        if (walk->slots[i] == slot)
            return true;
    }
    return false;
}

static bool holds(uint32_t mask, unsigned number)
{
    return number != 0 && (mask >> number & 1) != 0;
}

/* The mask behind an instruction. False where there are too many slots. */
static bool transfer(struct walk *walk, const struct flow_instruction *instruction, uint32_t *mask)
{
    uint32_t before = *mask;

    *mask &= ~instruction->overwritten | ON_STACK;
    if ((before & instruction->passed_from & ~ON_STACK) != 0 && instruction->passed_to != 0)
        *mask |= UINT32_C(1) << instruction->passed_to;
    if (holds(before, instruction->escapes))
        walk->found |= FLOW_LEFT;
    if (holds(before, instruction->stored)) {
        if (!is_slot(walk, instruction->slot)) {
            if (walk->slot_count == SLOTS_MAX)
                return false;
            walk->slots[walk->slot_count++] = instruction->slot;
            walk->changed = true; /* those before it may not be free any more, as below */
        }
        *mask |= ON_STACK;
    } else if (instruction->stored != 0 && !instruction->may_be_elsewhere &&
               walk->slot_count == 1 && is_slot(walk, instruction->slot)) {
        *mask &= ~ON_STACK;
    }
    if ((before & ON_STACK) != 0 && instruction->loaded != 0 && is_slot(walk, instruction->slot))
        *mask |= UINT32_C(1) << instruction->loaded;
    if (instruction->calls)
        *mask &= ~walk->flow->changed_by_calls;
    return true;
}

static void go_anywhere(struct walk *walk, uint32_t mask)
{
    walk->changed |= (mask & ~walk->anywhere) != 0;
    walk->anywhere |= mask;
    if (walk->flow->is_function == NULL)
        walk->found |= mask != 0 ? FLOW_LEFT : 0;
}

/* Behind the instruction at an offset, of which `branch` says how it goes on. */
static void carry_on(struct walk *walk, uint64_t offset, uint64_t behind,
                     const struct flow_instruction *branch, uint32_t mask)
{
    if (branch->branches)
        join(walk, offset, behind, branch->to, mask);
    if (branch->goes_anywhere)
        go_anywhere(walk, mask);
    if (!branch->is_end)
        join(walk, offset, behind, behind, mask);
}

/* What says how the instruction at an offset goes on: itself, or the branch in front of it. */
static void decode_branch(const struct walk *walk, uint64_t offset,
                          const struct flow_instruction *instruction,
                          struct flow_instruction *branch)
{
    *branch = *instruction;
    if (!walk->flow->has_delay_slots)
        return;
    *branch = (struct flow_instruction){0};
    if (offset >= walk->flow->unit)
        walk->flow->decode(walk->half->code, offset - walk->flow->unit, branch);
}

/* Whether the instruction at an offset makes an address that counts, if the half is where the mask
 * says; carries the mask on. Also true where that cannot be followed. */
static bool step(struct walk *walk, uint64_t offset, const struct flow_instruction *instruction,
                 const struct flow_instruction *branch, uint32_t mask)
{
    if (holds(mask, instruction->base)) {
        walk->found |= FLOW_FOUND;
        if (walk->flow->refers(walk->half, offset, instruction))
            return true;
    }
    if (!transfer(walk, instruction, &mask))
        return true;
    if (instruction->calls && walk->flow->has_handlers)
        go_anywhere(walk, mask);
    carry_on(walk, offset, offset + instruction->size, branch, mask);
    return false;
}

/* Where a sweep is that takes the instructions behind the half one after the other: any of them may
 * be where a jump to anywhere leads. What those in front have overwritten is of no matter behind
 * the end of a path; but else the place also follows them, and a register that it uses holds the
 * same on either way, unless a handler is there, behind a call that does not return. */
struct line {
    uint64_t next; /* the instruction that is */
    uint32_t killed;
    bool is_first;
};

/* What may hold the half in front of an instruction of the line. */
static uint32_t take_next(const struct walk *walk, struct line *line,
                          const struct flow_instruction *instruction,
                          const struct flow_instruction *branch)
{
    uint32_t mask = line->is_first ? 0 : walk->anywhere & (~line->killed | ON_STACK);

    line->next += instruction->size != 0 ? instruction->size : walk->flow->unit;
    line->killed |= instruction->overwritten;
    if (instruction->calls)
        line->killed |= walk->flow->changed_by_calls;
    if (branch->is_end || walk->flow->has_handlers)
        line->killed = 0;
    line->is_first = false;
    return mask;
}

/* Whether jumps to anywhere do not lead to an offset behind the half. */
static bool is_beyond(const struct walk *walk, uint64_t offset)
{
    if (offset >= walk->half->code->bytes.size)
        return true;
    return walk->flow->is_function != NULL ? walk->flow->is_function(walk->half->code, offset)
                                           : offset - walk->half->offset >= FLOW_ANYWHERE;
}

/* One sweep, where instructions behind the half start at an offset. True where an address counts.
 */
static bool sweep(struct walk *walk, uint64_t behind)
{
    struct line line = {.next = behind, .is_first = true};
    bool ends = false; /* the line has */

    for (size_t place = walk->low; place < PLACES && (place < walk->end || walk->anywhere != 0);
         place++) {
        struct flow_instruction instruction = {0}, branch;
        uint64_t offset = walk->start + place * walk->flow->unit;
        uint32_t mask = mask_at(walk, place);
        bool is_in_line;

        ends |= walk->anywhere != 0 && offset >= behind && is_beyond(walk, offset);
        if (ends && place >= walk->end)
            return false;
        is_in_line = walk->anywhere != 0 && !ends && offset == line.next;
        if (mask == 0 && !is_in_line)
            continue;
        if (*walk->half->steps_left == 0)
            return true;
        --*walk->half->steps_left;
        walk->flow->decode(walk->half->code, offset, &instruction);
        decode_branch(walk, offset, &instruction, &branch);
        if (is_in_line)
            mask |= take_next(walk, &line, &instruction, &branch);
        if (mask != 0 && instruction.size != 0 && step(walk, offset, &instruction, &branch, mask))
            return true;
    }
    return false;
}

unsigned flow_follow(const struct flow *flow, const struct flow_half *half)
{
    uint64_t range = FLOW_RANGE(flow->unit);
    uint32_t masks[PLACES];
    struct walk walk = {
        .flow = flow,
        .half = half,
        .start = half->offset < range ? half->offset % flow->unit : half->offset - range,
        .masks = masks,
        .changed = true,
    };
    struct flow_instruction instruction = {0}, branch;
    uint64_t behind;

    flow->decode(half->code, half->offset, &instruction);
    behind = half->offset + instruction.size;
    decode_branch(&walk, half->offset, &instruction, &branch);
    carry_on(&walk, half->offset, behind, &branch, UINT32_C(1) << half->number);
    for (unsigned sweeps = 0; walk.changed; sweeps++) {
        walk.changed = false;
        if (sweeps == SWEEPS_MAX || sweep(&walk, behind))
            return FLOW_COUNTS;
    }
    return walk.found;
}
