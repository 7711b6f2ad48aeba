/*
 * Arm, 32 bits (Arm Architecture Reference Manual for A-profile, AArch32; ELF for the Arm
 * Architecture), little-endian, with both instruction sets: A32, with instructions of 4 bytes at
 * multiples of 4, and T32, of 2 or 4 bytes at multiples of 2. Functions of both sets call each
 * other: the lowest bit of a function's address tells its set. Mapping symbols ($a, $t, $d) tell it
 * for each place, and where data is; where an image has none, a search tries both sets.
 *
 * No instruction contains an address. An address is a word behind the function (a literal), which
 * an instruction loads relative to pc, or it is made of two halves by movw and movt. In
 * position-independent code these hold a distance instead, to which another instruction adds pc or
 * the address of the GOT (_GLOBAL_OFFSET_TABLE_). Reading pc gives the address of the instruction
 * plus 8 in A32, plus 4 in T32. So a search looks for the instruction that brings the number, and
 * then for the next use of its register: compilers may put other instructions between the two, and
 * a search looks as far ahead as for AArch64. Any register may hold the GOT's address, and code of
 * one set also looks like code of the other, so sums lead to a large range by chance.
 *
 * An accessor is evaluated from its first instruction to its return; what can be changed is the
 * number in its literal or in its two halves. Bodies seen in real images, which none of GNU ld,
 * gold, lld and mold changes:
 *
 *     ldr r0, [pc, #4]; ldr r0, [pc, r0]; bx lr; .word slot-.    LLVM 14's and 19's runtime: A32
 *     ldr r0, [pc, #4]; add r0, pc; ldr r0, [r0]; bx lr; .word   clang with -mthumb: T32
 *
 * The others are from runtimes compiled with other options: with add instead of the second ldr, or
 * without it, if the symbol is not weak; and without PIC:
 *
 *     movw r0, X; movt r0, X; bx lr     from Armv7 on
 *     ldr r0, [pc]; bx lr; .word X      before; gcc with -Os
 *
 * Code from gcc contains the distance of the slot from the GOT, and has a frame at -O0:
 *
 *     ldr r3, =GOT-.; ldr r2, =slot-GOT; add r3, pc, r3; ldr r3, [r3, r2]; mov r0, r3; bx lr
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>
#include <string.h>

#include "common/base/array.h"

#define REGISTER_PC 15

/* The most bytes that a literal can be from the instruction that loads it, including what pc adds.
 */
#define LITERAL_REACH UINT64_C(4112)
/* A number is used within this many bytes behind the instruction that brings it. */
#define LOOK_AHEAD UINT64_C(2048)

/* ---- instructions ---- */

/* The operations that matter here, the same for both sets. */
enum operation {
    OTHER,
    HIGH_HALF, /* the high half of result = value (movt) */
    USE_SUM,   /* a load of no word, or a store, at base + index */
    BRANCH,    /* to value, also with is_call */
    /* These surely put another value into the result: */
    LITERAL,  /* result = the word at `value` */
    LOW_HALF, /* result = value (movw) */
    ADD,      /* result = base + index */
    LOAD_SUM, /* result = the word at base + index */
    LOAD,     /* result = the word at base */
    MOVE,     /* result = base */
    ADDRESS,  /* result = value (adr) */
};

struct instruction {
    enum operation operation;
    uint32_t bits; /* in T32 instructions of 4 bytes, the first halfword is the high one */
    uint32_t size;
    uint32_t pc; /* what reading pc gives */
    uint32_t value;
    uint8_t result;
    uint8_t base;
    uint8_t index;
    bool is_conditional;
    bool is_call;
};

static uint32_t add_or_subtract(uint32_t from, uint32_t distance, bool add)
{
    return add ? from + distance : from - distance;
}

static void set_registers(struct instruction *instruction, uint32_t result, uint32_t base,
                          uint32_t index)
{
    instruction->result = result & 15;
    instruction->base = base & 15;
    instruction->index = index & 15;
}

