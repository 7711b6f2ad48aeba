/*
 * Following high halves: see machine/flow.h.
 *
 * For each instruction it is known which registers may hold the high half in front of it: a mask,
 * of which bit 0 says that it may be on the stack. Sweeps over the code carry masks from each
 * instruction to those that follow it, until nothing changes.
 */
#include "formats/machine/flow.h"

#define PLACES    (2 * FLOW_RANGE / FLOW_INSTRUCTION_SIZE)
#define ON_STACK  UINT32_C(1)
#define SLOTS_MAX 8
/* More loops than that are not nested in real code. */
#define SWEEPS_MAX 16

struct walk {
    const struct flow *flow;
    const struct code *code;
    const struct reference_target *target;
    uint64_t high;
    uint64_t start; /* offset of the first place */
    uint32_t masks[PLACES];
    size_t low, end; /* places outside of [low, end) have no mask */
    uint64_t slots[SLOTS_MAX];
    size_t slot_count;
    uint32_t anywhere; /* what holds it at a jump to anywhere */
    bool found;        /* a low half */
    bool has_left;     /* it may be used where this does not look */
    bool changed;      /* a mask in front of where the sweep is */
};

static uint64_t offset_of(const struct walk *walk, size_t place)
{
    return walk->start + place * FLOW_INSTRUCTION_SIZE;
}

/* From the instruction at a place the one at an offset may follow. One that is out of range and not
 * the next one is another function, that has been jumped to: then no more than what calls keep may
 * be used, and nothing of the stack. */
static void join(struct walk *walk, size_t place, uint64_t offset, uint32_t mask)
{
    uint64_t to = (offset - walk->start) / FLOW_INSTRUCTION_SIZE;
    uint32_t left = mask;

    if (offset != offset_of(walk, place) + FLOW_INSTRUCTION_SIZE)
        left &= ~walk->flow->changed_by_calls & ~ON_STACK;
    /* Behind the last instruction, and in front of the first one, there is no code. */
    if (offset < walk->code->bytes.size && (offset < walk->start || to >= PLACES))
        walk->has_left |= left != 0;
    if (offset < walk->start || to >= PLACES ||
        !range_within(offset, FLOW_INSTRUCTION_SIZE, 0, walk->code->bytes.size))
        return;
    if ((mask & ~walk->masks[to]) == 0)
        return;
    walk->masks[to] |= mask;
    walk->low = to < walk->low ? (size_t)to : walk->low;
    walk->end = to >= walk->end ? (size_t)to + 1 : walk->end;
    walk->changed |= to <= place;
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
    if (holds(before, instruction->copied_from) && instruction->copied_to != 0)
        *mask |= UINT32_C(1) << instruction->copied_to;
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
    return true;
}

/* Behind an instruction at an offset, of which `branch` says how it goes on. */
static void carry_on(struct walk *walk, size_t place, uint64_t offset,
                     const struct flow_instruction *branch, uint32_t mask)
{
    if (branch->branches)
        join(walk, place, branch->to, mask);
    if (branch->goes_anywhere && (mask & ~walk->anywhere) != 0) {
        walk->anywhere |= mask;
        walk->end = PLACES;
        walk->changed = true;
    }
    if (!branch->is_end)
        join(walk, place, offset + FLOW_INSTRUCTION_SIZE, mask);
}

/* What says how the instruction at an offset goes on: itself, or the branch in front of it. */
static void decode_branch(const struct walk *walk, uint64_t offset, struct flow_instruction *branch)
{
    *branch = (struct flow_instruction){0};
    if (!walk->flow->has_delay_slots)
        walk->flow->decode(walk->code, offset, branch);
    else if (offset >= FLOW_INSTRUCTION_SIZE)
        walk->flow->decode(walk->code, offset - FLOW_INSTRUCTION_SIZE, branch);
}

/* Whether the instruction at a place makes an address that counts, if the high half is where the
 * mask says; carries the mask on. Also true where that cannot be followed. */
static bool step(struct walk *walk, size_t place, uint32_t mask)
{
    struct flow_instruction instruction = {0}, branch;
    uint64_t offset = offset_of(walk, place);

    walk->flow->decode(walk->code, offset, &instruction);
    if (holds(mask, instruction.base)) {
        walk->found = true;
        if (reference_counts(walk->target, instruction.is_low_or ? walk->high | instruction.low
                                                                 : walk->high + instruction.low))
            return true;
    }
    if (!transfer(walk, &instruction, &mask))
        return true;
    decode_branch(walk, offset, &branch);
    carry_on(walk, place, offset, &branch, mask);
    return false;
}

/* What may hold the high half where a jump to anywhere may lead: a place behind `first`. *killed is
 * what instructions in front have overwritten. They are of no matter behind the end of a path; but
 * else the place also follows them, and a register that it uses holds the same on either way. */
static uint32_t from_anywhere(const struct walk *walk, uint64_t first, uint64_t offset,
                              uint32_t *killed)
{
    struct flow_instruction before = {0}, branch;
    uint64_t last = offset - FLOW_INSTRUCTION_SIZE;

    if (walk->anywhere == 0 || offset <= first + FLOW_INSTRUCTION_SIZE)
        return 0;
    walk->flow->decode(walk->code, last, &before);
    decode_branch(walk, last, &branch);
    *killed = branch.is_end ? 0 : *killed | before.overwritten;
    return walk->anywhere & (~*killed | ON_STACK);
}

/* One sweep. True where an address counts. */
static bool sweep(struct walk *walk, uint64_t first)
{
    uint32_t killed = 0;

    for (size_t place = walk->low; place < walk->end; place++) {
        uint64_t offset = offset_of(walk, place);
        uint32_t mask;

        if (walk->anywhere != 0 && offset > first &&
            (offset >= walk->code->bytes.size || walk->flow->is_function(walk->code, offset)))
            return false;
        mask = walk->masks[place] | from_anywhere(walk, first, offset, &killed);
        if (mask != 0 && step(walk, place, mask))
            return true;
    }
    return false;
}

enum flow_end flow_follow(const struct flow *flow, const struct code *code, uint64_t offset,
                          unsigned number, uint64_t high, const struct reference_target *target)
{
    struct walk walk = {
        .flow = flow,
        .code = code,
        .target = target,
        .high = high,
        .start = offset < FLOW_RANGE ? offset % FLOW_INSTRUCTION_SIZE : offset - FLOW_RANGE,
        .low = PLACES,
        .changed = true,
    };
    struct flow_instruction branch;

    decode_branch(&walk, offset, &branch);
    carry_on(&walk, 0, offset, &branch, UINT32_C(1) << number);
    for (unsigned sweeps = 0; walk.changed; sweeps++) {
        walk.changed = false;
        if (sweeps == SWEEPS_MAX || sweep(&walk, offset))
            return FLOW_COUNTS;
    }
    return walk.has_left ? FLOW_LEFT : walk.found ? FLOW_ELSEWHERE : FLOW_UNUSED;
}
