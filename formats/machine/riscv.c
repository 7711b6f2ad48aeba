/*
 * RISC-V of 64 and 32 bits (The RISC-V Instruction Set Manual, volume I; RISC-V psABI).
 *
 * Instructions are 4 bytes, or 2 if they are compressed (C), at multiples of 2. An address takes
 * two of them: auipc adds a multiple of 4 KiB to its own address, or lui loads such a multiple, and
 * the 12 signed bits of an addi, a load or a store supply the rest. Compilers may put other
 * instructions between the two: a search looks many instructions ahead, for as long as the register
 * still holds the first half, and treats a first half whose other half is not found as a reference
 * to everything that it may reach. If an address is near the one that gp holds (in the small data
 * area; executables only), GNU ld and lld leave just one of the two instructions, relative to gp.
 *
 * In images at a fixed address, numbers of the same size look like addresses. (Those of 64-bit
 * code do not: they are formed with an addiw.)
 *
 * Compressed instructions are decoded to the long ones for which they stand.
 *
 * Bodies seen in real images (clang 14 to 22, gcc 12; GNU ld and lld), each with and without C, and
 * on 32 bits with lw instead of ld; `maker` stands for one of the lines below:
 *     [lpad] [addi sp,sp,-16; sd ra,8(sp); sd s0,0(sp); addi s0,sp,16]  maker
 *            [ld ra,8(sp); ld s0,0(sp); addi sp,sp,16]  ret
 *     auipc a0,X; addi a0,a0,X     at any address, of code model medany
 *     auipc a0,X; ld a0,X(a0)      the GOT: position-independent code, and weak symbols since 17
 *     lui a0,X;   addi a0,a0,X     at a fixed address, of code model medlow
 *     c.lui a0,X; addi a0,a0,X     the same, below 128 KiB
 *     addi a0,gp,X                 the same, near gp
 * gcc without optimization forms the address in a5, ends with mv a0,a5, and does not save ra.
 *
 * A body of one instruction only reaches addresses within 2 KiB of gp.
 */
#include "formats/machine/flow.h"
#include "formats/machine/machine.h"

#include <elf.h>

#define LONG_SIZE  4
#define SHORT_SIZE 2
#define BODY_FRAME 8 /* instructions of a body before and behind those that form the address */

enum {
    REGISTER_ZERO,
    REGISTER_RA,
    REGISTER_SP,
    REGISTER_GP,
    REGISTER_T0 = 5,
    REGISTER_S0 = 8,
    REGISTER_A0 = 10
};

enum opcode {
    OPCODE_NONE, /* any instruction that does not matter here */
    OPCODE_LOAD = 0x03,
    OPCODE_LOAD_FP = 0x07,
    OPCODE_OP_IMM = 0x13,
    OPCODE_AUIPC = 0x17,
    OPCODE_OP_IMM_32 = 0x1b,
    OPCODE_STORE = 0x23,
    OPCODE_STORE_FP = 0x27,
    OPCODE_AMO = 0x2f,
    OPCODE_OP = 0x33,
    OPCODE_LUI = 0x37,
    OPCODE_OP_32 = 0x3b,
    OPCODE_OP_FP = 0x53,
    OPCODE_BRANCH = 0x63,
    OPCODE_JALR = 0x67,
    OPCODE_JAL = 0x6f,
    OPCODE_SYSTEM = 0x73,
};

/* funct3 of loads and stores is their size. */
enum { FUNCTION_ADD = 0, FUNCTION_WORD = 2, FUNCTION_DOUBLE = 3 };

static bool is_64_bit(const struct code *code)
{
    return code->machine->address_size == 8;
}

struct instruction {
    enum opcode opcode;
    unsigned function; /* funct3 of loads, stores, OP-IMM and OP-IMM-32 */
    unsigned rd;       /* 0 (x0, which cannot change) if there is none */
    unsigned rs1;
    unsigned rs2;
    uint64_t immediate; /* sign-extended; for auipc and lui shifted left by 12 */
    unsigned size;
};

/* ---- instructions ---- */

/* Moves a field of `count` bits of a number from bit `from` to bit `to`. */
static uint64_t bits(uint32_t number, unsigned from, unsigned count, unsigned to)
{
    return (uint64_t)(number >> from & ((1u << count) - 1)) << to;
}