/* An immediate of 8 bits, rotated right by twice the 4 bits before it. */
static uint32_t turned_immediate(uint32_t bits)
{
    uint32_t by = bits >> 7 & 0x1e;

    return by == 0 ? bits & 0xff : (bits & 0xff) >> by | (bits & 0xff) << (32 - by);
}

/* The operation under any condition; of the encodings without a condition only blx is known. */
static enum operation operation_a32(struct instruction *instruction)
{
    uint32_t bits = instruction->bits, pc = instruction->pc;

    set_registers(instruction, bits >> 12, bits >> 16, bits);
    if ((bits & 0x0f7f0000) == 0x051f0000) {
        instruction->value = add_or_subtract(pc, bits & 0xfff, (bits >> 23 & 1) != 0);
        return LITERAL;
    }
    if ((bits & 0x0fb00000) == 0x03000000) {
        instruction->value = (bits >> 4 & 0xf000) | (bits & 0xfff);
        return (bits & 0x00400000) == 0 ? LOW_HALF : HIGH_HALF;
    }
    if ((bits & 0x0fe00ff0) == 0x00800000)
        return ADD;
    if ((bits & 0x0f800ff0) == 0x07800000) /* words and bytes */
        return (bits & 0x00700000) == 0x00100000 ? LOAD_SUM : USE_SUM;
    if ((bits & 0x0fc00f90) == 0x01800090 && (bits & 0x60) != 0) /* halfwords and the like */
        return USE_SUM;
    if ((bits & 0x0ff00fff) == 0x05900000)
        return LOAD;
    if ((bits & 0x0fff0ff0) == 0x01a00000) {
        instruction->base = instruction->index;
        return MOVE;
    }
    if ((bits & 0x0fff0000) == 0x028f0000 || (bits & 0x0fff0000) == 0x024f0000) {
        instruction->value = add_or_subtract(pc, turned_immediate(bits), (bits >> 23 & 1) != 0);
        return ADDRESS;
    }
    if ((bits & 0x0e000000) == 0x0a000000) {
        instruction->is_call = bits >> 28 == 15 || (bits & 0x01000000) != 0;
        instruction->value = pc + (uint32_t)signed_field(bits & 0xffffff, 24) * 4;
        if (bits >> 28 == 15) /* blx */
            instruction->value += bits >> 23 & 2;
        return BRANCH;
    }
    return OTHER;
}

static enum operation operation_t16(struct instruction *instruction)
{
    uint32_t bits = instruction->bits, pc = instruction->pc;

    set_registers(instruction, bits & 7, bits >> 3 & 7, bits >> 6 & 7);
    switch (bits >> 11) {
    case 0x4800 >> 11:
    case 0xa000 >> 11:
        instruction->result = bits >> 8 & 7;
        instruction->value = (pc & ~3u) + (bits & 0xff) * 4;
        return bits >> 11 == 0x4800 >> 11 ? LITERAL : ADDRESS;
    case 0x6800 >> 11:
        return (bits & 0x07c0) == 0 ? LOAD : OTHER;
    }
    if ((bits & 0xfe00) == 0x1800)
        return ADD;
    if ((bits & 0xf000) == 0x5000)
        return (bits & 0x0e00) == 0x0800 ? LOAD_SUM : USE_SUM;
    if ((bits & 0xfd00) == 0x4400) { /* add and mov with any registers */
        set_registers(instruction, (bits & 7) | (bits >> 4 & 8), bits >> 3, bits >> 3);
        if ((bits & 0x0200) != 0)
            return MOVE;
        instruction->index = instruction->result;
        return ADD;
    }
    return OTHER;
}

