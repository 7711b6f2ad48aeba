/*
 * The table of machines, searching their code (machine.h), and following halves of addresses
 * (flow.h).
 *
 * Instructions that form addresses are recognized by their encoding wherever one may start, so a
 * disassembly cannot get out of step. The search may find a reference where there is none, and then
 * something stays that could have gone (on x86-64 runtime/references.c takes a second look); it
 * never misses one of the forms that the machine's file describes. So pieces overlap on both sides
 * by more than the largest distance between the parts that form one address.
 */
#include "formats/machine/machine.h"

#include <elf.h>
#include <string.h>

#include "formats/machine/flow.h"

static const struct machine *const machines[] = {
    &machine_x86_64,  &machine_i386,        &machine_aarch64,  &machine_arm,     &machine_riscv64,
    &machine_riscv32, &machine_loongarch64, &machine_mips64el, &machine_ppc64le, &machine_s390x,
};

const struct machine *machine_find(uint16_t elf_machine, uint8_t elf_class, uint8_t elf_data)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        if (machines[i]->elf_machine == elf_machine &&
            elf_class == (machines[i]->address_size == 4 ? ELFCLASS32 : ELFCLASS64) &&
            elf_data == (machines[i]->big_endian ? ELFDATA2MSB : ELFDATA2LSB))
            return machines[i];
    }
    return NULL;
}

#define PIECE_SIZE (UINT64_C(1) << 20)

bool code_search_next(struct code_search *search, uint64_t *from)
{
    const struct code *code = &search->code;
    uint64_t around = search->machine->look_ahead;

    for (; search->piece < code->bytes.size; search->position = search->piece += PIECE_SIZE) {
        uint64_t before = search->piece < around ? search->piece : around;
        uint64_t start = search->piece - before, left = code->bytes.size - search->piece;
        uint64_t size = before + (left < PIECE_SIZE + around ? left : PIECE_SIZE + around);
        uint64_t position = search->position - start;
        struct code piece = *code;

        piece.machine = search->machine;
        piece.bytes = (struct bytes){code->bytes.data + start, size};
        piece.address += start;
        /* A hit further on is found again in the next piece, together with all the bytes that it
         * depends on. */
        if (search->machine->find_reference(&piece, &search->target, &position) &&
            position < before + PIECE_SIZE) {
            *from = piece.address + position;
            search->position = start + position + 1;
            return true;
        }
        input_release_pages(search->input, (uint64_t)(piece.bytes.data - search->input->bytes.data),
                            size);
    }
    return false;
}

/* A body may start this many bytes before those that form the address. */
#define BODY_BEFORE 16

bool code_decode_around(const struct machine *machine, const struct code *code, uint64_t position,
                        uint64_t *start, struct accessor *accessor)
{
    uint64_t before = position < BODY_BEFORE ? position : BODY_BEFORE;

    /* The longest body is tried first: it may include the bytes before those. */
    for (*start = position - before; *start <= position; ++*start) {
        struct code body = *code;

        body.machine = machine;
        body.address += *start;
        if (bytes_slice(code->bytes, *start, code->bytes.size - *start, &body.bytes) &&
            machine->decode_accessor(&body, accessor) &&
            range_within(position - *start, 1, accessor->patch_offset, accessor->patch_size))
            return true;
    }
    return false;
}

/* ---- following halves of addresses ---- */

/*
 * For each place where an instruction may start, a mask says which registers may hold the half just
 * before it; bit 0 says that the half may be on the stack. Sweeps over the code carry masks from
 * each instruction to those that may follow it, until nothing changes.
 */

#define PLACES    (2 * FLOW_RANGE_UNITS)
#define ON_STACK  UINT32_C(1)
#define SLOTS_MAX 128
/* Loops in real code are not nested more deeply than this. */
#define SWEEPS_MAX 64