static struct instruction read_long(uint32_t code)
{
    struct instruction read = {
        .opcode = code & 0x7f,
        .function = code >> 12 & 7,
        .rd = code >> 7 & 0x1f,
        .rs1 = code >> 15 & 0x1f,
        .rs2 = code >> 20 & 0x1f,
        .immediate = signed_field(code >> 20, 12),
        .size = LONG_SIZE,
    };

    switch (read.opcode) {
    case OPCODE_AUIPC:
    case OPCODE_LUI:
        read.immediate = signed_field(code & 0xfffff000, 32);
        break;
    case OPCODE_STORE:
    case OPCODE_STORE_FP:
        read.immediate = signed_field(bits(code, 25, 7, 5) | bits(code, 7, 5, 0), 12);
        read.rd = REGISTER_ZERO;
        break;
    case OPCODE_JAL:
        read.immediate = signed_field(bits(code, 31, 1, 20) | bits(code, 12, 8, 12) |
                                          bits(code, 20, 1, 11) | bits(code, 21, 10, 1),
                                      21);
        break;
    case OPCODE_BRANCH:
        read.immediate = signed_field(bits(code, 31, 1, 12) | bits(code, 7, 1, 11) |
                                          bits(code, 25, 6, 5) | bits(code, 8, 4, 1),
                                      13);
        read.rd = REGISTER_ZERO;
        break;
    default:
        break;
    }
    return read;
}

static struct instruction short_form(enum opcode opcode, unsigned function, unsigned rd,
                                     unsigned rs1, unsigned rs2, uint64_t immediate)
{
    return (struct instruction){opcode, function, rd, rs1, rs2, immediate, SHORT_SIZE};
}

/* Decodes a compressed instruction to the long one for which it stands. Some differ by the size of
 * addresses. */
static struct instruction read_short(uint32_t code, bool wide)
{
    const enum opcode load = OPCODE_LOAD, store = OPCODE_STORE, add = OPCODE_OP_IMM;
    unsigned rd = code >> 7 & 0x1f, rs2 = code >> 2 & 0x1f;
    unsigned low = 8 + (code >> 7 & 7), other = 8 + (code >> 2 & 7); /* x8 to x15 */
    bool has_bit_12 = (code >> 12 & 1) != 0;
    uint64_t small = signed_field(bits(code, 12, 1, 5) | bits(code, 2, 5, 0), 6);
    uint64_t offset = bits(code, 10, 3, 3), two_words = offset | bits(code, 5, 2, 6);
    uint64_t word = offset | bits(code, 6, 1, 2) | bits(code, 5, 1, 6);