/* b, bl and blx of 4 bytes: needed to find calls of another function. */
static enum operation branch_t32(struct instruction *instruction)
{
    uint32_t bits = instruction->bits, pc = instruction->pc;
    uint32_t sign = bits >> 26 & 1, j1 = bits >> 13 & 1, j2 = bits >> 11 & 1;
    uint32_t high = bits >> 16 & 0x3ff, low = bits & 0x7ff;

    if ((bits & 0x5000) == 0) { /* with a condition */
        uint32_t distance = sign << 20 | j2 << 19 | j1 << 18 | (high & 0x3f) << 12 | low << 1;

        instruction->value = pc + (uint32_t)signed_field(distance, 21);
        return (bits & 0x03800000) == 0x03800000 ? OTHER : BRANCH;
    }
    instruction->is_call = (bits & 0x4000) != 0;
    instruction->value =
        ((bits & 0x5000) == 0x4000 ? pc & ~3u : pc) + /* blx */
        (uint32_t)signed_field(
            sign << 24 | (j1 ^ sign ^ 1) << 23 | (j2 ^ sign ^ 1) << 22 | high << 12 | low << 1, 25);
    return BRANCH;
}

static enum operation operation_t32(struct instruction *instruction)
{
    uint32_t bits = instruction->bits, pc = instruction->pc;
    uint32_t immediate = (bits >> 15 & 0x800) | (bits >> 4 & 0x700) | (bits & 0xff);

    set_registers(instruction, bits >> 12, bits >> 16, bits);
    if ((bits & 0xff7f0000) == 0xf85f0000) {
        instruction->value = add_or_subtract(pc & ~3u, bits & 0xfff, (bits >> 23 & 1) != 0);
        return LITERAL;
    }
    if ((bits & 0xfe000ff0) == 0xf8000000) /* index without a shift */
        return (bits & 0x01f00000) == 0x00500000 ? LOAD_SUM : USE_SUM;
    if ((bits & 0xf800d000) == 0xf0009000 || (bits & 0xf800c000) == 0xf000c000 ||
        (bits & 0xf800d000) == 0xf0008000)
        return branch_t32(instruction);
    instruction->result = bits >> 8 & 15;
    if ((bits & 0xfb708000) == 0xf2400000) {
        instruction->value = (bits >> 4 & 0xf000) | immediate;
        return (bits & 0x00800000) == 0 ? LOW_HALF : HIGH_HALF;
    }
    if ((bits & 0xfbff8000) == 0xf20f0000 || (bits & 0xfbff8000) == 0xf2af0000) {
        instruction->value = add_or_subtract(pc & ~3u, immediate, (bits >> 23 & 1) == 0);
        return ADDRESS;
    }
    return (bits & 0xffe0f0f0) == 0xeb000000 ? ADD : OTHER;
}

static bool read_a32(const struct code *code, uint64_t offset, struct instruction *instruction)
{
    struct bytes part;

    if (!bytes_slice(code->bytes, offset, 4, &part))
        return false;
    instruction->size = 4;
    instruction->bits = load_u32(part.data, false);
    instruction->pc = (uint32_t)(code->address + offset) + 8;
    instruction->is_conditional = instruction->bits >> 28 < 14;
    instruction->is_call = false;
    instruction->operation = operation_a32(instruction);
    if (instruction->bits >> 28 == 15 && instruction->operation != BRANCH)
        instruction->operation = OTHER;
    return true;
}

static bool read_t32(const struct code *code, uint64_t offset, struct instruction *instruction)
{
    struct bytes part;

    if (!bytes_slice(code->bytes, offset, 2, &part))
        return false;
    instruction->bits = load_u16(part.data, false);
    instruction->size = instruction->bits >= 0xe800 ? 4 : 2;
    instruction->pc = (uint32_t)(code->address + offset) + 4;
    instruction->is_conditional = false;
    instruction->is_call = false;
    if (instruction->size == 2) {
        instruction->operation = operation_t16(instruction);
        return true;
    }
    if (!bytes_slice(code->bytes, offset, 4, &part))
        return false;
    instruction->bits = instruction->bits << 16 | load_u16(part.data + 2, false);
    instruction->operation = operation_t32(instruction);
    return true;
}