struct walk {
    const struct flow *flow;
    const struct flow_half *half;
    const struct code *code;
    uint64_t start; /* offset of the first place */
    uint32_t *masks;
    size_t low, end; /* only masks in [low, end) are initialized; all others are 0 */
    uint64_t slots[SLOTS_MAX];
    size_t slot_count;
    uint32_t anywhere; /* what may hold the half at a jump to anywhere */
    uint32_t handlers; /* and at a call that may lead to a handler */
    bool knows_targets;
    bool *targets;  /* whether a branch leads there, by distance from the half */
    unsigned found; /* FLOW_... */
    bool changed;   /* a mask that this sweep has already passed has changed */
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

/* The instruction at `offset`, which ends at `behind`, may be followed by the one at `to`. If `to`
 * is out of range and is not `behind`, it is another function that is jumped to: then only the
 * registers that calls preserve may still be used, and nothing on the stack. */
static void join(struct walk *walk, uint64_t offset, uint64_t behind, uint64_t to, uint32_t mask)
{
    uint64_t size = walk->code->bytes.size, unit = walk->flow->unit;
    uint64_t place = (to - walk->start) / unit;
    uint32_t left = to == behind ? mask : mask & ~walk->flow->changed_by_calls & ~ON_STACK;

    if (to < walk->start || place >= PLACES) {
        /* There is no code before the first instruction or behind the last one. */
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

/* Computes the mask behind an instruction. False if that cannot be known: there are too many slots.
 */
static bool transfer(struct walk *walk, const struct flow_instruction *instruction, uint32_t *mask)
{
    uint32_t before = *mask;

    *mask &= ~instruction->overwritten | ON_STACK;
    if ((before & instruction->passed_from & ~ON_STACK) != 0 && instruction->passed_to != 0)
        *mask |= UINT32_C(1) << instruction->passed_to;
    if ((before & instruction->escapes & ~ON_STACK) != 0)
        walk->found |= FLOW_LEFT;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t slot = instruction->slot + 8 * i;
        unsigned stored = instruction->stored[i];

        if (holds(before, stored)) {
            if (!is_slot(walk, slot)) {
                if (walk->slot_count == SLOTS_MAX)
                    return false;
                walk->slots[walk->slot_count++] = slot;
                walk->changed = true; /* earlier stores may no longer clear ON_STACK, see below */
            }
            *mask |= ON_STACK;
        } else if (stored != 0 && walk->slot_count == 1 && is_slot(walk, slot)) {
            *mask &= ~ON_STACK;
        }
        if (instruction->may_be_elsewhere)
            *mask |= before & ON_STACK;
        if ((before & ON_STACK) != 0 && instruction->loaded[i] != 0 && is_slot(walk, slot))
            *mask |= UINT32_C(1) << instruction->loaded[i];
    }
    if (instruction->calls)
        *mask &= ~walk->flow->changed_by_calls;
    return true;
}

/* Adds to the mask of `anywhere` or `handlers`. */
static void note(struct walk *walk, uint32_t *noted, uint32_t mask)
{
    walk->changed |= (mask & ~*noted) != 0;
    *noted |= mask;
}

/* Carries the mask on from the instruction at `offset`; `branch` says where control goes. */
static void carry_on(struct walk *walk, uint64_t offset, uint64_t behind,
                     const struct flow_instruction *branch, uint32_t mask)
{
    if (branch->branches)
        join(walk, offset, behind, branch->to, mask);
    if (branch->goes_anywhere)
        note(walk, &walk->anywhere, mask);
    if (!branch->is_end)
        join(walk, offset, behind, behind, mask);
}

/* Finds what decides where control goes behind the instruction at an offset: the instruction
 * itself, or, with delay slots, the branch before it. */
static void decode_branch(const struct walk *walk, uint64_t offset,
                          const struct flow_instruction *instruction,
                          struct flow_instruction *branch)
{
    *branch = *instruction;
    if (!walk->flow->has_delay_slots)
        return;
    *branch = (struct flow_instruction){0};
    if (offset >= walk->flow->unit)
        walk->flow->decode(walk->code, offset - walk->flow->unit, branch);
}

/* True if the instruction at an offset forms an address that counts, if the half is where the mask
 * says; carries the mask on. Also true if the half cannot be followed any further. */
static bool step(struct walk *walk, uint64_t offset, const struct flow_instruction *instruction,
                 const struct flow_instruction *branch, uint32_t mask)
{
    if (holds(mask, instruction->base)) {
        walk->found |= FLOW_FOUND;
        if (walk->flow->refers != NULL
                ? walk->flow->refers(walk->half, offset, instruction)
                : reference_counts(walk->half->search->target, walk->half->high + instruction->low))
            return true;
    }
    if (!transfer(walk, instruction, &mask))
        return true;
    if (instruction->calls && walk->flow->has_handlers)
        note(walk, &walk->handlers, mask);
    carry_on(walk, offset, offset + instruction->size, branch, mask);
    return false;
}

static bool is_beyond(const struct walk *walk, uint64_t offset)
{
    return offset >= walk->code->bytes.size || walk->flow->is_function(walk->code, offset);
}

/* The start of the function that the half is in; if that is not found, `behind`, where the
 * instructions behind the half start. */
static uint64_t start_of_function(const struct walk *walk, uint64_t behind)
{
    uint64_t offset = walk->half->offset, unit = walk->flow->unit;

    for (unsigned i = 0; i < FLOW_RANGE_UNITS && walk->half->search->steps_left != 0; i++) {
        --walk->half->search->steps_left;
        if (walk->flow->is_function(walk->code, offset))
            return offset;
        if (offset < unit)
            break;
        offset -= unit;
    }
    return behind;
}

/* Notes which instructions behind the half branches of the function lead to. */
static void note_targets(struct walk *walk, uint64_t behind)
{
    uint64_t unit = walk->flow->unit, offset = start_of_function(walk, behind), distance;

    memset(walk->targets, false, FLOW_RANGE_UNITS);
    walk->knows_targets = true;
    for (unsigned i = 0; i < PLACES && walk->half->search->steps_left != 0; i++) {
        struct flow_instruction instruction = {0};

        --walk->half->search->steps_left;
        walk->flow->decode(walk->code, offset, &instruction);
        distance = (instruction.to - walk->half->offset) / unit;
        if (instruction.branches && distance < FLOW_RANGE_UNITS)
            walk->targets[distance] = true;
        offset += instruction.size;
        if (instruction.size == 0 || (offset >= behind && is_beyond(walk, offset)))
            return;
    }
}

/* True if an exception handler may start at an offset: not if a branch leads there. */
static bool may_be_handler(struct walk *walk, uint64_t behind, uint64_t offset)
{
    uint64_t distance = (offset - walk->half->offset) / walk->flow->unit;

    if (!walk->knows_targets)
        note_targets(walk, behind);
    return distance >= FLOW_RANGE_UNITS || !walk->targets[distance];
}

/* The position of a sweep in the instructions behind the half, one after the other: a jump to
 * anywhere may lead to any of them. At the end of a path, what the instructions before it have
 * overwritten no longer matters. Elsewhere the place can also be reached from the instructions
 * before it, and with uses_one_value a register used there is taken to hold the same value on both
 * paths, as in the code of most compilers. */
struct line {
    uint64_t next; /* offset of the next instruction */
    uint32_t killed;
    bool is_first;
    bool is_behind_end;
};

/* The mask of what may hold the half before the next instruction of the line. */
static uint32_t take_next(struct walk *walk, struct line *line, uint64_t behind,
                          const struct flow_instruction *instruction,
                          const struct flow_instruction *branch)
{
    uint32_t mask = line->is_first ? 0 : walk->anywhere & (~line->killed | ON_STACK);

    if (walk->handlers != 0 && line->is_behind_end && may_be_handler(walk, behind, line->next))
        mask |= walk->handlers;
    line->next += instruction->size != 0 ? instruction->size : walk->flow->unit;
    line->killed |= instruction->overwritten;
    if (instruction->calls)
        line->killed |= walk->flow->changed_by_calls;
    if (branch->is_end || !walk->flow->uses_one_value)
        line->killed = 0;
    line->is_first = false;
    line->is_behind_end = branch->is_end;
    return mask;
}

/* One sweep; the instructions behind the half start at `behind`. True if an address counts. */
static bool sweep(struct walk *walk, uint64_t behind)
{
    struct line line = {.next = behind, .is_first = true};
    bool has_line = (walk->anywhere | walk->handlers) != 0;

    for (size_t place = walk->low; place < PLACES && (place < walk->end || has_line); place++) {
        struct flow_instruction instruction = {0}, branch;
        uint64_t offset = walk->start + place * walk->flow->unit;
        uint32_t mask = mask_at(walk, place);

        has_line = has_line && (offset < behind || !is_beyond(walk, offset));
        if (mask == 0 && (!has_line || offset != line.next))
            continue;
        if (walk->half->search->steps_left == 0)
            return true;
        --walk->half->search->steps_left;
        walk->flow->decode(walk->code, offset, &instruction);
        decode_branch(walk, offset, &instruction, &branch);
        if (has_line && offset == line.next)
            mask |= take_next(walk, &line, behind, &instruction, &branch);
        if (mask != 0 && instruction.size != 0 && step(walk, offset, &instruction, &branch, mask))
            return true;
    }
    return false;
}

unsigned flow_follow(const struct flow *flow, const struct flow_half *half)
{
    uint64_t range = FLOW_RANGE(flow->unit);
    uint32_t masks[PLACES];
    bool targets[FLOW_RANGE_UNITS];
    struct walk walk = {
        .flow = flow,
        .half = half,
        .code = half->search->code,
        .start = half->offset < range ? half->offset % flow->unit : half->offset - range,
        .masks = masks,
        .targets = targets,
        .changed = true,
    };
    struct flow_instruction instruction = {0}, branch;
    uint64_t behind;

    flow->decode(half->search->code, half->offset, &instruction);
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