    switch ((code & 3) << 3 | code >> 13) {
    /* c.addi4spn, c.fld, c.lw, c.ld or c.flw, c.fsd, c.sw, c.sd or c.fsw */
    case 000:
        return code == 0 ? short_form(OPCODE_NONE, 0, 0, 0, 0, 0)
                         : short_form(add, FUNCTION_ADD, other, REGISTER_SP, 0,
                                      bits(code, 11, 2, 4) | bits(code, 7, 4, 6) |
                                          bits(code, 6, 1, 2) | bits(code, 5, 1, 3));
    case 001:
        return short_form(OPCODE_LOAD_FP, FUNCTION_DOUBLE, 0, low, 0, two_words);
    case 002:
        return short_form(load, FUNCTION_WORD, other, low, 0, word);
    case 003:
        return wide ? short_form(load, FUNCTION_DOUBLE, other, low, 0, two_words)
                    : short_form(OPCODE_LOAD_FP, FUNCTION_WORD, 0, low, 0, word);
    case 005:
        return short_form(OPCODE_STORE_FP, FUNCTION_DOUBLE, 0, low, other, two_words);
    case 006:
        return short_form(store, FUNCTION_WORD, 0, low, other, word);
    case 007:
        return wide ? short_form(store, FUNCTION_DOUBLE, 0, low, other, two_words)
                    : short_form(OPCODE_STORE_FP, FUNCTION_WORD, 0, low, other, word);
    /* c.addi, c.addiw or c.jal, c.li, c.addi16sp or c.lui, arithmetic, c.j, c.beqz, c.bnez */
    case 010:
        return short_form(add, FUNCTION_ADD, rd, rd, 0, small);
    case 011:
    case 015:
        if (code >> 13 == 1 && wide)
            return short_form(OPCODE_OP_IMM_32, FUNCTION_ADD, rd, rd, 0, small);
        return short_form(OPCODE_JAL, 0, code >> 13 == 1 ? REGISTER_RA : REGISTER_ZERO, 0, 0,
                          signed_field(bits(code, 12, 1, 11) | bits(code, 11, 1, 4) |
                                           bits(code, 9, 2, 8) | bits(code, 8, 1, 10) |
                                           bits(code, 7, 1, 6) | bits(code, 6, 1, 7) |
                                           bits(code, 3, 3, 1) | bits(code, 2, 1, 5),
                                       12));
    case 012:
        return short_form(add, FUNCTION_ADD, rd, REGISTER_ZERO, 0, small);
    case 013:
        return rd != REGISTER_SP
                   ? short_form(OPCODE_LUI, 0, rd, 0, 0, small << 12)
                   : short_form(add, FUNCTION_ADD, rd, rd, 0,
                                signed_field(bits(code, 12, 1, 9) | bits(code, 6, 1, 4) |
                                                 bits(code, 5, 1, 6) | bits(code, 3, 2, 7) |
                                                 bits(code, 2, 1, 5),
                                             10));
    case 014:
        return short_form(OPCODE_OP, 0, low, 0, 0, small);
    case 016:
    case 017:
        return short_form(OPCODE_BRANCH, 0, 0, 0, 0,
                          signed_field(bits(code, 12, 1, 8) | bits(code, 10, 2, 3) |
                                           bits(code, 5, 2, 6) | bits(code, 3, 2, 1) |
                                           bits(code, 2, 1, 5),
                                       9));
    /* c.slli; c.lwsp, c.ldsp; c.ebreak, c.jr, c.jalr, c.mv (as an addi), c.add; c.swsp, c.sdsp */
    case 020:
        return short_form(OPCODE_OP, FUNCTION_WORD, rd, REGISTER_SP, 0, 0);
    case 022:
        return short_form(load, FUNCTION_WORD, rd, REGISTER_SP, 0,
                          bits(code, 12, 1, 5) | bits(code, 4, 3, 2) | bits(code, 2, 2, 6));
    case 024:
        if (rs2 != 0)
            return short_form(has_bit_12 ? OPCODE_OP : add, FUNCTION_ADD, rd, rs2, 0, 0);
        return short_form(rd == 0 ? OPCODE_SYSTEM : OPCODE_JALR, FUNCTION_WORD,
                          rd != 0 && has_bit_12 ? REGISTER_RA : REGISTER_ZERO, rd, 0, 0);
    case 026:
        return short_form(store, FUNCTION_WORD, 0, REGISTER_SP, rs2,
                          bits(code, 9, 4, 2) | bits(code, 7, 2, 6));
    case 023:
        if (wide)
            return short_form(load, FUNCTION_DOUBLE, rd, REGISTER_SP, 0,
                              bits(code, 12, 1, 5) | bits(code, 5, 2, 3) | bits(code, 2, 3, 6));
        break;
    case 027:
        if (wide)
            return short_form(store, FUNCTION_DOUBLE, 0, REGISTER_SP, rs2,
                              bits(code, 10, 3, 3) | bits(code, 7, 3, 6));
        break;
    default:
        break;
    }
    return short_form(OPCODE_NONE, 0, 0, 0, 0, 0);
}

static bool read_instruction(const struct code *code, uint64_t offset,
                             struct instruction *instruction)
{
    struct bytes part;
    uint32_t first;

    if (!bytes_slice(code->bytes, offset, SHORT_SIZE, &part))
        return false;
    first = load_u16(part.data, false);
    if ((first & 3) == 3 && !instruction_at(code->bytes, offset, &first))
        return false;
    *instruction = (first & 3) == 3 ? read_long(first) : read_short(first, is_64_bit(code));
    return true;
}

/* Addresses of 32 bits wrap around. */
static uint64_t wrap(const struct code *code, uint64_t address)
{
    return is_64_bit(code) ? address : address & UINT32_MAX;
}