static bool read_instruction(const struct code *code, uint64_t offset,
                             struct instruction *instruction)
{
    return code->is_thumb ? read_t32(code, offset, instruction)
                          : read_a32(code, offset, instruction);
}

/* ---- accessors ---- */

/* Instructions that may be around those that form the address, and how many bytes each pushes on
 * the stack. Returns leave the function. */
struct frame_instruction {
    uint32_t bits;
    int pushed;
    bool is_return;
};

static const struct frame_instruction frames_a32[] = {
    {0xe12fff1e, 0, true},   /* bx lr */
    {0xe1a0f00e, 0, true},   /* mov pc, lr */
    {0xe52db004, 4, false},  /* push {fp} */
    {0xe28db000, 0, false},  /* add fp, sp, #0 */
    {0xe28bd000, 0, false},  /* add sp, fp, #0 */
    {0xe49db004, -4, false}, /* pop {fp} */
    {0xe92d4800, 8, false},  /* push {fp, lr} */
    {0xe1a0b00d, 0, false},  /* mov fp, sp */
    {0xe8bd8800, -8, true},  /* pop {fp, pc} */
    {0xe24dd008, 8, false},  /* sub sp, sp, #8 */
    {0xe58d3004, 0, false},  /* str r3, [sp, #4] */
    {0xe28dd008, -8, false}, /* add sp, sp, #8 */
    {0, 0, false},
};

static const struct frame_instruction frames_t32[] = {
    {0x4770, 0, true},       /* bx lr */
    {0xbf00, 0, false},      /* nop */
    {0xb480, 4, false},      /* push {r7} */
    {0xaf00, 0, false},      /* add r7, sp, #0 */
    {0x46bd, 0, false},      /* mov sp, r7 */
    {0xf85d7b04, -4, false}, /* ldr r7, [sp], #4 */
    {0xbc80, -4, false},     /* pop {r7} */
    {0xb580, 8, false},      /* push {r7, lr} */
    {0x466f, 0, false},      /* mov r7, sp */
    {0xbd80, -8, true},      /* pop {r7, pc} */
    {0xb082, 8, false},      /* sub sp, #8 */
    {0x9301, 0, false},      /* str r3, [sp, #4] */
    {0xb002, -8, false},     /* add sp, #8 */
    {0, 0, false},
};

/* The content of a register: a number, or, if is_loaded, the content of the slot at that
 * address. */
struct content {
    bool is_known;
    bool has_pc;  /* pc was added to it */
    bool is_half; /* only its low half is known */
    bool is_pair; /* the operand is movw and movt, not a literal */
    bool is_loaded;
    uint32_t value;
    uint32_t number;  /* the part of it from the literal or the two halves */
    uint64_t operand; /* offset of the operand in the body */
    uint64_t load;    /* offset of the load of the slot in the body */
};

/* The registers that may be used to form the address: r0 to r3. */
#define CONTENTS         4
#define INSTRUCTIONS_MAX 16

struct computation {
    const struct code *code;
    uint64_t offset;
    uint64_t end;      /* of what is known to belong to the body so far */
    uint64_t literals; /* where they start */
    int pushed;
    struct content contents[CONTENTS];
};

/* The content of a register; that of pc has no operand. NULL if it is not known. */
static const struct content *content_of(const struct computation *computation, unsigned number,
                                        const struct content *pc)
{
    if (number == REGISTER_PC)
        return pc;
    return number < CONTENTS && computation->contents[number].is_known
               ? &computation->contents[number]
               : NULL;
}