/* ---- accessors ---- */

/* True if the instruction saves or restores registers or sets up the frame: none of these changes
 * a0 or a5. */
static bool is_frame(const struct instruction *instruction)
{
    unsigned number = instruction->opcode == OPCODE_STORE ? instruction->rs2 : instruction->rd;

    if (instruction->rs1 != REGISTER_SP)
        return false;
    if (instruction->opcode == OPCODE_OP_IMM)
        return instruction->function == FUNCTION_ADD &&
               (number == REGISTER_SP || number == REGISTER_S0);
    return (instruction->opcode == OPCODE_LOAD || instruction->opcode == OPCODE_STORE) &&
           (instruction->function == FUNCTION_WORD || instruction->function == FUNCTION_DOUBLE) &&
           (number == REGISTER_RA || number == REGISTER_S0);
}

/* A reader of instructions, one after the other. */
struct body {
    const struct code *code;
    uint64_t offset; /* of `instruction` */
    struct instruction instruction;
};

static bool next(struct body *body)
{
    body->offset += body->instruction.size;
    return read_instruction(body->code, body->offset, &body->instruction);
}

static bool skip_frame(struct body *body)
{
    for (unsigned i = 0; i < BODY_FRAME && is_frame(&body->instruction); i++) {
        if (!next(body))
            return false;
    }
    return true;
}

static bool is_add(const struct instruction *instruction)
{
    return instruction->opcode == OPCODE_OP_IMM && instruction->function == FUNCTION_ADD;
}

/* The instructions at *body that form the address; *rd is the register that they form it in. */
static bool take_maker(struct body *body, struct accessor *accessor, unsigned *rd)
{
    const struct instruction first = body->instruction, *second = &body->instruction;
    const struct code *code = body->code;
    uint64_t address = code->address + body->offset;
    unsigned word = is_64_bit(code) ? FUNCTION_DOUBLE : FUNCTION_WORD;

    *accessor =
        (struct accessor){.form = ACCESSOR_PC_RELATIVE, .patch_offset = (size_t)body->offset};
    if (is_add(&first) && first.rs1 == REGISTER_GP && first.size == LONG_SIZE && code->base != 0) {
        accessor->value = code->base + first.immediate;
    } else if (first.opcode == OPCODE_AUIPC || first.opcode == OPCODE_LUI) {
        if (!next(body) || second->rs1 != first.rd || first.rd == REGISTER_ZERO ||
            second->size != LONG_SIZE)
            return false;
        accessor->value =
            (first.opcode == OPCODE_AUIPC ? address : 0) + first.immediate + second->immediate;
        if (second->opcode == OPCODE_LOAD && second->function == word)
            accessor->form = ACCESSOR_LOAD;
        else if (!is_add(second))
            return false;
        else if (first.opcode == OPCODE_LUI)
            accessor->form = ACCESSOR_IMMEDIATE;
    } else {
        return false;
    }
    *rd = second->rd;
    accessor->value = wrap(code, accessor->value);
    accessor->patch_size = (size_t)(body->offset + second->size - accessor->patch_offset);
    return *rd != REGISTER_ZERO && next(body);
}

static bool decode(const struct code *code, struct accessor *accessor)
{
    struct body body = {.code = code};
    const struct instruction *instruction = &body.instruction;
    struct accessor decoded;
    unsigned rd;

    if (!next(&body))
        return false;
    /* lpad marks where indirect jumps may lead; it is an auipc to x0. */
    if (instruction->opcode == OPCODE_AUIPC && instruction->rd == REGISTER_ZERO && !next(&body))
        return false;
    if (!skip_frame(&body) || !take_maker(&body, &decoded, &rd))
        return false;
    if (rd != REGISTER_A0 &&
        (!is_add(instruction) || instruction->rd != REGISTER_A0 || instruction->rs1 != rd ||
         instruction->immediate != 0 || !next(&body)))
        return false;
    if (!skip_frame(&body) || instruction->opcode != OPCODE_JALR ||
        instruction->rd != REGISTER_ZERO || instruction->rs1 != REGISTER_RA ||
        instruction->immediate != 0)
        return false;
    decoded.size = (size_t)body.offset + instruction->size;
    *accessor = decoded;
    return true;
}

static void put_add(uint8_t *to, unsigned rd, unsigned rs1, uint64_t immediate)
{
    store_u32(to, OPCODE_OP_IMM | rd << 7 | rs1 << 15 | ((uint32_t)immediate & 0xfff) << 20, false);
}

/* Encodes the value, or its distance, in the existing instructions; a load becomes an addi. */
static bool encode(const struct code *code, const struct accessor *accessor, uint64_t value,
                   uint8_t patch[ACCESSOR_PATCH_MAX])
{
    struct body body = {.code = code, .offset = accessor->patch_offset};
    uint64_t distance = wrap(code, value - code->base), low, high;
    struct instruction first;

    if (!next(&body))
        return false;
    first = body.instruction;
    if (first.opcode != OPCODE_AUIPC && first.opcode != OPCODE_LUI) {
        put_add(patch, first.rd, REGISTER_GP, distance);
        return wrap(code, signed_field(distance & 0xfff, 12)) == distance;
    }
    if (first.opcode == OPCODE_AUIPC)
        value -= code->address + body.offset;
    low = signed_field(value & 0xfff, 12);
    high = wrap(code, value - low);
    if (!next(&body))
        return false;
    put_add(patch + first.size, body.instruction.rd, body.instruction.rs1, low);
    if (first.size == SHORT_SIZE) { /* c.lui, which cannot encode 0 */
        store_u16(
            patch,
            (uint16_t)(0x6001 | first.rd << 7 | (high >> 17 & 1) << 12 | (high >> 12 & 0x1f) << 2),
            false);
        return high != 0 && wrap(code, signed_field(high & 0x3ffff, 18)) == high;
    }
    store_u32(patch, first.opcode | first.rd << 7 | (uint32_t)high, false);
    return wrap(code, signed_field(high & UINT32_MAX, 32)) == high;
}

/* ---- references ---- */

/* True if an instruction adds its immediate to a register: to form an address, to access it, or to
 * jump there. Linkers do not relocate the immediates of compressed instructions. */
static bool adds_to(const struct instruction *instruction, unsigned base)
{
    if (instruction->rs1 != base || instruction->size != LONG_SIZE)
        return false;
    switch (instruction->opcode) {
    case OPCODE_LOAD:
    case OPCODE_STORE:
    case OPCODE_JALR:
        return true;
    case OPCODE_LOAD_FP:
    case OPCODE_STORE_FP: /* other values are vector instructions without an immediate */
        return instruction->function >= 1 && instruction->function <= 4;
    case OPCODE_OP_IMM:
    case OPCODE_OP_IMM_32:
        return instruction->function == FUNCTION_ADD;
    default:
        return false;
    }
}

/* True if the instruction puts another value into rd. Of those with floating point, comparisons,
 * conversions to integers, and moves to them do; others have a floating-point register there. */
static bool writes(const struct instruction *instruction)
{
    unsigned function = instruction->immediate >> 7 & 0x1f; /* funct5 */

    switch (instruction->opcode) {
    case OPCODE_OP_FP:
        return function == 0x14 || function == 0x18 || function == 0x1c;
    case OPCODE_SYSTEM: /* reads of status registers; others have x0 there */
    case OPCODE_LOAD:
    case OPCODE_OP_IMM:
    case OPCODE_AUIPC:
    case OPCODE_OP_IMM_32:
    case OPCODE_AMO:
    case OPCODE_OP:
    case OPCODE_LUI:
    case OPCODE_OP_32:
    case OPCODE_JAL:
    case OPCODE_JALR:
        return true;
    default:
        return false;
    }
}

/* True if an instruction forms an address that counts from the first half, `high`. */
static bool pair_refers(const struct search *search, const struct instruction *instruction,
                        uint64_t high)
{
    uint64_t address = wrap(search->code, high + instruction->immediate);

    /* Start-up code sets gp. References by way of gp are found on their own. */
    if (is_add(instruction) && instruction->rd == REGISTER_GP && address == search->code->base)
        return false;
    /* An addiw forms a number: it has no relocation. */
    return instruction->opcode != OPCODE_OP_IMM_32 &&
           (instruction->opcode != OPCODE_JALR || search->target->called) &&
           reference_counts(search->target, address);
}