static bool compute_sum(const struct computation *computation,
                        const struct instruction *instruction, struct content *result)
{
    struct content pc = {.is_known = true, .has_pc = true, .value = instruction->pc};
    const struct content *base = content_of(computation, instruction->base, &pc);
    const struct content *index = content_of(computation, instruction->index, &pc);

    if (base == NULL || index == NULL || base->is_half || index->is_half || base->is_loaded ||
        index->is_loaded || (base == &pc && index == &pc) ||
        (base != &pc && index != &pc && base->operand == index->operand))
        return false;
    *result = index == &pc ? *base : *index;
    result->value = base->value + index->value;
    result->has_pc = base->has_pc || index->has_pc;
    return true;
}

/* A movt completes the number of the movw before it. */
static bool compute_half(const struct computation *computation,
                         const struct instruction *instruction, struct content *result)
{
    *result = computation->contents[instruction->result % CONTENTS];
    result->value |= instruction->value << 16;
    result->number = result->value;
    if (!result->is_known || !result->is_half || result->operand + 4 != computation->offset)
        return false;
    result->is_half = false;
    result->is_pair = true;
    return true;
}

static bool compute(struct computation *computation, const struct instruction *instruction)
{
    uint64_t literal = (instruction->value - computation->code->address) & UINT32_MAX;
    struct content result = {.is_known = true, .operand = computation->offset};
    bool is_known = false;

    switch (instruction->operation) {
    case LITERAL:
        result.operand = literal;
        is_known = instruction->value % 4 == 0 &&
                   instruction_at(computation->code->bytes, literal, &result.value);
        result.number = result.value;
        if (computation->end < literal + 4)
            computation->end = literal + 4;
        if (literal < computation->literals)
            computation->literals = literal;
        break;
    case LOW_HALF:
        result.is_half = true;
        result.value = instruction->value;
        is_known = true;
        break;
    case HIGH_HALF:
        is_known = compute_half(computation, instruction, &result);
        break;
    case ADD:
    case LOAD_SUM:
        is_known = compute_sum(computation, instruction, &result);
        break;
    case LOAD:
    case MOVE:
        result = computation->contents[instruction->base % CONTENTS];
        is_known = instruction->base < CONTENTS && result.is_known && !result.is_half &&
                   (instruction->operation == MOVE || !result.is_loaded);
        break;
    default:
        break;
    }
    if (instruction->operation == LOAD || instruction->operation == LOAD_SUM) {
        result.is_loaded = true;
        result.load = computation->offset;
    }
    if (!is_known || instruction->result >= CONTENTS || instruction->is_conditional)
        return false;
    computation->contents[instruction->result] = result;
    return true;
}

/* Evaluates the body up to its return: *result is what it returns. */
static bool compute_body(const struct code *code, struct computation *computation,
                         struct content *result)
{
    *computation = (struct computation){.code = code, .literals = UINT64_MAX};
    for (unsigned i = 0; i < INSTRUCTIONS_MAX; i++) {
        const struct frame_instruction *frame = code->is_thumb ? frames_t32 : frames_a32;
        struct instruction instruction;

        if (!read_instruction(code, computation->offset, &instruction))
            return false;
        while (frame->bits != 0 && frame->bits != instruction.bits)
            frame++;
        if (frame->bits == 0 && !compute(computation, &instruction))
            return false;
        computation->offset += instruction.size;
        computation->pushed += frame->pushed;
        if (!frame->is_return)
            continue;
        *result = computation->contents[0];
        if (computation->end < computation->offset)
            computation->end = computation->offset;
        return computation->pushed == 0 && computation->literals >= computation->offset &&
               result->is_known && !result->is_half;
    }
    return false;
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    struct computation computation;
    struct content result;
    uint64_t first, last;