/* The mask bit of a register; none for x0. */
static uint32_t mask_of(unsigned number)
{
    return UINT32_C(1) << number & ~UINT32_C(1);
}

/* add and c.add. The upper bits of the immediate tell the long add from other instructions. */
static bool is_sum(const struct instruction *instruction)
{
    return instruction->opcode == OPCODE_OP && instruction->function == FUNCTION_ADD &&
           (instruction->size == LONG_SIZE ? instruction->immediate < 32
                                           : instruction->rs1 != REGISTER_ZERO);
}

static void decode_flow(const struct code *code, uint64_t offset, struct flow_instruction *flow)
{
    struct instruction instruction;
    bool is_jump, is_call, is_return, saves;

    if (!read_instruction(code, offset, &instruction))
        return;
    is_jump = instruction.opcode == OPCODE_JAL || instruction.opcode == OPCODE_JALR;
    is_call = is_jump && instruction.rd != REGISTER_ZERO;
    saves = is_call && instruction.rd == REGISTER_T0; /* libgcc's __riscv_save_... */
    is_return = instruction.opcode == OPCODE_JALR && instruction.rs1 == REGISTER_RA;
    flow->size = instruction.size;
    if (writes(&instruction))
        flow->overwritten = mask_of(instruction.rd);
    if (instruction.size == LONG_SIZE && adds_to(&instruction, instruction.rs1)) {
        flow->base = instruction.rs1;
        flow->low = instruction.immediate;
    }
    flow->passed_to = instruction.rd;
    if (is_add(&instruction) && instruction.immediate == 0)
        flow->passed_from = mask_of(instruction.rs1);
    if (is_sum(&instruction))
        flow->passed_from =
            mask_of(instruction.rs1) |
            mask_of(instruction.size == LONG_SIZE ? instruction.rs2 : instruction.rd);
    flow->slot = instruction.immediate;
    if (instruction.opcode == OPCODE_STORE && instruction.rs1 == REGISTER_SP)
        flow->stored[0] = instruction.rs2;
    else if (instruction.opcode == OPCODE_STORE)
        flow->escapes = mask_of(instruction.rs2);
    if (instruction.opcode == OPCODE_LOAD && instruction.rs1 == REGISTER_SP)
        flow->loaded[0] = instruction.rd;
    flow->calls = is_call && !saves;
    flow->branches =
        instruction.opcode == OPCODE_BRANCH || (instruction.opcode == OPCODE_JAL && !is_call);
    flow->to = offset + instruction.immediate;
    flow->goes_anywhere = instruction.opcode == OPCODE_JALR && !is_call && !is_return;
    flow->is_end = is_jump && !is_call;
}

static bool second_half_refers(const struct flow_half *half, uint64_t offset,
                               const struct flow_instruction *flow)
{
    struct instruction instruction;

    (void)flow;
    return read_instruction(half->search->code, offset, &instruction) &&
           pair_refers(half->search, &instruction, half->high);
}

/* True if a function starts there: a frame is set up, behind the end of another function. */
static bool is_function(const struct code *code, uint64_t offset)
{
    struct instruction instruction;

    if (!read_instruction(code, offset, &instruction) || !is_add(&instruction) ||
        instruction.rd != REGISTER_SP || instruction.rs1 != REGISTER_SP ||
        instruction.immediate >> 63 == 0)
        return false;
    for (unsigned size = SHORT_SIZE; size <= LONG_SIZE && size <= offset; size += SHORT_SIZE) {
        struct flow_instruction before = {0};

        decode_flow(code, offset - size, &before);
        if (before.is_end && before.size == size)
            return true;
    }
    return false;
}

/* ra, t0 to t2, a0 to a7, t3 to t6: a bit each. (gp and tp are not followed.) */
#define CHANGED_BY_CALLS UINT32_C(0xf003fce2)

static const struct flow flow = {
    .unit = SHORT_SIZE,
    .decode = decode_flow,
    .is_function = is_function,
    .refers = second_half_refers,
    .uses_one_value = true,
    .changed_by_calls = CHANGED_BY_CALLS,
    .has_handlers = true,
};