    if (!compute_body(code, &computation, &result))
        return false;
    first = result.operand;
    last = result.operand + (result.is_pair ? 8 : 4);
    if (result.is_loaded && result.load < first)
        first = result.load;
    *accessor = (struct accessor){
        .form = result.is_loaded ? ACCESSOR_LOAD
                : result.has_pc  ? ACCESSOR_PC_RELATIVE
                                 : ACCESSOR_IMMEDIATE,
        .value = result.value,
        .size = (size_t)computation.end,
        .patch_offset = (size_t)first,
        .patch_size = (size_t)(last - first),
    };
    /* A result that is loaded has its literal behind the load. */
    return last - first <= ACCESSOR_PATCH_MAX && (!result.is_loaded || result.load == first);
}

/* Encodes a value in the halves of a movw and a movt. */
static void encode_pair(uint8_t *at, uint32_t value, bool is_thumb)
{
    for (unsigned i = 0; i < 2; i++, at += 4, value >>= 16) {
        if (is_thumb) {
            store_u16(at,
                      (uint16_t)((load_u16(at, false) & ~0x040fu) | (value >> 12 & 15) |
                                 (value >> 1 & 0x400)),
                      false);
            store_u16(at + 2,
                      (uint16_t)((load_u16(at + 2, false) & ~0x70ffu) | (value << 4 & 0x7000) |
                                 (value & 0xff)),
                      false);
        } else {
            store_u32(
                at, (load_u32(at, false) & ~0x000f0fffu) | (value << 4 & 0xf0000) | (value & 0xfff),
                false);
        }
    }
}

/* Turns the load of a slot into what forms the address itself: an addition, or a move. */
static void encode_load(uint8_t *at, const struct instruction *load)
{
    bool is_sum = load->operation == LOAD_SUM;

    if (load->size == 2) {
        store_u16(at,
                  (uint16_t)(is_sum ? 0x1800 | (load->bits & 0x1ff) : 0x4600 | (load->bits & 0x3f)),
                  false);
        return;
    }
    store_u32(at,
              is_sum ? 0xe0800000 | (load->bits & 0x000ff00f)
                     : 0xe1a00000 | (load->bits & 0xf000) | load->base,
              false);
}

static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    struct computation computation;
    struct instruction load;
    struct content result;
    struct bytes old;
    uint8_t *operand;
    uint32_t number;

    if (!compute_body(code, &computation, &result) ||
        !bytes_slice(code->bytes, accessor->patch_offset, accessor->patch_size, &old))
        return false;
    memcpy(patch, old.data, old.size);
    operand = patch + (result.operand - accessor->patch_offset);
    number = result.number + (uint32_t)value - result.value;
    if (result.is_pair)
        encode_pair(operand, number, code->is_thumb);
    else
        store_u32(operand, number, false);
    if (result.is_loaded) {
        if (!read_instruction(code, result.load, &load) || (load.size == 4 && code->is_thumb))
            return false;
        encode_load(patch + (result.load - accessor->patch_offset), &load);
    }
    return value <= UINT32_MAX;
}

/* ---- references ---- */

/* Pointers to functions include the bit of their set. */
static bool refers_to(const struct reference_target *target, uint32_t address)
{
    return reference_counts(target, address) ||
           (target->called && reference_counts(target, address & ~1u));
}

/* A number that is followed in a register. */
struct number {
    uint32_t value;
    uint8_t where; /* the register */
    bool is_literal;
    bool is_half;     /* only the low half so far: a movt follows */
    bool is_complete; /* no other movt follows, whichever way the code goes on */
    bool is_distance; /* pc was added to it */
};

/* The register that the instruction adds to the number's register; false if it adds none. */
static bool is_added(const struct instruction *instruction, const struct number *number,
                     unsigned *other)
{
    if (instruction->operation != ADD && instruction->operation != LOAD_SUM &&
        instruction->operation != USE_SUM)
        return false;
    *other = instruction->index == number->where ? instruction->base : instruction->index;
    return instruction->base == number->where || instruction->index == number->where;
}

/* True if adding a register to the number may form an address that counts: any register may hold
 * the address of the GOT. From its slots compilers load words by both registers at once: what only
 * adds them may have the thread pointer and the place of a variable, a small number, too. */