/* True if the position is inside an instruction. The two low bits of a halfword are set in the
 * first half of a long instruction; a halfword without them ends an instruction, and the next one
 * starts behind it. From there on the instructions that precede the position are all long. */
static bool is_inside(struct bytes code, uint64_t position)
{
    uint64_t start = position;

    while (start >= SHORT_SIZE && (code.data[start - SHORT_SIZE] & 3) == 3)
        start -= SHORT_SIZE;
    return start >= SHORT_SIZE && (position - start) % LONG_SIZE != 0;
}

static bool refers(struct search *search, uint64_t offset)
{
    const struct reference_target *target = search->target;
    const struct code *code = search->code;
    uint64_t address = code->address + offset, high, lowest;
    struct instruction instruction;
    unsigned end;
    bool is_lui;

    if (!read_instruction(code, offset, &instruction))
        return false;
    is_lui = instruction.opcode == OPCODE_LUI;
    if (instruction.opcode == OPCODE_JAL)
        return target->called &&
               reference_counts(target, wrap(code, address + instruction.immediate)) &&
               !is_inside(code->bytes, offset);
    if (!is_lui && instruction.opcode != OPCODE_AUIPC)
        return code->base != 0 && adds_to(&instruction, REGISTER_GP) &&
               instruction.rd != REGISTER_GP && pair_refers(search, &instruction, code->base) &&
               !is_inside(code->bytes, offset);
    if (instruction.rd == REGISTER_ZERO || (is_lui && !target->absolute))
        return false;
    high = wrap(code, (is_lui ? 0 : address) + instruction.immediate);
    /* Adding 12 signed bits must be able to lead to the target. */
    lowest = wrap(code, high - 0x800);
    if (target->size == 0 ||
        (lowest - target->first >= target->size && wrap(code, target->first - lowest) >= 0x1000))
        return false;
    /* The result of lui is a mere number if every place that it reaches was looked at and nothing
     * completes it. */
    end = flow_follow(&flow, &(struct flow_half){search, offset, instruction.rd, high});
    return ((end & FLOW_COUNTS) != 0 ||
            ((end & FLOW_FOUND) == 0 && (!is_lui || (end & FLOW_LEFT) != 0))) &&
           !is_inside(code->bytes, offset);
}

static bool find_reference(const struct code *code, const struct reference_target *target,
                           uint64_t *position)
{
    return search_each(code, target, SHORT_SIZE, refers, position);
}

/* ---- the machines ---- */

#ifndef R_RISCV_TLSDESC
#define R_RISCV_TLSDESC 12
#endif

#define NO_ADDRESS                                                                                 \
    {                                                                                              \
        R_RISCV_TLS_DTPMOD32, R_RISCV_TLS_DTPMOD64, R_RISCV_TLS_DTPREL32, R_RISCV_TLS_DTPREL64,    \
            R_RISCV_TLS_TPREL32, R_RISCV_TLS_TPREL64, R_RISCV_TLSDESC                              \
    }

const struct machine machine_riscv64 = {
    .name = "riscv64",
    .elf_machine = EM_RISCV,
    .address_size = 8,
    .base_symbol = "__global_pointer$",
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_RISCV_NONE,
            .relative = R_RISCV_RELATIVE,
            .absolute = R_RISCV_64,
            .irelative = R_RISCV_IRELATIVE,
            .no_address = NO_ADDRESS,
        },
    .has_chance_hits = true,
    .look_ahead = FLOW_RANGE(SHORT_SIZE) + LONG_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};

const struct machine machine_riscv32 = {
    .name = "riscv32",
    .elf_machine = EM_RISCV,
    .address_size = 4,
    .base_symbol = "__global_pointer$",
    .relocations =
        &(const struct elf_relocation_types){
            .none = R_RISCV_NONE,
            .relative = R_RISCV_RELATIVE,
            .absolute = R_RISCV_32,
            .irelative = R_RISCV_IRELATIVE,
            .no_address = NO_ADDRESS,
        },
    .has_chance_hits = true,
    .look_ahead = FLOW_RANGE(SHORT_SIZE) + LONG_SIZE,
    .decode_accessor = decode,
    .encode_accessor = encode,
    .find_reference = find_reference,
};