static bool refers_from_got(const struct code *code, const struct number *number,
                            enum operation operation, const struct reference_target *target)
{
    return number->is_literal && !number->is_distance &&
           (operation == LOAD_SUM || !target->loaded) &&
           ((code->base != 0 && refers_to(target, number->value + (uint32_t)code->base)) ||
            (code->got != 0 && refers_to(target, number->value + (uint32_t)code->got)));
}

/* bx lr; mov pc, lr; or an instruction that pops pc. */
static bool is_return(const struct code *code, const struct instruction *instruction)
{
    uint32_t bits = instruction->bits;

    if (!code->is_thumb)
        return bits == 0xe12fff1e || bits == 0xe1a0f00e || (bits & 0xffff8000) == 0xe8bd8000;
    return bits == 0x4770 || (bits & 0xff00) == 0xbd00 || (bits & 0xffff8000) == 0xe8bd8000;
}

/* The number of instructions behind an IT instruction that are conditional; 0 for any other
 * instruction. */
static unsigned conditions(const struct code *code, const struct instruction *instruction)
{
    uint32_t mask = instruction->bits & 15;

    if (!code->is_thumb || (instruction->bits & ~0xffu) != 0xbf00 || mask == 0)
        return 0;
    return (mask & 1) != 0 ? 4 : (mask & 2) != 0 ? 3 : (mask & 4) != 0 ? 2 : 1;
}

static bool may_branch(const struct code *code, const struct instruction *instruction)
{
    bool is_compare = code->is_thumb && instruction->size == 2 &&
                      ((instruction->bits & 0xf500) == 0xb100 || /* cbz, cbnz */
                       (instruction->bits & 0xf000) == 0xd000);  /* b with a condition */

    return is_compare || (instruction->operation == BRANCH && !instruction->is_call);
}

/* mrc p15, 0, rN, c13, c0, 3, in both sets: reads the thread pointer. */
#define READ_THREAD_POINTER      0xee1d0f70u
#define READ_THREAD_POINTER_MASK 0xffff0fffu

/* True if the instructions from `offset` on form an address that counts from the number. */
static bool is_used(const struct code *code, uint64_t offset, struct number *number,
                    const struct reference_target *target)
{
    uint64_t end = offset + LOOK_AHEAD;
    unsigned conditional = 0, thread_pointer = REGISTER_PC, other;
    bool branched = false;
    struct instruction instruction;

    while (offset < end && read_instruction(code, offset, &instruction)) {
        instruction.is_conditional |= conditional != 0;
        conditional = conditional != 0 ? conditional - 1 : conditions(code, &instruction);
        if (instruction.operation == HIGH_HALF && !number->is_literal && !number->is_complete &&
            instruction.result == number->where) {
            number->is_half = false;
            number->is_complete = !branched && !instruction.is_conditional;
            number->value = (number->value & 0xffff) | instruction.value << 16;
            if (target->absolute && refers_to(target, number->value))
                return true;
        }
        if (!is_added(&instruction, number, &other)) {
            /* The instruction may also be any other one. */
        } else if (other == REGISTER_PC) {
            if (!number->is_half && refers_to(target, number->value + instruction.pc))
                return true;
            number->is_distance |= !branched;
        } else if (!branched && other == thread_pointer) {
            return false; /* it is the place of a variable of the thread */
        } else if (refers_from_got(code, number, instruction.operation, target)) {
            return true;
        }
        if (!branched && !instruction.is_conditional &&
            ((instruction.operation >= LITERAL && instruction.result == number->where) ||
             is_return(code, &instruction)))
            return false;
        branched |= may_branch(code, &instruction);
        if ((instruction.bits & READ_THREAD_POINTER_MASK) == READ_THREAD_POINTER)
            thread_pointer = instruction.bits >> 12 & 15;
        else if (instruction.operation >= LITERAL && instruction.result == thread_pointer)
            thread_pointer = REGISTER_PC;
        offset += instruction.size;
    }
    return false;
}

/* True if the target is within reach of the number and of what can be added to it; mostly it is
 * not. */
static bool may_reach(const struct code *code, uint64_t offset, uint32_t value,
                      const struct reference_target *target)
{
    const uint64_t reach = LOOK_AHEAD + 16;
    uint32_t distance = value - (uint32_t)target->first;
    uint32_t from_pc = distance + (uint32_t)(code->address + offset + reach);

    return from_pc <= target->size + reach ||
           (code->base != 0 && distance + (uint32_t)code->base <= target->size) ||
           (code->got != 0 && distance + (uint32_t)code->got <= target->size);
}

static bool literal_refers(const struct code *code, uint64_t offset,
                           const struct instruction *instruction,
                           const struct reference_target *target)
{
    struct number number = {.where = instruction->result, .is_literal = true};
    bool is_address;
    /* A literal before the start of the view gives an offset outside it. */
    uint64_t literal = offset + (uint64_t)(int64_t)(int32_t)(instruction->value -
                                                             (uint32_t)(code->address + offset));

    if (!instruction_at(code->bytes, literal, &number.value))
        return false;
    is_address = target->absolute && refers_to(target, number.value);
    return ((is_address || may_reach(code, offset, number.value, target)) &&
            is_used(code, offset + instruction->size, &number, target)) ||
           (is_address && !number.is_distance);
}

/* True if there is a reference at `offset`, read in the set that code->is_thumb tells. */
static bool refers(const struct code *code, uint64_t offset, const struct reference_target *target)
{
    struct instruction instruction;
    struct number number;

    if (!read_instruction(code, offset, &instruction))
        return false;
    switch (instruction.operation) {
    case LITERAL:
        return reference_counts(target, instruction.value) ||
               literal_refers(code, offset, &instruction, target);
    case LOW_HALF:
        number = (struct number){
            .value = instruction.value, .where = instruction.result, .is_half = true};
        return is_used(code, offset + instruction.size, &number, target);
    case ADDRESS:
        return refers_to(target, instruction.value);
    case BRANCH:
        return target->called && reference_counts(target, instruction.value);
    default:
        return false;
    }
}

/* False if the image's symbols say that something else is at this address. */
static bool may_be(const struct code *code, uint64_t address, enum code_kind kind)
{
    size_t count = array_count_up_to(code->marks, code->mark_count, sizeof(*code->marks), address);

    return count == 0 || code->marks[count - 1].kind == CODE_UNKNOWN ||
           code->marks[count - 1].kind == kind;
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    struct code a32 = *code, t32 = *code;

    a32.is_thumb = false;
    t32.is_thumb = true;
    for (uint64_t i = align_up(code->address + *position, 2) - code->address; i < code->bytes.size;
         i += 2) {
        uint64_t address = code->address + i;

        if ((address % 4 == 0 && refers(&a32, i, target) && may_be(code, address, CODE_A32)) ||
            (refers(&t32, i, target) && may_be(code, address, CODE_T32))) {
            *position = i;
            return true;
        }
    }
    return false;
}

const struct machine machine_arm = {
    .name = "arm",
    .elf_machine = EM_ARM,
    .address_size = 4,
    .state_bit = 1,
    .base_symbol = "_GLOBAL_OFFSET_TABLE_",
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_ARM_NONE,
            .relative = R_ARM_RELATIVE,
            .absolute = R_ARM_ABS32,
            .irelative = R_ARM_IRELATIVE,
            .no_address = {R_ARM_TLS_DTPMOD32, R_ARM_TLS_DTPOFF32, R_ARM_TLS_TPOFF32,
                           R_ARM_TLS_DESC},
        },
    .look_ahead = LITERAL_REACH,
    .has_chance_hits = true,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
